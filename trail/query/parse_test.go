package query

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/trail/event"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	mark  = regexp.MustCompile(`### "(.*)"\s*$`)
	zonal = regexp.MustCompile(`(?m)^---\n`)
)

// TestBad parses documents that are wrong. A line that ends in ### "regexp" must
// be diagnosed with a message and hint that match, and no other line may be.
func TestBad(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d files, %v", len(paths), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first := 0
		for _, doc := range zonal.Split(string(data), -1) {
			bad(t, path, first, doc)
			first += strings.Count(doc, "\n") + 1
		}
	}
}

func bad(t *testing.T, path string, first int, doc string) {
	t.Helper()
	wanted := map[int]*regexp.Regexp{}
	for i, line := range strings.Split(doc, "\n") {
		if m := mark.FindStringSubmatch(line); m != nil {
			wanted[i+1] = regexp.MustCompile(m[1])
		}
	}
	q, err := Parse(path, []byte(doc))
	var list Errors
	if !errors.As(err, &list) {
		t.Errorf("%s:%d: got query %+v, error %v, want Errors", path, first+1, q, err)
		return
	}
	found := map[int]bool{}
	for _, e := range list {
		text := e.Msg + " " + e.Hint
		pattern, ok := wanted[e.Line]
		switch {
		case !ok:
			t.Errorf("%s:%d:%d: not expected: %s", path, first+e.Line, e.Column, text)
		case !pattern.MatchString(text):
			t.Errorf("%s:%d:%d: got %s, want a match of %s", path, first+e.Line, e.Column, text, pattern)
		case e.Column < 1 || e.File != path:
			t.Errorf("%s:%d: got column %d, file %q, want a place", path, first+e.Line, e.Column, e.File)
		}
		found[e.Line] = true
	}
	for line, pattern := range wanted {
		if !found[line] {
			t.Errorf("%s:%d: no problem, want one that matches %s", path, first+line, pattern)
		}
	}
}

// unplaced takes the places out of a query, which are not compared.
func unplaced(q *Query) *Query {
	strip(reflect.ValueOf(q))
	return q
}

func strip(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if _, zone := v.Interface().(*time.Location); !zone && !v.IsNil() {
			strip(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			strip(v.Index(i))
		}
	case reflect.Struct:
		if _, value := v.Interface().(event.Value); value {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Type == reflect.TypeFor[Pos]() {
				v.Field(i).SetZero()
				continue
			}
			strip(v.Field(i))
		}
	}
}

// same compares queries except for places; zones are compared by name.
func same(a, b *Query) bool {
	return reflect.DeepEqual(byName(unplaced(a)), byName(unplaced(b)))
}

func byName(q *Query) [2]any {
	c, zone := *q, ""
	switch {
	case q.Funnel != nil:
		f := *q.Funnel
		zone, f.Zone, c.Funnel = f.Zone.String(), nil, &f
	case q.Retention != nil:
		r := *q.Retention
		zone, r.Zone, c.Retention = r.Zone.String(), nil, &r
	case q.Segment != nil:
		s := *q.Segment
		zone, s.Zone, c.Segment = s.Zone.String(), nil, &s
	}
	return [2]any{c, zone}
}

// TestGood parses pairs of documents that are the same query.
func TestGood(t *testing.T) {
	paths, err := filepath.Glob("testdata/good/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d files, %v", len(paths), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(data), "\n====\n") {
			doc, other, _ := strings.Cut(part, "\n----\n")
			got, err1 := Parse("", []byte(doc))
			want, err2 := Parse("", []byte(other))
			if err := errors.Join(err1, err2); err != nil {
				t.Errorf("%s: %v\n%s", path, err, part)
				continue
			}
			if !same(got, want) {
				t.Errorf("%s: got %+v, want %+v\n%s", path, got, want, part)
			}
			if err := got.Check(); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
