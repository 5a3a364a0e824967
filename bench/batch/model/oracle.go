package model

import (
	"bytes"
	"math"
	"slices"
	"time"
)

// Counts are the account of a run, as far as it has gone.
type Counts struct {
	Requests   int64 `json:"requests"`
	Events     int64 `json:"events"`     // with duplicates
	Distinct   int64 `json:"distinct"`   // events that came at least once
	Duplicates int64 `json:"duplicates"` // how often one came that had come before
	Foreign    int64 `json:"foreign"`    // events that nobody has offered
	Malformed  int64 `json:"malformed"`  // requests whose body is not JSON
	Bytes      int64 `json:"bytes"`      // of bodies, as JSON

	// Arrival and Age are how old events were when their batch arrived, and
	// when it was answered: when the server had taken them.
	Arrival Ages `json:"arrival"`
	Age     Ages `json:"age"`
}

// Ages are quantiles of the ages of a run's events, each counted once.
type Ages struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// An oracle keeps the account of events by their Seq. It is not safe for
// concurrent use.
type oracle struct {
	counts  Counts
	times   []int32 // by Seq: age at arrival in microseconds; absent if it has not come
	answers []int32 // likewise, when answered
}

const absent = math.MinInt32

func newOracle(expect int) *oracle {
	o := &oracle{times: make([]int32, expect), answers: make([]int32, expect)}
	for i := range o.times {
		o.times[i], o.answers[i] = absent, absent
	}
	return o
}

// A sighting is an event in a request.
type sighting struct {
	seq  uint64
	time int64
}

// arrive enters the events of a request.
func (o *oracle) arrive(events []sighting, size int, now time.Time) {
	o.counts.Requests++
	o.counts.Bytes += int64(size)
	o.counts.Events += int64(len(events))
	for _, e := range events {
		switch {
		case e.seq >= uint64(len(o.times)):
			o.counts.Foreign++
		case o.times[e.seq] != absent:
			o.counts.Duplicates++
		default:
			o.counts.Distinct++
			o.times[e.seq] = micros(now, e.time)
		}
	}
}

// answer enters when events were answered.
func (o *oracle) answer(events []sighting, now time.Time) {
	for _, e := range events {
		if e.seq < uint64(len(o.answers)) && o.answers[e.seq] == absent {
			o.answers[e.seq] = micros(now, e.time)
		}
	}
}

// micros returns how old an event is, at most half an hour.
func micros(now time.Time, event int64) int32 {
	us := (now.UnixNano() - event) / int64(time.Microsecond)
	return int32(min(max(us, absent+1), math.MaxInt32))
}

func (o *oracle) account() Counts {
	c := o.counts
	c.Arrival, c.Age = ages(o.times), ages(o.answers)
	return c
}

// ages returns the quantiles of what is there.
func ages(all []int32) Ages {
	there := slices.DeleteFunc(slices.Clone(all), func(us int32) bool { return us == absent })
	slices.Sort(there)
	return Ages{P50: quantile(there, 0.5), P99: quantile(there, 0.99), Max: quantile(there, 1)}
}

// quantile returns the smallest of the sorted ages that a share of q does not
// exceed, in milliseconds; 0 if there is none.
func quantile(sorted []int32, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return float64(sorted[min(max(i, 0), len(sorted)-1)]) / 1000
}

// sight returns the events of a body. It looks for the two fields wherever they
// are, so that what an arm wraps its events into does not matter: an array,
// lines, or another service's envelope. A "seq" without a "time" is none.
func sight(body []byte) []sighting {
	var all []sighting
	for {
		i := bytes.Index(body, []byte(`"seq":`))
		if i < 0 {
			return all
		}
		seq, rest := number(body[i+len(`"seq":`):])
		body = rest
		end := len(body)
		if next := bytes.Index(body, []byte(`"seq":`)); next >= 0 {
			end = next
		}
		if t := bytes.Index(body[:end], []byte(`"time":`)); t >= 0 {
			at, _ := number(body[t+len(`"time":`) : end])
			all = append(all, sighting{seq, int64(at)})
		}
	}
}

// number reads the digits that b begins with.
func number(b []byte) (n uint64, rest []byte) {
	for len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
		n = n*10 + uint64(b[0]-'0')
		b = b[1:]
	}
	return n, b
}
