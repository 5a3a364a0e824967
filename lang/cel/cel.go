// Package cel evaluates expressions in the Common Expression Language on
// payloads.
//
// An expression sees the payload as self and, if it is a map, its keys as variables.
// The keys are not known before it runs, so every name has an unknown type for the
// checker. The checker finds functions that do not exist and operators that cannot
// work. A name that the payload does not have is an error of the evaluation.
//
// Read [Language] first, then the environment below it, then program.go, which
// evaluates: what is common by direct.go, with operators in direct_values.go and
// comprehensions in direct_macros.go, and the rest by the library's interpreter.
//
// For the interpreter, values.go converts between payloads and CEL values; ordered.go
// has maps that keep their order; arith.go has arithmetic with mixed numbers. meter.go
// limits an evaluation, functions.go and regex.go have the cost of each function, and
// call.go charges calls. diagnose.go and explain.go make messages about wrong code, and
// review.go warns of code that compiles.
//
// The package must not know nodes, processes or how documents are parsed.
package cel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// A Language compiles CEL. Make one with [New]; it is safe for concurrent use.
type Language struct {
	library func() (*library, error)
}

// A library has what all expressions share.
type library struct {
	env      *cel.Env
	works    map[string]work                // costs of functions by name
	bindings map[string]*functions.Overload // by overload and by name
}

// New returns the language. The first use makes the environment of functions, which
// takes some milliseconds.
func New() *Language { return &Language{library: sync.OnceValues(newLibrary)} }

func newLibrary() (*library, error) {
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	l := &library{env: env, works: works()}
	l.bindings, err = bindings(env.Functions())
	return l, err
}

func newEnv() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}),
		cel.StdLib(cel.StdLibSubset(standard())),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableIdentifierEscapeSyntax(),
		cel.OptionalTypes(),
		ext.Strings(), ext.Math(), ext.Lists(), ext.Sets(), ext.Encoders(ext.EncodersVersion(1)), ext.Regex(),
		ext.Bindings(), ext.TwoVarComprehensions(),
		cel.Function(overloads.TypeConvertString, cel.Overload("error_to_string",
			[]*cel.Type{cel.MapType(cel.DynType, cel.DynType)}, cel.StringType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return v.ConvertToType(types.StringType) }))),
	}
	options = append(options, operatorFunctions()...)
	options = append(options, encoders()...)
	// Last, because libraries add types of their own to the provider before it.
	return cel.NewCustomEnv(append(options, cel.CustomTypeProvider(provider{}))...)
}

// A provider makes every plain name a variable of unknown type for the checker, so that
// the environment need not be extended for each expression. It has no protocol buffer
// messages.
type provider struct{}

func (provider) EnumValue(name string) ref.Val { return types.NewErr("unknown name %q", name) }

// FindIdent implements types.Provider. The activation finds the names of types, after
// the keys of the payload: a payload may have a key "type".
func (provider) FindIdent(string) (ref.Val, bool) { return nil, false }

func (provider) FindStructType(name string) (*types.Type, bool) {
	if strings.ContainsRune(name, '.') {
		return nil, false
	}
	return types.DynType, true
}

func (provider) FindStructFieldNames(string) ([]string, bool) { return nil, false }

func (provider) FindStructFieldType(string, string) (*types.FieldType, bool) { return nil, false }

func (provider) NewValue(name string, _ map[string]ref.Val) ref.Val {
	return types.NewErr("unknown type %q", name)
}

// typeNames are the types that an expression can name, as in type(x) == int.
func typeNames() map[string]ref.Val {
	names := map[string]ref.Val{}
	for _, t := range []*types.Type{
		types.BoolType, types.BytesType, types.DoubleType, types.IntType, types.ListType, types.MapType,
		types.NullType, types.OptionalType, types.StringType, types.TypeType, types.UintType,
	} {
		names[t.TypeName()] = t
	}
	return names
}

// Compile implements [lang.Language]. In both modes, code is one expression.
func (l *Language) Compile(code diag.Text, opts lang.Options) (lang.Program, error) {
	library, err := l.library()
	if err != nil {
		return nil, fmt.Errorf("cel environment: %w", err)
	}
	if strings.TrimSpace(code.Code) == "" {
		return nil, lang.Syntax(code, 1, 1, "the expression is empty")
	}
	env := library.env
	parsed, issues := env.Parse(code.Code)
	if issues.Err() != nil {
		return nil, library.diagnose(code, issues)
	}
	shape := library.survey(parsed.NativeRep().Expr())
	info := parsed.NativeRep().SourceInfo()
	if shape.message != nil {
		loc := info.GetStartLocation(shape.message.ID())
		return nil, lang.Syntax(code, loc.Line(), loc.Column()+1, "%s{…} makes a message, and there are none", shape.message.AsStruct().TypeName()).
			WithHint(`a map is written {"name": value}`)
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, library.diagnose(code, issues)
	}
	planned, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(shape.decorate))
	if err != nil {
		line, col := 1, 1
		var bad *misuse
		if errors.As(err, &bad) {
			loc := info.GetStartLocation(bad.id)
			line, col = loc.Line(), loc.Column()+1
		}
		return nil, lang.Syntax(code, line, col, "%s", message(err))
	}
	p := &program{planned: planned, timeout: opts.Timeout, code: code, info: info, types: typeNames(), language: l}
	if root := parsed.NativeRep().Expr(); root.Kind() == ast.ListKind && root.AsList().Size() > 0 && len(root.AsList().OptionalIndices()) == 0 {
		if first := root.AsList().Elements()[0]; first.Kind() == ast.LiteralKind {
			p.leads, _ = first.AsLiteral().Value().(string)
		}
	}
	p.outcomes = outcomesOf(checked.NativeRep())
	p.direct, p.vars = shape.direct(checked.NativeRep().Expr())
	p.kind, p.typed = resultKinds[checked.OutputType().Kind()]
	p.shape = (&review{code: code, tree: checked.NativeRep(), payload: opts.Shape, warn: opts.Warn}).of()
	if parsed.NativeRep().Expr().Kind() == ast.LiteralKind {
		v, err := p.Eval(context.Background(), value.Null())
		return folded{v}, err
	}
	return p, nil
}

// A folded is the program of a literal, such as a condition that is always true.
type folded struct{ value value.Value }

func (f folded) Eval(context.Context, value.Value) (value.Value, error) { return f.value, nil }

func (f folded) Constant() value.Value { return f.value }

// A shape is what the planner needs to know of an expression.
type shape struct {
	library  *library
	loops    map[int64]loop   // by step of the comprehension
	keys     map[int64]bool   // expressions between [ and ]
	optional map[int64][]bool // which entries are optional, in maps that have such
	message  ast.Expr         // the first that makes a message, or nil
}

func (l *library) survey(root ast.Expr) *shape {
	s := &shape{library: l, loops: map[int64]loop{}, keys: map[int64]bool{}, optional: map[int64][]bool{}}
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.CallKind:
			if c := e.AsCall(); c.FunctionName() == operators.Index || c.FunctionName() == operators.OptIndex {
				s.keys[c.Args()[1].ID()] = true
			}
		case ast.ComprehensionKind:
			var pass loop
			pass.weigh(e.AsComprehension().LoopCondition())
			pass.weigh(e.AsComprehension().LoopStep())
			s.loops[e.AsComprehension().LoopStep().ID()] = pass
		case ast.MapKind:
			var optional []bool
			for _, entry := range e.AsMap().Entries() {
				optional = append(optional, entry.AsMapEntry().IsOptional())
			}
			if slices.Contains(optional, true) {
				s.optional[e.ID()] = optional
			}
		case ast.StructKind:
			if s.message == nil {
				s.message = e
			}
		}
	}))
	return s
}

// decorate replaces the planner's maps with maps that keep their order, and charges for
// calls and for passes of comprehensions.
func (s *shape) decorate(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	step, err := s.replaced(step)
	if err != nil {
		return nil, err
	}
	if l, ok := s.loops[step.ID()]; ok {
		return &pass{step, l}, nil
	}
	if s.keys[step.ID()] && !validIndex(step) {
		return opaque{step}, nil
	}
	return step, nil
}

// An opaque step hides from the planner that it is constant. The planner refuses
// constants of a wrong type between [ and ], but that is an error of the evaluation:
// m[null] || true is true.
type opaque struct{ interpreter.InterpretableV2 }

// validIndex reports whether the planner accepts the step between [ and ].
func validIndex(step interpreter.InterpretableV2) bool {
	switch step := step.(type) {
	case interpreter.InterpretableAttribute:
		return true
	case interpreter.InterpretableConst:
		return validKey(step.Value())
	}
	return false
}

func (s *shape) replaced(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if call, ok := step.(interpreter.InterpretableCall); ok {
		if call.Function() == mapInsert {
			return filling{call}, nil
		}
		return s.charged(call)
	}
	made, ok := step.(interpreter.InterpretableConstructor)
	if !ok || made.Type() != types.MapType {
		return step, nil
	}
	m := &mapLiteral{id: made.ID(), optional: s.optional[made.ID()]}
	for i, v := range made.InitVals() {
		if i%2 == 0 {
			m.keys = append(m.keys, v)
		} else {
			m.vals = append(m.vals, v)
		}
	}
	if constant, ok := m.constant(); ok {
		return interpreter.NewConstValue(m.id, constant), nil
	}
	return m, nil
}
