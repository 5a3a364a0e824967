package exec

import (
	"fmt"
	"math"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// segmentUsers are the users behind a number of a segment: the users with an event in a row.
type segmentUsers struct {
	*picked
	by []int // columns
}

func (b *builder) segmentUsers(q *query.Segment, p *picked) kernel {
	s := &segmentUsers{picked: p}
	lo, hi := b.bounds(q.Bounds)
	if label := p.selection.Bucket; label != "" {
		from, to := labelled(label, q.Bucket, q.Zone)
		lo, hi = max(lo, from), min(hi, to)
	}
	b.match(q.Match, lo, hi)
	for _, name := range q.By {
		s.by = append(s.by, b.column(name))
	}
	return s
}

func (s *segmentUsers) explain() string {
	return fmt.Sprintf("users of a segment by %d properties: the events of each user until one is in the row", len(s.by))
}

func (s *segmentUsers) settle(*plan) error { return nil }

// groups reports whether the group of an event must be known.
func (s *segmentUsers) groups() bool { return s.selection.Other || len(s.selection.Group) > 0 }

func (s *segmentUsers) need() need { return need{columns: s.groups()} }

func (s *segmentUsers) fork(w *worker) fold {
	return &segmentUsersFold{segmentUsers: s, lister: s.picked.fork(w, newDictionary(w.plan))}
}

type segmentUsersFold struct {
	*segmentUsers
	lister *lister
}

func (s *segmentUsersFold) shard(views []*view) error {
	s.lister.values.open(views)
	u := &s.lister.w.users
	u.open(views)
	for u.next() {
		if !s.holds(u.parts) {
			continue
		}
		if err := s.lister.add(&u.parts[0]); err != nil {
			return err
		}
	}
	return s.lister.values.err
}

func (s *segmentUsersFold) holds(parts []part) bool {
	for i := range parts {
		p := &parts[i]
		for row := p.lo; row < p.hi; row++ {
			if p.mask(row) == 0 {
				continue
			}
			var g group
			if s.groups() {
				for k, column := range s.by {
					g[k] = s.lister.values.id(p.view, column, row)
				}
			}
			if s.lister.chosen(g) {
				return true
			}
		}
	}
	return false
}

func (s *segmentUsersFold) join() error {
	s.lister.join()
	s.lister.values.close()
	return nil
}

// retentionUsers are the users behind a number of a retention: all of a cohort, or the
// ones who came back in a period.
type retentionUsers struct {
	*retention
	picked   *picked
	from, to int64 // times of the cohort
}

func (b *builder) retentionUsers(q *query.Retention, p *picked) kernel {
	r := &retentionUsers{retention: b.retention(q).(*retention), picked: p}
	r.from, r.to = labelled(p.selection.Cohort, q.Cohort, q.Zone)
	return r
}

func (r *retentionUsers) explain() string {
	return "users of a retention: members of the cohort who came back in the period"
}

func (r *retentionUsers) fork(w *worker) fold {
	return &retentionUsersFold{retentionUsers: r, lister: r.picked.fork(w, nil)}
}

func (r *retentionUsers) answer(p *plan) (*query.Answer, error) { return r.picked.answer(p) }

type retentionUsersFold struct {
	*retentionUsers
	lister *lister
}

func (r *retentionUsersFold) shard(views []*view) error {
	u := &r.lister.w.users
	u.open(views)
	for u.next() {
		if u.selective && !u.relevant() {
			continue
		}
		start := r.start(u.parts)
		if start < r.from || start >= r.to {
			continue
		}
		r.lister.seen = true
		if r.picked.selection.HasPeriod && !r.returned(u.parts, start) {
			continue
		}
		if err := r.lister.add(&u.parts[0]); err != nil {
			return err
		}
	}
	return nil
}

// start returns the time of the first start event, the end of all times if there is none.
func (r *retentionUsersFold) start(parts []part) int64 {
	first := int64(math.MaxInt64)
	for i := range parts {
		p := &parts[i]
		for row := p.lo; row < p.hi; row++ {
			if p.mask(row)&startBit != 0 {
				first = min(first, p.time(row))
				break
			}
		}
	}
	return first
}

// returned reports whether the user came back in the period that is asked for.
func (r *retentionUsersFold) returned(parts []part, start int64) bool {
	want := int64(r.picked.selection.Period)
	for i := range parts {
		p := &parts[i]
		for row := p.lo; row < p.hi; row++ {
			t := p.time(row)
			if p.mask(row)&returnBit == 0 || t < start {
				continue
			}
			period := int64(0)
			if r.every > 0 {
				period = (t - start) / r.every
			} else {
				period = int64(r.periods.find(t) - r.periods.find(start))
			}
			if period == want || r.q.Unbounded && period > want && period < int64(r.q.Periods) {
				return true
			}
		}
	}
	return false
}

func (r *retentionUsersFold) join() error {
	r.lister.join()
	return nil
}
