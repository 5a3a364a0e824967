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
	for _, src := range p.sources {
		base, unit := src.times.Base(), src.times.Unit()
		if src.bucketIndex, err = r.cohorts.index(base, unit, uint32((src.seg.MaxTime()-base)/unit), src.seg.Rows(), p.held); err != nil {
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
		bits: make([]uint64, (r.q.Periods+63)/64), inverse: 1 / float64(r.every),
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

type retentionFold struct {
	*retention
	w       *worker
	sizes   []int64
	counts  []int64
	bits    []uint64 // by period: whether the user came back
	inverse float64  // of every
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
		at, row := firstStart(u.parts)
		if at < 0 {
			continue
		}
		p := &u.parts[at]
		t0 := p.time(row)
		cohort := 0
		if p.bucketIndex != nil {
			cohort = int(p.bucketIndex.find(p.times[row]))
		} else {
			cohort = r.cohorts.find(t0)
		}
		if r.every > 0 && r.q.Periods < 64 {
			r.elapsed(u.parts, t0)
		} else {
			r.calendar(u.parts, t0)
		}
		r.add(cohort)
	}
	return nil
}

// firstStart returns the part and the row of the first start event; the part is -1 if
// there is none. Views come by the time of their first event, but may overlap.
func firstStart(parts []part) (at, first int) {
	at = -1
	t0 := int64(0)
	for i := range parts {
		p := &parts[i]
		if at >= 0 && p.seg.MinTime() >= t0 {
			break
		}
		for row := p.lo; row < p.hi; row += 8 {
			word := load(p.mask8, row) & (startBit * ones)
			if word == 0 {
				continue
			}
			if row += bits.TrailingZeros64(word) >> 3; row < p.hi {
				if t := p.time(row); at < 0 || t < t0 {
					at, first, t0 = i, row, t
				}
			}
			break
		}
	}
	return at, first
}

// elapsed sets the periods in which the user came back, for less than 64 periods of
// a fixed length. Events come in visits, so that most groups of eight rows are of one
// period: such a group has one branch and no work for a row. The rows of other groups
// have no branch: users come back at random times, and most would be mispredicted.
func (r *retentionFold) elapsed(parts []part, t0 int64) {
	var found uint64 // bit k+1 for period k; bit 0 for times before t0
	end := t0 + r.every*int64(r.q.Periods)
	if end < t0 { // beyond all times
		end = math.MaxInt64
	}
	for i := range parts {
		p := &parts[i]
		if p.lo == p.hi || p.time(p.hi-1) < t0 {
			continue
		}
		// A multiplication finds the period. Half a millisecond is added so that rounding
		// cannot make a full number of periods less than that.
		scale := r.inverse * float64(p.unit)
		start := (float64(p.base-t0)+0.5)*r.inverse + 1
		period := func(t uint32) uint64 { return uint64(int64(float64(t)*scale + start)) }
		times, masks := p.times[p.lo:p.hi], p.mask8[p.lo:p.hi]
		for len(times) > 0 && p.base+p.unit*int64(times[0]) < end {
			n := min(len(times), 8)
			if n == 8 {
				if k := period(times[7]); k == period(times[0]) {
					if load(masks, 0)&(returnBit*ones) != 0 {
						found |= 1 << k
					}
					times, masks = times[8:], masks[8:]
					continue
				}
			}
			for i, t := range times[:n] {
				found |= uint64(masks[:n][i]) / returnBit & 1 << period(t)
			}
			times, masks = times[n:], masks[n:]
		}
	}
	r.bits[0] = found >> 1 & (1<<r.q.Periods - 1)
}

// calendar does what elapsed does, for any periods.
func (r *retentionFold) calendar(parts []part, t0 int64) {
	first, end := 0, t0+r.every*int64(r.q.Periods)
	if r.every == 0 {
		first = r.periods.find(t0)
		end = r.periods.starts[min(first+r.q.Periods, len(r.periods.starts)-1)]
	} else if end < t0 {
		end = math.MaxInt64
	}
	for i := range parts {
		p := &parts[i]
		until := t0 // events before are of a period that is noted, or of none
		for row := p.lo; row < p.hi; row++ {
			t := p.time(row)
			if t < until || p.mask8[row]&returnBit == 0 {
				continue
			}
			if t >= end {
				break
			}
			var k int
			if r.every > 0 {
				k = int((t - t0) / r.every)
				until = t0 + int64(k+1)*r.every
			} else {
				k = r.periods.find(t) - first
				until = r.periods.starts[first+k+1]
			}
			r.bits[k>>6] |= 1 << (k & 63)
		}
	}
}

// add counts a user, and forgets when the user came back.
func (r *retentionFold) add(cohort int) {
	if r.q.Unbounded {
		more := uint64(0) // all ones after the last period
		for i := len(r.bits) - 1; i >= 0; i-- {
			if more == 0 {
				more = 1<<bits.Len64(r.bits[i]) - 1
			} else {
				more = math.MaxUint64
			}
			r.bits[i] = more
		}
	}
	r.sizes[cohort]++
	counts := r.counts[cohort*r.q.Periods:][:r.q.Periods]
	for k := range counts {
		counts[k] += int64(r.bits[k>>6] >> (k & 63) & 1)
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
