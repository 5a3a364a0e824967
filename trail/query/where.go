package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// filter reads what stands behind where; nil passes all.
func (p *parser) filter(n *node) *Filter {
	f := p.part(n, "where", false)
	if f.All != nil && len(f.All) == 0 {
		return nil
	}
	return &f
}

// part reads one part of a filter: a map of properties, or a list, whose members
// all must pass. In a list a map may name its property: {property: all, eq: 1}.
func (p *parser) part(n *node, what string, listed bool) Filter {
	all := Filter{All: []Filter{}}
	switch {
	case n.wrong && n.shape != mapping:
	case n.shape == sequence:
		all.All = p.parts(n, what)
	case n.shape != mapping:
		p.report(n.pos, "write where: {country: FR}", "%s wants a map of properties, got %s", what, n.shape)
	case listed && slices.ContainsFunc(n.fields, func(f field) bool { return f.name == "property" }):
		all.All = p.named(n)
	default:
		for _, f := range n.fields {
			if !f.value.wrong {
				all.All = append(all.All, p.entry(f)...)
			}
		}
	}
	return all
}

// parts reads the members of a list.
func (p *parser) parts(n *node, what string) []Filter {
	list := []Filter{}
	for _, item := range n.items {
		list = append(list, p.part(item, what, true))
	}
	return list
}

// entry reads one key of a map and what stands behind it.
func (p *parser) entry(f field) []Filter {
	switch f.name {
	case "all", "any":
		if f.value.shape != sequence {
			p.report(f.value.pos, "a property of that name is written [{property: "+f.name+", eq: 1}]",
				"%s wants a list of maps, got %s", f.name, f.value.shape)
			return nil
		}
		if f.name == "all" {
			return []Filter{{All: p.parts(f.value, f.name)}}
		}
		return []Filter{{Any: p.parts(f.value, f.name)}}
	case "cohort":
		return p.inCohort(f)
	case "property":
		p.report(f.pos, "write where: [{property: country, eq: FR}] or where: {country: FR}", "property stands in a list alone")
		return nil
	}
	return p.tests(f.name, f.pos, f.value)
}

// named reads {property: all, eq: 1}.
func (p *parser) named(n *node) []Filter {
	var property string
	rest := &node{shape: mapping, pos: n.pos}
	for _, f := range n.fields {
		if f.name != "property" {
			rest.fields = append(rest.fields, f)
			continue
		}
		p.text(f.value, "property", &property)
	}
	if property == "" && len(rest.fields) > 0 {
		property = "property" // for messages; it has been reported
	}
	return p.tests(property, n.pos, rest)
}

// tests reads what is asked of a property.
func (p *parser) tests(property string, at Pos, n *node) []Filter {
	one := func(op Op, at Pos, literals ...Literal) Filter {
		return Filter{Test: &Test{Property: property, Op: op, Literals: literals, Pos: at}}
	}
	switch {
	case property == "":
		p.report(at, "", "a property has no name")
		return nil
	case n.shape == null:
		p.report(n.pos, "write missing for what has no value", "%s wants a value, got nothing", property)
		return nil
	case n.shape == sequence:
		p.report(n.pos, "write {in: […]} for one of several values", "%s wants a value, exists, missing or a map of operators, got a list", property)
		return nil
	case n.shape == scalar && n.text == "exists":
		return []Filter{one(Exists, at)}
	case n.shape == scalar && n.text == "missing":
		return []Filter{one(Missing, at)}
	case n.shape == scalar:
		return []Filter{one(Eq, at, literal(n))}
	}
	if len(n.fields) == 0 {
		p.report(n.pos, "operators are "+list(opNames[Exists:InCohort]), "%s wants an operator", property)
	}
	var filters []Filter
	for _, f := range n.fields {
		op, ok := opOf(f.name)
		if !ok {
			p.report(f.pos, hintOf(f.name, opNames[Exists:InCohort], meantOps), "%s: unknown operator %s", property, quote(f.name))
			continue
		}
		if f.value.wrong {
			continue
		}
		if op == Exists || op == Missing {
			var is bool
			if p.boolean(f.value, f.name, &is); is == (op == Missing) {
				op = Missing
			} else {
				op = Exists
			}
			filters = append(filters, one(op, f.pos))
			continue
		}
		if literals, ok := p.literals(op, f.value); ok {
			filters = append(filters, one(op, f.pos, literals...))
		}
	}
	return filters
}

// literals reads what an operator compares with.
func (p *parser) literals(op Op, n *node) (literals []Literal, ok bool) {
	if op == In || op == NotIn || op == Between {
		if n.shape != sequence {
			p.report(n.pos, "write "+op.String()+": "+map[bool]string{true: "[100, 700]", false: "[FR, KR]"}[op == Between], "%s wants a list, got %s", op, p.got(n))
			return nil, false
		}
		if op == Between && len(n.items) != 2 {
			p.report(n.pos, "both ends are included", "between wants two values, got %d", len(n.items))
			return nil, false
		}
		for _, item := range n.items {
			if !p.isLiteral(item, op.String()) {
				return nil, false
			}
			literals = append(literals, literal(item))
		}
		if op == Between && reversed(literals[0], literals[1]) {
			p.report(n.pos, fmt.Sprintf("write between: [%s, %s]", literals[1].Text, literals[0].Text), "between has its ends the wrong way round: nothing is from %s to %s", literals[0].Text, literals[1].Text)
			return nil, false
		}
		return literals, true
	}
	if !p.isLiteral(n, op.String()) {
		return nil, false
	}
	return []Literal{literal(n)}, true
}

// reversed tells whether nothing is between two values, of whichever type they are
// taken for. Texts of numbers may be the ends of numbers or of texts.
func reversed(from, to Literal) bool {
	if number(from) && number(to) {
		return from.Value.Float() > to.Value.Float()
	}
	_, err1 := strconv.ParseFloat(from.Text, 64)
	_, err2 := strconv.ParseFloat(to.Text, 64)
	return from.Text > to.Text && to.Text != "" && (err1 != nil || err2 != nil)
}

// isLiteral tells whether a node is a value, and reports if not.
func (p *parser) isLiteral(n *node, what string) bool {
	hint := ""
	switch {
	case n.wrong:
		return false
	case n.shape == scalar:
		return true
	case n.shape == null:
		hint = `write "" for what has no value`
	case n.shape == sequence && what == "eq":
		hint = "write in for one of several values"
	case n.shape == sequence && what == "ne":
		hint = "write not_in for none of several values"
	}
	p.report(n.pos, hint, "%s wants a value, got %s", what, n.shape)
	return false
}

func literal(n *node) Literal { return Literal{Value: n.value, Text: n.text, Pos: n.pos} }

// inCohort reads whether users are in kept cohorts: a name, {ne: name}, {in: [a,
// b]} for one of several, or {not_in: [a, b]} for none of them.
func (p *parser) inCohort(f field) []Filter {
	one := func(op Op, n *node) Filter {
		var name string
		p.text(n, "cohort", &name)
		return Filter{Test: &Test{Property: name, Op: op, Pos: f.pos}}
	}
	switch n := f.value; n.shape {
	case scalar:
		return []Filter{one(InCohort, n)}
	case mapping:
		var filters []Filter
		many := func(op Op, n *node) []Filter {
			made := []Filter{}
			if n.shape != sequence {
				p.report(n.pos, "", "cohort wants a list of names, got %s", n.shape)
				return made
			}
			for _, item := range n.items {
				made = append(made, one(op, item))
			}
			return made
		}
		if len(n.fields) == 0 {
			p.report(n.pos, "write cohort: buyers, or cohort: {ne: buyers}", "cohort wants a name")
		}
		p.keys(n, "cohort", []key{
			{"eq", func(n *node) { filters = append(filters, one(InCohort, n)) }},
			{"ne", func(n *node) { filters = append(filters, one(NotInCohort, n)) }},
			{"in", func(n *node) { filters = append(filters, Filter{Any: many(InCohort, n)}) }},
			{"not_in", func(n *node) { filters = append(filters, Filter{All: many(NotInCohort, n)}) }},
		})
		return filters
	}
	p.report(f.value.pos, "a property of that name is written [{property: cohort, eq: 1}]", "cohort wants the name of a kept cohort, got %s", f.value.shape)
	return nil
}

// simple tells whether a filter is as simplify leaves it.
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

// simplify returns a filter that passes the same with lists in lists and lists of
// one resolved, and the texts of literals filled in. f is not changed.
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

// number tells whether a literal was written as a number.
func number(l Literal) bool { return l.Value.Type() == event.Int || l.Value.Type() == event.Float }

// blank tells whether text is only spaces, which is a mistake in a name.
func blank(s string) bool { return strings.TrimSpace(s) == "" }
