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

// What one call of a native function may make or visit, beyond which a RangeError
// is thrown. These are the sizes that may come from a client; guard.go has where
// they apply.
const (
	maxText       = 64 << 20  // bytes or characters of a text or a buffer
	maxItems      = 8 << 20   // elements of an array
	maxMatches    = 2 << 20   // matches that are replaced, or split at, in one call, each of which takes some 200 bytes
	maxKeys       = 1 << 20   // characters or elements that become properties, one for each
	maxArgs       = 1 << 20   // arguments of apply
	maxDepth      = 1000      // levels of JSON that is read or written, of arrays that are joined
	maxCode       = 64 << 10  // characters of code given to eval or Function
	maxCalls      = 2000      // calls inside of one another; unwinding native ones takes quadratic time, 0.4 s here
	maxSteps      = 1 << 31   // comparisons of characters of a search, some 2 s
	maxDigits     = 100_000   // digits that become a BigInt: 20 ms
	maxBits       = 1 << 20   // bits that a BigInt is shifted by
	maxExponent   = 1 << 14   // exponent of a BigInt
	maxHeapOfCall = 256 << 20 // bytes that what JSON.parse makes takes
)

// maxResult is how large what a script returns may be, in bytes as
// value.Value.Size counts them: what is shared counts as often as it occurs, as
// it will when it is written as JSON.
const maxResult = 256 << 20

// maxHeap is by how many bytes the heap of the process may grow while a script
// runs, beyond what garbage makes it grow anyway. Who has allocated them cannot be
// told, so all scripts that have run for longer than pollEvery are stopped.
const maxHeap = 256 << 20

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
	e.watch.timer = time.AfterFunc(time.Hour, e.look)
	e.watch.timer.Stop()
	return e, nil
}

// privateFields returns the maps in which the interpreter keeps the private fields
// that code puts on intrinsics. Freezing does not keep them out.
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
	vm     *goja.Runtime
	spoilt bool // not to be used again

	kept map[*goja.Program]goja.Callable // functions of expressions

	failure, bytes, date, resolve, entries, elements goja.Callable // from the bootstrap
	rangeError, nothing                              goja.Callable

	constantLength goja.Callable // whether an object has a length that stays; undefined if it has none

	private  []reflect.Value         // maps of private fields of the intrinsics
	patterns map[patternKey]*pattern // of regular expressions that were rehearsed

	// Of the run under way.
	log     *slog.Logger            // of its node; nil if what it writes is dropped
	records int                     // that it has written
	symbols map[string]*goja.Symbol // those of Symbol.for
	joining []*goja.Object          // arrays that are being joined, inside of one another
	text    struct {                // what was rehearsed last
		of    goja.String
		whole bool
		code  bool // runes are code points
		runes []rune
	}

	spare []*call // memory for inspections

	maxHeap  uint64
	stopping atomic.Bool // the run is to stop: guards ask

	// watch is shared with the timer's goroutine.
	watch struct {
		sync.Mutex
		heap     [2]metrics.Sample // what heapSizeLocked reads
		ceiling  uint64            // bytes of the heap at which the run is stopped; 0 before it is first looked at
		timer    *time.Timer
		ctx      context.Context // of the run; nil while there is none
		deadline time.Time       // by the timeout; zero is none
		timeout  time.Duration
		stopped  error // why the run was interrupted
	}
}

// begin lets the run end when ctx is done, the timeout has passed, or too much
// memory is used. A single timer, used again by each run, looks at them: to
// register with the context would cost more than a short run does.
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

// look is called by the timer.
func (e *engine) look() {
	w := &e.watch
	w.Lock()
	defer w.Unlock()
	if w.ctx == nil || w.stopped != nil {
		return // the run has ended: this call was on its way
	}
	heap, goal := e.heapSizeLocked()
	if w.ceiling == 0 {
		w.ceiling = heap + min(max(goal, heap)-heap, e.maxHeap) + e.maxHeap // without a garbage collector, the goal is its limit
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

// timeLeft returns how much time the run has before its timeout, at most limit
// and at least a moment.
func (e *engine) timeLeft(limit time.Duration) time.Duration {
	if e.watch.deadline.IsZero() {
		return limit
	}
	return max(time.Millisecond, min(limit, time.Until(e.watch.deadline)))
}

// end stops watching. It returns why the run was told to stop, nil if it was
// not. After it has returned, no interrupt can come until the next begin.
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

// grown reports whether the heap is much larger than when the last run was first
// looked at.
func (e *engine) grown() bool {
	e.watch.Lock()
	defer e.watch.Unlock()
	heap, _ := e.heapSizeLocked()
	return e.watch.ceiling > 0 && heap > e.watch.ceiling-e.maxHeap/2
}

// heapSizeLocked returns the bytes of all objects on the heap, garbage included, and at
// how many bytes garbage is going to be collected. It allocates nothing: whoever
// allocates while a script fills the heap is made to help the collector first,
// and would look too late.
func (e *engine) heapSizeLocked() (now, goal uint64) {
	heap := e.watch.heap[:]
	metrics.Read(heap)
	return heap[0].Value.Uint64(), heap[1].Value.Uint64()
}
