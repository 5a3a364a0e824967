package query

import (
	"slices"
	"strings"
	"time"
)

// funnel reads the map of a funnel.
func (p *parser) funnel(n *node) *Funnel {
	f := new(Funnel)
	limited := false
	p.keys(n, "funnel", p.placed(n, append([]key{
		{"steps", func(n *node) {
			if n.shape != sequence {
				p.report(n.pos, "write steps: [view, cart, purchase]", "steps wants a list, got %s", n.shape)
				return
			}
			for i, item := range n.items {
				var m Match
				p.match(item, ordinal("step", i+1), &m)
				f.Steps = append(f.Steps, m)
			}
		}},
		{"within", func(n *node) { p.duration(n, "within", &f.Within, &f.NoLimit) }},
		{"mode", func(n *node) { p.modes(n, &f.Modes) }},
		{"order", func(n *node) {
			var s string
			if p.text(n, "order", &s); s != "" && s != "any" {
				p.report(n.pos, "write any, or leave it out for the order of the steps", "unknown order %s", quote(s))
				return
			}
			f.AnyOrder = s == "any"
		}},
		{"exclude", func(n *node) { p.list(n, func(n *node, number int) { p.exclude(n, number, f) }) }},
		{"same", func(n *node) { p.text(n, "same", &f.Same) }},
		{"by", func(n *node) {
			if n.shape == sequence {
				p.report(n.pos, "write by: country", "by of a funnel wants one property, got a list")
				return
			}
			p.text(n, "by", &f.By)
		}},
		{"limit", func(n *node) { limited = true; p.counted(n, "limit", 1, maxGroups, &f.Limit) }},
		{"where", func(n *node) { p.where = p.filter(n) }},
	}, p.bounds(&f.Bounds)...)))
	if limited && f.By == "" && f.Limit == defaultLimit && !p.bad["by"] {
		p.report(p.places["limit"], "limit bounds the groups of by", "limit without by")
	}
	for i := range f.Steps {
		p.and(&f.Steps[i])
	}
	for i := range f.Exclude {
		p.and(&f.Exclude[i].Match)
	}
	return f
}

// duration reads a duration above 0, or none.
func (p *parser) duration(n *node, what string, to *time.Duration, none *bool) {
	var s string
	if p.text(n, what, &s); s == "" {
		return
	}
	if s == "none" {
		*none = true
		return
	}
	d, err := durationOf(s)
	switch {
	case err != nil && strings.Trim(s, "0.") == "":
		p.report(n.pos, durationHint+", or none to have no bound", "%s wants more than nothing", what)
	case err != nil && strings.Contains(err.Error(), "no unit"):
		p.report(n.pos, "write "+s+"s for seconds, or h, d, w", "%s: %v", what, err)
	case err != nil:
		p.report(n.pos, durationHint+", or none", "%s: %v", what, err)
	case d == 0:
		p.report(n.pos, "write none to have no bound", "%s wants more than nothing", what)
	}
	*to = d
}

func (p *parser) modes(n *node, to *Modes) {
	p.list(n, func(n *node, _ int) {
		var s string
		if p.text(n, "mode", &s); s == "" {
			return
		}
		i := slices.Index(modeNames(), s)
		switch {
		case i < 0:
			p.report(n.pos, hintOf(s, modeNames(), map[string]string{"strict": "strict_deduplication"}), "unknown mode %s", quote(s))
		case *to.flags()[i]:
			p.report(n.pos, "", "the mode %s is given twice", s)
		default:
			*to.flags()[i] = true
		}
	})
}

func (p *parser) exclude(n *node, number int, f *Funnel) {
	var x Exclude
	what := ordinal("exclude", number)
	p.match(n, what, &x.Match, key{"between", func(n *node) {
		if n.shape != sequence || len(n.items) != 2 {
			p.report(n.pos, "write between: [1, 2]", "between wants two numbers of steps")
			return
		}
		// Zero is the default in an Exclude, so it is refused here.
		p.counted(n.items[0], "between", 1, maxSteps, &x.After)
		p.counted(n.items[1], "between", 1, maxSteps, &x.Before)
	}})
	f.Exclude = append(f.Exclude, x)
}

// retention reads the map of a retention.
func (p *parser) retention(n *node) *Retention {
	r := new(Retention)
	p.keys(n, "retention", p.placed(n, append([]key{
		{"start", func(n *node) { p.match(n, "start", &r.Start) }},
		{"return", func(n *node) { p.match(n, "return", &r.Return) }},
		{"every", func(n *node) { p.every(n, &r.Every) }},
		{"periods", func(n *node) { p.counted(n, "periods", 1, maxPeriods, &r.Periods) }},
		{"cohort", func(n *node) { p.unit(n, "cohort", Day, &r.Cohort) }},
		{"unbounded", func(n *node) { p.boolean(n, "unbounded", &r.Unbounded) }},
		{"timezone", func(n *node) { p.zone(n, &r.Zone) }},
		{"where", func(n *node) { p.where = p.filter(n) }},
	}, p.bounds(&r.Bounds)...)))
	for _, name := range []string{"start", "return"} {
		if _, ok := p.places[name]; !ok && n.shape == mapping {
			p.report(p.places[""], "write "+name+": open; any event is "+name+": {}", "a retention wants a %s", name)
		}
	}
	p.and(&r.Start)
	p.and(&r.Return)
	return r
}

func (p *parser) zone(n *node, to **time.Location) {
	var s string
	if p.text(n, "timezone", &s); s == "" {
		return
	}
	zone, err := zoneOf(s)
	if err != nil {
		p.report(n.pos, zoneHint, "timezone: %v", err)
		return
	}
	*to = zone
}

// segment reads the map of a segment.
func (p *parser) segment(n *node) *Segment {
	s := new(Segment)
	s.Pos = n.pos
	p.keys(n, "segment", p.placed(n, append([]key{
		{"event", func(n *node) { p.texts(n, "event", &s.Events) }},
		{"where", func(n *node) { s.Where = p.filter(n) }},
		{"bucket", func(n *node) {
			if n.shape == scalar && n.text == "none" {
				return
			}
			p.unit(n, "bucket", Minute, &s.Bucket)
		}},
		{"by", func(n *node) {
			if n.shape == sequence && len(n.items) == 0 {
				return
			}
			p.texts(n, "by", &s.By)
		}},
		{"measure", func(n *node) {
			var text string
			if p.text(n, "measure", &text); text == "" {
				return
			}
			m, hint, err := measureOf(text)
			if err != nil {
				p.report(n.pos, hint, "%v", err)
			}
			s.Measure = m
		}},
		{"fill", func(n *node) { p.boolean(n, "fill", &s.Fill) }},
		{"timezone", func(n *node) { p.zone(n, &s.Zone) }},
	}, p.bounds(&s.Bounds)...)))
	return s
}

// cohort reads the map of a cohort.
func (p *parser) cohort(n *node) *Cohort {
	c := new(Cohort)
	dids := func(what string, to *[]Did) key {
		return key{what, func(n *node) {
			p.list(n, func(n *node, number int) {
				var d Did
				p.match(n, what, &d.Match, key{"times", func(n *node) { p.times(n, &d) }})
				*to = append(*to, d)
			})
		}}
	}
	p.keys(n, "cohort", p.placed(n, append([]key{
		dids("did", &c.Did),
		dids("did_not", &c.DidNot),
		{"where", func(n *node) { p.where = p.filter(n) }},
	}, p.bounds(&c.Bounds)...)))
	for _, list := range [][]Did{c.Did, c.DidNot} {
		for i := range list {
			p.and(&list[i].Match)
		}
	}
	return c
}

// times reads how often: a number, which is exactly that often, or bounds.
func (p *parser) times(n *node, d *Did) {
	read := func(what string, to ...*int) key {
		return key{what, func(n *node) {
			var i int
			if !p.integer(n, what, &i) {
				return
			}
			if i < 1 {
				p.report(n.pos, "who did something no times is found with did_not", "%s wants 1 or more, got %d", what, i)
				return
			}
			for _, t := range to {
				*t = i
			}
		}}
	}
	exactly := read("exactly", &d.AtLeast, &d.AtMost)
	if n.shape == scalar {
		exactly.name = "times"
		read("times", &d.AtLeast, &d.AtMost).read(n)
		return
	}
	if n.shape == mapping && len(n.fields) == 0 {
		p.report(n.pos, "write times: {at_least: 3}", "times wants at_least, at_most or exactly")
	}
	for _, f := range n.fields {
		if f.name == "exactly" && len(n.fields) > 1 {
			p.report(f.pos, "", "exactly stands alone")
			return
		}
	}
	p.keys(n, "times", []key{read("at_least", &d.AtLeast), read("at_most", &d.AtMost), exactly})
}

// paths reads the map of paths.
func (p *parser) paths(n *node) *Paths {
	a := new(Paths)
	none := false
	p.keys(n, "paths", p.placed(n, append([]key{
		{"anchor", func(n *node) { p.match(n, "anchor", &a.Anchor) }},
		{"direction", func(n *node) {
			var s string
			if p.text(n, "direction", &s); s == "" || s == "next" {
				return
			}
			a.Previous = s == "previous"
			if !a.Previous {
				p.report(n.pos, hintOf(s, []string{"next", "previous"}, map[string]string{
					"after": "next", "forward": "next", "forwards": "next", "before": "previous", "backward": "previous", "backwards": "previous", "prev": "previous",
				}), "unknown direction %s", quote(s))
			}
		}},
		{"steps", func(n *node) { p.counted(n, "steps", 1, maxPath, &a.Steps) }},
		{"gap", func(n *node) { p.duration(n, "gap", &a.Gap, &none) }},
		{"top", func(n *node) { p.counted(n, "top", 1, maxTop, &a.Top) }},
		{"where", func(n *node) { a.Where = p.filter(n) }},
	}, p.bounds(&a.Bounds)...)))
	if _, ok := p.places["anchor"]; !ok && n.shape == mapping {
		p.report(p.places[""], "write anchor: signup", "paths want an anchor")
	}
	return a
}
