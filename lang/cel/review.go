package cel

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A review finds what is probably not meant in an expression that compiles.
type review struct {
	code    diag.Text
	tree    *ast.AST      // checked
	payload *schema.Shape // what is known of it
	warn    func(*diag.Diagnostic)

	// tested are the fields of which the expression itself asks whether they are there.
	tested map[string]bool
}

// of reviews the whole expression, and returns what is known of its result.
func (r *review) of() *schema.Shape {
	r.tested = make(map[string]bool)
	ast.PreOrderVisit(r.tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			if s := e.AsSelect(); s.IsTestOnly() {
				r.tested[s.FieldName()] = true
			}
		case ast.CallKind:
			name := -1
			switch e.AsCall().FunctionName() {
			case operators.In:
				name = 0
			case operators.OptSelect, operators.OptIndex:
				name = 1
			}
			if name >= 0 {
				r.tested[literalText(e.AsCall().Args()[name])] = true
			}
		}
	}))
	return r.visit(r.tree.Expr(), true, nil)
}

// literalText returns the value of a literal that is a text; "" for other expressions.
func literalText(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return ""
	}
	s, _ := e.AsLiteral().Value().(string)
	return s
}

// locals are the names that a comprehension binds, with what is known of them.
type locals struct {
	names map[string]*schema.Shape
	outer *locals
}

func (l *locals) find(name string) (s *schema.Shape, ok bool) {
	for ; l != nil && !ok; l = l.outer {
		s, ok = l.names[name]
	}
	return s, ok
}

// visit reviews a part of the expression, and returns what is known of its value. result says
// that it is the result, or a part of it.
func (r *review) visit(e ast.Expr, result bool, bound *locals) *schema.Shape {
	switch e.Kind() {
	case ast.IdentKind:
		return r.name(e, bound)
	case ast.SelectKind:
		s := e.AsSelect()
		of := r.visit(s.Operand(), false, bound)
		if s.IsTestOnly() {
			return nil
		}
		return r.field(e, of, s.FieldName())
	case ast.CallKind:
		return r.call(e.AsCall(), e, result, bound)
	case ast.ListKind:
		for _, elem := range e.AsList().Elements() {
			r.visit(elem, result, bound)
		}
	case ast.MapKind:
		return r.mapping(e.AsMap(), result, bound)
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		of := r.visit(c.IterRange(), false, bound)
		r.visit(c.AccuInit(), false, bound)
		inner := &locals{map[string]*schema.Shape{c.IterVar(): nil, c.AccuVar(): nil}, bound}
		switch {
		case c.HasIterVar2():
			inner.names[c.IterVar2()] = nil
		case of != nil:
			inner.names[c.IterVar()] = of.Items
		}
		for _, part := range []ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.visit(part, false, inner)
		}
	}
	return nil
}

func (r *review) name(e ast.Expr, bound *locals) *schema.Shape {
	name := strings.TrimPrefix(e.AsIdent(), ".")
	if s, ok := bound.find(name); ok {
		return s
	}
	if name == "self" {
		return r.payload
	}
	if _, ok := typeNames()[name]; ok || strings.HasPrefix(name, "@") {
		return r.payload.Field(name)
	}
	return r.field(e, r.payload, name)
}

// field returns what is known of a field of a value, and warns if there can be none.
func (r *review) field(e ast.Expr, of *schema.Shape, name string) *schema.Shape {
	if of.Lacks(name) && !r.tested[name] {
		names := slices.Sorted(maps.Keys(of.Fields))
		hint := "there is none at all"
		if near, ok := spell.Nearest(name, names); ok {
			hint = "did you mean " + strconv.Quote(near) + "?"
		} else if len(names) > 0 {
			hint = "it has " + strings.Join(names[:min(len(names), maxNamed)], ", ")
		}
		msg := "what comes here has no such field"
		if !r.code.Hidden {
			msg = "what comes here has no field " + shown(token{text: name})
		}
		r.add(e, diag.CodeNoField, msg, hint)
	}
	return of.Field(name)
}

// maxNamed bounds the fields that a hint names.
const maxNamed = 10

func (r *review) call(c ast.CallExpr, e ast.Expr, result bool, bound *locals) *schema.Shape {
	if c.IsMemberFunction() {
		r.visit(c.Target(), false, bound)
	}
	var known []*schema.Shape
	for i, arg := range c.Args() {
		known = append(known, r.visit(arg, result && c.FunctionName() == operators.Conditional && i > 0, bound))
	}
	switch c.FunctionName() {
	case operators.Conditional:
		return schema.Either(known[1], known[2])
	case operators.Index:
		if name := literalText(c.Args()[1]); name != "" {
			return r.field(c.Args()[1], known[0], name)
		}
		if t := r.tree.GetType(c.Args()[1].ID()).Kind(); known[0] != nil && t == types.IntKind {
			return known[0].Items
		}
	}
	return nil
}

func (r *review) mapping(m ast.MapExpr, result bool, bound *locals) *schema.Shape {
	r.keys(m, result)
	made := &schema.Shape{Fields: make(map[string]*schema.Shape), Closed: true}
	for _, entry := range m.Entries() {
		key := entry.AsMapEntry().Key()
		r.visit(key, false, bound)
		of := r.visit(entry.AsMapEntry().Value(), result, bound)
		if name := literalText(key); key.Kind() == ast.LiteralKind && (name != "" || key.AsLiteral() == types.String("")) {
			made.Fields[name] = of
		} else {
			made.Closed = false
		}
	}
	return made
}

// keys reviews the keys of a map. An optional entry may replace one before it.
func (r *review) keys(m ast.MapExpr, result bool) {
	seen := make(map[ref.Val]bool) // in a result, as texts
	for _, entry := range m.Entries() {
		key := entry.AsMapEntry().Key()
		hint := "write string(…) around it"
		if key.Kind() == ast.LiteralKind && validKey(key.AsLiteral()) {
			same := canonical(key.AsLiteral())
			if name, err := keyName(same); err == nil && result {
				same, hint = types.String(name), fmt.Sprintf("write %q", name)
			}
			if seen[same] && !entry.AsMapEntry().IsOptional() {
				r.add(key, diag.CodeKeyTwice, "the key occurs twice in the map", "remove one of the two, or rename it")
				continue
			}
			seen[same] = true
		}
		if result && becomesText(r.tree.GetType(key.ID())) {
			r.add(key, diag.CodeKeyNotText, "a key that is not text becomes text in the result", hint)
		}
	}
}

// becomesText reports whether keys of a type are not text, but become text in a payload.
func becomesText(t *types.Type) bool {
	switch t.Kind() {
	case types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind:
		return true
	}
	return false
}

func (r *review) add(at ast.Expr, code diag.Code, msg, hint string) {
	if r.warn == nil {
		return
	}
	loc := r.tree.SourceInfo().GetStartLocation(at.ID())
	d := hinted(diag.Warningf(code, "%s", msg), r.code, hint)
	d.Pos = r.code.Pos(loc.Line(), loc.Column()+1)
	r.warn(d)
}

// resultKinds are the kinds of results by their types; other types are not those of payloads, or not
// known.
var resultKinds = map[types.Kind]value.Kind{
	types.BoolKind: value.KindBool, types.IntKind: value.KindInt, types.UintKind: value.KindUint, types.DoubleKind: value.KindFloat,
	types.StringKind: value.KindString, types.BytesKind: value.KindBinary, types.TimestampKind: value.KindTime, types.DurationKind: value.KindDuration,
	types.ListKind: value.KindList, types.MapKind: value.KindMap, types.NullTypeKind: value.KindNull,
}
