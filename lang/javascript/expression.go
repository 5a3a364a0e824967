package javascript

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// An expression is compiled as the body of a function. Its parameters are self, and the
// names in it that are keys of the payload. So any other name is a global or a
// ReferenceError, as usual. Payloads with other keys need another function: there is one
// for each set of keys that occurred.
type expression struct {
	code  string
	file  string   // exprFile or translatedFile
	names []string // identifiers of the code that can be keys, sorted

	variants sync.Map     // of *goja.Program, by the set of names in the payload
	stored   atomic.Int32 // number of variants, at most maxVariants
}

// maxVariants limits the functions kept for one expression, because clients may choose
// the keys of payloads. Further sets of keys are compiled each time.
const maxVariants = 64

// marker is a variable to which the expression is assigned while it is translated. So the
// bundler parses it as an expression.
const marker = "$$expression"

// The file names of expressions in stack traces: as written, with one line before, and
// translated, without usable places.
const (
	exprFile       = "code:expression"
	translatedFile = "code:translated"
)

func (l *Language) compileExpression(code diag.Text, opts lang.Options) (lang.Program, error) {
	if err := checkSize(code); err != nil {
		return nil, err
	}
	if strings.TrimSpace(code.Code) == "" {
		return nil, lang.Syntax(code, 1, 1, "the expression is empty")
	}
	translated := marker + " = (\n" + code.Code + "\n)"
	file := exprFile
	if l.typescript || !single(translated) { // otherwise it is plain JavaScript
		var err error
		file = translatedFile
		if translated, err = l.translate(code, translated); err != nil {
			return nil, err
		}
	}
	x := &expression{code: strings.TrimPrefix(translated, marker+" = "), file: file}
	x.names = candidates(x.code)
	if _, err := x.compile(nil); err != nil {
		return nil, lang.Syntax(code, 1, 1, "the interpreter cannot run this expression: %v", err)
	}
	if err := l.pool.warm(); err != nil {
		return nil, err
	}
	p := &program{pool: l.pool, code: code, timeout: opts.Timeout, private: mayBePrivate(x.code), log: opts.Log}
	p.call = x.call
	return p, nil
}

// translate removes types and newer syntax from an expression with its marker, and
// returns diagnostics.
func (l *Language) translate(code diag.Text, marked string) (string, error) {
	result := api.Transform(marked, api.TransformOptions{
		Loader:        l.loader(),
		Target:        api.ES2022,
		Supported:     missing(),
		LogLevel:      api.LogLevelSilent,
		Sourcefile:    mainFile,
		TsconfigRaw:   "{}",
		Charset:       api.CharsetUTF8,
		LegalComments: api.LegalCommentsNone,
	})
	if len(result.Errors) > 0 {
		for _, m := range result.Errors {
			if m.Location == nil {
				continue
			}
			m.Location.Line-- // the first line is the marker
		}
		return "", diagnose(code, &imports{}, result.Errors)
	}
	translated := strings.TrimSuffix(strings.TrimSpace(string(result.Code)), ";")
	if !single(translated) {
		return "", lang.Syntax(code, 1, 1, "this is not one expression").WithHint("statements can be used in the code of a snippet")
	}
	return translated, nil
}

// single reports whether the code is one assignment to the marker.
func single(code string) bool {
	tree, err := goja.Parse("", code, parser.WithDisableSourceMaps)
	if err != nil || len(tree.Body) != 1 {
		return false
	}
	statement, ok := tree.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return false
	}
	assign, ok := statement.Expression.(*ast.AssignExpression)
	if !ok {
		return false
	}
	to, ok := assign.Left.(*ast.Identifier)
	return ok && to.Name == marker
}

var identifier = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[\p{L}\p{Nl}$_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}$]*`)
})

// candidates returns the words of the code that can be variables. Some may be names of
// properties or parts of strings: an unused parameter does no harm.
func candidates(code string) []string {
	names := identifier().FindAllString(code, -1)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return name == "self" || slices.Contains(reserved(), name) || !utf8.ValidString(name)
	})
}

// reserved are words that cannot be parameters in strict code.
func reserved() []string {
	return []string{
		"arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete",
		"do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "if", "implements",
		"import", "in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public",
		"return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "void", "while",
		"with", "yield",
	}
}

// compile returns the function for payloads that have the given subset of the names.
func (x *expression) compile(params []string) (*goja.Program, error) {
	return compileScript(x.file, `(`+strings.Join(append([]string{"self"}, params...), ", ")+`) => (`+x.code+`
)`, parser.WithDisableSourceMaps)
}

func (x *expression) call(e *engine, in value.Value) (goja.Value, error) {
	self := input{e}.value(in)
	keys, _ := handler(self).(*object)
	var params []string
	args := append(make([]goja.Value, 0, 1+len(x.names)), self)
	present := make([]byte, len(x.names))
	for i, name := range x.names {
		present[i] = '0'
		if keys == nil {
			continue
		}
		if v := keys.Get(name); v != nil {
			present[i] = '1'
			args = append(args, v)
		}
	}
	script, ok := x.variants.Load(string(present))
	if !ok {
		for i, name := range x.names {
			if present[i] == '1' {
				params = append(params, name)
			}
		}
		made, err := x.compile(params)
		if err != nil {
			return nil, err
		}
		if x.stored.Add(1) <= maxVariants {
			x.variants.Store(string(present), made)
		}
		script = made
	}
	f, err := e.function(script.(*goja.Program))
	if err != nil {
		return nil, err
	}
	return f(goja.Undefined(), args...)
}

// maxKept limits the functions that an engine keeps. Beyond it, all are dropped, so
// that functions of workflows that no longer exist go as well.
const maxKept = 256

// function returns the function of an expression. Unlike the function of a module it can
// be kept: it has no outer variables, and the code cannot name it.
func (e *engine) function(script *goja.Program) (goja.Callable, error) {
	if f, ok := e.kept[script]; ok {
		return f, nil
	}
	v, err := e.vm.RunProgram(script)
	if err != nil {
		return nil, err
	}
	f, ok := goja.AssertFunction(v)
	if !ok {
		return nil, errNoFunction
	}
	if e.kept == nil || len(e.kept) >= maxKept {
		e.kept = make(map[*goja.Program]goja.Callable)
	}
	e.kept[script] = f
	return f, nil
}
