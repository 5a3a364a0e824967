package cel

import (
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/uniflow-labs/uniflow/value"
)

// A direct step computes on payloads as they are. The interpreter wraps each value, looks
// each name up in a chain of scopes, and copies the result into a payload, which takes
// five to ten times as long.
//
// Direct steps know only what expressions mostly consist of, and only what succeeds. They
// are not ok for everything else: an error, a limit, a rare type. The interpreter
// evaluates the expression again from the start then, and has the last word; nothing is
// lost, since expressions have no effects. So a direct step must give the value that the
// interpreter gives, or none.
type direct func(f *frame) (v value.Value, ok bool)

// A frame is what direct steps work on in one evaluation.
type frame struct {
	in    value.Value
	meter *meter
	vars  []value.Value // of comprehensions, and fields of theirs; see folding.kept
	made  []value.Value // entries of the maps that are being made, the innermost last
}

// evalDirect evaluates the expression without the interpreter. It is not ok if the
// interpreter has to, unless the meter has stopped.
func (p *program) evalDirect(a *activation) (value.Value, bool) {
	f := &a.frame
	f.in, f.meter = a.in, &a.meter
	if f.vars == nil {
		f.vars = make([]value.Value, p.vars)
	}
	v, ok := p.direct(f)
	f.in = value.Value{}
	clear(f.vars)
	if !ok {
		clear(f.made)
		f.made = f.made[:0]
	}
	return v, ok && a.meter.admits(v)
}

// admits reports whether a result is surely within the limits, as if the interpreter had
// copied it. It may be large although little has been made, because its parts are shared.
func (m *meter) admits(v value.Value) bool {
	const least = 16 // bytes of a part in Value.Size
	size := v.Size()
	return size/least < m.steps && size/least*entryBytes < m.bytes || m.count(v)
}

// count charges for each part of a value.
func (m *meter) count(v value.Value) bool {
	if _, lazy := value.FieldSourceOf(v); lazy {
		return m.steps > 0 // it belongs to the payload, and stays unread
	}
	steps, bytes := 1, 0
	switch v.Kind() {
	case value.KindList:
		bytes = v.Len() * elementBytes
	case value.KindMap:
		bytes = v.Len() * entryBytes
	}
	if steps > m.steps || bytes > m.bytes { // not spend, which would be the end
		return false
	}
	m.steps, m.bytes = m.steps-steps, m.bytes-bytes
	for _, e := range v.Elems() {
		if !m.count(e) {
			return false
		}
	}
	for _, e := range v.Fields() {
		if !m.count(e) {
			return false
		}
	}
	return true
}

// A directPlanner makes direct steps of an expression.
type directPlanner struct {
	loops map[int64]loop
	scope []string // the variables of the comprehensions around, by index in the frame
	most  int      // of scope
	kept  map[selection]int
}

// A selection is a field of a variable, by index in the frame.
type selection struct {
	of    int
	field string
}

// A directNode is a planned expression. The zero directNode has to be interpreted.
type directNode struct {
	run     direct
	literal bool
	value   value.Value // of a literal
	entries *entries    // of a map

	variable bool // of a comprehension
	at       int  // index of the variable
}

// entries are the fields of a map whose keys are known.
type entries struct {
	shape *value.Shape
	vals  []directNode
}

func literal(v value.Value) directNode {
	return directNode{run: func(*frame) (value.Value, bool) { return v, true }, literal: true, value: v}
}

// direct plans the expression. It returns nil if there is something in it for the
// interpreter.
func (s *shape) direct(root ast.Expr) (run direct, vars int) {
	p := &directPlanner{loops: s.loops, kept: map[selection]int{}}
	n := p.plan(root)
	return n.run, p.most
}

func (p *directPlanner) plan(e ast.Expr) directNode {
	switch e.Kind() {
	case ast.LiteralKind:
		return p.literal(e)
	case ast.IdentKind:
		return p.name(e.AsIdent())
	case ast.SelectKind:
		return p.selected(e.AsSelect())
	case ast.ListKind:
		return p.list(e.AsList())
	case ast.MapKind:
		return p.mapping(e.AsMap())
	case ast.CallKind:
		return p.call(e.AsCall())
	case ast.ComprehensionKind:
		return p.comprehension(e.AsComprehension())
	}
	return directNode{}
}

// planAll plans expressions. They are constant if all of them are literals.
func (p *directPlanner) planAll(exprs []ast.Expr) (nodes []directNode, constant, ok bool) {
	constant = true
	for _, e := range exprs {
		n := p.plan(e)
		if n.run == nil {
			return nil, false, false
		}
		nodes, constant = append(nodes, n), constant && n.literal
	}
	return nodes, constant, true
}

// fold makes a literal of a step that does not depend on the payload.
func fold(constant bool, run direct) directNode {
	if constant {
		m := &meter{steps: checkEvery, bytes: MemoryLimit}
		if v, ok := run(&frame{meter: m}); ok {
			return literal(v)
		}
	}
	return directNode{run: run}
}

func (p *directPlanner) literal(e ast.Expr) directNode {
	switch v := e.AsLiteral().(type) {
	case types.Null:
		return literal(value.Null())
	case types.Bool:
		return literal(value.Bool(bool(v)))
	case types.Int:
		return literal(value.Int(int64(v)))
	case types.Double:
		return literal(value.Float(float64(v)))
	case types.String:
		return literal(value.String(string(v)))
	}
	return directNode{}
}

func (p *directPlanner) name(name string) directNode {
	for i := len(p.scope) - 1; i >= 0; i-- {
		if p.scope[i] == name {
			return directNode{run: func(f *frame) (value.Value, bool) { return f.vars[i], true }, variable: true, at: i}
		}
	}
	switch {
	case name == "self":
		return directNode{run: func(f *frame) (value.Value, bool) { return f.in, true }}
	case strings.ContainsAny(name, ".@"):
		return directNode{}
	}
	return directNode{run: func(f *frame) (value.Value, bool) { return f.in.Get(name) }}
}

func (p *directPlanner) selected(s ast.SelectExpr) directNode {
	of, name := p.plan(s.Operand()), s.FieldName()
	if of.run == nil {
		return directNode{}
	}
	if of.variable && !s.IsTestOnly() {
		if at, ok := p.kept[selection{of.at, name}]; ok {
			return directNode{run: kept(of.at, name, at)}
		}
	}
	if s.IsTestOnly() {
		return fold(of.literal, func(f *frame) (value.Value, bool) {
			v, ok := of.run(f)
			if !ok || v.Kind() != value.KindMap {
				return value.Value{}, false
			}
			_, has := v.Get(name)
			return value.Bool(has), true
		})
	}
	return fold(of.literal, func(f *frame) (value.Value, bool) {
		v, ok := of.run(f)
		if !ok {
			return value.Value{}, false
		}
		return v.Get(name)
	})
}

// kept selects a field of a variable, once in each pass: index at is where it is kept.
func kept(variable int, field string, at int) direct {
	return func(f *frame) (v value.Value, ok bool) {
		if v = f.vars[at]; !v.IsNull() {
			return v, true
		}
		if v, ok = f.vars[variable].Get(field); ok {
			f.vars[at] = v
		}
		return v, ok
	}
}

func (p *directPlanner) list(l ast.ListExpr) directNode {
	elems, constant, ok := p.planAll(l.Elements())
	if !ok || len(l.OptionalIndices()) > 0 {
		return directNode{}
	}
	return fold(constant, func(f *frame) (value.Value, bool) {
		made := make([]value.Value, len(elems))
		for i := range elems {
			var ok bool
			if made[i], ok = elems[i].run(f); !ok {
				return value.Value{}, false
			}
		}
		return shallow(value.List(made...))
	})
}

// shallow is not ok for the error that a list or map is when it nests too deep.
func shallow(v value.Value) (value.Value, bool) { return v, !v.IsError() }

func (p *directPlanner) mapping(m ast.MapExpr) directNode {
	var names []string
	var exprs []ast.Expr
	seen := map[string]bool{}
	for _, e := range m.Entries() {
		entry := e.AsMapEntry()
		key := p.plan(entry.Key())
		name, ok := key.value.AsString()
		if !key.literal || !ok || seen[name] || entry.IsOptional() {
			return directNode{}
		}
		seen[name] = true
		names, exprs = append(names, name), append(exprs, entry.Value())
	}
	vals, constant, ok := p.planAll(exprs)
	if !ok {
		return directNode{}
	}
	made := &entries{value.NewShape(names...), vals}
	n := fold(constant, func(f *frame) (value.Value, bool) { return made.run(f, nil) })
	if !n.literal {
		n.entries = made
	}
	return n
}

// run makes the map, in the memory of a slab if there is one.
func (e *entries) run(f *frame, slab *value.Slab) (v value.Value, ok bool) {
	base := len(f.made)
	for i := range e.vals {
		v, ok := e.vals[i].run(f)
		if !ok {
			return value.Value{}, false
		}
		f.made = append(f.made, v)
	}
	if slab != nil {
		v = e.shape.MapIn(slab, f.made[base:]...)
	} else {
		v = e.shape.Map(f.made[base:]...)
	}
	clear(f.made[base:])
	f.made = f.made[:base]
	return shallow(v)
}

func (p *directPlanner) call(c ast.CallExpr) directNode {
	exprs := c.Args()
	if c.IsMemberFunction() {
		exprs = append([]ast.Expr{c.Target()}, exprs...)
	}
	args, constant, ok := p.planAll(exprs)
	if !ok {
		return directNode{}
	}
	var run direct
	switch len(args) {
	case 1:
		run = p.unary(c.FunctionName(), args[0].run)
	case 2:
		run = p.binary(c.FunctionName(), args[0], args[1])
	case 3:
		if c.FunctionName() == operators.Conditional {
			run = conditional(args[0].run, args[1].run, args[2].run)
		}
	}
	if run == nil {
		return directNode{}
	}
	return fold(constant, run)
}

func (p *directPlanner) unary(function string, arg direct) direct {
	var do func(f *frame, v value.Value) (value.Value, bool)
	switch function {
	case operators.LogicalNot:
		do = func(_ *frame, v value.Value) (value.Value, bool) {
			b, ok := v.AsBool()
			return value.Bool(!b), ok
		}
	case operators.Negate:
		do = func(_ *frame, v value.Value) (value.Value, bool) {
			if v.Kind() == value.KindFloat { // 0 - 0.0 has the wrong sign
				f, _ := v.AsFloat()
				return value.Float(-f), true
			}
			return minus(value.Int(0), v)
		}
	case overloads.Size:
		read := p.reader()
		do = func(f *frame, v value.Value) (value.Value, bool) {
			switch v.Kind() {
			case value.KindString:
				s, _ := v.AsString()
				return value.Int(int64(utf8.RuneCountInString(s))), read(f, len(s))
			case value.KindList:
				return value.Int(int64(v.Len())), read(f, v.Len()*bytesPerStep)
			case value.KindMap:
				return value.Int(int64(v.Len())), true
			}
			return value.Value{}, false
		}
	default:
		if do = p.conversion(function); do == nil {
			return nil
		}
	}
	return func(f *frame) (value.Value, bool) {
		v, ok := arg(f)
		if !ok {
			return value.Value{}, false
		}
		return do(f, v)
	}
}

// reader returns what charges for reading bytes, which only expressions with
// comprehensions pay for.
func (p *directPlanner) reader() func(f *frame, n int) bool {
	if len(p.loops) == 0 {
		return func(*frame, int) bool { return true }
	}
	return func(f *frame, n int) bool { return f.meter.spend(1+n/bytesPerStep, 0) == nil }
}

func conditional(cond, yes, no direct) direct {
	return func(f *frame) (value.Value, bool) {
		v, ok := cond(f)
		if !ok {
			return value.Value{}, false
		}
		switch b, ok := v.AsBool(); {
		case !ok:
			return value.Value{}, false
		case b:
			return yes(f)
		}
		return no(f)
	}
}

// junction is && or ||, which the left side decides if it is decisive.
func junction(l, r direct, decisive bool) direct {
	return func(f *frame) (value.Value, bool) {
		v, ok := l(f)
		if !ok {
			return value.Value{}, false
		}
		b, ok := v.AsBool()
		if !ok {
			return value.Value{}, false
		}
		if b == decisive {
			return v, true
		}
		if v, ok = r(f); !ok {
			return value.Value{}, false
		}
		_, ok = v.AsBool()
		return v, ok
	}
}

func (p *directPlanner) binary(function string, l, r directNode) direct {
	var do func(f *frame, l, r value.Value) (value.Value, bool)
	switch function {
	case operators.LogicalAnd:
		return junction(l.run, r.run, false)
	case operators.LogicalOr:
		return junction(l.run, r.run, true)
	case operators.Equals:
		do = func(f *frame, l, r value.Value) (value.Value, bool) {
			same, ok := f.equal(l, r)
			return value.Bool(same), ok
		}
	case operators.NotEquals:
		do = func(f *frame, l, r value.Value) (value.Value, bool) {
			same, ok := f.equal(l, r)
			return value.Bool(!same), ok
		}
	case operators.Less:
		do = p.compared(func(order int) bool { return order < 0 })
	case operators.LessEquals:
		do = p.compared(func(order int) bool { return order <= 0 })
	case operators.Greater:
		do = p.compared(func(order int) bool { return order > 0 })
	case operators.GreaterEquals:
		do = p.compared(func(order int) bool { return order >= 0 })
	case operators.Add:
		do = p.plus()
	case operators.Subtract:
		do = func(_ *frame, l, r value.Value) (value.Value, bool) { return minus(l, r) }
	case operators.Multiply:
		do = func(_ *frame, l, r value.Value) (value.Value, bool) { return times(l, r) }
	case operators.Divide:
		do = func(_ *frame, l, r value.Value) (value.Value, bool) { return quotient(l, r) }
	case operators.Modulo:
		do = func(_ *frame, l, r value.Value) (value.Value, bool) { return remainder(l, r) }
	case operators.Index:
		do = func(_ *frame, l, r value.Value) (value.Value, bool) { return entry(l, r) }
	case operators.In:
		do = within(r.literal)
	case overloads.StartsWith:
		do = p.texts(strings.HasPrefix)
	case overloads.EndsWith:
		do = p.texts(strings.HasSuffix)
	case overloads.Contains:
		do = p.texts(strings.Contains)
	default:
		return nil
	}
	left, right := l.run, r.run
	if r.literal { // save a call
		return func(f *frame) (value.Value, bool) {
			a, ok := left(f)
			if !ok {
				return value.Value{}, false
			}
			return do(f, a, r.value)
		}
	}
	return func(f *frame) (value.Value, bool) {
		a, ok := left(f)
		if !ok {
			return value.Value{}, false
		}
		b, ok := right(f)
		if !ok {
			return value.Value{}, false
		}
		return do(f, a, b)
	}
}
