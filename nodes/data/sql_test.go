package data_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m, servertest.Stop) }

// engine runs a document.
func engine(tb testing.TB, doc string) *uniflow.Engine {
	tb.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	apply(tb, e, doc)
	return e
}

func apply(tb testing.TB, e *uniflow.Engine, doc string) {
	tb.Helper()
	list, err := e.Apply(tb.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
	if err != nil || list.HasErrors() {
		tb.Fatal(err, list)
	}
}

// send sends a payload to a node and returns the answer as JSON, or "error: " and the
// message with its code.
func send(tb testing.TB, e *uniflow.Engine, to string, in value.Value) string {
	tb.Helper()
	answer, _, err := e.Run(tb.Context(), to, in)
	if err != nil {
		return "error: " + node.Message(err) + " [" + node.Describe(err).Code + "]"
	}
	out, err := answer.AppendJSON(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}

func query(text string, args ...value.Value) value.Value {
	if len(args) == 0 {
		return value.String(text)
	}
	return value.List(value.String(text), value.List(args...))
}

// TestSource reports a source that is missing or wrong without showing it.
func TestSource(t *testing.T) {
	for _, driver := range []string{"sqlite", "postgres", "mysql"} {
		e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
		if err != nil {
			t.Fatal(err)
		}
		list := e.Check(uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte("- {kind: sql, driver: " + driver + "}")}}})
		if text := list.Err().Error(); !strings.Contains(text, "source: is missing") {
			t.Errorf("%s: got %s", driver, text)
		}
	}
}

// TestUnreachable fails to start, and does not show the source.
func TestUnreachable(t *testing.T) {
	f := func(driver, source, want string) {
		t.Helper()
		e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
		if err != nil {
			t.Fatal(err)
		}
		doc := "- {kind: sql, driver: " + driver + ", source: '" + source + "', connect_timeout: 150ms}"
		list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
		if err == nil {
			err = list.Err()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want %s", driver, err, want)
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f("sqlite", "/nowhere/hunter2.db", "cannot be reached")
	f("postgres", "postgres://hunter2:hunter2@127.0.0.1:1/hunter2", "cannot be reached")
	f("postgres", "postgres://hunter2@:x:y", "is not one of postgres")
	f("mysql", "hunter2:hunter2@tcp(127.0.0.1:1)/hunter2", "cannot be reached")
	f("mysql", "hunter2", "is not one of mysql")
}

// TestReload keeps a database in memory while a node that uses it stays.
func TestReload(t *testing.T) {
	doc := "- {kind: sql, name: n, driver: sqlite, source: ':memory:'}\n"
	e := engine(t, doc)
	send(t, e, "n", query("CREATE TABLE t (a)"))
	apply(t, e, doc+"- {kind: nop, name: other}\n")
	if got := send(t, e, "n", query("SELECT * FROM t")); got != "[]" {
		t.Errorf("after a reload: got %s", got)
	}
}

// TestFullDatabase has a file that may not grow: what needs room is an outage, and 503.
func TestFullDatabase(t *testing.T) {
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	doc := "- {kind: sql, name: db, driver: sqlite, source: '" + filepath.Join(t.TempDir(), "full.db") + "', max_conns: 1}"
	if list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}}); err != nil || list.HasErrors() {
		t.Fatal(err, list)
	}
	for _, text := range []string{"CREATE TABLE t (a BLOB)", "PRAGMA max_page_count = 4"} {
		if _, _, err := e.Run(t.Context(), "db", value.String(text)); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = e.Run(t.Context(), "db", value.String("INSERT INTO t VALUES (zeroblob(1000000))"))
	if e := node.Describe(err); err == nil || e.Code != "full" || e.Status != 503 || !e.Outage {
		t.Errorf("got %v, status %d, outage %t", err, e.Status, e.Outage)
	}
}
