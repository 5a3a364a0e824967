package cel

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// Outcomes implements [lang.Branched].
func (p *program) Outcomes() []lang.Outcome { return p.outcomes }

// mostOutcomes is how many outcomes are told apart. An expression with more may have any result.
const mostOutcomes = 16

// outcomesOf returns what is known of the results of an expression that was checked: one shape
// for each branch of its conditions.
func outcomesOf(checked *ast.AST) (list []lang.Outcome) {
	for _, e := range branches(checked.Expr()) {
		if list = append(list, outcomesOfBranch(checked, e)...); len(list) > mostOutcomes {
			return []lang.Outcome{{}}
		}
	}
	return list
}

// branches returns the expressions one of which is the result of another.
func branches(e ast.Expr) (list []ast.Expr) {
	todo := []ast.Expr{e}
	for len(todo) > 0 && len(list) <= mostOutcomes {
		e := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Conditional {
			args := e.AsCall().Args()
			todo = append(todo, args[2], args[1])
			continue
		}
		list = append(list, e)
	}
	return list
}

func outcomesOfBranch(checked *ast.AST, e ast.Expr) []lang.Outcome {
	if e.Kind() != ast.MapKind {
		switch checked.GetType(e.ID()).Kind() {
		case types.StringKind, types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind, types.BytesKind, types.NullTypeKind, types.ListKind, types.TimestampKind, types.DurationKind:
			return []lang.Outcome{{Other: true}}
		}
		return []lang.Outcome{{}}
	}
	list := []lang.Outcome{{Map: true}}
	for _, entry := range e.AsMap().Entries() {
		written := entry.AsMapEntry()
		key, isText := constantOf(written.Key()).AsString()
		if !isText || written.IsOptional() {
			return []lang.Outcome{{}} // it may have any key
		}
		values := branches(written.Value())
		if len(values)*len(list) > mostOutcomes {
			return []lang.Outcome{{}}
		}
		var next []lang.Outcome
		for _, s := range list {
			for _, v := range values {
				next = append(next, lang.Outcome{Map: true, Fields: append(slices.Clone(s.Fields), value.Field{Name: key, Value: constantOf(v)})})
			}
		}
		list = next
	}
	return list
}

// constantOf returns the value of a literal text or whole number, and null for all else.
func constantOf(e ast.Expr) value.Value {
	if e.Kind() != ast.LiteralKind {
		return value.Null()
	}
	switch v := e.AsLiteral().Value().(type) {
	case string:
		return value.String(v)
	case int64:
		return value.Int(v)
	}
	return value.Null()
}
