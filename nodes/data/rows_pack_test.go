package data

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// copyTo returns a writer that copies into a table.
func copyTo(t *testing.T, source, table string, columns ...string) *sinkWriter {
	t.Helper()
	config := value.Map().With("driver", value.String("postgres")).With("source", value.String(source)).
		With("table", value.String(table)).With("mode", value.String(modeCopy))
	if len(columns) > 0 {
		var names []value.Value
		for _, c := range columns {
			names = append(names, value.String(c))
		}
		config = config.With("columns", value.List(names...))
	}
	c, list := sinkDef().Def(stream.Options{}).Config.Decode(schema.RawOf(config))
	if len(list) > 0 {
		t.Fatal(list)
	}
	w, err := openSink(&node.Init{Config: c, Clock: node.SystemClock{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w.(*sinkWriter)
}

// runs runs a statement and returns its rows.
func (w *sinkWriter) runs(t *testing.T, text string) string {
	t.Helper()
	var r result
	if err := w.pool.run(t.Context(), &statement{text: text, rows: true}, [][]value.Value{nil}, &r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value.List(r.rows...).String()
}

// outcomes writes bodies, and returns the code of each that fails.
func (w *sinkWriter) outcomes(ctx context.Context, bodies []value.Value) string {
	codes := make([]string, len(bodies))
	records := make([]stream.Record, len(bodies))
	for i := range bodies {
		records[i].Body = bodies[i]
		codes[i] = "open"
	}
	w.Write(ctx, records, func(i int, _ value.Value, err error) {
		code := ""
		if err != nil {
			code = node.Describe(err).Code + ": " + err.Error()
		}
		for at := range codes {
			if codes[at] == "open" && (i == at || i == stream.Rest) {
				codes[at] = code
			}
		}
	})
	return strings.Join(codes, "\n")
}

// TestSinkPacks writes random lists, packed where they can be, into a table, and the same rows
// without packs into its twin, while types of columns change, the connection is lost and rows are
// refused: the tables and the errors are the same.
func TestSinkPacks(t *testing.T) {
	source := servertest.Postgres(t).PostgresURL()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	admin := copyTo(t, source, "pg_catalog.pg_class")
	reached := map[string]int{}
	for round, columns := range [][]string{nil, {"b", "a", "d"}} {
		create := "(n BIGSERIAL, a INT, b TEXT, c DOUBLE PRECISION, d BOOL, CHECK (a <> 13))"
		for _, table := range []string{"packs", "twins"} {
			admin.runs(t, "DROP TABLE IF EXISTS "+table)
			admin.runs(t, "CREATE TABLE "+table+create)
		}
		packed, plain := copyTo(t, source+"&application_name=packs", "packs", columns...), copyTo(t, source, "twins", columns...)
		field := func() value.Value {
			switch r.IntN(8) {
			case 0:
				return value.Null()
			case 1:
				return value.Float(r.NormFloat64() * 1e3)
			}
			return value.Int(int64(r.IntN(2000)))
		}
		body := func(usual bool) value.Value {
			texts := []string{"", `"quoted", "twice"`, "a\tb\\N", "line\nend\r", "é☺", "0", "\\."}
			v := value.Map().With("a", value.Int(int64(20+r.IntN(1000)))).With("b", value.String(texts[r.IntN(len(texts))])).With("c", value.Float(r.Float64())).With("d", value.Bool(r.IntN(2) == 0))
			if usual {
				return v
			}
			switch r.IntN(9) {
			case 0:
				v = v.With("a", value.Int(13)) // refused
			case 1:
				v = v.With("a", value.Int(1<<40)) // refused
			case 2:
				v = v.With("a", value.String("17"))
			case 3:
				v = v.With("c", field()).With("a", field())
			case 4:
				v = v.With("b", value.String("a\x00b")) // refused
			case 5:
				v = v.Without("c")
			case 6:
				v = value.Map().With("d", value.Bool(true)).With("b", value.String("other order"))
			case 7:
				v = value.String("no map")
			case 8:
				v = value.Map()
			}
			return v
		}
		for step := range 150 {
			switch step {
			case 50:
				admin.runs(t, "ALTER TABLE packs ALTER a TYPE BIGINT")
				admin.runs(t, "ALTER TABLE twins ALTER a TYPE BIGINT")
			case 80:
				admin.runs(t, "ALTER TABLE packs ALTER a TYPE DOUBLE PRECISION")
				admin.runs(t, "ALTER TABLE twins ALTER a TYPE DOUBLE PRECISION")
			case 120:
				if got := packed.outcomes(t.Context(), nil); got != "" {
					t.Error(got)
				}
				admin.runs(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'packs'")
				packed.outcomes(t.Context(), []value.Value{value.Map().With("a", value.Int(13))}) // finds out
			}
			var all []value.Value
			var made []any
			whole := true
			for range 1 + r.IntN(4) {
				var list []value.Value
				for range 1 + r.IntN(6) {
					list = append(list, body(r.IntN(12) > 0))
				}
				all = append(all, list...)
				p := packed.Pack(value.List(list...))
				made, whole = append(made, p), whole && p != nil
			}
			want := plain.outcomes(t.Context(), all)
			got, ok := "", false
			if whole {
				var err error
				if ok, err = packed.WritePacked(t.Context(), made); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				got = strings.Repeat("\n", len(all)-1)
			}
			if !ok {
				got = packed.outcomes(t.Context(), all)
			}
			if got = strings.ReplaceAll(got, "packs", "twins"); got != want {
				t.Fatalf("round %d, step %d: got %s, want %s", round, step, got, want)
			}
			reached[fmt.Sprintf("whole %t, written %t", whole, ok)]++
		}
		const order = " ORDER BY n"
		got, want := admin.runs(t, "SELECT a, b, c, d FROM packs"+order), admin.runs(t, "SELECT a, b, c, d FROM twins"+order)
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for what, least := range map[string]int{"whole true, written true": 50, "whole true, written false": 10, "whole false, written false": 50} {
		if reached[what] < least {
			t.Errorf("%s was reached %d times: %v", what, reached[what], reached)
		}
	}
}
