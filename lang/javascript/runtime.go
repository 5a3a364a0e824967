package javascript

import (
	"context"
	_ "embed" // for the bootstrap
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/uniflow-labs/uniflow/lang"
)

// What one run may make, beyond which a RangeError is thrown. Memory as such is
// not limited: a loop that appends until there is none left ends the process.
// These bounds are for single calls whose size may come from a client.
const (
	maxText  = 64 << 20 // bytes or characters that repeat, padStart, replace, join, a buffer may make
	maxItems = 16 << 20 // elements that new Array, fill and Array.from may make
	maxArgs  = 1 << 20  // arguments of apply
	maxDepth = 1000     // levels of what JSON.parse reads
	maxCode  = 64 << 10 // characters of code given to eval or Function
	maxCalls = 2000     // calls inside of one another; unwinding native ones takes quadratic time, 0.4 s here
)

// maxMatch is how long one regular expression may look for a match, after which
// it has found none. Only those with look-around or back references can take so
// long; they run outside of the interpreter, where nothing interrupts them.
const maxMatch = time.Second

// pollEvery is how long after a context is done a run may take to notice.
const pollEvery = 5 * time.Millisecond

//go:embed bootstrap.js
var bootstrap string

// A pool keeps runtimes whose globals are frozen, which take some milliseconds
// to make. Runtimes know nothing of programs: all programs of a Language, and of
// both dialects, share them.
type pool struct {
	free chan *engine // idle ones; what does not fit is dropped
	prep func() (*goja.Program, error)
}

var limitMatches sync.Once

func newPool() *pool {
	// The library has no other way to set it on the expressions that the
	// interpreter compiles.
	limitMatches.Do(func() { regexp2.DefaultMatchTimeout = maxMatch })
	return &pool{
		// More than one for each processor, because a run may be preempted.
		free: make(chan *engine, 4*runtime.GOMAXPROCS(0)),
		prep: sync.OnceValues(func() (*goja.Program, error) {
			return goja.Compile("bootstrap.js", bootstrap, true)
		}),
	}
}

func (p *pool) get() (*engine, error) {
	select {
	case e := <-p.free:
		return e, nil
	default:
		return p.make()
	}
}

// put takes an engine back, unless its last run ended in a way that may have
// left something undone.
func (p *pool) put(e *engine) {
	if e.spoilt {
		return
	}
	select {
	case p.free <- e:
	default:
	}
}

// warm makes an engine if there is none, so that the first request need not wait
// for one.
func (p *pool) warm() error {
	if len(p.free) > 0 {
		return nil
	}
	e, err := p.get()
	if err != nil {
		return err
	}
	p.put(e)
	return nil
}

func (p *pool) make() (*engine, error) {
	prep, err := p.prep()
	if err != nil {
		return nil, fmt.Errorf("javascript bootstrap: %w", err)
	}
	vm := goja.New()
	vm.SetMaxCallStackSize(maxCalls)
	// Without this, a source map named in code given to eval is read from disk.
	vm.SetParserOptions(parser.WithDisableSourceMaps)
	prepare, err := vm.RunProgram(prep)
	if err != nil {
		return nil, fmt.Errorf("javascript bootstrap: %w", err)
	}
	call, ok := goja.AssertFunction(prepare)
	if !ok {
		return nil, fmt.Errorf("javascript bootstrap: got %s, want a function", prepare)
	}
	limits := vm.NewObject()
	for name, v := range map[string]any{
		"text": maxText, "items": maxItems, "args": maxArgs, "depth": maxDepth, "code": maxCode,
		"nesting": func(c goja.FunctionCall) goja.Value { return vm.ToValue(nesting(c.Argument(0).String())) },
	} {
		if err := limits.Set(name, v); err != nil {
			return nil, fmt.Errorf("javascript bootstrap: %w", err)
		}
	}
	made, err := call(goja.Undefined(), limits)
	if err != nil {
		return nil, fmt.Errorf("javascript bootstrap: %w", err)
	}
	e := &engine{vm: vm}
	helpers := made.ToObject(vm)
	for name, into := range map[string]*goja.Callable{
		"failure": &e.failure, "bytes": &e.bytes, "date": &e.date, "resolve": &e.resolve, "entries": &e.entries, "elements": &e.elements,
	} {
		if *into, ok = goja.AssertFunction(helpers.Get(name)); !ok {
			return nil, fmt.Errorf("javascript bootstrap: no function %s", name)
		}
	}
	e.watch.timer = time.AfterFunc(time.Hour, e.poll)
	e.watch.timer.Stop()
	return e, nil
}

// nesting returns how deep the brackets of a JSON text nest, outside of strings.
func nesting(text string) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > deepest {
				deepest = depth
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// An engine is one runtime. It belongs to one run at a time.
type engine struct {
	vm     *goja.Runtime
	spoilt bool // not to be used again

	kept map[*goja.Program]goja.Callable // functions of expressions

	failure, bytes, date, resolve, entries, elements goja.Callable // from the bootstrap

	// watch is shared with the timer's goroutine.
	watch struct {
		sync.Mutex
		timer    *time.Timer
		ctx      context.Context // of the run; nil while there is none
		deadline time.Time       // by the timeout; zero is none
		timeout  time.Duration
		stopped  error // why the run was interrupted
	}
}

// begin lets the run end when ctx is done or the timeout has passed. A single
// timer, used again by each run, looks at both: to register with the context
// would cost more than a short run does.
func (e *engine) begin(ctx context.Context, timeout time.Duration) (armed bool) {
	if ctx.Done() == nil && timeout == 0 {
		return false
	}
	w := &e.watch
	w.Lock()
	w.ctx, w.timeout, w.deadline, w.stopped = ctx, timeout, time.Time{}, nil
	first := pollEvery
	if timeout > 0 {
		w.deadline = time.Now().Add(timeout)
		first = min(first, timeout)
	}
	w.timer.Reset(first)
	w.Unlock()
	return true
}

// poll is called by the timer.
func (e *engine) poll() {
	w := &e.watch
	w.Lock()
	defer w.Unlock()
	if w.ctx == nil || w.stopped != nil {
		return // the run has ended: this call was on its way
	}
	left := pollEvery
	if !w.deadline.IsZero() {
		left = min(left, time.Until(w.deadline))
	}
	switch stopped := lang.Stopped(w.ctx); {
	case stopped != nil:
		w.stopped = stopped
	case left <= 0:
		w.stopped = &lang.Timeout{After: w.timeout}
	default:
		w.timer.Reset(left)
		return
	}
	// Under the lock, so that it cannot come after end has returned.
	e.vm.Interrupt(w.stopped)
}

// end stops watching. It returns why the run was told to stop, nil if it was
// not. After it has returned, no interrupt can come until the next begin.
func (e *engine) end() error {
	w := &e.watch
	w.Lock()
	defer w.Unlock()
	w.timer.Stop()
	w.ctx = nil
	return w.stopped
}
