package javascript

import (
	"math/big"
	"reflect"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
	"github.com/dop251/goja/token"
	"github.com/dop251/goja/unistring"
)

// Three operators can have results much larger than their operands, and the interpreter
// has no hook to check them: ** and << of BigInts, and ... of a text in an object, which
// makes a property of each character. So the right operand is wrapped in a call of a
// function that returns or refuses it. Code cannot contain the names of these functions.
const (
	checkExponent = "%exponent"
	checkShift    = "%shift"
	checkSpread   = "%spread"
)

func compileScript(name, script string, options ...parser.Option) (*goja.Program, error) {
	tree, err := goja.Parse(name, script, options...)
	if err != nil {
		return nil, err
	}
	if strings.Contains(script, "**") || strings.Contains(script, "<<") || strings.Contains(script, "...") {
		rewrite(reflect.ValueOf(tree.Body))
	}
	return goja.CompileAST(tree, true)
}

// rewrite adds the checks to a tree. Nodes that occur twice are changed once.
func rewrite(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		rewrite(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			rewrite(v.Index(i))
		}
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct || v.Elem().Type().PkgPath() != reflect.TypeFor[ast.Program]().PkgPath() {
			return
		}
		switch node := v.Interface().(type) {
		case *ast.BinaryExpression:
			node.Right = checked(node.Operator, node.Right)
		case *ast.AssignExpression:
			node.Right = checked(node.Operator, node.Right)
		case *ast.ObjectLiteral:
			for _, property := range node.Value {
				if spread, ok := property.(*ast.SpreadElement); ok {
					spread.Expression = calling(checkSpread, spread.Expression)
				}
			}
		}
		rewrite(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				rewrite(v.Field(i))
			}
		}
	}
}

func checked(operator token.Token, right ast.Expression) ast.Expression {
	name := ""
	switch operator {
	case token.EXPONENT:
		name = checkExponent
	case token.SHIFT_LEFT:
		name = checkShift
	default:
		return right
	}
	if _, ok := right.(*ast.NumberLiteral); ok {
		return right
	}
	return calling(name, right)
}

func calling(name string, arg ast.Expression) ast.Expression {
	if c, ok := arg.(*ast.CallExpression); ok {
		if callee, ok := c.Callee.(*ast.Identifier); ok && callee.Name == unistring.String(name) {
			return arg
		}
	}
	return &ast.CallExpression{
		Callee:           &ast.Identifier{Name: unistring.String(name), Idx: arg.Idx0()},
		LeftParenthesis:  arg.Idx0(),
		ArgumentList:     []ast.Expression{arg},
		RightParenthesis: arg.Idx1(),
	}
}

func (e *engine) operators() error {
	atMost := func(limit int64, operator string) native {
		return func(c call) goja.Value {
			v := c.Argument(0)
			if v.ExportType() == typeBigInt {
				if n, ok := v.Export().(*big.Int); ok && (!n.IsInt64() || n.Int64() > limit) && n.Sign() > 0 {
					e.refuse("%s of a BigInt by more than %d", operator, limit)
				}
			}
			return v
		}
	}
	for name, f := range map[string]native{
		checkExponent: atMost(maxExponent, "**"),
		checkShift:    atMost(maxBits, "<<"),
		checkSpread: func(c call) goja.Value {
			c.Arguments = []goja.Value{goja.Undefined(), c.Argument(0)}
			properties(e, "...", &c)
			return c.Argument(1)
		},
	} {
		if err := e.vm.GlobalObject().DefineDataProperty(name, e.vm.ToValue(f), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE); err != nil {
			return err
		}
	}
	return nil
}
