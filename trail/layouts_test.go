package trail

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestWays queries stores that hold the same events in different ways: in memory, in many
// small segments, compacted, divided by users, and imported from an export of another
// store. All must answer alike, also after users were deleted and the horizon moved.
func TestWays(t *testing.T) {
	divided, asked := 0, 0
	worlds, first := uint64(3), uint64(50)
	if invariant.Race {
		worlds = 1
	} else if os.Getenv("TRAIL_FAULTS") == "full" {
		worlds, first = 2*trailtest.Worlds, uint64(time.Now().UnixNano())
	}
	for seed := first; seed < first+worlds; seed++ {
		c := trailtest.DrawWorld(seed, trailtest.WorldOptions{Events: 24_000})
		with := func(change func(*Options)) *Store {
			opt := quiet()
			opt.Bucket, opt.Times.Any = 40*24*time.Hour, true
			change(&opt)
			s := open(t, t.TempDir(), opt)
			return s
		}
		fill := func(s *Store, flush bool) {
			for events := range slices.Chunk(c.Events, 2500) {
				add(t, s, events...)
				if flush {
					if err := s.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		memory, flushed := with(func(*Options) {}), with(func(*Options) {})
		compacted, parts := with(func(*Options) {}), with(func(o *Options) { o.rows = 10_000 })
		fill(memory, false)
		fill(flushed, true)
		fill(compacted, true)
		fill(parts, true)
		for _, s := range []*Store{compacted, parts} {
			if err := s.Compact(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		file := write(t, "all.parquet", exported(t, compacted))
		imported := with(func(o *Options) { o.rows, o.spill = 12_000, 5000 })
		if _, err := imported.Import(t.Context(), []string{file}, ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, src := range parts.state.current.Load().sources {
			if src.Hashes.Bits > 0 {
				divided++
			}
		}
		ways := map[string]*Store{"flushed": flushed, "compacted": compacted, "divided": parts, "imported": imported}
		schema := memory.Schema()
		compare := func(when string) {
			t.Helper()
			for i, q := range c.Queries {
				if invariant.Race && i%12 > 0 {
					continue
				}
				if err := q.Check(); err != nil {
					t.Fatal(err)
				}
				want, refused := memory.Query(t.Context(), q, QueryOptions{Users: true})
				for name, s := range ways {
					asked++
					got, err := s.Query(t.Context(), q, QueryOptions{Users: true})
					switch {
					case refused != nil && err != nil && refused.Error() == err.Error():
						err = nil // a literal does not fit the type that the events had
					case refused != nil:
						err = fmt.Errorf("in memory it was refused: %w", errors.Join(refused, err))
					case err == nil:
						err = trailtest.Equal(got, want, 1e-9)
					}
					if err != nil {
						t.Errorf("seed %d, query %d, %s, %s: %v", seed, i, name, when, err)
					}
				}
			}
		}
		for name, hashes := range c.Cohorts {
			users := make([]query.User, len(hashes))
			for i, h := range hashes {
				users[i].Hash = h
			}
			for _, s := range append([]*Store{memory}, flushed, compacted, parts, imported) {
				if err := s.saveCohort(name, users); err != nil {
					t.Fatal(err)
				}
			}
		}
		compare("whole")
		lot := rand.New(rand.NewPCG(seed, 9))
		times := make([]int64, 0, len(c.Events))
		gone := map[string]bool{}
		for _, e := range c.Events {
			times = append(times, e.Time)
			if len(gone) < 20 && lot.IntN(40) == 0 {
				gone[e.User] = true
			}
		}
		slices.Sort(times)
		for _, s := range append([]*Store{memory}, flushed, compacted, parts, imported) {
			for user := range gone {
				if _, err := s.DeleteUser(t.Context(), user); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.DropBefore(t.Context(), event.Time(times[len(times)/5]), DropOptions{Future: true}); err != nil {
				t.Fatal(err)
			}
		}
		compare("after deletions")
		if err := compacted.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		compare("after deletions and a compaction")
		if got := compacted.Schema(); !slices.Equal(got, schema) {
			t.Errorf("got the schema %v, want %v", got, schema)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("asked %d questions, and divided buckets into %d segments", asked, divided)
	if divided == 0 {
		t.Error("no bucket was divided")
	}
}
