package trail

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// maxBuckets bounds the buckets of time with events. Each has at least one mapped file,
// and Linux lets a process map 65,530. Buckets of 28 days cover 2,500 years, of an hour
// nearly four.
const maxBuckets = 1 << 15

// A bucketLimit refuses appends whose events would begin too many buckets. It is
// reused for the next group of appends.
type bucketLimit struct {
	s       *Store
	sources []*source
	taken   [][]event.Event // before buckets was made
	count   int             // events in them
	buckets map[int64]bool  // with events; nil while the limit is far
}

func (r *bucketLimit) begin(s *Store) {
	*r = bucketLimit{s: s, sources: s.current.Load().sources, taken: r.taken[:0]}
}

func (r *bucketLimit) end() {
	clear(r.taken) // the callers own them
	*r = bucketLimit{taken: r.taken[:0]}
}

// take returns a *RejectedError if events would begin more buckets than the
// limit. It looks at the events only if the store is near the limit.
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

func bucketsOf(sources []*source) map[int64]bool {
	buckets := make(map[int64]bool)
	for _, src := range sources {
		buckets[src.Bucket] = true
	}
	return buckets
}

func (s *Store) bucketError(millis int64) error {
	days := float64(s.width) / float64(24*60*60*1000)
	return fmt.Errorf("time %s would begin another segment: a store has events in at most %d buckets of %g days", timeText(millis), s.opt.buckets, days)
}

// checkBuckets returns an error if the segments of an import would exceed the limit.
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
