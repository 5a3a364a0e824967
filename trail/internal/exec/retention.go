package exec

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// A retention counts the users of each cohort by the periods in which they came
// back. Its matchers are the start and the return.
type retention struct {
	q       *query.Retention
	every   int64 // milliseconds of a period; 0 for calendar units
	cohorts *calendar
	periods *calendar // of calendar units; nil for elapsed periods
	sizes   []int64   // by cohort
	counts  []int64   // by cohort and period
}

func (b *builder) retention(q *query.Retention) kernel {
	r := &retention{q: q, every: q.Every.Elapsed.Milliseconds()}
	lo, hi := b.bounds(q.Bounds)
	b.match(q.Start, lo, hi)
	b.match(q.Return, lo, r.end(hi))
	return r
}

// end returns when the last period of starts before a time is over.
func (r *retention) end(to int64) int64 {
	switch {
	case to == math.MaxInt64:
		return to
	case r.every > 0:
		if end := to + r.every*int64(r.q.Periods); end > to {
			return end
		}
		return math.MaxInt64
	}
	t := floor(time.UnixMilli(to-1).In(cmp.Or(r.q.Zone, time.UTC)), r.q.Every.Unit)
	for range r.q.Periods {
		t = next(t, r.q.Every.Unit)
	}
	return t.UnixMilli()
}

func (r *retention) settle(p *plan) (err error) {
	m := p.matchers[0]
	spans := p.spans(m.lo, m.hi)
	if r.cohorts, err = newCalendar(spans, r.q.Cohort, r.q.Zone, 0, p.held); err != nil {
		return err
	}
	if r.every == 0 {
		if r.periods, err = newCalendar(spans, r.q.Every.Unit, r.q.Zone, r.q.Periods, p.held); err != nil {
			return err
		}
	}
	n := r.cohorts.units() * (r.q.Periods + 1)
	if err := p.held.take(8 * int64(n) * int64(p.opt.Workers+1)); err != nil {
		return err
	}
	r.sizes = make([]int64, r.cohorts.units())
	r.counts = make([]int64, r.cohorts.units()*r.q.Periods)
	return nil
}

func (r *retention) explain() string {
	return fmt.Sprintf("retention over %d periods: a bit for each period of a user", r.q.Periods)
}

func (r *retention) need() need { return need{times: true, required: startBit} }

func (r *retention) fork(w *worker) fold {
	return &retentionFold{
		retention: r, w: w,
		sizes: make([]int64, len(r.sizes)), counts: make([]int64, len(r.counts)),
		bits: make([]uint64, (r.q.Periods+63)/64),
	}
}

func (r *retention) answer(p *plan) (*query.Answer, error) {
	a := &query.RetentionAnswer{}
	for i, size := range r.sizes {
		if size == 0 {
			continue
		}
		c := query.RetentionCohort{Start: r.cohorts.label(i), Size: p.users(size), Periods: make([]query.Number, r.q.Periods)}
		for k := range c.Periods {
			c.Periods[k] = p.users(r.counts[i*r.q.Periods+k])
		}
		a.Cohorts = append(a.Cohorts, c)
	}
	answer := &query.Answer{Retention: a}
	if p.through > math.MinInt64 {
		answer.Stats.Through, answer.Stats.HasThrough = p.through, true
	}
	return answer, nil
}

// A retentionFold is the fold of a retention.
type retentionFold struct {
	*retention
	w      *worker
	sizes  []int64
	counts []int64
	bits   []uint64 // by period: whether the user came back
	cohort int      // that of the last user
}

const (
	startBit  = 1
	returnBit = 2
)

func (r *retentionFold) shard(views []*view) error {
	u := &r.w.users
	u.open(views)
	for u.next() {
		if u.selective && !u.relevant() {
			continue
		}
		t0, ok := firstStart(u.parts)
		if !ok {
			continue
		}
		for i := range u.parts {
			if !r.returns(&u.parts[i], t0) {
				break
			}
		}
		r.add(t0)
	}
	return nil
}

// firstStart returns the time of the first start event. Views come by the time of
// their first event, but may overlap.
func firstStart(parts []part) (t0 int64, ok bool) {
	for i := range parts {
		p := &parts[i]
		if ok && p.seg.MinTime() >= t0 {
			break
		}
		for row := p.lo; row < p.hi; row++ {
			if p.mask8[row]&startBit != 0 {
				if t := p.time(row); !ok || t < t0 {
					t0, ok = t, true
				}
				break
			}
		}
	}
	return t0, ok
}

// returns sets the periods in which the user came back in a part. It reports whether
// later parts can add to them.
func (r *retentionFold) returns(p *part, t0 int64) bool {
	if r.every == 0 {
		return r.calendar(p, t0)
	}
	end := t0 + r.every*int64(r.q.Periods)
	if end < t0 { // beyond all times
		end = math.MaxInt64
	}
	if p.base >= end {
		return false
	}
	// Offsets instead of times, so that there is one comparison for most rows:
	// those before until are of a period that is noted, or none.
	times, masks := p.times[p.lo:p.hi], p.mask8[p.lo:p.hi]
	if len(times) == 0 {
		return true
	}
	masks = masks[:len(times)]
	until, last := uint32(max(0, min(offset(t0, p.view), math.MaxUint32))), offset(end, p.view)
	for i, t := range times {
		if t < until || masks[i]&returnBit == 0 {
			continue
		}
		if int64(t) >= last {
			break
		}
		k := (p.base + p.unit*int64(t) - t0) / r.every
		if k < 0 {
			continue
		}
		r.bits[k>>6] |= 1 << (k & 63)
		until = uint32(min(offset(t0+(k+1)*r.every, p.view), math.MaxUint32))
	}
	return true
}

// calendar does what returns does, for calendar periods.
func (r *retentionFold) calendar(p *part, t0 int64) bool {
	first := r.periods.find(t0)
	end := r.periods.starts[min(first+r.q.Periods, len(r.periods.starts)-1)]
	if p.base >= end {
		return false
	}
	until := t0
	for row := p.lo; row < p.hi; row++ {
		t := p.time(row)
		if t < until || p.mask8[row]&returnBit == 0 {
			continue
		}
		if t >= end {
			break
		}
		k := r.periods.find(t) - first
		r.bits[k>>6] |= 1 << (k & 63)
		until = r.periods.starts[first+k+1]
	}
	return true
}

// add counts a user, and forgets when the user came back.
func (r *retentionFold) add(t0 int64) {
	if starts := r.cohorts.starts; t0 < starts[r.cohort] || t0 >= starts[r.cohort+1] {
		r.cohort = r.cohorts.find(t0)
	}
	r.sizes[r.cohort]++
	counts := r.counts[r.cohort*r.q.Periods:][:r.q.Periods]
	if r.q.Unbounded {
		last := -1
		for i, w := range r.bits {
			if w != 0 {
				last = i<<6 + bits.Len64(w) - 1
			}
		}
		for k := range counts[:last+1] {
			counts[k]++
		}
	} else {
		for i, w := range r.bits {
			for ; w != 0; w &= w - 1 {
				counts[i<<6+bits.TrailingZeros64(w)]++
			}
		}
	}
	clear(r.bits)
}

func (r *retentionFold) join() error {
	for i, n := range r.sizes {
		r.retention.sizes[i] += n
	}
	for i, n := range r.counts {
		r.retention.counts[i] += n
	}
	return nil
}
