package trail

import (
	"fmt"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestAppendCounted has appends return how many of their events the store, or the append
// itself, had already: in memory, in a segment, after a new start and a deletion.
func TestAppendCounted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	made := func(user string, day64 int64, id string) (e event.Event) {
		e = ev(user, day(day64), "view")
		e.ID = id
		return e
	}
	f := func(when string, events, duplicates int64, list ...event.Event) {
		t.Helper()
		before := count(t, s)
		got, err := s.AppendCounted(t.Context(), list)
		if want := (Appended{events, duplicates}); err != nil || got != want {
			t.Errorf("%s: got %+v and %v, want %+v", when, got, err, want)
		}
		wantCount(t, s, before+events)
	}
	f("nothing", 0, 0)
	f("without ids all are new", 3, 0, made("u", 0, ""), made("u", 0, ""), made("u", 0, ""))
	f("new", 3, 0, made("u", 0, "a"), made("u", 0, "b"), made("v", 40, "a"))
	f("known in memory", 1, 2, made("v", 40, "a"), made("u", 0, "c"), made("u", 0, "b"))
	f("twice in one append, in two buckets", 2, 3, made("w", 0, "a"), made("w", 40, "a"), made("w", 0, "a"), made("w", 40, "a"), made("w", 0, "a"))
	f("another time, user or id", 3, 0, made("u", 1, "a"), made("x", 0, "a"), made("u", 0, "d"))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f("known in a segment", 0, 2, made("u", 0, "a"), made("v", 40, "a"))
	f("in the log", 1, 0, made("u", 2, "e"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, quiet())
	f("known after a new start", 0, 2, made("u", 2, "e"), made("u", 0, "a"))
	if _, err := s.DeleteUser(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	f("of a deleted user all are new", 2, 0, made("u", 2, "e"), made("u", 0, "a"))
	bad := made("y", 0, "f")
	bad.Name = ""
	if got, err := s.AppendCounted(t.Context(), []event.Event{made("y", 0, "g"), bad}); !isRefused(err) || got != (Appended{}) {
		t.Errorf("got %+v and %v of a refused append, want no counts", got, err)
	}
}

// TestAppendCountedTogether has appends that are committed together each count as new
// the events that they brought into the store.
func TestAppendCountedTogether(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	const writers, rounds, each = 8, 10, 5
	var sums [writers]Appended
	for round := range rounds {
		// They wait for the committer, and are one group then.
		held, free := make(chan struct{}), make(chan struct{})
		s.committer.ops <- func() {
			close(held)
			<-free
		}
		<-held
		var wg sync.WaitGroup
		for w := range writers {
			var list []event.Event
			for i := range each { // each writer has one event more that the others have not
				e := ev(fmt.Sprint("u", i), day(int64(40*(i%2))), "view", prop("writer", event.IntOf(int64(w))))
				e.ID = fmt.Sprint(round, " ", i)
				if i == w%each {
					e.ID += fmt.Sprint(" of ", w)
				}
				list = append(list, e)
			}
			wg.Go(func() {
				got, err := s.AppendCounted(t.Context(), list)
				if err != nil || got.Events+got.Duplicates != each {
					t.Errorf("got %+v and %v, want %d events in all", got, err, each)
				}
				sums[w].Events += got.Events
				sums[w].Duplicates += got.Duplicates
			})
		}
		close(free)
		wg.Wait()
	}
	q := countQuery()
	q.Segment.By = []string{"writer"}
	var got [writers]int64
	for _, row := range ask(t, s, q).Segment.Rows {
		got[row.Group[0].Int()] = row.Value.Int
	}
	total := int64(0)
	for w, sum := range sums {
		if got[w] != sum.Events {
			t.Errorf("writer %d: the store has %d of its events, and AppendCounted returned %+v", w, got[w], sum)
		}
		total += sum.Events
	}
	if want := int64(rounds * (each + writers)); total != want {
		t.Errorf("got %d events, want %d", total, want)
	}
}
