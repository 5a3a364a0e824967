package cel

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/parser"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A program is a compiled expression. It is immutable except for the pool.
type program struct {
	planned  cel.Program
	direct   direct // nil if the interpreter is needed
	vars     int    // of direct
	kind     value.Kind
	shape    *schema.Shape // of results
	typed    bool          // whether each result is of kind
	leads    string        // the first element of the list that each result is; empty if that is not known
	outcomes []lang.Outcome
	timeout  time.Duration
	code     diag.Text
	info     *ast.SourceInfo
	types    map[string]ref.Val

	language    *Language // for Explain
	activations sync.Pool // of *activation
}

// Leads implements [lang.Leading].
func (p *program) Leads() (text string, ok bool) { return p.leads, p.leads != "" }

// ResultShape implements [lang.Shaped].
func (p *program) ResultShape() *schema.Shape { return p.shape }

// ResultKind implements [lang.Typed].
func (p *program) ResultKind() (value.Kind, bool) { return p.kind, p.typed }

func (p *program) Eval(ctx context.Context, in value.Value) (value.Value, error) {
	if err := lang.Stopped(ctx); err != nil {
		return value.Value{}, err
	}
	vars, ok := p.activations.Get().(*activation)
	if !ok {
		vars = &activation{types: p.types}
	}
	vars.in = in
	vars.meter.start(ctx, p.timeout)
	v, err := p.eval(ctx, vars)
	if err != nil {
		err = p.failure(ctx, &vars.meter, err)
	}
	vars.in, vars.self = value.Value{}, nil
	vars.meter.reset()
	p.activations.Put(vars)
	return v, err
}

func (p *program) eval(ctx context.Context, vars *activation) (value.Value, error) {
	if p.direct != nil && !vars.in.IsError() { // an error has the names of a map
		v, ok := p.evalDirect(vars)
		if ok || vars.meter.stopped != nil {
			return v, vars.meter.stopped
		}
		vars.meter.start(ctx, p.timeout)
	}
	out, _, err := p.planned.Eval(vars)
	if err != nil {
		return value.Value{}, err
	}
	r := result{&vars.meter}
	return r.value(out, 0)
}

// failure returns the error to report: why the evaluation stopped, or a Thrown with the
// place in the document.
func (p *program) failure(ctx context.Context, m *meter, err error) error {
	var limit *lang.Thrown
	switch stopped := lang.Stopped(ctx); {
	case errors.As(m.stopped, &limit):
		limit.Pos, limit.Permanent = p.code.Pos(1, 1), true
		return limit
	case m.stopped != nil:
		return m.stopped
	case stopped != nil:
		return stopped
	}
	thrown := &lang.Thrown{Message: message(err), Permanent: true}
	var failed *types.Err
	if errors.As(err, &failed) && failed.NodeID() != 0 {
		if loc := p.info.GetStartLocation(failed.NodeID()); loc.Line() >= 1 {
			thrown.Pos = p.code.Pos(loc.Line(), loc.Column()+1)
		}
	}
	return thrown
}

// maxMessage limits a message. Some quote what a client sent.
const maxMessage = 200

// message returns the text of an error without terms of the library.
func message(err error) string {
	msg := strings.TrimPrefix(err.Error(), "internal error: ")
	if len(msg) > maxMessage {
		msg = strings.ToValidUTF8(msg[:maxMessage], "") + "…"
	}
	switch {
	case strings.HasPrefix(msg, "no such overload"):
		return "the operator or function does not work on values of these types (" + msg + ")"
	case strings.HasPrefix(msg, "invalid qualifier type"):
		return "a value of this type cannot be a key or an index"
	}
	return msg
}

// An activation has the names that an expression can use: self, the keys of the
// payload, and the types. It belongs to one evaluation at a time.
type activation struct {
	in    value.Value
	self  ref.Val // in, wrapped; nil before the first use
	meter meter
	frame frame
	types map[string]ref.Val
}

func (*activation) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation. For a name that does not exist it returns an
// error value, in place of the library's own message.
func (a *activation) ResolveName(name string) (any, bool) {
	if name == meterName {
		return &a.meter, true
	}
	name = strings.TrimPrefix(name, ".")
	if name == "self" {
		if a.self == nil {
			a.self = toCEL(a.in)
		}
		return a.self, true
	}
	if field, ok := a.keys().Get(name); ok {
		return toCEL(field), true
	}
	if t, ok := a.types[name]; ok {
		return t, true
	}
	return a.unknown(name), true
}

// keys returns the map whose keys are names: the payload, or the map that describes an
// error.
func (a *activation) keys() value.Value {
	if a.in.IsError() {
		if a.self == nil {
			a.self = toCEL(a.in)
		}
		if d, ok := a.self.(*dict); ok {
			return d.v
		}
	}
	return a.in
}

func (a *activation) unknown(name string) ref.Val {
	switch name {
	case "None", "nil", "undefined", "NULL":
		return types.NewErr("unknown name %q, did you mean null?", name)
	}
	names := []string{"self", "true", "false"}
	for key := range a.keys().Fields() {
		names = append(names, key)
	}
	if near, ok := spell.Nearest(name, names); ok {
		return types.NewErr("unknown name %q, did you mean %q?", name, near)
	}
	if a.keys().Kind() != value.KindMap {
		return types.NewErr("unknown name %q: the payload is of kind %s, use self", name, a.in.Kind())
	}
	return types.NewErr("unknown name %q", name)
}

// Explain implements [lang.Explainer]. It compiles parts of the expression again, since
// only tests that fail ask for it.
func (p *program) Explain(ctx context.Context, in value.Value) (c lang.Comparison, ok bool) {
	library, err := p.language.library()
	if err != nil {
		return c, false
	}
	parsed, issues := library.env.Parse(p.code.Code)
	if issues.Err() != nil {
		return c, false
	}
	part := func(e ast.Expr) (code string, v value.Value, ok bool) {
		code, err := parser.Unparse(e, p.info)
		if err != nil {
			return "", v, false
		}
		program, err := p.language.Compile(diag.PlainText(code), lang.Options{Mode: lang.ModeExpression, Timeout: p.timeout})
		if err != nil {
			return "", v, false
		}
		v, err = program.Eval(ctx, in)
		return code, v, err == nil
	}
	e := parsed.NativeRep().Expr()
	for e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		args := e.AsCall().Args()
		_, v, ok := part(args[0])
		if ok && v.Truth() {
			e = args[1]
		} else {
			e = args[0]
		}
	}
	if e.Kind() != ast.CallKind {
		return c, false
	}
	operator, found := operators.FindReverseBinaryOperator(e.AsCall().FunctionName())
	if !found || !comparing[operator] {
		return c, false
	}
	code, v, ok := part(e)
	if !ok || v.Truth() {
		return c, false
	}
	c = lang.Comparison{Code: code, Operator: operator}
	args := e.AsCall().Args()
	var okLeft, okRight bool
	_, c.Left, okLeft = part(args[0])
	_, c.Right, okRight = part(args[1])
	return c, okLeft && okRight
}

var comparing = map[string]bool{"==": true, "!=": true, "<": true, "<=": true, ">": true, ">=": true, "in": true}
