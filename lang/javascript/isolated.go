package javascript

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

const (
	// killAfter is how long after the timeout a worker is killed. Most code stops
	// earlier, so that its worker can be reused.
	killAfter = 100 * time.Millisecond

	// maxStart is how long a worker may take to start and to load its module. It
	// usually takes 30 ms.
	maxStart = 20 * time.Second
)

var (
	errClosed = errors.New("the node is closed")
	errMemory = fmt.Errorf("stopped: the script needs more memory than its process may have, which is %d MiB", workerMemory>>20)
	errSlow   = fmt.Errorf("the process of the script did not start within %s", maxStart)
)

// Isolate implements [lang.Isolator]. No code runs in this process.
func (l *Language) Isolate(code diag.Text, opts lang.Options) (lang.Isolated, error) {
	if len(l.worker) == 0 {
		return nil, diag.Errorf(diag.CodeBadValue, "this program cannot isolate scripts").
			WithHint("leave isolate out; a program that embeds the engine has to give std.Defs a worker")
	}
	script, sourceMap, err := l.script(code)
	if err != nil {
		return nil, err
	}
	root, _ := folder(code.File) // a document without a folder has no other files either
	p := &isolated{argv: l.worker, code: code, log: opts.Log, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	p.module = moduleFrame{Code: code.Code, Root: root, Script: script, Map: sourceMap, Timeout: opts.Timeout, Log: opts.Log != nil, Probe: true}
	p.closed, p.close = context.WithCancelCause(context.Background())
	w, err := p.start(p.closed)
	var lost *lostError
	switch {
	case errors.As(err, &lost):
		return nil, err
	case err != nil:
		return nil, wrongModule(code, err)
	}
	_ = w.end() // so that there is nothing to close before the first evaluation
	p.module.Probe = false
	return p, nil
}

// An isolated is a module that runs in workers.
type isolated struct {
	argv   []string // of a worker
	code   diag.Text
	module moduleFrame
	log    *slog.Logger // of the node; nil if there is none

	slots  chan struct{}   // has an element for each current evaluation, and limits their number
	closed context.Context // done when Close has been called
	close  context.CancelCauseFunc

	mu struct {
		sync.Mutex
		idle []*worker // the last one was used last
	}
}

// A lostError is an error after which a worker was ended.
type lostError struct {
	reason error
	again  bool // it ended by itself, so another worker may succeed
}

func (e *lostError) Error() string { return e.reason.Error() }

func (e *lostError) Unwrap() error { return e.reason }

// Eval implements [lang.Program]. The wait for a worker does not count against the
// timeout.
func (p *isolated) Eval(ctx context.Context, in value.Value) (value.Value, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(p.closed, func() { stop(errClosed) })()
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
	}
	if err := lang.Stopped(ctx); err != nil {
		return value.Value{}, err
	}
	var out writer
	frame, err := out.frame(opPayload, in)
	if err != nil {
		return value.Value{}, err
	}
	for {
		w, used := p.take()
		if !used {
			if w, err = p.start(ctx); err != nil {
				return value.Value{}, err
			}
		}
		v, err := p.evaluate(ctx, w, frame, out.errs)
		if !w.ended {
			p.mu.Lock()
			p.mu.idle = append(p.mu.idle, w)
			p.mu.Unlock()
		}
		var lost *lostError
		if used && errors.As(err, &lost) && lost.again {
			continue // it may have been killed while it was idle
		}
		return v, err
	}
}

// Close implements [lang.Isolated]. A second call does nothing.
func (p *isolated) Close() error {
	if p.closed.Err() != nil {
		return nil
	}
	p.close(errClosed)
	for range cap(p.slots) {
		p.slots <- struct{}{} // permanently
	}
	for w, ok := p.take(); ok; w, ok = p.take() {
		_ = w.end() // the reason is known
	}
	return nil
}

// take returns the idle worker that was used last, or nil.
func (p *isolated) take() (w *worker, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.mu.idle) - 1
	if last < 0 {
		return nil, false
	}
	w = p.mu.idle[last]
	p.mu.idle = p.mu.idle[:last]
	return w, true
}

func (p *isolated) evaluate(ctx context.Context, w *worker, frame []byte, errs []error) (value.Value, error) {
	if p.module.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.module.Timeout+killAfter, &lang.Timeout{After: p.module.Timeout})
		defer cancel()
	}
	return p.ask(ctx, w, frame, errs)
}

// start starts a worker and sends it the module. An error that is not a lostError is an
// error of the module.
func (p *isolated) start(ctx context.Context) (*worker, error) {
	v, err := value.Encode(p.module)
	if err != nil {
		return nil, &lostError{reason: err}
	}
	var out writer
	frame, err := out.frame(opModule, v)
	if err != nil {
		return nil, &lostError{reason: err}
	}
	w, err := newWorker(p.argv)
	if err != nil {
		return nil, &lostError{reason: fmt.Errorf("start a process for the script: %w", err)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxStart, errSlow)
	defer cancel()
	if _, err := p.ask(ctx, w, frame, nil); err != nil {
		if !w.ended {
			_ = w.end() // it has reported the error
		}
		return nil, err
	}
	return w, nil
}

// ask sends a frame to a worker and returns its response. The worker is ended if there is
// no response or ctx is done. Without a response, the error is a lostError.
func (p *isolated) ask(ctx context.Context, w *worker, frame []byte, errs []error) (value.Value, error) {
	killed := make(chan struct{})
	spare := context.AfterFunc(ctx, func() {
		w.kill()
		close(killed)
	})
	v, err := p.exchange(w, frame, errs)
	stopped := !spare()
	if stopped {
		<-killed
	}
	var lost *lostError
	if !errors.As(err, &lost) && !stopped {
		return v, err
	}
	reason := w.end()
	if lost != nil {
		lost.reason, lost.again = reason, !stopped && !errors.Is(reason, errMemory)
		if stopped {
			lost.reason = lang.Stopped(ctx)
			var timeout *lang.Timeout
			if errors.As(lost.reason, &timeout) {
				lost.reason = timeout // like in this process
			}
		}
	}
	return v, err
}

// exchange sends a frame and receives frames up to the response. The error is a lostError
// if there is none.
func (p *isolated) exchange(w *worker, frame []byte, errs []error) (value.Value, error) {
	if _, err := w.in.Write(frame); err != nil {
		return value.Value{}, &lostError{reason: err}
	}
	for {
		o, buf, err := readFrame(w.out)
		if err != nil {
			return value.Value{}, &lostError{reason: err}
		}
		r := reader{Reader: wire.Reader{Buf: buf}, sent: errs}
		v, err := r.whole()
		switch {
		case err != nil:
		case o == opResult:
			return v, nil
		case o == opFailure:
			var f failureFrame
			if err = value.Decode(v, &f); err == nil {
				return value.Value{}, p.failed(f)
			}
		case o == opRecord:
			var f recordFrame
			if err = value.Decode(v, &f); err == nil {
				p.write(f)
				continue
			}
		default:
			err = errFrame
		}
		return value.Value{}, &lostError{reason: err}
	}
}

func (p *isolated) failed(f failureFrame) error {
	switch {
	case f.After > 0:
		return &lang.Timeout{After: f.After}
	case !f.Thrown:
		return errors.New(f.Message)
	}
	t := &lang.Thrown{Message: f.Message, Status: f.Status, Code: f.Code, Public: f.Public}
	switch {
	case f.File != "":
		t.Pos = diag.Pos{File: f.File, Line: f.Line, Col: f.Col}
	case f.Line > 0:
		t.Pos = p.code.Pos(f.Line, f.Col)
	}
	return t
}

func (p *isolated) write(f recordFrame) {
	if p.log == nil {
		return
	}
	var attrs []slog.Attr
	for _, key := range slices.Sorted(maps.Keys(f.Attrs)) {
		attrs = append(attrs, slog.String(key, f.Attrs[key]))
	}
	p.log.LogAttrs(context.Background(), slog.Level(f.Level), f.Message, attrs...)
}

// A worker is a process that evaluates one module. It belongs to one evaluation at a time.
type worker struct {
	cmd   *exec.Cmd
	in    io.Writer
	out   *bufio.Reader
	err   io.Reader
	ended bool // and its exit status is read
}

// newWorker starts the executable of this process as a worker. It inherits no variables,
// no working folder and no files.
func newWorker(argv []string) (*worker, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "linux" {
		path = "/proc/self/exe" // the same executable, even if it was replaced meanwhile
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Dir: "/", Env: []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	stderr, err3 := cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &worker{cmd: cmd, in: in, out: bufio.NewReader(out), err: stderr}, nil
}

func (w *worker) kill() { _ = w.cmd.Process.Kill() } // it fails only if the process has ended

// end ends the process and waits for it. If the process ended by itself, it returns why.
func (w *worker) end() error {
	w.kill()
	w.ended = true
	stderr, err := io.ReadAll(io.LimitReader(w.err, 64<<10))
	err = errors.Join(err, w.cmd.Wait())
	for _, mark := range []string{"out of memory", "cannot allocate memory", "cannot map pages", "failed to create new OS thread"} {
		if bytes.Contains(stderr, []byte(mark)) {
			return errMemory
		}
	}
	if line, _, _ := bytes.Cut(stderr, []byte("\n")); len(line) > 0 {
		err = fmt.Errorf("%w: %s", err, line)
	}
	return fmt.Errorf("the process of the script has ended: %w", err)
}
