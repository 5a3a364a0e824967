package cel

import (
	"context"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/parser"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

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
