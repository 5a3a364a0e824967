package trail

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// maxBuckets is how many buckets of time a store may have events in. Each is a file
// at least, which is mapped, and Linux lets a process map 65,530. Of 28 days they are
// 2,500 years, of an hour nearly four.
const maxBuckets = 1 << 15

// A bucketLimit sees to it that the events of a group of appends do not fall into too
// many buckets. It is used again for the next group.
type bucketLimit struct {
	s       *Store
	sources []*source
	taken   [][]event.Event // before buckets was made
	count   int             // events in them
	buckets map[int64]bool  // with events; nil as long as there is room anyway
}

func (r *bucketLimit) begin(s *Store) {
	*r = bucketLimit{s: s, sources: s.current.Load().sources, taken: r.taken[:0]}
}

func (r *bucketLimit) end() {
	clear(r.taken) // they are the callers'
	*r = bucketLimit{taken: r.taken[:0]}
}

// take returns a *RefusedError if events would begin buckets that there is no room
// for. It looks at them only where a store has come near the limit.
func (r *bucketLimit) take(events []event.Event) error {
	if r.buckets == nil && len(r.sources)+r.count+len(events) <= r.s.opt.buckets {
		r.taken = append(r.taken, events)
		r.count += len(events)
		return nil
	}
	if r.buckets == nil {
		r.buckets = bucketsOf(r.sources)
		for _, earlier := range r.taken {
			for i := range earlier {
				r.buckets[bucketOf(earlier[i].Time, r.s.width)] = true
			}
		}
	}
	var fresh []int64
	var refused []Rejection
	for i := range events {
		b := bucketOf(events[i].Time, r.s.width)
		switch {
		case r.buckets[b]:
		case len(r.buckets) < r.s.opt.buckets:
			r.buckets[b] = true
			fresh = append(fresh, b)
		default:
			refused = append(refused, Rejection{i, r.s.bucketError(events[i].Time)})
		}
	}
	if refused == nil {
		return nil
	}
	for _, b := range fresh {
		delete(r.buckets, b)
	}
	return &RejectedError{Refused: refused}
}

// bucketsOf returns the buckets that sources are of.
func bucketsOf(sources []*source) map[int64]bool {
	buckets := make(map[int64]bool)
	for _, src := range sources {
		buckets[src.Bucket] = true
	}
	return buckets
}

func (s *Store) bucketError(millis int64) error {
	days := float64(s.width) / float64(24*60*60*1000)
	return fmt.Errorf("time %s would begin another segment: a store has events in at most %d stretches of %g days", timeText(millis), s.opt.buckets, days)
}

// checkBuckets returns an error if segments that an import has made would be too
// many.
func (s *Store) checkBuckets(segments []*source) error {
	sources := s.current.Load().sources
	if len(sources)+len(segments) <= s.opt.buckets {
		return nil
	}
	buckets := bucketsOf(sources)
	for _, src := range segments {
		if buckets[src.Bucket] = true; len(buckets) > s.opt.buckets {
			return s.bucketError(src.MinTime)
		}
	}
	return nil
}
