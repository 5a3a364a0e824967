package data_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// rows is a source with a node of kind take behind it, which keeps what it gets.
func (d database) rows(fields ...string) string {
	return fmt.Sprintf("- {kind: sql_source, name: source, driver: %s, source: '%s'%s, ports: {out: [{name: take}]}}\n- {kind: take, name: take}\n",
		d.driver, d.source, strings.Join(append([]string{""}, fields...), ", "))
}

type taken struct {
	sync.Mutex
	all []value.Value
}

func (k *taken) def() *node.Def {
	return &node.Def{
		Kind: "take", Summary: "Keeps what it gets.", In: []node.Port{{Name: "in"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				k.Lock()
				defer k.Unlock()
				k.all = append(k.all, pkt.Payload)
				return node.None()
			}), nil
		},
	}
}

// wait returns the first n payloads as JSON, of their fields.
func (k *taken) wait(tb testing.TB, n int, fields ...string) string {
	tb.Helper()
	deadline := time.After(time.Minute)
	for {
		k.Lock()
		all := k.all
		k.Unlock()
		if len(all) >= n {
			var texts []string
			for _, m := range all {
				for _, f := range fields {
					v, _ := m.Get(f)
					data, _ := v.AppendJSON(nil)
					texts = append(texts, string(data))
				}
			}
			return strings.Join(texts, " ")
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			tb.Fatalf("got %d rows, want %d", len(all), n)
		}
	}
}

// run starts a document and returns how to stop it.
func run(tb testing.TB, k *taken, doc string) (stop func()) {
	tb.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: append(std.Defs(""), k.def())})
	if err != nil {
		tb.Fatal(err)
	}
	list, err := e.Apply(tb.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
	if err != nil || list.HasErrors() {
		tb.Fatal(err, list)
	}
	stop = sync.OnceFunc(func() {
		if err := e.Shutdown(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// TestSourceRows reads the rows of a table, those that come later, and goes on where it
// has stopped: with a file, and with a table of positions.
func TestSourceRows(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		for _, keep := range []string{"track: positions", "checkpoint: {interval: 10ms, file: '" + filepath.Join(t.TempDir(), "pos") + "'}"} {
			e := engine(t, d.node("n"))
			must(t, e, "n", "DROP TABLE IF EXISTS item", "DROP TABLE IF EXISTS positions", "CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(20))",
				"INSERT INTO item VALUES (1, 'a'), (2, 'b'), (3, 'c')")
			doc := d.rows("table: item", "cursor: id", "rows: 2", "interval: 10ms", "order: total", keep)
			var first, second, third taken
			stop := run(t, &first, doc)
			want := `{"id":1,"name":"a"} "item:1" 1 {"id":2,"name":"b"} "item:2" 2 {"id":3,"name":"c"} "item:3" 3`
			if got := first.wait(t, 3, "body", "id", "cursor"); got != want {
				t.Errorf("%s: got %s, want %s", keep, got, want)
			}
			must(t, e, "n", "INSERT INTO item VALUES (10, 'x')")
			first.wait(t, 4)
			stop()
			must(t, e, "n", "INSERT INTO item VALUES (11, 'y')")
			stop = run(t, &second, doc)
			if got := second.wait(t, 1, "id"); got != `"item:11"` {
				t.Errorf("%s: got %s", keep, got)
			}
			stop()
			stop = run(t, &third, doc)
			must(t, e, "n", "INSERT INTO item VALUES (12, 'z')")
			if got := third.wait(t, 1, "id"); got != `"item:12"` {
				t.Errorf("%s: got %s", keep, got)
			}
			stop()
		}
	})
}

// TestSourceTimes has times as its cursor, which are kept.
func TestSourceTimes(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		kind := map[string]string{"sqlite": "DATETIME", "postgres": "timestamptz", "mysql": "DATETIME(6)"}[d.driver]
		e := engine(t, d.node("n"))
		must(t, e, "n", "DROP TABLE IF EXISTS timed", "DROP TABLE IF EXISTS positions", "CREATE TABLE timed (at "+kind+")",
			"INSERT INTO timed VALUES ('2024-02-29 10:00:00.123456'), ('2024-02-29 10:00:00.123457')")
		doc := d.rows("query: 'SELECT at FROM timed WHERE at > :cursor ORDER BY at'", "cursor: at", "start: '2024-01-01 00:00:00'", "interval: 10ms", "track: positions")
		var first, second taken
		stop := run(t, &first, doc)
		first.wait(t, 2)
		stop()
		must(t, e, "n", "INSERT INTO timed VALUES ('2024-02-29 10:00:00.123458')")
		stop = run(t, &second, doc)
		defer stop()
		if got := second.wait(t, 1, "cursor"); !strings.Contains(got, "123458") {
			t.Errorf("got %s", got)
		}
	})
}

// TestSourceMistakes reports what cannot be, at its field.
func TestSourceMistakes(t *testing.T) {
	f := func(fields, want string) {
		t.Helper()
		if got := check(t, "- {kind: sql_source, name: source, driver: sqlite, source: ':memory:', "+fields+"}\n"); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
	}
	f("cursor: id", "table: or query")
	f("cursor: id, table: t, query: SELECT 1", "table: or query")
	f("cursor: id, query: 'SELECT :cursor'", "start: is missing")
	f("cursor: id, start: 0, query: SELECT 1", "query: does not name :cursor")
	f("cursor: id, start: 0, query: 'SELECT :cursor, :other'", `query: names "other"`)
	f("cursor: id, start: 0, query: 'DELETE FROM t WHERE id = :cursor'", "query: the statement changes something")
	f("cursor: id, start: 0, query: 'SELECT 1; SELECT :cursor'", "query: want one statement")
	f("cursor: id, table: t, track: p, checkpoint: {file: f}", "track: keeps the position")
}
