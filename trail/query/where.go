package query

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// filter reads the value of where; nil passes all.
func (p *parser) filter(n *doctree.Node) *Filter {
	f := p.part(n, "where", false)
	if f.All != nil && len(f.All) == 0 {
		return nil
	}
	return &f
}

// part reads one part of a filter: a map of properties, or a list, whose members
// all must pass. In a list a map may name its property: {property: all, eq: 1}.
func (p *parser) part(n *doctree.Node, what string, listed bool) Filter {
	all := Filter{All: []Filter{}}
	switch {
	case n.Wrong && n.Kind != doctree.Map:
	case n.Kind == doctree.List:
		all.All = p.parts(n, what)
	case n.Kind != doctree.Map:
		p.report(Pos(n.Pos), "write where: {country: FR}", "%s must be a map of properties, got %s", what, shape(n))
	case listed && slices.ContainsFunc(n.Fields, func(f doctree.Field) bool { return f.Name == "property" }):
		all.All = p.named(n)
	default:
		for i := range n.Fields {
			f := &n.Fields[i]
			if !f.Value.Wrong {
				all.All = append(all.All, p.entry(f)...)
			}
		}
	}
	return all
}

// parts reads the members of a list.
func (p *parser) parts(n *doctree.Node, what string) []Filter {
	list := []Filter{}
	for i := range n.Items {
		list = append(list, p.part(&n.Items[i], what, true))
	}
	return list
}

// entry reads one key of a map and its value.
func (p *parser) entry(f *doctree.Field) []Filter {
	switch f.Name {
	case "all", "any":
		if f.Value.Kind != doctree.List {
			p.report(Pos(f.Value.Pos), "a property of that name is written [{property: "+f.Name+", eq: 1}]",
				"%s must be a list of maps, got %s", f.Name, shape(&f.Value))
			return nil
		}
		if f.Name == "all" {
			return []Filter{{All: p.parts(&f.Value, f.Name)}}
		}
		return []Filter{{Any: p.parts(&f.Value, f.Name)}}
	case "cohort":
		return p.inCohort(f)
	case "property":
		p.report(Pos(f.Pos), "write where: [{property: country, eq: FR}] or where: {country: FR}", "property stands in a list alone")
		return nil
	}
	return p.tests(f.Name, Pos(f.Pos), &f.Value)
}

// named reads {property: all, eq: 1}.
func (p *parser) named(n *doctree.Node) []Filter {
	var property string
	rest := &doctree.Node{Kind: doctree.Map, Pos: n.Pos}
	for i := range n.Fields {
		f := &n.Fields[i]
		if f.Name != "property" {
			rest.Fields = append(rest.Fields, *f)
			continue
		}
		p.text(&f.Value, "property", &property)
	}
	if property == "" && len(rest.Fields) > 0 {
		property = "property" // for messages; it has been reported
	}
	return p.tests(property, Pos(n.Pos), rest)
}

// tests reads the tests of a property.
func (p *parser) tests(property string, at Pos, n *doctree.Node) []Filter {
	one := func(op Op, at Pos, literals ...Literal) Filter {
		return Filter{Test: &Test{Property: property, Op: op, Literals: literals, Pos: at}}
	}
	switch {
	case property == "":
		p.report(at, "", "a property has no name")
		return nil
	case n.Kind == doctree.Null:
		p.report(Pos(n.Pos), "write missing for what has no value", "%s needs a value, got nothing", property)
		return nil
	case n.Kind == doctree.List:
		p.report(Pos(n.Pos), "write {in: […]} for one of several values", "%s must be a value, exists, missing or a map of operators, got a list", property)
		return nil
	case n.Scalar() && n.Text == "exists":
		return []Filter{one(Exists, at)}
	case n.Scalar() && n.Text == "missing":
		return []Filter{one(Missing, at)}
	case n.Scalar():
		if !p.isLiteral(n, property) {
			return nil
		}
		return []Filter{one(Eq, at, literal(n))}
	}
	if len(n.Fields) == 0 {
		p.report(Pos(n.Pos), "operators are "+list(opNames[Exists:InCohort]), "%s needs an operator", property)
	}
	var filters []Filter
	for i := range n.Fields {
		f := &n.Fields[i]
		op := Op(slices.Index(opNames[:InCohort], f.Name))
		if op > Between {
			hint := hintOf(f.Name, opNames[Exists:InCohort], meantOps)
			if property == "not" || f.Name == "not" && f.Value.Kind == doctree.Map {
				hint = "there is no not around a test: write ne, not_in, not_contains or not_matches"
			}
			p.report(Pos(f.Pos), hint, "%s: unknown operator %s", property, quote(f.Name))
			continue
		}
		if f.Value.Wrong {
			continue
		}
		if op == Exists || op == Missing {
			var is bool
			if p.boolean(&f.Value, f.Name, &is); is == (op == Missing) {
				op = Missing
			} else {
				op = Exists
			}
			filters = append(filters, one(op, Pos(f.Pos)))
			continue
		}
		if literals, ok := p.literals(op, &f.Value); ok {
			filters = append(filters, one(op, Pos(f.Pos), literals...))
		}
	}
	return filters
}

// literals reads what an operator compares with.
func (p *parser) literals(op Op, n *doctree.Node) (literals []Literal, ok bool) {
	if op == In || op == NotIn || op == Between {
		if n.Kind != doctree.List {
			p.report(Pos(n.Pos), "write "+op.String()+": "+map[bool]string{true: "[100, 700]", false: "[FR, KR]"}[op == Between], "%s must be a list, got %s", op, p.got(n))
			return nil, false
		}
		if op == Between && len(n.Items) != 2 {
			p.report(Pos(n.Pos), "both ends are included", "between must have two values, got %d", len(n.Items))
			return nil, false
		}
		for i := range n.Items {
			item := &n.Items[i]
			if !p.isLiteral(item, op.String()) {
				return nil, false
			}
			literals = append(literals, literal(item))
		}
		if op == Between && reversed(literals[0], literals[1]) {
			p.report(Pos(n.Pos), fmt.Sprintf("write between: [%s, %s]", literals[1].Text, literals[0].Text), "between has its ends the wrong way round: nothing is from %s to %s", literals[0].Text, literals[1].Text)
			return nil, false
		}
		return literals, true
	}
	if !p.isLiteral(n, op.String()) {
		return nil, false
	}
	return []Literal{literal(n)}, true
}

// reversed reports whether nothing is between two values, whatever the type of the
// property. Texts that look like numbers may be compared as numbers or as texts.
func reversed(from, to Literal) bool {
	if number(from) && number(to) {
		return from.Value.Float() > to.Value.Float()
	}
	_, err1 := strconv.ParseFloat(from.Text, 64)
	_, err2 := strconv.ParseFloat(to.Text, 64)
	return from.Text > to.Text && to.Text != "" && (err1 != nil || err2 != nil)
}

// isLiteral reports whether a node is a value, and reports if not.
func (p *parser) isLiteral(n *doctree.Node, what string) bool {
	hint := ""
	switch {
	case n.Wrong:
		return false
	case beyond(n):
		p.report(Pos(n.Pos), "put quotes around it if it is text", "the number %s is out of range", quote(n.Text))
		return false
	case n.Scalar():
		return true
	case n.Kind == doctree.Null:
		hint = `write "" for what has no value`
	case n.Kind == doctree.List && what == "eq":
		hint = "write in for one of several values"
	case n.Kind == doctree.List && what == "ne":
		hint = "write not_in for none of several values"
	}
	p.report(Pos(n.Pos), hint, "%s needs a value, got %s", what, shape(n))
	return false
}

// literal reads a value. An integer beyond 64 bits is the nearest number. There is no
// infinity and no NaN: .inf is text.
func literal(n *doctree.Node) Literal {
	l := Literal{Text: n.Text, Pos: Pos(n.Pos)}
	switch n.Kind {
	case doctree.Bool:
		l.Value = event.BoolOf(n.Bool())
	case doctree.Int:
		l.Value = event.IntOf(n.Int())
	case doctree.Uint, doctree.BigInt, doctree.Float:
		if f := n.Float(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			l.Value = event.FloatOf(f)
			break
		}
		fallthrough
	default:
		l.Value = event.StringOf(n.Text)
	}
	return l
}

// beyond reports whether a node is written as a number beyond the range of a float.
func beyond(n *doctree.Node) bool {
	return (n.Kind == doctree.Float || n.Kind == doctree.BigInt) && math.IsInf(n.Float(), 0) && strings.ContainsAny(n.Text, "0123456789")
}

// inCohort reads whether users are in kept cohorts: a name, {ne: name}, {in: [a,
// b]} for one of several, or {not_in: [a, b]} for none of them.
func (p *parser) inCohort(f *doctree.Field) []Filter {
	one := func(op Op, n *doctree.Node) Filter {
		var name string
		p.text(n, "cohort", &name)
		return Filter{Test: &Test{Property: name, Op: op, Pos: Pos(f.Pos)}}
	}
	switch n := &f.Value; {
	case n.Scalar():
		return []Filter{one(InCohort, n)}
	case n.Kind == doctree.Map:
		var filters []Filter
		many := func(op Op, n *doctree.Node) []Filter {
			made := []Filter{}
			if n.Kind != doctree.List {
				p.report(Pos(n.Pos), "", "cohort must be a list of names, got %s", shape(n))
				return made
			}
			for i := range n.Items {
				made = append(made, one(op, &n.Items[i]))
			}
			return made
		}
		if len(n.Fields) == 0 {
			p.report(Pos(n.Pos), "write cohort: buyers, or cohort: {ne: buyers}", "cohort needs a name")
		}
		p.keys(n, "cohort", []key{
			{"eq", func(n *doctree.Node) { filters = append(filters, one(InCohort, n)) }},
			{"ne", func(n *doctree.Node) { filters = append(filters, one(NotInCohort, n)) }},
			{"in", func(n *doctree.Node) { filters = append(filters, Filter{Any: many(InCohort, n)}) }},
			{"not_in", func(n *doctree.Node) { filters = append(filters, Filter{All: many(NotInCohort, n)}) }},
		})
		return filters
	}
	p.report(Pos(f.Value.Pos), "a property of that name is written [{property: cohort, eq: 1}]", "cohort must be the name of a kept cohort, got %s", shape(&f.Value))
	return nil
}

// simple reports whether a filter is as simplify leaves it.
func simple(f Filter) bool {
	parts := f.All
	if f.Any != nil {
		parts = f.Any
	}
	if f.Test != nil {
		return !slices.ContainsFunc(f.Test.Literals, func(l Literal) bool { return l.Text == "" && !l.Value.Missing() })
	}
	return len(parts) != 1 && !slices.ContainsFunc(parts, func(c Filter) bool {
		return !simple(c) || f.All != nil && c.All != nil || f.Any != nil && c.Any != nil
	})
}

// simplify returns a filter with the same meaning: lists within lists and lists of one
// are resolved, and the texts of literals are filled in. It does not change f.
func simplify(f Filter) Filter {
	if f.Test != nil {
		if simple(f) { // shared: a list of a filter for all steps can be long
			return f
		}
		t := *f.Test
		t.Literals = slices.Clone(t.Literals)
		for i, l := range t.Literals {
			if l.Text == "" {
				t.Literals[i].Text = l.Value.String()
			}
		}
		return Filter{Test: &t}
	}
	parts, made := f.All, []Filter{}
	if f.Any != nil {
		parts = f.Any
	}
	for _, c := range parts {
		switch c = simplify(c); {
		case f.All != nil && c.All != nil:
			made = append(made, c.All...)
		case f.Any != nil && c.Any != nil:
			made = append(made, c.Any...)
		default:
			made = append(made, c)
		}
	}
	switch {
	case len(made) == 1:
		return made[0]
	case f.Any != nil:
		return Filter{Any: made}
	}
	return Filter{All: made}
}

// number reports whether a literal was written as a number.
func number(l Literal) bool { return l.Value.Type() == event.Int || l.Value.Type() == event.Float }

// blank reports whether text is only spaces, which is a mistake in a name.
func blank(s string) bool { return strings.TrimSpace(s) == "" }
