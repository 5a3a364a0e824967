package value_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func toJSON(t testing.TB, v value.Value) string {
	t.Helper()
	text, err := v.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestParsePath(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		path, err := value.ParsePath(text)
		if want == "" {
			var pe *value.PathError
			if !errors.As(err, &pe) || pe.Path != text {
				t.Errorf("ParsePath(%q): got %v, %v, want a PathError", text, path, err)
			}
			return
		}
		if got := strings.TrimSuffix(fmt.Sprint(err), "<nil>") + path.String(); got != want {
			t.Errorf("ParsePath(%q): got %q, want %q", text, got, want)
		}
	}
	f("a", "a")
	f("a.b[0].c", "a.b[0].c")
	f("[3][4]", "[3][4]")
	f("[1].a", "[1].a")
	f(`["a.b"].c`, `["a.b"].c`)
	f(`a["b"]`, "a.b")
	f(`a[""]`, `a[""]`)
	f("größe", "größe")
	f("a.", "")
	f(".a", "")
	f("a..b", "")
	f("a[", "")
	f("a[]", "")
	f("a[-1]", "")
	f("a[x]", "")
	f("a[0]b", "")
	f(`a["b`, "")
	f(`a["b"`, "")
	f("a]", "")
	f("a[99999999999]", "")
	if p, err := value.ParsePath(""); err != nil || len(p) != 0 {
		t.Errorf("empty path: got %v, %v", p, err)
	}
}

func TestLookup(t *testing.T) {
	v := parse(t, `{"a":{"b":[{"c":1},null]}}`)
	f := func(want string, path ...any) {
		t.Helper()
		got, ok := v.Lookup(path...)
		if text := toJSON(t, got); ok != (want != "") || ok && text != want {
			t.Errorf("Lookup(%v): got %s, %t, want %q", path, text, ok, want)
		}
	}
	f(`{"a":{"b":[{"c":1},null]}}`)
	f("1", "a", "b", 0, "c")
	f("null", "a", "b", 1)
	f("", "a", "b", 2)
	f("", "a", "b", -1)
	f("", "a", "x")
	f("", "a", 0)
	f("", "a", "b", "c")
	f("", 1.5)
}

func TestSet(t *testing.T) {
	f := func(in, path, field, want string) {
		t.Helper()
		v := parse(t, in)
		p, err := value.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Set(p, parse(t, field))
		if text := toJSON(t, got); err == nil && text != want {
			t.Errorf("%s set %s to %s: got %s, want %s", in, path, field, text, want)
		}
		if err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s set %s to %s: got error %v, want %s", in, path, field, err, want)
		}
		if after := toJSON(t, v); after != toJSON(t, parse(t, in)) {
			t.Errorf("%s set %s: the original became %s", in, path, after)
		}
	}
	f(`{"a":1}`, "", "2", "2")
	f(`{"a":1,"b":2}`, "a", "3", `{"a":3,"b":2}`)
	f(`{"a":1}`, "b", "3", `{"a":1,"b":3}`)
	f(`null`, "a.b.c", "1", `{"a":{"b":{"c":1}}}`)
	f(`{}`, "a[0].b", "1", `{"a":[{"b":1}]}`)
	f(`[1,2]`, "[1]", "3", `[1,3]`)
	f(`[1,2]`, "[2]", "3", `[1,2,3]`)
	f(`[1,2]`, "[3]", "3", "the list has 2 elements")
	f(`{"a":1}`, "a.b", "3", `path "a.b": want a map`)
	f(`{"a":[1]}`, "a.b", "3", "want a map to set this in, got a list")
	f(`{"a":{}}`, "a[0]", "3", "want a list to set this in, got a map")
	f(`{"a":null}`, "a[0]", "[]", `{"a":[[]]}`)
}

func TestDelete(t *testing.T) {
	f := func(in, path, want string) {
		t.Helper()
		v := parse(t, in)
		p, err := value.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Delete(p)
		if text := toJSON(t, got); err != nil || text != want {
			t.Errorf("%s delete %s: got %s, %v, want %s", in, path, text, err, want)
		}
		if after := toJSON(t, v); after != in {
			t.Errorf("%s delete %s: the original became %s", in, path, after)
		}
	}
	f(`{"a":1,"b":2,"c":3}`, "b", `{"a":1,"c":3}`)
	f(`{"a":1}`, "a", `{}`)
	f(`{"a":1}`, "x.y", `{"a":1}`)
	f(`{"a":[1,2,3]}`, "a[1]", `{"a":[1,3]}`)
	f(`{"a":[1]}`, "a[0]", `{"a":[]}`)
	f(`{"a":[1]}`, "a[1]", `{"a":[1]}`)
	f(`{"a":1}`, "", `null`)
}

func TestSetTooDeep(t *testing.T) {
	path := make(value.Path, value.MaxDepth)
	for i := range path {
		path[i].Name = "a"
	}
	if _, err := value.Null().Set(path, value.Int(1)); err != nil {
		t.Errorf("path of MaxDepth: got %v", err)
	}
	if _, err := value.Null().Set(path, value.List()); err == nil {
		t.Error("one deeper: got no error")
	}
	if _, err := value.Null().Set(append(path, path[0]), value.Int(1)); err == nil {
		t.Error("a longer path: got no error")
	}
}

// TestSharedBase changes one map in many goroutines while others read it: the
// maps that result share an array, and none may see what another added.
func TestSharedBase(t *testing.T) {
	fields := make([]value.Field, 0, 16)
	fields = append(fields, value.Field{Name: "a", Value: value.Int(1)}, value.Field{Name: "b", Value: value.List(value.Int(2))})
	base := value.UniqueMap(fields)
	before := toJSON(t, base)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("g", g)
			for i := range 200 {
				v := base.With(name, value.Int(int64(i)))
				w := v.With("more", value.Int(int64(g)))
				u := v.With("more", value.Int(-1)).Without("a")
				if got, want := w.String(), fmt.Sprintf(`{"a":1,"b":[2],"%s":%d,"more":%d}`, name, i, g); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if got, want := u.String(), fmt.Sprintf(`{"b":[2],"%s":%d,"more":-1}`, name, i); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if got := base.String(); got != before {
					t.Errorf("the base became %s", got)
				}
				set, err := base.Set(value.Path{{Name: "b"}, {Index: 0, Element: true}}, value.Int(int64(g)))
				if b, _ := set.Lookup("b", 0); err != nil || !b.Equal(value.Int(int64(g))) {
					t.Errorf("set: got %v, %v", set, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestLargeMap checks names beyond the number from which they are indexed.
func TestLargeMap(t *testing.T) {
	var b value.MapBuilder
	for i := range 100 {
		if b.Set(fmt.Sprint("n", i), value.Int(int64(i))) {
			t.Fatalf("n%d is there already", i)
		}
	}
	v := b.Build()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				for i := range 100 {
					if got, ok := v.Get(fmt.Sprint("n", i)); !ok || !got.Equal(value.Int(int64(i))) {
						t.Errorf("n%d: got %v, %t", i, got, ok)
					}
				}
				if _, ok := v.Get("n100"); ok {
					t.Error("n100 is there")
				}
			}
		})
	}
	wg.Wait()
	w := v.Without("n50").With("n7", value.Null())
	if _, ok := w.Get("n50"); ok || w.Len() != 99 {
		t.Errorf("without n50: got %d fields, found %t", w.Len(), ok)
	}
	dup := value.Map(value.Field{Name: "a", Value: value.Int(1)}, value.Field{Name: "b"}, value.Field{Name: "a", Value: value.Int(2)})
	if got := dup.String(); got != `{"a":2,"b":null}` {
		t.Errorf("name twice: got %s", got)
	}
}

type source struct {
	fields []value.Field
	calls  int
}

func (s *source) Fields() []value.Field {
	s.calls++
	return s.fields
}

func TestLazyMap(t *testing.T) {
	s := &source{fields: []value.Field{{Name: "a", Value: value.Int(1)}, {Name: "deep", Value: value.List(value.List())}}}
	v := value.LazyMap(s, 100, 2)
	if v.Size() != 100 || s.calls != 0 {
		t.Errorf("size %d, %d calls before a look", v.Size(), s.calls)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if a, ok := v.Get("a"); !ok || !a.Equal(value.Int(1)) {
				t.Errorf("a: got %v, %t", a, ok)
			}
			v.With("b", value.Int(2))
		})
	}
	wg.Wait()
	if s.calls != 1 {
		t.Errorf("got %d calls, want 1", s.calls)
	}
	if deep, _ := v.Get("deep"); !deep.IsError() {
		t.Errorf("field deeper than declared: got %v, want an error", deep)
	}
	if !value.LazyMap(s, 0, value.MaxDepth+1).IsError() {
		t.Error("too deep a lazy map is not an error")
	}
}

func TestMaxDepth(t *testing.T) {
	v := value.Null()
	for range value.MaxDepth {
		v = value.List(v)
	}
	if v.IsError() {
		t.Fatalf("at MaxDepth: got %v", v)
	}
	f := func(what string, got value.Value) {
		t.Helper()
		if !got.IsError() {
			t.Errorf("%s beyond MaxDepth: got a %s, want an error", what, got.Kind())
		}
	}
	f("List", value.List(v))
	f("Append", value.List().Append(v))
	f("Map", value.Map(value.Field{Name: "a", Value: v}))
	f("With", value.Null().With("a", v))
	f("With in a map", value.Map(value.Field{Name: "a"}).With("b", v))
	f("With in place", value.Map(value.Field{Name: "a"}).With("a", v))
	// All that recurses gets to the bottom.
	if w, err := value.Encode(v.Go()); err != nil || !w.Equal(v) || w.Compare(v) != 0 || w.Hash() != v.Hash() || w.String() != v.String() {
		t.Errorf("the deepest value does not survive: %v", err)
	}
}

func FuzzSetDelete(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":{"b":[1,2,{"c":null}]}}`, "a.b[2].c"}, {`[]`, "[0]"}, {`{"a":1}`, `["a"]`}, {`null`, "x.y[0]"}, {`{"a":[[]]}`, "a[0][0]"}, {`"x"`, ""},
	} {
		f.Add([]byte(seed[0]), seed[1])
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		path, err := value.ParsePath(text)
		if err != nil {
			return
		}
		again, err := value.ParsePath(path.String())
		if err != nil || again.String() != path.String() {
			t.Fatalf("%q is written as %q, which reads as %v, %v", text, path, again, err)
		}
		v, err := value.ParseJSON(data)
		if err != nil {
			return
		}
		before, mark := v.String(), value.String("mark")
		set, err := v.Set(path, mark)
		if err == nil {
			if got, ok := set.Find(path); !ok || !got.Equal(mark) {
				t.Fatalf("%s set %s: got %v, %t", before, path, got, ok)
			}
			if old, ok := v.Find(path); ok {
				if back, err := set.Set(path, old); err != nil || !back.Equal(v) {
					t.Fatalf("%s set %s and back: got %v, %v", before, path, back, err)
				}
			}
		}
		gone, err := v.Delete(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := v.Find(path); !ok && !gone.Equal(v) {
			t.Fatalf("%s delete %s, which is not there: got %v", before, path, gone)
		}
		if v.String() != before || !v.Equal(parse(t, string(data))) {
			t.Fatalf("%s became %s", before, v)
		}
	})
}
