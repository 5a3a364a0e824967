package sqlstore_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
)

func TestMain(m *testing.M) { leak.Main(m, stop) }

func TestVersions(t *testing.T) {
	for text, want := range map[string]sqlstore.Version{"1.0": {Major: 1}, "12.34": {Major: 12, Minor: 34}} {
		if got, err := sqlstore.ParseVersion(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "1.", ".1", "-1.0", "1.0.0", "a.b", "1.99999999999"} {
		if got, err := sqlstore.ParseVersion(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestPending(t *testing.T) {
	files := fstest.MapFS{"d/1.0.sql": {Data: []byte("a")}, "d/1.2.sql": {Data: []byte("b")}, "d/1.10.sql": {Data: []byte("c")}, "d/2.0.sql": {Data: []byte("d")}}
	all, err := sqlstore.ReadSteps(files, "d")
	if err != nil {
		t.Fatal(err)
	}
	f := func(major, minor int, want string) {
		t.Helper()
		got, err := sqlstore.Pending(all, sqlstore.Version{Major: major, Minor: minor})
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, s := range got {
			texts = append(texts, s.Text)
		}
		if strings.Join(texts, "") != want {
			t.Errorf("from %d.%d: got %q, want %q", major, minor, texts, want)
		}
	}
	f(0, 0, "abcd")
	f(1, 0, "bcd")
	f(1, 2, "cd")
	f(1, 3, "cd")
	f(1, 10, "d")
	f(2, 0, "")
	f(2, 7, "") // a newer minor version has all
	_, err = sqlstore.Pending(all, sqlstore.Version{Major: 3})
	if !errors.Is(err, journal.ErrNewer) || !strings.Contains(err.Error(), "3.0") || !strings.Contains(err.Error(), "start the program that wrote it") {
		t.Errorf("got %v", err)
	}
	if _, err := sqlstore.ReadSteps(fstest.MapFS{"d/first.sql": {}}, "d"); err == nil {
		t.Error("a step without a version is read")
	}
}

var (
	column = regexp.MustCompile(`(?m)^\t(\w+) (TEXT|text|BLOB|bytea|INTEGER|smallint|integer|bigint|REAL|double precision)\b`)
	table  = regexp.MustCompile(`(?s)CREATE TABLE (\w+) \((.*?)\n\)`)
	index  = regexp.MustCompile(`CREATE .*INDEX .*;`)
	added  = regexp.MustCompile(`ALTER TABLE (\w+) ADD COLUMN (\w+)`)
)

// TestDialectsAlike checks that both dialects have the same steps, tables, columns and
// indexes.
func TestDialectsAlike(t *testing.T) {
	var outlines [2][]string
	for i, d := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.Postgres} {
		all, err := sqlstore.Steps(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			outlines[i] = append(outlines[i], s.Version.String())
			for _, m := range table.FindAllStringSubmatch(s.Text, -1) {
				for _, c := range column.FindAllStringSubmatch(m[2], -1) {
					outlines[i] = append(outlines[i], m[1]+"."+c[1])
				}
			}
			for _, m := range added.FindAllStringSubmatch(s.Text, -1) {
				outlines[i] = append(outlines[i], m[1]+"."+m[2])
			}
			outlines[i] = append(outlines[i], index.FindAllString(s.Text, -1)...)
		}
	}
	if !slices.Equal(outlines[0], outlines[1]) {
		t.Errorf("SQLite has\n%s\nPostgreSQL has\n%s", strings.Join(outlines[0], "\n"), strings.Join(outlines[1], "\n"))
	}
	for _, want := range []string{"runs", "records", "holds", "signals", "blobs", "revisions", "queues", "queue_keys", "ticks", "replicas", "committers", "meta"} {
		if !slices.ContainsFunc(outlines[0], func(s string) bool { return strings.HasPrefix(s, want+".") }) {
			t.Errorf("there is no table %s", want)
		}
	}
}

var ctx = context.Background()

func at(s int64) time.Time { return time.Unix(s, 0) }

// TestDamagedRows checks that a row of the wrong types is an error.
func TestDamagedRows(t *testing.T) {
	p, err := sqlstore.NewPacker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	id := make([]byte, 16)
	good := []any{id, "n", "t", "r", int64(2), int64(1), nil, nil, int64(3), nil, int64(0), int64(4), nil, int64(1), int64(0), int64(0), "q", "k", int64(1), int64(5), int64(1), int64(6), int64(0), nil, nil}
	if _, err := sqlstore.RunOf(good, p); err != nil {
		t.Errorf("a good row: %v", err)
	}
	for i := range good {
		bad := slices.Clone(good)
		bad[i] = struct{}{}
		if _, err := sqlstore.RunOf(bad, p); err == nil {
			t.Errorf("column %d is a struct, and there is no error", i)
		}
	}
	if _, err := sqlstore.RunOf(good[:5], p); err == nil {
		t.Error("a short row is read")
	}
	damaged := func(name string, f func(row []any) error, good ...any) {
		t.Helper()
		if err := f(good); err != nil {
			t.Errorf("a good %s: %v", name, err)
		}
		for i := range good {
			bad := slices.Clone(good)
			bad[i] = struct{}{}
			if err := f(bad); err == nil {
				t.Errorf("column %d of a %s is a struct, and there is no error", i, name)
			}
		}
	}
	wait := func(row []any) error { _, err := sqlstore.WaitOf(row); return err }
	damaged("wait", wait, id, int64(-1), "n", "e", "k", int64(1), []byte("t"))
	damaged("wait", wait, id, int64(-1), "n", nil, nil, nil, nil)
	state := func(row []any) error { _, err := sqlstore.StateOf(row); return err }
	damaged("state of a queue", state, "n", "q", int64(0), int64(1), int64(2), int64(3))
	signal := func(row []any) error { _, err := sqlstore.SignalOf(row); return err }
	damaged("signal", signal, []byte("n\x00i"), "n", "e", "k", []byte("p"), int64(1))
	if err := signal([]any{[]byte("m\x00i"), "n", "e", "k", nil, int64(1)}); err == nil {
		t.Error("a signal of two namespaces is read")
	}
	good[0] = id[:15]
	if _, err := sqlstore.RunOf(good, p); err == nil {
		t.Error("an id of 15 bytes is read")
	}
	packed, input := len(good)-3, len(good)-2
	good[0], good[packed], good[input] = id, int64(1), []byte("no zstd")
	if _, err := sqlstore.RunOf(good, p); err == nil {
		t.Error("a damaged blob is read")
	}
	good[input] = nil
	if _, err := sqlstore.RunOf(good, p); err == nil {
		t.Error("a missing blob is read")
	}
}
