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

// An eventClock is how far the time of events has come at a node, over its generations. Its lock is taken
// after that of the buffer.
type eventClock struct {
	sync.Mutex
	latest    int64     // of all events
	watermark int64     // windows that end until then are over
	came      time.Time // when the latest event came, by the clock

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

	// They change under the lock of the clock. A window that ends by its timer reads expect, and then
	// partial, without that: where it sees the former changed, the latter was before.
	expect  atomic.Int64 // messages that come again; 0 if that is not known any more
	partial atomic.Bool
}

// complete reports whether so many messages are all that were expected to come again.
func (f *fault) complete(messages int) bool {
	expect := f.expect.Load()
	return expect > 0 && int64(messages) >= expect
}

func newEventClock() *eventClock {
	return &eventClock{latest: math.MinInt64, watermark: math.MinInt64, floor: math.MinInt64, cuts: make(map[state.Key]int64), faults: make(map[state.Key][]*fault)}
}

// advance notes an event.
func (c *eventClock) advance(at, late int64, now time.Time) {
	c.latest = max(c.latest, at)
	c.watermark = max(c.watermark, c.latest-late)
	c.came = now
}

// rest returns how long it takes until a window ends by the clock, if no event comes: after the idle
// time, the time of events goes on with the clock. But only the windows that end so are over: what comes after a
// long pause is not late for that.
func (c *eventClock) rest(end, late int64, idle time.Duration, now time.Time) time.Duration {
	return max(idle, time.Duration(end-(c.latest-late))) - now.Sub(c.came)
}

// cut notes that a window was sent in part. At most that many keys are told apart.
func (c *eventClock) cut(key state.Key, end int64, most int) {
	if len(c.cuts) >= most {
		for k, until := range c.cuts {
			if until <= c.watermark {
				delete(c.cuts, k)
			}
		}
		if len(c.cuts) > most/2 { // so that not each cut goes through all of them
			for _, until := range c.cuts {
				c.floor = max(c.floor, until)
			}
			clear(c.cuts)
		}
	}
	if old, ok := c.cuts[key]; !ok || old < end {
		c.cuts[key] = end
	}
}

// isCut reports whether a part of a window that begins then may have been sent.
func (c *eventClock) isCut(key state.Key, start int64) bool {
	until, ok := c.cuts[key]
	return start < c.floor || ok && start < until
}

// startOf is where the first fault is that begins then or later.
func startOf(all []*fault, start int64) int {
	return sort.Search(len(all), func(i int) bool { return all[i].start >= start })
}

// faultOf returns the failed window that an event is in, or nil.
func (c *eventClock) faultOf(key state.Key, at int64, s span, sessions bool) *fault {
	all := c.faults[key]
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
func (c *eventClock) settle(w *window, failed bool, most int) {
	c.Lock()
	defer c.Unlock()
	f := w.fault
	switch {
	case f != nil && failed:
		f.expect.Store(max(f.expect.Load(), int64(len(w.items))))
	case f != nil:
		// It stays open for more: of the messages that have come, some may not be those that were expected.
		f.partial.Store(true)
		f.expect.Store(max(0, f.expect.Load()-int64(len(w.items))))
	case failed:
		if len(c.byAge) >= most {
			c.forget(c.byAge[0])
			c.byAge[0] = nil
			c.byAge = c.byAge[1:]
		}
		f = &fault{span: span{w.start, w.end}, key: w.key}
		f.expect.Store(int64(len(w.items)))
		f.partial.Store(w.partial)
		all := c.faults[f.key]
		c.faults[f.key] = slices.Insert(all, startOf(all, f.start+1), f)
		c.byAge = append(c.byAge, f)
	}
}

func (c *eventClock) forget(f *fault) {
	left := slices.DeleteFunc(c.faults[f.key], func(other *fault) bool { return other == f })
	if c.faults[f.key] = left; len(left) == 0 {
		delete(c.faults, f.key)
	}
}
