package cel

import (
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// meterName is the name of the meter in an activation. Expressions cannot contain it.
const meterName = "@meter"

func meterOf(frame *interpreter.ExecutionFrame) *meter {
	m, _ := frame.ResolveName(meterName)
	return m.(*meter) // every activation has one; otherwise the interpreter recovers the panic
}

// A call is a function call that is charged before it is made.
type call struct {
	id   int64
	args []interpreter.InterpretableV2
	do   func(m *meter, args []ref.Val) ref.Val // must not keep args
}

func (c *call) ID() int64 { return c.id }

func (c *call) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

func (c *call) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	m := meterOf(frame)
	base := len(m.args)
	for _, arg := range c.args {
		v := arg.Exec(frame)
		if types.IsUnknownOrError(v) {
			m.pop(base)
			return v
		}
		m.args = append(m.args, v)
	}
	out := c.do(m, m.args[base:])
	m.pop(base)
	if types.IsError(out) {
		return types.LabelErrNode(c.id, out)
	}
	return out
}

// An operation is a call with two arguments, such as an operator. Its values are mostly
// so small that nothing is charged.
type operation struct {
	id       int64
	lhs, rhs interpreter.InterpretableV2
	quick    func(l, r ref.Val) ref.Val             // nil if the values are not small
	do       func(m *meter, args []ref.Val) ref.Val // must not keep args
}

func (o *operation) ID() int64 { return o.id }

func (o *operation) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, o.Exec)
}

func (o *operation) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	l := o.lhs.Exec(frame)
	if types.IsUnknownOrError(l) {
		return l
	}
	r := o.rhs.Exec(frame)
	if types.IsUnknownOrError(r) {
		return r
	}
	out := o.quick(l, r)
	if out == nil {
		m := meterOf(frame)
		base := len(m.args)
		m.args = append(m.args, l, r)
		out = o.do(m, m.args[base:])
		m.pop(base)
	}
	if types.IsError(out) {
		return types.LabelErrNode(o.id, out)
	}
	return out
}

func number(v ref.Val) bool {
	switch v.(type) {
	case types.Int, types.Uint, types.Double:
		return true
	}
	return false
}

// charged returns the step for a call, with a charge unless the function takes constant
// time. Outside of comprehensions, functions with linear work are not charged either:
// the length of the code limits their sum.
func (s *shape) charged(step interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	w, args := s.library.works[step.Function()], step.Args()
	if w.free() || w.linear && len(s.loops) == 0 || spared(step) {
		return step, nil
	}
	id, function := step.ID(), step.Function()
	if w.price != nil {
		native := s.library.native(step)
		do := func(m *meter, args []ref.Val) ref.Val {
			w.price(m, args)
			return native(args...)
		}
		if w.linear && len(args) == 2 {
			return &operation{id, args[0], args[1], s.library.quick(function), do}, nil
		}
		return &call{id, args, do}, nil
	}
	run := w.run
	if w.compile != nil {
		var err error
		if run, err = w.compile(args); err != nil {
			return nil, &misuse{id, err}
		}
	}
	do := func(m *meter, args []ref.Val) ref.Val {
		if v := run(m, args); v != nil {
			return v
		}
		return decls.MaybeNoSuchOverload(function, args...)
	}
	if w.quick != nil {
		return &operation{id, args[0], args[1], w.quick, do}, nil
	}
	return &call{id, args, do}, nil
}

// quick returns the function for two numbers.
func (l *library) quick(function string) func(l, r ref.Val) ref.Val {
	impl := l.bindings[function]
	if impl == nil || impl.Binary == nil || impl.OperandTrait != 0 {
		return func(ref.Val, ref.Val) ref.Val { return nil }
	}
	return func(l, r ref.Val) ref.Val {
		if number(l) && number(r) {
			return impl.Binary(l, r)
		}
		return nil
	}
}

// spared reports whether a call needs no charge. It is cheap because of constants: a
// comparison with a scalar, a search in a constant list (which the optimizer makes a
// set), a conversion of a literal (which the optimizer evaluates). Or the pass has paid
// for it: the addition of a macro to its result.
func spared(step interpreter.InterpretableCall) bool {
	args := step.Args()
	switch step.Function() {
	case operators.Equals, operators.NotEquals:
		return scalar(args[0]) || scalar(args[1])
	case operators.Add:
		a, ok := args[0].(interpreter.InterpretableAttribute)
		if !ok {
			return false
		}
		name, ok := a.Attr().(interpreter.NamespacedAttribute)
		return ok && strings.HasPrefix(name.CandidateVariableNames()[0], "@")
	case operators.In:
		_, constant := args[1].(interpreter.InterpretableConst)
		return constant && step.OverloadID() == overloads.InList
	}
	return overloads.IsTypeConversionFunction(step.Function()) && len(args) == 1 && scalar(args[0])
}

func scalar(step interpreter.InterpretableV2) bool {
	c, ok := step.(interpreter.InterpretableConst)
	if !ok {
		return false
	}
	switch c.Value().(type) {
	case traits.Lister, traits.Mapper:
		return false
	}
	return true
}

// A misuse is a call that fails for every payload.
type misuse struct {
	id  int64 // of the call
	err error
}

func (e *misuse) Error() string { return e.err.Error() }

func (e *misuse) Unwrap() error { return e.err }

// native returns the function that the interpreter would call for a step.
func (l *library) native(step interpreter.InterpretableCall) func(args ...ref.Val) ref.Val {
	function, overload := step.Function(), step.OverloadID()
	impl := l.bindings[overload]
	if impl == nil {
		impl = l.bindings[function]
	}
	return func(args ...ref.Val) ref.Val {
		if impl != nil && (impl.OperandTrait == 0 || args[0].Type().HasTrait(impl.OperandTrait)) {
			switch {
			case impl.Unary != nil && len(args) == 1:
				return impl.Unary(args[0])
			case impl.Binary != nil && len(args) == 2:
				return impl.Binary(args[0], args[1])
			case impl.Function != nil:
				return impl.Function(args...)
			}
		}
		if receiver, ok := args[0].(traits.Receiver); ok {
			return receiver.Receive(function, overload, args[1:])
		}
		return decls.MaybeNoSuchOverload(function, args...)
	}
}

// bindings returns the implementations of functions by overload and by name, like the
// interpreter.
func bindings(declared map[string]*decls.FunctionDecl) (map[string]*functions.Overload, error) {
	found := map[string]*functions.Overload{}
	for _, f := range declared {
		list, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			found[o.Operator] = o
		}
	}
	return found, nil
}

// A loop is the cost of one pass of a comprehension.
type loop struct{ steps, bytes int }

// A pass is the step of a comprehension. The interpreter itself checks neither limits
// nor the context.
type pass struct {
	interpreter.InterpretableV2
	loop
}

func (p *pass) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, p.Exec)
}

func (p *pass) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	meterOf(frame).charge(p.steps, p.bytes)
	return p.InterpretableV2.Exec(frame)
}

// weigh adds the cost of one evaluation of the expression, without the functions that
// are charged by their arguments.
func (l *loop) weigh(e ast.Expr) {
	l.steps++
	each := func(list []ast.Expr) {
		for _, e := range list {
			l.weigh(e)
		}
	}
	switch e.Kind() {
	case ast.CallKind:
		if c := e.AsCall(); c.IsMemberFunction() {
			l.weigh(c.Target())
		}
		each(e.AsCall().Args())
	case ast.SelectKind:
		l.weigh(e.AsSelect().Operand())
	case ast.ListKind:
		l.bytes += elementBytes * len(e.AsList().Elements())
		each(e.AsList().Elements())
	case ast.MapKind:
		l.bytes += entryBytes * e.AsMap().Size()
		for _, entry := range e.AsMap().Entries() {
			l.weigh(entry.AsMapEntry().Key())
			l.weigh(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind: // its passes are charged separately
		c := e.AsComprehension()
		l.weigh(c.IterRange())
		l.weigh(c.AccuInit())
		l.weigh(c.Result())
	}
}
