package query

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
)

const maxPeriods = 366

type retentionKind struct{}

func (retentionKind) name() string           { return "retention" }
func (retentionKind) of(q *Query) bool       { return q.Retention != nil }
func (retentionKind) answers(a *Answer) bool { return a.Retention != nil }

// reach has no end, since users come back later.
func (retentionKind) reach(q *Query) Bounds {
	b := q.Retention.Bounds
	b.To, b.HasTo = 0, false
	return b
}

// A Retention counts the users of a cohort that come back, by period.
type Retention struct {
	Start, Return Match
	Every         Every
	Periods       int            // 1 to 366
	Cohort        Unit           // Day, Week, WeekSunday or Month; default the unit of Every, else Week if Every is whole weeks, else Day
	Unbounded     bool           // a user who comes back in period k counts in earlier periods, too
	Zone          *time.Location // of calendar periods and cohorts; never nil after Parse or Check
	Bounds                       // of the start event
}

// Every is the length of a period: elapsed time, or a calendar unit.
type Every struct {
	Elapsed time.Duration // whole milliseconds; 0 if Unit is set
	Unit    Unit
}

// A RetentionAnswer has the cohorts in order of their start, without empty ones.
type RetentionAnswer struct {
	Cohorts []RetentionCohort
}

// A RetentionCohort has the users whose first start event is in one period.
type RetentionCohort struct {
	Start   string // 2026-01-05
	Size    Number
	Periods []Number
}

func (retentionKind) read(p *parser, n *doctree.Node, q *Query) {
	r := new(Retention)
	q.Retention = r
	p.keys(n, "retention", p.placed(n, append([]key{
		{"start", func(n *doctree.Node) { p.match(n, "start", &r.Start) }},
		{"return", func(n *doctree.Node) { p.match(n, "return", &r.Return) }},
		{"every", func(n *doctree.Node) { p.every(n, &r.Every) }},
		{"periods", func(n *doctree.Node) { p.counted(n, "periods", 1, maxPeriods, &r.Periods) }},
		{"cohort", func(n *doctree.Node) { p.unit(n, "cohort", Day, &r.Cohort) }},
		{"unbounded", func(n *doctree.Node) { p.boolean(n, "unbounded", &r.Unbounded) }},
		{"timezone", func(n *doctree.Node) { p.zone(n, &r.Zone) }},
		{"where", func(n *doctree.Node) { p.where = p.filter(n) }},
	}, p.bounds(&r.Bounds)...)))
	for _, name := range []string{"start", "return"} {
		if _, ok := p.places[name]; !ok && n.Kind == doctree.Map {
			p.report(p.places[""], "write "+name+": open; any event is "+name+": {}", "a retention needs a %s", name)
		}
	}
	p.and(&r.Start)
	p.and(&r.Return)
}

// every reads the length of a period.
func (p *parser) every(n *doctree.Node, to *Every) {
	var s string
	if p.text(n, "every", &s); s == "" {
		return
	}
	if u, ok := unitOf(s, Minute); ok {
		to.Unit = u
		return
	}
	d, err := durationOf(s)
	switch {
	case err == nil && d == 0:
		p.report(Pos(n.Pos), durationHint, "every must be longer than 0")
	case err == nil:
		to.Elapsed = d
	default:
		hint := hintOf(s, unitNames[Minute:], meantUnits)
		if !strings.HasPrefix(hint, "write") && !strings.HasPrefix(hint, "did") {
			hint = durationHint + ", or " + list(unitNames[Minute:])
		}
		p.report(Pos(n.Pos), hint, "every: %v", err)
	}
}

func (retentionKind) check(c *checker, q *Query) {
	r := q.Retention
	c.match(&r.Start, "start")
	c.match(&r.Return, "return")
	switch {
	case r.Every.Unit > Month:
		c.problem("every", "", "every: no such unit: %s", r.Every.Unit)
	case r.Every == Every{}:
		c.problem("every", "write every: week, or every: 168h", "a retention needs every, the length of a period")
	case r.Every.Unit != NoUnit && r.Every.Elapsed != 0:
		c.problem("every", "", "every is a duration and a unit")
	case r.Every.Unit == NoUnit:
		c.duration("every", r.Every.Elapsed)
	}
	if r.Periods == 0 {
		c.problem("periods", "write periods: 8", "a retention needs periods, 1 to %d", maxPeriods)
	} else {
		c.between("periods", r.Periods, 1, maxPeriods)
	}
	fill(&r.Cohort, cohortOf(r.Every))
	if r.Cohort < Day || r.Cohort > Month {
		c.problem("cohort", "write day, week, week_sunday or month", "cohort: no such unit: %s", r.Cohort)
	}
	c.zone(&r.Zone)
	c.bounds(r.Bounds)
}

func (retentionKind) selects() (keys []string, example string) {
	return []string{"cohort", "period"}, "{cohort: 2026-01-05, period: 1}"
}

func (retentionKind) selected(c *checker, q *Query) {
	r, s := q.Retention, q.Users
	if s.Cohort == "" {
		c.selection(q, "cohort", "write users: {cohort: 2026-01-05, period: 1}", "users of a retention need a cohort")
	} else {
		c.label(q, "cohort", s.Cohort, r.Cohort)
	}
	if s.HasPeriod && (s.Period < 0 || s.Period >= r.Periods) && r.Periods > 0 {
		c.selection(q, "period", fmt.Sprintf("the periods are 0 to %d", r.Periods-1), "users: no such period: %d", s.Period)
	} else if !s.HasPeriod && s.Period != 0 {
		c.selection(q, "period", "", "users: period %d, but HasPeriod is not set", s.Period)
	}
}

// cohortOf returns the default unit of cohorts for a length of periods.
func cohortOf(e Every) Unit {
	const week = 7 * 24 * time.Hour
	if e.Unit >= Week {
		return e.Unit
	}
	if e.Unit == NoUnit && e.Elapsed > 0 && e.Elapsed%week == 0 {
		return Week
	}
	return Day
}

func (retentionKind) write(w answerWriter, answer *Answer) {
	writeObjects(w, "cohorts", answer.Retention.Cohorts, func(c RetentionCohort) {
		w.text("start", c.Start)
		w.int("size", c.Size.N)
		if c.Size.Sampled {
			w.Key("size_ci")
			w.ci(c.Size)
		}
		writeList(w, "periods", c.Periods, func(p Number) { w.Int(p.N) })
		if c.Size.Sampled {
			writeList(w, "periods_ci", c.Periods, w.ci)
		}
	})
}

type retentionJSON struct {
	Cohorts *[]periodsJSON `json:"cohorts"`
}

type periodsJSON struct {
	Start     string     `json:"start"`
	Size      int64      `json:"size"`
	SizeCI    *interval  `json:"size_ci"`
	Periods   []int64    `json:"periods"`
	PeriodsCI []interval `json:"periods_ci"`
}

func (retentionKind) unmarshal(in *answerJSON, a *Answer) error {
	if in.Cohorts == nil {
		return nil
	}
	out := &RetentionAnswer{}
	a.Retention = out
	for _, c := range *in.Cohorts {
		size, err := numberOf(c.Size, c.SizeCI)
		if err == nil && c.PeriodsCI != nil && len(c.PeriodsCI) != len(c.Periods) {
			err = fmt.Errorf("%d intervals of %d periods", len(c.PeriodsCI), len(c.Periods))
		}
		cohort := RetentionCohort{Start: c.Start, Size: size}
		for i, n := range c.Periods {
			var ci *interval
			if err == nil && c.PeriodsCI != nil {
				ci = &c.PeriodsCI[i]
			}
			period, wrong := numberOf(n, ci)
			err = errors.Join(err, wrong)
			cohort.Periods = append(cohort.Periods, period)
		}
		if err != nil {
			return err
		}
		out.Cohorts = append(out.Cohorts, cohort)
	}
	return nil
}
