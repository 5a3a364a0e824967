package oracle

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// A Promise is what Check holds a run to.
type Promise struct {
	// Once: no event was taken twice. Otherwise copies are allowed, as after a
	// crash.
	Once bool
	// Order: the events of each key were taken in their order.
	Order bool
	// Doubt: an event may have been taken although it was reported as dropped
	// or returned, or is kept on disk, because the answer was lost.
	Doubt bool
	// Kept is how many accepted events must be missing, because they are on disk;
	// with Doubt, how many may be.
	Kept int
	// Lost is how many accepted events may be missing in addition to Kept, because
	// the disk was damaged.
	Lost int
}

// A Balancer is a snapshot of counters with an identity to hold: batch.Stats.
type Balancer interface{ Balance() error }

// Check is the verdict on a run that has ended. Every accepted event must have been
// taken by the store, or reported as dropped, refused or returned; nothing else may
// have been taken; every byte must be right; and p must hold. It reports at most a
// few problems of each kind.
func Check(t testing.TB, s *Store, l *Ledger, p Promise, stats ...Balancer) {
	t.Helper()
	for _, problem := range Judge(s, l, p) {
		t.Error(problem)
	}
	for i, b := range stats {
		if err := b.Balance(); err != nil {
			t.Errorf("stats %d: %v", i, err)
		}
	}
}

// Judge is Check for what is not a test: it returns the problems.
func Judge(s *Store, l *Ledger, p Promise) []string {
	v := verdict{shown: make(map[string]int)}
	taken := s.Copies()
	s.mu.Lock()
	refused := maps.Clone(s.mu.refused)
	v.problems = append(v.problems, s.mu.problems...)
	if p.Order {
		v.problems = append(v.problems, s.mu.disordered...)
	}
	s.mu.Unlock()

	l.mu.Lock()
	defer l.mu.Unlock()
	v.problems = append(v.problems, l.mu.problems...)
	missing := 0
	for _, id := range slices.Sorted(maps.Keys(l.mu.fates)) {
		f := l.mu.fates[id]
		n := taken[id]
		delete(taken, id)
		reported := f.dropped != "" || f.returned
		switch {
		case n > 0 && f.rejected != nil:
			v.add("rejected", "event %d: Add returned %q, but the store took it", id, f.rejected)
		case n == 0 && reported && f.rejected != nil:
			v.add("reported", "event %d: reported as dropped or returned, but never accepted: %v", id, f.rejected)
		case n > 0 && reported && !p.Doubt:
			v.add("both", "event %d: taken %d times, and reported as dropped (%q) or returned (%t)", id, n, f.dropped, f.returned)
		case n > 1 && p.Once:
			v.add("twice", "event %d: taken %d times", id, n)
		case n == 0 && f.accepted && !reported:
			missing++
			if p.Kept+p.Lost == 0 {
				v.add("lost", "event %d (key %d, place %d): accepted, neither taken nor reported", id, f.event.Key, f.event.Seq)
			}
		}
		if refused[id] > 0 && !reported && n == 0 {
			v.add("refused", "event %d: refused by the store, and not reported", id)
		}
	}
	for id := range taken {
		v.add("foreign", "event %d: taken, and never made", id)
	}
	if missing < p.Kept && !p.Doubt || missing > p.Kept+p.Lost {
		v.add("missing", "got %d accepted events neither taken nor reported, want %d to %d", missing, p.Kept, p.Kept+p.Lost)
	}
	return v.end()
}

// A verdict gathers problems, a few of each kind.
type verdict struct {
	problems []string
	shown    map[string]int
}

func (v *verdict) add(kind, format string, args ...any) {
	if v.shown[kind]++; v.shown[kind] <= 5 {
		v.problems = append(v.problems, fmt.Sprintf(format, args...))
	}
}

func (v *verdict) end() []string {
	for kind, n := range v.shown {
		if n > 5 {
			v.problems = append(v.problems, fmt.Sprintf("%s: %d more", kind, n-5))
		}
	}
	return v.problems
}
