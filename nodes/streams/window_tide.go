package streams

import (
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node/state"
)

// A tide is how far the time of events has come at a node, over its generations. Its lock is taken
// after that of the lot.
type tide struct {
	sync.Mutex
	highest int64     // of all events
	mark    int64     // windows that end until then are over
	last    time.Time // when the latest event came, by the clock

	// Windows that were sent in parts: what begins before that is a part, too. floor is for all keys.
	floor int64
	cuts  map[state.Key]int64

	faults map[state.Key][]*fault // by start, those that begin together by age
	byAge  []*fault
}

// A fault is a window whose process has failed: the messages come again, although its time is over.
type fault struct {
	span
	key state.Key

	// They change under the lock of the tide. A window that ends by its timer reads expect, and then
	// partial, without that: where it sees the former changed, the latter was before.
	expect  atomic.Int64 // messages that come again; 0 if that is not known any more
	partial atomic.Bool
}

// complete reports whether so many messages are all that were expected to come again.
func (f *fault) complete(messages int) bool {
	expect := f.expect.Load()
	return expect > 0 && int64(messages) >= expect
}

func newTide() *tide {
	return &tide{highest: math.MinInt64, mark: math.MinInt64, floor: math.MinInt64, cuts: make(map[state.Key]int64), faults: make(map[state.Key][]*fault)}
}

// rise notes an event.
func (t *tide) rise(at, late int64, now time.Time) {
	t.highest = max(t.highest, at)
	t.mark = max(t.mark, t.highest-late)
	t.last = now
}

// rest returns how long it takes until a window ends by the clock, if no event comes: after the idle
// time, the time of events goes on with the clock. But only the windows that end so are over: what comes after a
// long pause is not late for that.
func (t *tide) rest(end, late int64, idle time.Duration, now time.Time) time.Duration {
	return max(idle, time.Duration(end-(t.highest-late))) - now.Sub(t.last)
}

// cut notes that a window was sent in part. At most that many keys are told apart.
func (t *tide) cut(key state.Key, end int64, most int) {
	if len(t.cuts) >= most {
		for k, until := range t.cuts {
			if until <= t.mark {
				delete(t.cuts, k)
			}
		}
		if len(t.cuts) > most/2 { // so that not each cut goes through all of them
			for _, until := range t.cuts {
				t.floor = max(t.floor, until)
			}
			clear(t.cuts)
		}
	}
	if old, ok := t.cuts[key]; !ok || old < end {
		t.cuts[key] = end
	}
}

// isCut reports whether a part of a window that begins then may have been sent.
func (t *tide) isCut(key state.Key, start int64) bool {
	until, ok := t.cuts[key]
	return start < t.floor || ok && start < until
}

// startOf is where the first fault is that begins then or later.
func startOf(all []*fault, start int64) int {
	return sort.Search(len(all), func(i int) bool { return all[i].start >= start })
}

// faultOf returns the failed window that an event is in, or nil.
func (t *tide) faultOf(key state.Key, at int64, s span, sessions bool) *fault {
	all := t.faults[key]
	if !sessions {
		if i := startOf(all, s.start); i < len(all) && all[i].span == s {
			return all[i]
		}
		return nil
	}
	for _, f := range all {
		if f.start <= at && at < f.end {
			return f
		}
	}
	return nil
}

// settle notes how the process of a window has ended. At most that many failures are known.
func (t *tide) settle(w *window, failed bool, most int) {
	t.Lock()
	defer t.Unlock()
	f := w.fault
	switch {
	case f != nil && failed:
		f.expect.Store(max(f.expect.Load(), int64(len(w.items))))
	case f != nil:
		// It stays open for more: of the messages that have come, some may not be those that were expected.
		f.partial.Store(true)
		f.expect.Store(max(0, f.expect.Load()-int64(len(w.items))))
	case failed:
		if len(t.byAge) >= most {
			t.forget(t.byAge[0])
			t.byAge[0] = nil
			t.byAge = t.byAge[1:]
		}
		f = &fault{span: span{w.start, w.end}, key: w.key}
		f.expect.Store(int64(len(w.items)))
		f.partial.Store(w.partial)
		all := t.faults[f.key]
		t.faults[f.key] = slices.Insert(all, startOf(all, f.start+1), f)
		t.byAge = append(t.byAge, f)
	}
}

func (t *tide) forget(f *fault) {
	left := slices.DeleteFunc(t.faults[f.key], func(other *fault) bool { return other == f })
	if t.faults[f.key] = left; len(left) == 0 {
		delete(t.faults, f.key)
	}
}
