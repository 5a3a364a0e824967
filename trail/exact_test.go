package trail

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

const past = 1<<53 + 1 // the first integer that a number cannot hold

func k(v event.Value) event.Event { return ev("a", base, "view", prop("k", v)) }

// refusedAs returns the indexes that an append refuses for integers that a number
// cannot hold exactly.
func refusedAs(t *testing.T, s *Store, events ...event.Event) []int {
	t.Helper()
	err := s.Append(t.Context(), events)
	refused, ok := errors.AsType[*RejectedError](err)
	if !ok {
		t.Fatalf("got %v, want events refused", err)
	}
	var found []int
	for _, r := range refused.Refused {
		if _, ok := errors.AsType[*event.InexactError](r.Err); !ok {
			t.Errorf("got %v of event %d", r.Err, r.Index)
		}
		found = append(found, r.Index)
	}
	return found
}

// groups returns how many values of k there are.
func groups(t *testing.T, s *Store) int {
	t.Helper()
	q := countQuery()
	q.Segment.By = []string{"k"}
	return len(ask(t, s, q).Segment.Rows)
}

func wantIndexes(t *testing.T, got []int, want ...int) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d refused, want %d", got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got %d refused, want %d", got, want)
		}
	}
}

// TestLargeIntegers appends integers that a number cannot hold next to numbers, in
// every order and from every place in which the store may have them.
func TestLargeIntegers(t *testing.T) {
	integer, number, small := k(event.IntOf(past)), k(event.FloatOf(0.5)), k(event.IntOf(7))
	for _, c := range []struct {
		how string
		do  func(t *testing.T, s *Store)
	}{
		{"in memory", func(*testing.T, *Store) {}},
		{"in a segment", func(t *testing.T, s *Store) {
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		dir := t.TempDir()
		s, err := Open(dir, quiet())
		if err != nil {
			t.Fatal(err)
		}
		add(t, s, small, integer, k(event.IntOf(past-1)), k(event.IntOf(-past)))
		c.do(t, s)
		wantIndexes(t, refusedAs(t, s, small, number, number), 1, 2)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, quiet()) // which has to look
		wantIndexes(t, refusedAs(t, s, number), 0)
		wantIndexes(t, refusedAs(t, s, number), 0)
		if got := groups(t, s); got != 4 {
			t.Errorf("%s: got %d values, want 4", c.how, got)
		}
	}

	s := open(t, t.TempDir(), quiet())
	wantIndexes(t, refusedAs(t, s, integer, number), 1)
	wantIndexes(t, refusedAs(t, s, number, integer, small), 1)
	wantCount(t, s, 0)
	add(t, s, small)
	add(t, s, number)
	wantIndexes(t, refusedAs(t, s, small, integer), 1)
	add(t, s, k(event.IntOf(1<<60))) // which is a number
	if got := groups(t, s); got != 3 {
		t.Errorf("got %d values, want 3", got)
	}
}

// TestLargeIntegersOfRawColumns has so many values that a segment has no dictionary
// of them, and of a few thousand rows in which one is large.
func TestLargeIntegersOfRawColumns(t *testing.T) {
	for _, large := range []bool{false, true} {
		s := open(t, t.TempDir(), quiet())
		var events []event.Event
		for i := range int64(5000) {
			events = append(events, k(event.IntOf((i*7919+i*i)<<20)))
		}
		if large {
			events[3000].Properties[0].Value = event.IntOf(past)
		}
		add(t, s, events...)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := s.state.current.Load().sources[0].seg.Column("k"); c.Codes() != 0 {
			t.Fatalf("got a column with %d codes, want a raw one", c.Codes())
		}
		if got := s.admission.hasLarge("k"); got != large {
			t.Errorf("got %v, want %v", got, large)
		}
	}
}

// TestLargeIntegersOfFiles imports integers into a store that has numbers, and the other way round.
func TestLargeIntegersOfFiles(t *testing.T) {
	write := func(values ...string) string {
		path := filepath.Join(t.TempDir(), "x.ndjson")
		text := ""
		for _, v := range values {
			text += `{"user":"a","time":"2026-01-05","event":"view","k":` + v + "}\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := open(t, t.TempDir(), quiet())
	load := func(path string) error {
		_, err := s.Import(t.Context(), []string{path}, ImportOptions{})
		return err
	}
	if err := load(write("9007199254740993", "9007199254740992")); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*event.InexactError](load(write("1", "0.5"))); !ok {
		t.Error("got no error of numbers where the store has large integers")
	}
	if got := groups(t, s); got != 2 {
		t.Errorf("got %d values, want 2", got)
	}
	if err := load(write("18446744073709551615", "18446744073709551614")); err == nil {
		t.Error("got no error of integers of more than 64 bits")
	}
	wantCount(t, s, 2)
}

// TestLargeIntegersFromBefore has them in segments that an earlier version wrote.
func TestLargeIntegersFromBefore(t *testing.T) {
	dir := before(t)
	s := open(t, dir, quiet())
	if err := s.Append(t.Context(), []event.Event{ev("a", base, "view", prop("n", event.FloatOf(0.5)))}); !isRefused(err) {
		t.Errorf("got %v, want the number refused", err)
	}
	add(t, s, ev("a", base, "view", prop("n", event.IntOf(past))))
}
