package oracle

import (
	"errors"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestWorlds asks a store and DuckDB questions about sets of events that are large enough
// for all that a segment does to save work. The first set is one of the largest.
func TestWorlds(t *testing.T) {
	const first uint64 = trailtest.Worlds - 1
	asked, most, worlds := 0, 0, seeds(t)/12
	if invariant.Race {
		worlds /= 5
	}
	for seed := first; seed < first+max(worlds, 1); seed++ {
		c := trailtest.DrawWorld(seed, trailtest.WorldOptions{})
		most = max(most, len(c.Events))
		store := fill(t, c)
		if err := store.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for i, f := range c.Schema {
			if kind := store.Schema().Type(f.Name); kind != event.Unknown {
				c.Schema[i].Type = kind
			}
		}
		db := load(t, c)
		for i, q := range c.Queries {
			if err := q.Check(); err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			s, err := dialect.Compile(dialect.DuckDB, q, c.Schema)
			if _, unsupported := errors.AsType[*dialect.UnsupportedError](err); unsupported {
				continue
			} else if err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			want, err := ask(t, db, s)
			if err != nil {
				t.Fatalf("seed %d, query %d (%s): %v\n%s", seed, i, kind(q), err, s.SQL)
			}
			got, err := store.Query(t.Context(), q, trail.QueryOptions{})
			if err == nil {
				err = trailtest.Equal(got, want, tolerance)
			}
			if err != nil {
				t.Errorf("seed %d, query %d (%s), store and DuckDB: %v\n%s", seed, i, kind(q), err, s.SQL)
			}
			asked++
		}
		if err := errors.Join(db.Close(), store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("asked %d questions about up to %d events", asked, most)
	if asked < 200 || most < 150_000 {
		t.Errorf("asked %d questions about up to %d events, want 200 or more and 150,000 or more", asked, most)
	}
}
