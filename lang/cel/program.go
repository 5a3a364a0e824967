package cel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/spell"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// A program is a compiled expression. It is immutable but for the pool.
type program struct {
	planned cel.Program
	heavy   bool // see shape
	timeout time.Duration
	code    diag.Text
	info    *ast.SourceInfo
	types   map[string]ref.Val

	activations sync.Pool // of *activation
}

// Eval implements [lang.Program].
func (p *program) Eval(ctx context.Context, in value.Value) (value.Value, error) {
	if err := lang.Stopped(ctx); err != nil {
		return value.Value{}, err
	}
	vars, ok := p.activations.Get().(*activation)
	if !ok {
		vars = &activation{types: p.types}
	}
	vars.in = in
	out, err := p.eval(ctx, vars)
	vars.in, vars.self = value.Value{}, nil
	p.activations.Put(vars)
	if err != nil {
		return value.Value{}, p.failure(ctx, err)
	}
	var r result
	v, err := r.value(out, 0)
	if err != nil {
		return value.Value{}, p.failure(ctx, err)
	}
	return v, nil
}

func (p *program) eval(ctx context.Context, vars *activation) (ref.Val, error) {
	if !p.heavy || (p.timeout == 0 && ctx.Done() == nil) {
		out, _, err := p.planned.Eval(vars)
		return out, err
	}
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.timeout, &lang.Timeout{After: p.timeout})
		defer cancel()
	}
	out, _, err := p.planned.ContextEval(ctx, vars)
	if err != nil && ctx.Err() != nil {
		var timeout *lang.Timeout
		if cause := context.Cause(ctx); errors.As(cause, &timeout) {
			return nil, timeout
		}
		return nil, lang.Stopped(ctx)
	}
	return out, err
}

// failure returns what is reported of an error: why it stopped, or a Thrown with
// the place in the document.
func (p *program) failure(ctx context.Context, err error) error {
	var timeout *lang.Timeout
	if errors.As(err, &timeout) {
		return timeout
	}
	if stopped := lang.Stopped(ctx); stopped != nil {
		return stopped
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return &lang.Thrown{Message: fmt.Sprintf("the expression costs more than %d steps", CostLimit), Pos: p.code.Pos(1, 1)}
	}
	thrown := &lang.Thrown{Message: message(err)}
	var failed *types.Err
	if errors.As(err, &failed) && failed.NodeID() != 0 {
		if loc := p.info.GetStartLocation(failed.NodeID()); loc.Line() >= 1 {
			thrown.Pos = p.code.Pos(loc.Line(), loc.Column()+1)
		}
	}
	return thrown
}

// message returns the text of an error without the library's own vocabulary.
func message(err error) string {
	msg := err.Error()
	if strings.HasPrefix(msg, "no such overload") {
		return "the operator or function does not work on values of these types (" + msg + ")"
	}
	return strings.TrimPrefix(msg, "internal error: ")
}

// An activation gives an expression the names that it may use: self, the keys
// of the payload, and the types. It belongs to one evaluation at a time.
type activation struct {
	in    value.Value
	self  ref.Val // in, wrapped; nil before the first use
	types map[string]ref.Val
}

// Parent implements cel.Activation.
func (*activation) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation. A name that does not exist is found as
// an error, which the library would otherwise word by itself.
func (a *activation) ResolveName(name string) (any, bool) {
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

// keys returns the map whose keys are names: the payload, or what an error looks
// like.
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
	names := []string{"self"}
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
