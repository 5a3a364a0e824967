package exec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// A cohort finds users by how often they did things. Its matchers are those of
// Did, then those of DidNot.
type cohort struct {
	name   string
	limits []limit // by matcher
	users  bool    // they are listed
	ids    bool

	count int64
	found []query.User
}

// A limit is how often something must be done.
type limit struct{ least, most int }

func (b *builder) cohort(q *query.Query) kernel {
	c := &cohort{name: q.Name, users: b.opt.Users || b.opt.IDs, ids: b.opt.IDs}
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
	return &cohortFold{cohort: c, w: w, counts: make([]int, len(c.limits))}
}

func (c *cohort) answer(p *plan) (*query.Answer, error) {
	slices.SortFunc(c.found, func(a, b query.User) int { return cmp.Compare(a.Hash, b.Hash) })
	return &query.Answer{Cohort: &query.CohortAnswer{Name: c.name, Users: p.users(c.count), Found: c.found}}, nil
}

// A cohortFold is the fold of a cohort.
type cohortFold struct {
	*cohort
	w      *worker
	counts []int // by matcher, of one user
	count  int64
	found  []query.User
	held   int
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
		c.count++
		if c.users {
			if err := c.list(&u.parts[0]); err != nil {
				return err
			}
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

// list notes a user.
func (c *cohortFold) list(p *part) error {
	user := query.User{Hash: p.hashes[p.at]}
	if c.ids {
		id, err := p.seg.UserID(p.UserLo + p.at)
		if err != nil {
			return err
		}
		user.ID = strings.Clone(id) // it may be the map's
	}
	c.found = append(c.found, user)
	if grown := cap(c.found) - c.held; grown > 0 {
		c.held += grown
		return c.w.held.take(int64(grown) * 40)
	}
	return nil
}

func (c *cohortFold) join() error {
	c.cohort.count += c.count
	c.cohort.found = append(c.cohort.found, c.found...)
	return nil
}
