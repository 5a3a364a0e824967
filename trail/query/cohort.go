package query

import (
	"slices"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/trail/event"
)

type cohortKind struct{}

func (cohortKind) name() string           { return "cohort" }
func (cohortKind) of(q *Query) bool       { return q.Cohort != nil }
func (cohortKind) answers(a *Answer) bool { return a.Cohort != nil }
func (cohortKind) reach(q *Query) Bounds  { return q.Cohort.Bounds }

// A Cohort is the set of users who did all of Did and none of DidNot. Both together
// have up to 64 entries.
type Cohort struct {
	Did    []Did // at least one
	DidNot []Did
	Bounds
}

// Did says that a user did something a number of times.
type Did struct {
	Match
	AtLeast int // default 1
	AtMost  int // 0 for no limit
}

// A CohortAnswer counts the users of a cohort.
type CohortAnswer struct {
	Name  string // "" if the query has none
	Users Number
	Found []User // if they were asked for, in order of their hashes
}

// A User is one that a cohort found.
type User struct {
	Hash uint64
	ID   string // "" unless ids were asked for
}

func (cohortKind) read(p *parser, n *doctree.Node, q *Query) {
	c := new(Cohort)
	q.Cohort = c
	dids := func(what string, to *[]Did) key {
		return key{what, func(n *doctree.Node) {
			p.list(n, func(n *doctree.Node, number int) {
				var d Did
				p.match(n, what, &d.Match, key{"times", func(n *doctree.Node) { p.times(n, &d) }})
				*to = append(*to, d)
			})
		}}
	}
	p.keys(n, "cohort", p.placed(n, append([]key{
		dids("did", &c.Did),
		dids("did_not", &c.DidNot),
		{"where", func(n *doctree.Node) { p.where = p.filter(n) }},
	}, p.bounds(&c.Bounds)...)))
	for _, list := range [][]Did{c.Did, c.DidNot} {
		for i := range list {
			p.and(&list[i].Match)
		}
	}
}

// times reads how often: a number, which is exactly that often, or bounds.
func (p *parser) times(n *doctree.Node, d *Did) {
	read := func(what string, to ...*int) key {
		return key{what, func(n *doctree.Node) {
			var i int
			if !p.integer(n, what, &i) {
				return
			}
			if i < 1 {
				p.report(Pos(n.Pos), "who did something no times is found with did_not", "%s must be 1 or more, got %d", what, i)
				return
			}
			for _, t := range to {
				*t = i
			}
		}}
	}
	exactly := read("exactly", &d.AtLeast, &d.AtMost)
	if n.Scalar() {
		exactly.name = "times"
		read("times", &d.AtLeast, &d.AtMost).read(n)
		return
	}
	if n.Kind == doctree.Map && len(n.Fields) == 0 {
		p.report(Pos(n.Pos), "write times: {at_least: 3}", "times needs at_least, at_most or exactly")
	}
	for _, f := range n.Fields {
		if f.Name == "exactly" && len(n.Fields) > 1 {
			p.report(Pos(f.Pos), "", "exactly stands alone")
			return
		}
	}
	p.keys(n, "times", []key{read("at_least", &d.AtLeast), read("at_most", &d.AtMost), exactly})
}

func (cohortKind) check(c *checker, q *Query) {
	h := q.Cohort
	if len(h.Did) == 0 {
		hint := "write did: purchase"
		if len(h.DidNot) > 0 {
			hint = "for all users except some write did: {}, which is any event, as well as did_not"
		}
		c.problem("did", hint, "a cohort needs at least one did")
	}
	if n := len(h.Did) + len(h.DidNot); n > maxDids {
		c.problem("did", "", "a cohort has up to %d of did and did_not, got %d", maxDids, n)
	}
	dids := func(key string, list []Did) {
		for i := range list {
			d := &list[i]
			fill(&d.AtLeast, 1)
			if d.AtLeast < 1 || d.AtMost < 0 {
				c.problem(key, "who did something no times is found with did_not", "%s: times must be 1 or more", key)
			} else if d.AtMost != 0 && d.AtMost < d.AtLeast && !c.bad[key] {
				c.report(d.Pos, "", "%s: at least %d times and at most %d", key, d.AtLeast, d.AtMost)
			}
			c.match(&d.Match, key)
		}
	}
	dids("did", h.Did)
	dids("did_not", h.DidNot)
	c.bounds(h.Bounds)
}

func (cohortKind) selects() (keys []string, example string) { return nil, "" }

func (cohortKind) selected(*checker, *Query) {}

func (cohortKind) write(w answerWriter, answer *Answer) {
	w.text("cohort", answer.Cohort.Name)
	w.users(answer.Cohort.Users)
	if found := answer.Cohort.Found; slices.ContainsFunc(found, func(u User) bool { return u.ID != "" }) {
		writeList(w, "ids", found, func(u User) { w.Text(u.ID) })
	}
}

type cohortJSON struct {
	Cohort *string `json:"cohort"`
	userJSON
	IDs []string `json:"ids"`
}

func (cohortKind) unmarshal(in *answerJSON, a *Answer) (err error) {
	if in.Cohort == nil {
		return nil
	}
	a.Cohort = &CohortAnswer{Name: *in.Cohort}
	a.Cohort.Users, err = in.number()
	for _, id := range in.IDs {
		a.Cohort.Found = append(a.Cohort.Found, User{Hash: event.Hash(id), ID: id})
	}
	return err
}
