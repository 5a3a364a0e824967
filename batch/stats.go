package batch

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Stats is one consistent view of a processor: see Balance.
type Stats struct {
	// Events, since New.
	Accepted   uint64 // by Add, AddWait and AddAck
	Recovered  uint64 // found in the spool by New
	Rejected   uint64 // not accepted: ErrFull, ErrTooLarge or ErrEncode
	Delivered  uint64 // taken by the receiver
	Duplicates uint64 // of Delivered: the receiver had taken them before
	Retried    uint64 // sent again, counted each time
	Returned   uint64 // given back by Close
	Unreadable uint64 // on disk only, and cannot be read

	// Events given up since New. Each is counted in one of these.
	DroppedFull      uint64 // by Queue.Full
	DroppedExpired   uint64 // by Retry.MaxElapsed
	DroppedExhausted uint64 // by Retry.Attempts
	Refused          uint64 // by the receiver
	DeadLettered     uint64 // taken by DeadLetter

	// Events now.
	Queued   uint64 // wait in memory, or in memory and on disk
	Spooled  uint64 // wait on disk only
	InFlight uint64 // in batches on the way

	QueuedBytes int64         // memory reserved by waiting events
	SpoolBytes  int64         // of the spool's files
	OldestAge   time.Duration // of the oldest unsettled event

	// Damage that New found in the spool: damaged places, and missing events. These
	// events are not counted above.
	Corrupt    uint64
	LostOnDisk uint64

	Batches     uint64 // made
	Requests    uint64 // attempts to send a batch or a piece of one
	Lanes       int
	LanesPaused int // that wait for Resume, or for permission of the receiver
	Retrying    int // batches that wait for their next attempt
	Limit       int // of concurrent requests, at most Lanes.Max

	BatchSize Histogram // events of a batch
	Wait      Histogram // seconds from a batch's first event to its first attempt
	Latency   Histogram // seconds of an attempt
	Attempts  Histogram // attempts of a settled batch or piece
}

// Balance checks that each event is in exactly one place:
//
//	Accepted + Recovered = Delivered + DroppedFull + DroppedExpired +
//	                       DroppedExhausted + Refused + DeadLettered +
//	                       Returned + Unreadable + Queued + Spooled + InFlight
//
// The error has both sums.
func (s Stats) Balance() error {
	in := s.Accepted + s.Recovered
	out := s.Delivered + s.DroppedFull + s.DroppedExpired + s.DroppedExhausted + s.Refused + s.DeadLettered +
		s.Returned + s.Unreadable + s.Queued + s.Spooled + s.InFlight
	if in == out {
		return nil
	}
	return fmt.Errorf("batch: %d events accepted and recovered, %d accounted for: %+v", in, out, s)
}

// A Histogram counts observations by size, in buckets that double.
type Histogram struct {
	Count uint64
	Sum   float64
	// Buckets count the observations up to their Bound and above the previous one.
	// The last bound is infinite.
	Buckets []Bucket
}

// A Bucket is a bar of a Histogram.
type Bucket struct {
	Bound float64
	Count uint64
}

// bucketJSON is the JSON form of a Bucket. JSON has no infinity, so the last bound is
// "+Inf", as in Prometheus.
type bucketJSON struct {
	Bound any
	Count uint64
}

// MarshalJSON writes {"Bound": 0.5, "Count": 3}; the infinite bound is "+Inf".
func (b Bucket) MarshalJSON() ([]byte, error) {
	var bound any = b.Bound
	if math.IsInf(b.Bound, 1) {
		bound = "+Inf"
	}
	return json.Marshal(bucketJSON{bound, b.Count})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Bucket) UnmarshalJSON(text []byte) error {
	var j bucketJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	switch bound := j.Bound.(type) {
	case float64:
		*b = Bucket{bound, j.Count}
	case string:
		if bound != "+Inf" {
			return fmt.Errorf("batch: bound of a bucket: got %q, must be a number or \"+Inf\"", bound)
		}
		*b = Bucket{math.Inf(1), j.Count}
	default:
		return fmt.Errorf("batch: bound of a bucket: got %v, must be a number or \"+Inf\"", bound)
	}
	return nil
}

// A histogram has buckets with the bounds least, twice least, and so on.
type histogram struct {
	least  float64
	counts [24]uint64
	sum    float64
}

func (h *histogram) add(v float64) {
	i := 0
	if v > h.least {
		i = min(len(h.counts)-1, int(math.Ceil(math.Log2(v/h.least))))
	}
	h.counts[i]++
	h.sum += v
}

func (h *histogram) read() Histogram {
	r := Histogram{Sum: h.sum, Buckets: make([]Bucket, len(h.counts))}
	bound := h.least
	for i, n := range h.counts {
		r.Count += n
		r.Buckets[i] = Bucket{bound, n}
		bound *= 2
	}
	r.Buckets[len(h.counts)-1].Bound = math.Inf(1)
	return r
}

// counts are the sums of Stats, without its histograms and the events of open chunks.
// The lock of the queue guards them.
type counts struct {
	Stats
	size, wait, attempts histogram
}

func newCounts() counts {
	return counts{size: histogram{least: 1}, wait: histogram{least: 1e-3}, attempts: histogram{least: 1}}
}

// drop counts events on the way as dropped.
func (n *counts) drop(events int, why Reason) {
	n.InFlight -= uint64(events)
	switch why {
	case ReasonQueueFull:
		n.DroppedFull += uint64(events)
	case ReasonExpired:
		n.DroppedExpired += uint64(events)
	case ReasonExhausted:
		n.DroppedExhausted += uint64(events)
	case ReasonRefused:
		n.Refused += uint64(events)
	case ReasonUnreadable:
		n.Unreadable += uint64(events)
	}
}
