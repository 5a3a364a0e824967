package sqlite_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/journaltest"
)

// TestGroups writes random groups to one journal, and what they have one by one to another: the row of a run that
// begins and ends in one group is written once.
func TestGroups(t *testing.T) {
	ctx := context.Background()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	groups, single := open(t, filepath.Join(t.TempDir(), "groups")), open(t, filepath.Join(t.TempDir(), "single"))
	defer shut(t, groups)
	defer shut(t, single)
	commit := func(b journal.Batch) {
		t.Helper()
		if err := single.Commit(ctx, &b); err != nil {
			t.Fatal(err)
		}
	}
	same := func(id journal.ID) {
		t.Helper()
		a, errA := groups.Get(ctx, id)
		b, errB := single.Get(ctx, id)
		if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(errA, errB) {
			t.Fatalf("a run: in groups %+v, %v\none by one %+v, %v", a, errA, b, errB)
		}
		waitsA, errA := groups.Waits(ctx, id)
		waitsB, errB := single.Waits(ctx, id)
		if !reflect.DeepEqual(waitsA, waitsB) || errA != nil || errB != nil {
			t.Fatalf("the waits of run %x: in groups %+v, %v\none by one %+v, %v", id, waitsA, errA, waitsB, errB)
		}
	}
	const runs = 200
	together, unlucky, again := 0, 0, 0
	for next := 1; next < runs; {
		b := new(journal.Batch)
		starts := make(map[journal.ID]bool)
		start := func(i int) {
			r := journaltest.NewRun(i)
			r.Input = bytes.Repeat([]byte{byte(i)}, rng.IntN(2)*20_000+rng.IntN(100))
			if rng.IntN(3) == 0 {
				r.Key, r.KeyUntil = []byte{byte(rng.IntN(50))}, r.Created.Add(time.Hour)
			}
			if rng.IntN(10) == 0 {
				r.State, r.Item = journal.Queued, journal.Item{Queue: "q", Due: r.Created}
			}
			b.Starts, starts[r.ID] = append(b.Starts, r), true
		}
		for range rng.IntN(8) {
			start(next)
			next++
		}
		if rng.IntN(4) > 0 {
			start(1 + rng.IntN(next)) // it may be there already
		}
		for range rng.IntN(12) {
			i := max(1, next-rng.IntN(10))
			e := journal.End{Run: journaltest.ID(i), State: journal.State(rng.IntN(int(journal.Dead) + 1)), Error: "why", At: time.UnixMilli(int64(i))}
			e.Answer = bytes.Repeat([]byte{byte(next)}, rng.IntN(2)*20_000+rng.IntN(100))
			b.Ends = append(b.Ends, e)
			if len(b.Starts) > 0 && rng.IntN(3) > 0 {
				e.Run = b.Starts[rng.IntN(len(b.Starts))].ID
			}
			if starts[e.Run] {
				together++
			}
			if rng.IntN(2) == 0 {
				b.Waits = append(b.Waits, journal.Wait{Run: e.Run, Pos: uint64(len(b.Waits)), Namespace: "n", Event: "e"})
			}
		}
		if err := groups.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
		left := make(map[journal.ID]bool)
		for i, r := range b.Starts {
			commit(journal.Batch{Starts: []*journal.Run{r}})
			switch old := b.Existing[i]; {
			case old != nil && old.ID == r.ID:
				again++
			case old != nil:
				left[r.ID] = true
				unlucky++
			}
		}
		for _, w := range b.Waits {
			if !left[w.Run] {
				commit(journal.Batch{Waits: []journal.Wait{w}})
			}
		}
		for _, e := range b.Ends {
			if !left[e.Run] {
				commit(journal.Batch{Ends: []journal.End{e}})
			}
		}
		for _, r := range b.Starts {
			same(r.ID)
		}
		for _, e := range b.Ends {
			same(e.Run)
		}
	}
	t.Logf("%d ends came with their starts, %d starts lost their key, %d were there", together, unlucky, again)
	if together < 50 || unlucky < 10 || again < 5 {
		t.Error("too few of the groups have what is tested")
	}
	foundA, errA := groups.Check(ctx) // there are ends and waits of runs that lost their key
	foundB, errB := single.Check(ctx)
	if !reflect.DeepEqual(foundA, foundB) || errA != nil || errB != nil {
		t.Errorf("Check found in groups %v, %v, one by one %v, %v", foundA, errA, foundB, errB)
	}
}
