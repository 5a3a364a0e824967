package exec

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A funnel counts users by the highest step that they reached.
//
// Its matchers are the steps, then the exclusions, then, for strict_order, every
// event.
type funnel struct {
	q         *query.Funnel
	steps     int
	stepMask  uint64      // of the steps among the matchers
	orderMask uint64      // of every event, of strict_order; else 0
	window    int64       // in milliseconds, inclusive; math.MaxInt64 for none
	modes     query.Modes // the modes that can make a difference
	by        []int       // columns
	same      int         // column, -1 for none
	trend     *calendar   // nil for none
	picked    *picked     // the users that are asked for, nil to count

	numbers map[*segment.Column]numbers // of same; nil if workers number its values
	tally   *tally
	buckets []int64 // of the trend: users by bucket and level-1
}

func (b *builder) funnel(q *query.Funnel, users *query.Selection) kernel {
	f := &funnel{q: q, steps: len(q.Steps), window: q.Within.Milliseconds(), modes: q.Modes, same: -1}
	f.stepMask = upTo(f.steps)
	if q.NoLimit {
		f.window = math.MaxInt64
	}
	lo, hi := b.bounds(q.Bounds)
	first := hi // the end of the times of step 1
	if users != nil && users.Bucket != "" {
		from, to := labelled(users.Bucket, q.Bucket, q.Zone)
		lo, first = max(lo, from), min(hi, to)
	}
	for i, s := range q.Steps {
		end := hi
		if i == 0 {
			end = first
		}
		b.match(s, lo, end)
	}
	if remark := q.Overlap(); remark != "" {
		b.warn("%s", remark)
	}
	for _, x := range q.Exclude {
		b.match(x.Match, lo, hi)
	}
	if q.Modes.StrictOrder {
		f.orderMask = 1 << len(b.matchers)
		b.match(query.Match{}, lo, hi)
	}
	for _, name := range q.By {
		f.by = append(f.by, b.column(name))
	}
	if q.Same != "" {
		f.same = b.column(q.Same)
	}
	return f
}

// fast reports whether the levels can be found by scanning masks, without collecting
// the events of a user.
func (f *funnel) fast() bool {
	modes := f.modes
	modes.StrictIncrease = false
	return modes == query.Modes{} && !f.q.AnyOrder && len(f.q.Exclude) == 0 && f.same < 0 && f.steps <= 8 && (f.q.Bucket == query.NoUnit || f.picked != nil)
}

func (f *funnel) explain() string {
	if f.fast() {
		return fmt.Sprintf("funnel of %d steps: scan of masks that keeps the latest chain of each level", f.steps)
	}
	return fmt.Sprintf("funnel of %d steps: the events of each user that match are collected, then followed", f.steps)
}

// wins reports whether the winning chain of a user must be known, and not its length
// alone.
func (f *funnel) wins() bool { return len(f.by) > 0 || f.q.Times != query.NoTimes }

func (f *funnel) settle(p *plan) (err error) {
	f.tally = newTally(f, p)
	if f.modes.StrictOnce && !slices.ContainsFunc(p.sources, func(s *source) bool { return f.shared(s) }) {
		// No event is two steps, so that each has its own. With strict_increase the
		// mode makes a difference all the same.
		f.modes.StrictOnce = f.modes.StrictIncrease
	}
	if err := f.number(p); err != nil {
		return err
	}
	if f.picked != nil || f.q.Bucket == query.NoUnit {
		return nil
	}
	m := p.matchers[0]
	if f.trend, err = newCalendar(p.spans(m.lo, m.hi), f.q.Bucket, f.q.Zone, 0, p.held); err != nil {
		return err
	}
	n := f.trend.units() * f.steps
	f.buckets = make([]int64, n)
	return p.held.take(8 * int64(n) * int64(p.opt.Workers+1))
}

// number numbers the values of same in all sources, so that workers need not look up each
// one. It does not if there are many sources, or so many values that a query would
// rather look up those that it meets.
func (f *funnel) number(p *plan) error {
	const (
		maxSources = 16
		minRows    = 16 // for each code
	)
	if f.same < 0 || len(p.sources) < 2 || len(p.sources) > maxSources {
		return nil
	}
	codes := 0
	for _, s := range p.sources {
		if col := s.columns[f.same]; col != nil {
			codes += col.Codes()
		}
	}
	if int64(codes)*minRows > p.rows {
		return nil
	}
	l, err := p.newLexicon(f.same, 2)
	if l == nil || err != nil {
		return err
	}
	f.numbers = make(map[*segment.Column]numbers, len(l.ids))
	for col, ids := range l.ids {
		f.numbers[col] = newNumbers(ids)
	}
	return nil
}

// shared reports whether an event of a source may be several steps.
func (f *funnel) shared(s *source) bool {
	return slices.ContainsFunc(s.table, func(t uint64) bool { return t&f.stepMask&(t&f.stepMask-1) != 0 })
}

func (f *funnel) need() need {
	required := uint64(1) // step 1
	if f.q.AnyOrder {
		required = f.stepMask
	}
	return need{times: true, columns: len(f.by) > 0 || f.same >= 0, required: required}
}

func (f *funnel) fork(w *worker) fold {
	fold := &funnelFold{funnel: f, w: w, tally: newTally(f, w.plan), buckets: make([]int64, len(f.buckets))}
	fold.values = fold.tally.values
	fold.markRow = fold.mark
	if f.picked != nil {
		fold.lister = f.picked.fork(w, fold.values)
	}
	if f.fast() {
		return &funnelScan{funnelFold: fold}
	}
	return fold
}

func (f *funnel) answer(p *plan) (*query.Answer, error) {
	if f.picked != nil {
		return f.picked.answer(p)
	}
	a := &query.FunnelAnswer{By: f.q.By}
	if f.trend != nil {
		a.Trend = []query.FunnelBucket{}
	}
	a.Steps = f.answerSteps(p, f.tally.reached, f.tally.all)
	var err error
	if a.Groups, err = f.tally.answer(f, p); err != nil {
		return nil, err
	}
	for i := 0; i < len(f.buckets); i += f.steps {
		reached := f.buckets[i : i+f.steps]
		if !slices.ContainsFunc(reached, func(n int64) bool { return n > 0 }) {
			continue
		}
		if err := p.held.take(int64(f.steps) * int64(unsafe.Sizeof(query.FunnelStep{}))); err != nil {
			return nil, err
		}
		a.Trend = append(a.Trend, query.FunnelBucket{Bucket: f.trend.label(i / f.steps), Steps: f.answerSteps(p, reached, nil)})
	}
	return &query.Answer{Funnel: a}, nil
}

// answerSteps makes counts by level cumulative: users who reached a step have reached
// the steps before. took has an element for each step from 2 on, or none.
func (f *funnel) answerSteps(p *plan, reached []int64, took []took) []query.FunnelStep {
	steps := make([]query.FunnelStep, f.steps)
	var users int64
	for k := f.steps - 1; k >= 0; k-- {
		users += reached[k]
		steps[k] = query.FunnelStep{Event: strings.Join(f.q.Steps[k].Events, "|"), Users: p.users(users)}
		if k > 0 && took != nil {
			steps[k].Time = took[k-1].answer(p)
		}
	}
	return steps
}

// within reports whether t is at most window after first, without overflow.
func within(first, t, window int64) bool { return uint64(t)-uint64(first) <= uint64(window) }

// A took has how long users took for a step.
type took struct {
	buckets [16]int64 // users by query.TimeBounds, and without one
	values  quantiles // milliseconds
}

// timeBounds are query.TimeBounds in milliseconds.
func timeBounds() []int64 {
	var bounds []int64
	for _, b := range query.TimeBounds() {
		bounds = append(bounds, b.Milliseconds())
	}
	return bounds
}

// add adds a user; it returns by how many bytes the memory grew.
func (t *took) add(ms int64, bounds []int64) int64 {
	i, exact := slices.BinarySearch(bounds, ms)
	t.buckets[i+btoi(exact)]++
	return t.values.add(uint64(ms))
}

// join adds what another has; it returns by how many bytes the memory grew.
func (t *took) join(o *took) int64 {
	for i, n := range o.buckets {
		t.buckets[i] += n
	}
	before := t.values.bytes()
	t.values.join(&o.values)
	return t.values.bytes() - before
}

func (t *took) answer(p *plan) *query.StepTime {
	n := t.values.n
	if n == 0 {
		return nil
	}
	at := func(percent int64) int64 { return int64(t.values.at((n*percent + 99) / 100)) }
	s := &query.StepTime{Median: at(50), P90: at(90)}
	bounds := append(query.TimeBounds(), 0)
	first, last := 0, len(bounds)-1
	for t.buckets[first] == 0 {
		first++
	}
	for t.buckets[last] == 0 {
		last--
	}
	s.Histogram = make([]query.TimeBucket, 0, last-first+1)
	for i := first; i <= last; i++ {
		s.Histogram = append(s.Histogram, query.TimeBucket{Below: time.Duration(bounds[i]), Users: p.users(t.buckets[i])})
	}
	return s
}
