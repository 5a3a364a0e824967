package exec

import (
	"fmt"
	"math"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// A cohort finds users by how often they did things. It has the matchers of Did,
// then the matchers of DidNot.
type cohort struct {
	listing
	limits []limit // by matcher
}

// A limit is how often something must be done.
type limit struct{ least, most int }

func (b *builder) cohort(q *query.Query) kernel {
	c := &cohort{listing: b.listing(q)}
	lo, hi := b.bounds(q.Cohort.Bounds)
	for i, list := range [][]query.Did{q.Cohort.Did, q.Cohort.DidNot} {
		for _, d := range list {
			b.match(d.Match, lo, hi)
			l := limit{max(d.AtLeast, 0), d.AtMost}
			if l.most == 0 {
				l.most = math.MaxInt
			}
			if i == 1 {
				l.least, l.most = -l.least, -l.most
			}
			c.limits = append(c.limits, l)
		}
	}
	return c
}

// holds reports whether a count is within the limit. Limits of DidNot are negative:
// for them it reports whether the count is not within the limit.
func (l limit) holds(n int) bool {
	if l.most < 0 {
		return n < -l.least || n > -l.most
	}
	return n >= l.least && n <= l.most
}

func (c *cohort) explain() string {
	return fmt.Sprintf("cohort of %d conditions: the matching events of each user are counted", len(c.limits))
}

func (c *cohort) settle(*plan) error { return nil }

func (c *cohort) need() need { return need{} }

func (c *cohort) fork(w *worker) fold {
	return &cohortFold{cohort: c, lister: lister{to: &c.listing, w: w}, counts: make([]int, len(c.limits))}
}

type cohortFold struct {
	*cohort
	lister
	counts []int // by matcher, of one user
}

func (c *cohortFold) shard(views []*view) error {
	u := &c.w.users
	u.open(views)
	for u.next() {
		clear(c.counts)
		for i := range u.parts {
			p := &u.parts[i]
			for row := p.lo; row < p.hi; row++ {
				for m := p.mask(row); m != 0; m &= m - 1 {
					c.counts[lowest(m)]++
				}
			}
		}
		if !c.holds() {
			continue
		}
		if err := c.add(&u.parts[0]); err != nil {
			return err
		}
	}
	return nil
}

func (c *cohortFold) holds() bool {
	for i, n := range c.counts {
		if !c.limits[i].holds(n) {
			return false
		}
	}
	return true
}

func (c *cohortFold) join() error {
	c.lister.join()
	return nil
}
