package cel

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/uniflow-labs/uniflow/value"
)

// A folding is what a macro does with the elements.
type folding struct {
	loop
	over, do direct   // the range; the predicate, or what map makes
	only     direct   // which elements map takes; nil for all
	entries  *entries // of do, if that is a map
	at       int      // index of the variable
	kept     []int    // indexes of fields of the variable that are selected several times
}

// comprehension recognizes the expansions of the macros all, exists, exists_one, filter
// and map.
func (p *directPlanner) comprehension(c ast.ComprehensionExpr) directNode {
	m, ok := macroOf(c)
	if !ok || c.HasIterVar2() {
		return directNode{}
	}
	over := p.plan(c.IterRange())
	if over.run == nil {
		return directNode{}
	}
	l := folding{loop: p.loops[c.LoopStep().ID()], over: over.run, at: len(p.scope)}
	p.scope = append(p.scope, c.IterVar())
	defer func() { p.scope = p.scope[:l.at] }()
	for _, field := range repeated(c) {
		at := selection{l.at, field}
		p.kept[at] = len(p.scope)
		l.kept = append(l.kept, len(p.scope))
		p.scope = append(p.scope, "") // no name
		defer delete(p.kept, at)
	}
	p.most = max(p.most, len(p.scope))
	do := p.plan(m.do)
	if l.do, l.entries = do.run, do.entries; l.do == nil {
		return directNode{}
	}
	if m.only != nil {
		if l.only = p.plan(m.only).run; l.only == nil {
			return directNode{}
		}
	}
	switch m.name {
	case operators.All:
		return directNode{run: func(f *frame) (value.Value, bool) { return l.until(f, false) }}
	case operators.Exists:
		return directNode{run: func(f *frame) (value.Value, bool) { return l.until(f, true) }}
	case operators.ExistsOne:
		return directNode{run: l.one}
	}
	return directNode{run: l.collect}
}

// repeated returns the fields of the variable that a step selects more than once.
func repeated(c ast.ComprehensionExpr) (fields []string) {
	times := map[string]int{}
	ast.PreOrderVisit(c.LoopStep(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.SelectKind {
			return
		}
		if s := e.AsSelect(); !s.IsTestOnly() && s.Operand().Kind() == ast.IdentKind && s.Operand().AsIdent() == c.IterVar() {
			if times[s.FieldName()]++; times[s.FieldName()] == 2 {
				fields = append(fields, s.FieldName())
			}
		}
	}))
	return fields
}

// A macro is a comprehension in the terms of who wrote it.
type macro struct {
	name     string
	do, only ast.Expr
}

func macroOf(c ast.ComprehensionExpr) (m macro, ok bool) {
	accu := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == c.AccuVar() }
	is := func(e ast.Expr, want any) bool { return e.Kind() == ast.LiteralKind && e.AsLiteral() == want }
	args := func(e ast.Expr, function string, n int) []ast.Expr {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != function || len(e.AsCall().Args()) != n {
			return nil
		}
		return e.AsCall().Args()
	}
	step, cond, init := c.LoopStep(), c.LoopCondition(), c.AccuInit()
	// added returns what is added to the accumulator.
	added := func(e ast.Expr) ast.Expr {
		if a := args(e, operators.Add, 2); a != nil && accu(a[0]) {
			return a[1]
		}
		return nil
	}
	one := func(e ast.Expr) ast.Expr {
		if e == nil || e.Kind() != ast.ListKind || e.AsList().Size() != 1 || len(e.AsList().OptionalIndices()) > 0 {
			return nil
		}
		return e.AsList().Elements()[0]
	}
	choice := args(step, operators.Conditional, 3)
	if choice != nil && !accu(choice[2]) {
		return macro{}, false
	}
	switch {
	case init.Kind() == ast.ListKind && init.AsList().Size() == 0:
		if !is(cond, types.True) || !accu(c.Result()) {
			return macro{}, false
		}
		m.name = operators.Map
		if choice != nil {
			m.only, step = choice[0], choice[1]
		}
		m.do = one(added(step))
	case is(init, types.IntZero):
		result := args(c.Result(), operators.Equals, 2)
		if is(cond, types.True) && choice != nil && result != nil && accu(result[0]) && is(result[1], types.IntOne) {
			if by := added(choice[1]); by != nil && is(by, types.IntOne) {
				m.name, m.do = operators.ExistsOne, choice[0]
			}
		}
	case is(init, types.True):
		all, more := args(step, operators.LogicalAnd, 2), args(cond, operators.NotStrictlyFalse, 1)
		if all != nil && more != nil && accu(all[0]) && accu(more[0]) && accu(c.Result()) {
			m.name, m.do = operators.All, all[1]
		}
	case is(init, types.False):
		found, more := args(step, operators.LogicalOr, 2), args(cond, operators.NotStrictlyFalse, 1)
		if found != nil && more != nil && accu(found[0]) && accu(c.Result()) {
			if not := args(more[0], operators.LogicalNot, 1); not != nil && accu(not[0]) {
				m.name, m.do = operators.Exists, found[1]
			}
		}
	}
	return m, m.do != nil
}

// each makes one element after the other the variable: the elements of a list, or the
// names of a map. It charges for the pass and calls do, until do returns false. It is
// not ok if the interpreter has to go on.
func (l *folding) each(f *frame, in value.Value, do func() (more bool)) (ok bool) {
	switch in.Kind() {
	case value.KindList:
		for i := range in.Len() {
			if l.set(f, in.At(i)); f.meter.spend(l.steps, l.bytes) != nil {
				return false
			}
			if !do() {
				break
			}
		}
		return true
	case value.KindMap:
		for name := range in.Fields() { // not copied first: that would have to be charged
			if l.set(f, value.String(name)); f.meter.spend(l.steps, l.bytes) != nil {
				return false
			}
			if !do() {
				break
			}
		}
		return true
	}
	return false
}

// set begins a pass with an element.
func (l *folding) set(f *frame, element value.Value) {
	f.vars[l.at] = element
	for _, at := range l.kept {
		f.vars[at] = value.Value{}
	}
}

// judge evaluates a predicate on the variable.
func judge(f *frame, predicate direct) (yes, ok bool) {
	v, ok := predicate(f)
	if !ok {
		return false, false
	}
	return v.AsBool()
}

// until is exists and all: it looks for an element for which the predicate is what is
// wanted.
func (l *folding) until(f *frame, want bool) (value.Value, bool) {
	in, ok := l.over(f)
	if !ok {
		return value.Value{}, false
	}
	got := !want
	all := l.each(f, in, func() bool {
		got, ok = judge(f, l.do)
		return ok && got != want
	})
	return value.Bool(got), ok && all
}

// one is exists_one.
func (l *folding) one(f *frame) (value.Value, bool) {
	in, ok := l.over(f)
	if !ok {
		return value.Value{}, false
	}
	n := 0
	all := l.each(f, in, func() bool {
		var yes bool
		if yes, ok = judge(f, l.do); yes {
			n++
		}
		return ok
	})
	return value.Bool(n == 1), ok && all
}

// leastSlab is how many elements a list has whose maps are allocated several together.
const leastSlab = 32

// collect is map and filter.
func (l *folding) collect(f *frame) (value.Value, bool) {
	in, ok := l.over(f)
	if k := in.Kind(); !ok || k != value.KindList && k != value.KindMap {
		return value.Value{}, false
	}
	made := make([]value.Value, 0, in.Len())
	do := l.do
	if l.entries != nil && in.Len() >= leastSlab {
		slab := new(value.Slab)
		do = func(f *frame) (value.Value, bool) { return l.entries.run(f, slab) }
	}
	all := l.each(f, in, func() bool {
		if l.only != nil {
			yes := false
			if yes, ok = judge(f, l.only); !yes {
				return ok
			}
		}
		var v value.Value
		if v, ok = do(f); ok {
			made = append(made, v)
		}
		return ok
	})
	if !all || !ok {
		return value.Value{}, false
	}
	return shallow(value.List(made...))
}
