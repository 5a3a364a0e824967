package javascript

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// probeTimeout is how long the top level of a module may run when it is compiled, to see
// what it exports. It also runs for every payload, so it should not take longer.
const probeTimeout = time.Second

// A program is compiled code of either mode. It is safe for concurrent use.
type program struct {
	pool    *pool
	code    diag.Text
	root    string // folder of the document
	timeout time.Duration
	private bool         // the code may have classes with private fields
	log     *slog.Logger // of the node; nil if there is none

	// call runs the code on a payload in an engine.
	call func(e *engine, in value.Value) (goja.Value, error)
}

func (p *program) Eval(ctx context.Context, in value.Value) (value.Value, error) {
	return p.run(ctx, p.timeout, func(e *engine) (value.Value, error) {
		e.log = p.log
		v, err := p.call(e, in)
		if err != nil {
			return value.Value{}, err
		}
		if v, err = e.settle(v); err != nil {
			return value.Value{}, err
		}
		out := output{e: e}
		return out.value(v)
	})
}

// run calls f with an engine, until ctx is done or the timeout has passed.
func (p *program) run(ctx context.Context, timeout time.Duration, f func(*engine) (value.Value, error)) (value.Value, error) {
	if err := lang.Stopped(ctx); err != nil {
		return value.Value{}, err
	}
	e, err := p.pool.get()
	if err != nil {
		return value.Value{}, err
	}
	e.begin(ctx, timeout)
	v, err := p.guard(e, f)
	stopped := e.end()
	if p.private {
		e.unusable = e.unusable || slices.ContainsFunc(e.private, func(fields reflect.Value) bool { return fields.Len() > 0 })
	}
	switch {
	case stopped == nil:
	case err == nil:
		e.vm.ClearInterrupt() // it came too late
	default:
		e.unusable = true
		v, err = value.Value{}, stopped
	}
	p.pool.put(e)
	if stopped != nil && e.grown() {
		// Otherwise the collector lets the heap grow to twice the size that this run
		// has used, and the next run starts from there.
		e = nil
		runtime.GC()
	}
	return v, err
}

// guard calls f and returns its failure as an error, also a panic of the interpreter. It
// also reads the thrown value, which may run code.
func (p *program) guard(e *engine, f func(*engine) (value.Value, error)) (v value.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			e.unusable = true
			v, err = value.Value{}, p.panicked(r)
		}
	}()
	var failed error
	thrown := e.vm.Try(func() {
		v, failed = f(e)
	})
	if thrown != nil {
		failed = thrown
	}
	if failed == nil {
		return v, nil
	}
	return value.Value{}, p.failure(e, failed)
}

func (p *program) panicked(r any) error {
	var interrupted *goja.InterruptedError
	var overflow *goja.StackOverflowError
	err, _ := r.(error)
	switch {
	case errors.As(err, &interrupted):
		return interrupted
	case errors.As(err, &overflow):
		return errOverflow
	}
	return fmt.Errorf("the interpreter broke down: %v", r)
}

var errOverflow = &lang.Thrown{Message: fmt.Sprintf("calls nest deeper than %d", maxCalls)}

func (p *program) failure(e *engine, err error) error {
	var (
		interrupted *goja.InterruptedError
		overflow    *goja.StackOverflowError
		exception   *goja.Exception
		rejected    *rejection
	)
	switch {
	case errors.As(err, &interrupted):
		e.unusable = true
		return err
	case errors.As(err, &overflow):
		e.unusable = true
		return errOverflow
	case errors.As(err, &rejected):
		return p.thrown(e, rejected.reason, nil)
	case errors.As(err, &exception):
		return p.thrown(e, exception.Value(), exception.Stack())
	}
	return &lang.Thrown{Message: err.Error()}
}

// thrown describes a thrown value with a place: where the error object was made if it
// is one, otherwise where it was thrown.
func (p *program) thrown(e *engine, v goja.Value, stack []goja.StackFrame) error {
	var t *lang.Thrown
	var trace string
	if failed := e.vm.Try(func() {
		t = e.thrown(v)
		if o, ok := v.(*goja.Object); ok && o.ClassName() == "Error" {
			trace = text(o.Get("stack"))
		}
	}); failed != nil {
		t = &lang.Thrown{Message: "what was thrown cannot be read"}
	}
	t.Pos = p.placeOf(trace)
	for _, frame := range stack {
		if t.Pos.IsValid() {
			break
		}
		at := frame.Position()
		t.Pos = p.place(at.Filename, at.Line, at.Column)
	}
	return t
}

// placeOf finds the innermost place in a stack trace that is in the document or
// in a file that it imports. A line reads "\tat name (file:line:column(pc))".
func (p *program) placeOf(trace string) diag.Pos {
	for line := range strings.Lines(trace) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "at ")
		if !ok {
			continue
		}
		if i := strings.LastIndex(line, " ("); i >= 0 {
			line = line[i+2:]
		}
		end := strings.LastIndexByte(line, '(')
		if end < 0 {
			continue
		}
		line = line[:end]
		var row, col int
		i := strings.LastIndexByte(line, ':')
		if i < 0 {
			continue
		}
		j := strings.LastIndexByte(line[:i], ':')
		if j < 0 {
			continue
		}
		if _, err := fmt.Sscanf(line[j+1:], "%d:%d", &row, &col); err != nil {
			continue
		}
		if pos := p.place(line[:j], row, col); pos.IsValid() {
			return pos
		}
	}
	return diag.Pos{}
}

func (p *program) place(file string, line, col int) diag.Pos {
	switch {
	case file == exprFile:
		return p.code.Pos(line-1, col) // the first line is the head of the function
	case file == translatedFile:
		return p.code.Pos(1, 1)
	case line < 1 || file == "" || file == "bundle.js" || file == "bootstrap.js" || strings.HasPrefix(file, "<"):
		return diag.Pos{}
	case file == mainFile || strings.HasSuffix(file, "/"+mainFile):
		return p.code.Pos(line, col+1) // source maps count columns from 0
	}
	return diag.Pos{File: filepath.Join(p.root, filepath.FromSlash(file)), Line: line, Col: col + 1}
}

// A rejection is the reason of a rejected promise.
type rejection struct{ reason goja.Value }

func (r *rejection) Error() string { return text(r.reason) }

// settle returns the result of a promise or another thenable. All jobs have run, so
// nothing can settle it later.
func (e *engine) settle(v goja.Value) (goja.Value, error) {
	o, ok := v.(*goja.Object)
	if !ok {
		return v, nil
	}
	if o.ExportType() != typePromise {
		if handler(o) != nil {
			return v, nil // a part of the payload, which has no functions
		}
		if _, ok := goja.AssertFunction(o.Get("then")); !ok {
			return v, nil
		}
		resolved, err := e.resolve(goja.Undefined(), o)
		if err != nil {
			return nil, err
		}
		o = resolved.ToObject(e.vm)
	}
	promise, ok := o.Export().(*goja.Promise)
	if !ok {
		return v, nil
	}
	switch promise.State() {
	case goja.PromiseStateFulfilled:
		return promise.Result(), nil
	case goja.PromiseStateRejected:
		return nil, &rejection{promise.Result()}
	}
	return nil, errors.New("the promise never settles: nothing is left that could resolve it")
}

func (l *Language) compileFunction(code diag.Text, opts lang.Options) (lang.Program, error) {
	m, err := l.bundle(code)
	if err != nil {
		return nil, err
	}
	root, _ := folder(code.File) // a document without a folder has no other files either
	p := &program{pool: l.pool, code: code, root: root, timeout: opts.Timeout, log: opts.Log}
	p.exports(m)
	if err := p.probe(m); err != nil {
		return nil, wrongModule(code, err)
	}
	return p, nil
}

// exports makes the program call the export of a module.
func (p *program) exports(m *module) {
	p.private = m.private
	p.call = func(e *engine, in value.Value) (goja.Value, error) {
		f, err := m.function(e)
		if err != nil {
			return nil, err
		}
		return f(goja.Undefined(), input{e}.value(in))
	}
}

// probe runs the top level of a module to see whether it exports a function.
func (p *program) probe(m *module) error {
	_, err := p.run(context.Background(), probeTimeout, func(e *engine) (value.Value, error) {
		_, err := m.function(e)
		return value.Value{}, err
	})
	return err
}

// wrongModule returns the diagnostic for an error of probe.
func wrongModule(code diag.Text, err error) error {
	var timeout *lang.Timeout
	if errors.As(err, &timeout) {
		return lang.Syntax(code, 1, 1, "the top level of the module runs longer than %s", probeTimeout).
			WithHint("it runs for every payload: put the work into the function, and see that it ends")
	}
	d := lang.Syntax(code, 1, 1, "%v", err)
	var thrown *lang.Thrown
	if errors.As(err, &thrown) && thrown.Pos.IsValid() {
		d.Pos = thrown.Pos
	}
	// The error may have come from another process. A function body alone, as in return body.name,
	// fails before that.
	if err.Error() == errNoFunction.Error() || !strings.Contains(code.Code, "export") {
		d.WithHint("write export default function (input) { … }")
	}
	return d
}

var errNoFunction = errors.New("the code does not export a function")

// function runs the top level of the module and returns the exported function.
func (m *module) function(e *engine) (goja.Callable, error) {
	v, err := e.vm.RunProgram(m.script)
	if err != nil {
		return nil, err
	}
	if f, ok := goja.AssertFunction(v); ok {
		return f, nil
	}
	if o, ok := v.(*goja.Object); ok { // exports.default = …
		if f, ok := goja.AssertFunction(o.Get("default")); ok {
			return f, nil
		}
	}
	return nil, errNoFunction
}
