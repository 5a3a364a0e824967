package javascript

import (
	"context"
	_ "embed" // for the bootstrap
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/uniflow-labs/uniflow/lang"
)

// Limits of what one call of a native function may make or visit; beyond them it throws a
// RangeError. These sizes may come from a client. guard.go applies them.
const (
	maxText       = 64 << 20  // bytes or characters of a text or a buffer
	maxItems      = 8 << 20   // elements of an array
	maxMatches    = 2 << 20   // matches in one call of replace or split; each takes some 200 bytes
	maxKeys       = 1 << 20   // characters or elements that become properties
	maxArgs       = 1 << 20   // arguments of apply
	maxDepth      = 1000      // levels of JSON, and of arrays in join
	maxCode       = 64 << 10  // characters of code for eval or Function
	maxCalls      = 2000      // nested calls; unwinding native ones takes quadratic time, 0.4 s here
	maxSteps      = 1 << 31   // comparisons of characters in a search, some 2 s
	maxDigits     = 100_000   // digits of text for a BigInt: 20 ms
	maxBits       = 1 << 20   // bits to shift a BigInt
	maxExponent   = 1 << 14   // exponent of a BigInt
	maxHeapOfCall = 256 << 20 // bytes of the result of JSON.parse
)

// maxResult limits the result of a script, in bytes of value.Value.Size. Shared parts
// count each time they occur, as they do in JSON.
const maxResult = 256 << 20

// maxHeap is by how many bytes the heap of the process may grow while a script runs, in
// addition to the growth by garbage. It is not known which script has allocated them, so
// all scripts that have run for longer than pollEvery are stopped.
const maxHeap = 256 << 20

// pollEvery is how long a run may take to notice that its context is done.
const pollEvery = 5 * time.Millisecond

//go:embed bootstrap.js
var bootstrap string

// A pool keeps runtimes with frozen globals, which take some milliseconds to make.
// Runtimes are independent of programs: all programs of a Language, in both dialects,
// share them.
type pool struct {
	free chan *engine // idle ones; further ones are dropped
	prep func() (*goja.Program, error)
}

func newPool() *pool {
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

// put takes back an engine, unless its last run was interrupted.
func (p *pool) put(e *engine) {
	if e.unusable {
		return
	}
	select {
	case p.free <- e:
	default:
	}
}

// warm makes an engine if there is none, so that the first request does not wait for one.
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
	// Without this, eval reads source maps from disk that its code names.
	vm.SetParserOptions(parser.WithDisableSourceMaps)
	e := &engine{vm: vm, maxHeap: maxHeap}
	e.watch.heap = [2]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	if err := errors.Join(e.guardNatives(), e.operators(), e.console()); err != nil {
		return nil, fmt.Errorf("javascript bootstrap: %w", err)
	}
	prepare, err := vm.RunProgram(prep)
	if err != nil {
		return nil, fmt.Errorf("javascript bootstrap: %w", err)
	}
	call, ok := goja.AssertFunction(prepare)
	if !ok {
		return nil, fmt.Errorf("javascript bootstrap: got %s, want a function", prepare)
	}
	limits := vm.NewObject()
	if err := limits.Set("code", maxCode); err != nil {
		return nil, fmt.Errorf("javascript bootstrap: %w", err)
	}
	made, err := call(goja.Undefined(), limits)
	if err != nil {
		return nil, fmt.Errorf("javascript bootstrap: %w", err)
	}
	helpers := made.ToObject(vm)
	for name, into := range map[string]*goja.Callable{
		"failure": &e.failure, "bytes": &e.bytes, "date": &e.date, "resolve": &e.resolve, "entries": &e.entries, "elements": &e.elements,
		"rangeError": &e.rangeError, "nothing": &e.nothing,
	} {
		if *into, ok = goja.AssertFunction(helpers.Get(name)); !ok {
			return nil, fmt.Errorf("javascript bootstrap: no function %s", name)
		}
	}
	if e.private, err = privateFields(helpers); err != nil {
		return nil, fmt.Errorf("javascript bootstrap: %w", err)
	}
	e.watch.timer = time.AfterFunc(time.Hour, e.checkLimits)
	e.watch.timer.Stop()
	return e, nil
}

// privateFields returns the maps with the private fields that code adds to intrinsics.
// Freezing does not prevent them.
func privateFields(helpers *goja.Object) ([]reflect.Value, error) {
	list, ok := goja.AssertFunction(helpers.Get("intrinsics"))
	if !ok {
		return nil, errors.New("no function intrinsics")
	}
	v, err := list(goja.Undefined())
	if err != nil {
		return nil, err
	}
	intrinsics, ok := v.(*goja.Object)
	if !ok {
		return nil, errInterpreter
	}
	maps := make([]reflect.Value, length(intrinsics))
	for i := range maps {
		o, ok := intrinsics.Get(strconv.Itoa(i)).(*goja.Object)
		if !ok {
			return nil, errInterpreter
		}
		object, err := inner(o)
		if err != nil {
			return nil, err
		}
		maps[i] = object.FieldByName("privateElements")
		if maps[i].Kind() != reflect.Map {
			return nil, errInterpreter
		}
	}
	return maps, nil
}

// An engine is one runtime. It belongs to one run at a time.
type engine struct {
	vm       *goja.Runtime
	unusable bool // must not be reused

	kept map[*goja.Program]goja.Callable // functions of expressions

	failure, bytes, date, resolve, entries, elements goja.Callable // from the bootstrap
	rangeError, nothing                              goja.Callable

	constantLength goja.Callable // whether the length of an object is constant; undefined without a length

	private  []reflect.Value         // maps of private fields of the intrinsics
	patterns map[patternKey]*pattern // of regular expressions that were rehearsed

	// For the current run.
	log     *slog.Logger            // of its node; nil: records are dropped
	records int                     // written so far
	symbols map[string]*goja.Symbol // registered by Symbol.for
	joining []*goja.Object          // nested arrays in join
	text    struct {                // the last rehearsed text
		of    goja.String
		whole bool
		code  bool // runes are code points
		runes []rune
	}

	spare []*call // memory for inspections

	maxHeap  uint64
	stopping atomic.Bool // the run must stop; guards check it

	// watch is shared with the timer's goroutine.
	watch struct {
		sync.Mutex
		heap     [2]metrics.Sample // what heapSizeLocked reads
		ceiling  uint64            // bytes of the heap at which the run is stopped; 0 before the first check
		timer    *time.Timer
		ctx      context.Context // of the run; nil without one
		deadline time.Time       // by the timeout; zero: none
		timeout  time.Duration
		stopped  error // why the run was interrupted
	}
}

// begin makes the run stop when ctx is done, the timeout has passed, or too much memory is
// used. A single timer, reused by each run, checks this: registering with the context
// would cost more than a short run.
func (e *engine) begin(ctx context.Context, timeout time.Duration) {
	w := &e.watch
	w.Lock()
	w.ctx, w.timeout, w.deadline, w.stopped, w.ceiling = ctx, timeout, time.Time{}, nil, 0
	first := pollEvery
	if timeout > 0 {
		w.deadline = time.Now().Add(timeout)
		first = min(first, timeout)
	}
	w.timer.Reset(first)
	w.Unlock()
}

func (e *engine) checkLimits() {
	w := &e.watch
	w.Lock()
	defer w.Unlock()
	if w.ctx == nil || w.stopped != nil {
		return // the run has ended meanwhile
	}
	heap, goal := e.heapSizeLocked()
	if w.ceiling == 0 {
		w.ceiling = heap + min(max(goal, heap)-heap, e.maxHeap) + e.maxHeap // if the garbage collector is off, the goal is the largest number
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
	case heap > w.ceiling:
		w.stopped = fmt.Errorf("stopped: memory grew by more than %d MiB while the script ran", e.maxHeap>>20)
	default:
		w.timer.Reset(left)
		return
	}
	// Under the lock, so that it cannot come after end has returned.
	e.vm.Interrupt(w.stopped)
	e.stopping.Store(true)
}

// timeLeft returns the time until the timeout, at most limit and always positive.
func (e *engine) timeLeft(limit time.Duration) time.Duration {
	if e.watch.deadline.IsZero() {
		return limit
	}
	return max(time.Millisecond, min(limit, time.Until(e.watch.deadline)))
}

// end stops the checks. It returns why the run had to stop, or nil. After that, no
// interrupt comes until the next begin.
func (e *engine) end() error {
	w := &e.watch
	w.Lock()
	w.timer.Stop()
	w.ctx = nil
	stopped := w.stopped
	w.Unlock()
	if stopped != nil {
		e.stopping.Store(false)
	}
	e.log, e.records = nil, 0
	e.symbols, e.joining, e.text.of, e.text.runes = nil, nil, nil, nil
	return stopped
}

// grown reports whether the heap is much larger than at the first check of the last run.
func (e *engine) grown() bool {
	e.watch.Lock()
	defer e.watch.Unlock()
	heap, _ := e.heapSizeLocked()
	return e.watch.ceiling > 0 && heap > e.watch.ceiling-e.maxHeap/2
}

// heapSizeLocked returns the bytes of all objects on the heap, with garbage, and the size
// at which the next collection starts. It does not allocate: while a script fills the
// heap, an allocation must help the collector first, so the check would come too late.
func (e *engine) heapSizeLocked() (now, goal uint64) {
	heap := e.watch.heap[:]
	metrics.Read(heap)
	return heap[0].Value.Uint64(), heap[1].Value.Uint64()
}
