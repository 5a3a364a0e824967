package external

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A process is one that runs, with the calls that it has. One goroutine writes to it, one reads what it
// answers, one what it says on its standard error, and one waits for its end.
type process struct {
	pool    *pool
	pid     int
	group   *group
	input   *os.File
	output  *os.File
	says    *says
	workers sync.WaitGroup // without what waits for it
	wake    chan struct{}  // buffer of one: there is something to write
	exited  chan struct{}  // closed when its end is known
	status  error          // how it ended; immutable once exited is closed
	ready   chan struct{}  // closed when it says so, if it does

	// Guarded by the lock of the pool.
	open     map[uint64]*call
	out      []byte // lines to write
	answered bool   // it has answered a call
	listed   bool   // it is among those that run
	ended    error  // why it has ended, before it was listed

	ending atomic.Bool // it gets no more calls

	reason struct { // why it is made to end; the first counts
		sync.Mutex
		err error
	}
}

// start starts a process and waits until it is ready, if it says so.
func (p *pool) start(ctx context.Context) (*process, error) {
	c, err := p.launch.pipes()
	if err != nil {
		return nil, err
	}
	defer c.closeTheirs()
	if err := p.launch.start(c); err != nil {
		c.closeOurs()
		return nil, err
	}
	proc := &process{
		pool: p, pid: c.cmd.Process.Pid, group: c.group, input: c.input, output: c.output, says: newSays(p.log, c.cmd.Process.Pid),
		wake: make(chan struct{}, 1), exited: make(chan struct{}), ready: make(chan struct{}), open: make(map[uint64]*call),
	}
	if p.settings.First != "" {
		proc.out = append(append(proc.out, p.settings.First...), '\n')
		proc.awake()
	}
	proc.workers.Go(func() { proc.wait(c.cmd, c.errors) })
	proc.workers.Go(func() { proc.says.read(c.errors) })
	proc.workers.Go(proc.write)
	read := make(chan error, 1)
	proc.workers.Go(func() {
		err := proc.read()
		read <- err
		proc.finish(err)
	})
	if p.launch.handshake {
		if err := proc.greet(ctx, read); err != nil {
			return nil, err
		}
	}
	return proc, nil
}

// maxStart is how long a process may take until it is ready.
const maxStart = 30 * time.Second

// errNotReady is in the error of a process whose time was over before it was ready.
var errNotReady = errors.New("did not become ready in time")

// greet waits until a process is ready. If it does not become so, it is ended.
func (proc *process) greet(ctx context.Context, read <-chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxStart, fmt.Errorf("a program has %s for that", maxStart))
	defer cancel()
	var err error
	select {
	case <-proc.ready:
		return nil
	case err = <-read:
	case <-ctx.Done():
		if err = context.Cause(ctx); errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%s %w: %w", proc.pool.launch.name, errNotReady, err)
		}
		proc.end(err)
	}
	proc.workers.Wait()
	return proc.why(err)
}

// awake makes the writer look.
func (proc *process) awake() {
	select {
	case proc.wake <- struct{}{}:
	default:
	}
}

// write writes what is queued, all of it with one write, until the process has ended.
func (proc *process) write() {
	var buf []byte
	for {
		select {
		case <-proc.wake:
		case <-proc.exited:
			return
		}
		proc.pool.mu.Lock()
		buf, proc.out = proc.out, buf[:0]
		proc.pool.mu.Unlock()
		if _, err := proc.input.Write(buf); err != nil {
			// Either the process has ended, or it has closed its input, and will never answer.
			proc.end(fmt.Errorf("it does not read its input: %w", err))
			return
		}
		if cap(buf) > 16*maxBuffer {
			buf = nil
		}
	}
}

// read reads answers until the output ends. It returns why.
func (proc *process) read() error {
	lines := &lineReader{r: bufio.NewReaderSize(proc.output, 64<<10), most: proc.pool.settings.MaxLine, account: proc.pool.account}
	defer lines.done()
	for {
		line, err := lines.next()
		if err == nil && len(line) > 0 {
			err = proc.answer(line)
		}
		if err != nil {
			return err
		}
	}
}

// answer handles a line. An error is one after which no line can be trusted.
func (proc *process) answer(line []byte) error {
	v, err := value.ParseJSON(line)
	if err != nil {
		return fmt.Errorf("it wrote a line that is not JSON, %q: %w", shorten(line), err)
	}
	if v.Kind() != value.KindMap {
		return fmt.Errorf(`it wrote %q: an answer is a map with "id", and "payload" or "error"`, shorten(line))
	}
	if ready, ok := v.Get("ready"); ok && proc.pool.launch.handshake {
		if failure, failed := v.Get("error"); failed && !ready.Truth() {
			return &unreadyError{failure}
		}
		select {
		case <-proc.ready:
		default:
			close(proc.ready)
		}
		return nil
	}
	number, _ := v.Get("id")
	id, ok := number.AsUint()
	if !ok {
		return fmt.Errorf(`it wrote %q: an answer has the "id" of its request`, shorten(line))
	}
	c, ok := proc.pool.settle(proc, id)
	if !ok {
		proc.says.complain("an answer is for no request that is open: it came twice, or has another id", "line", shorten(line))
		return nil
	}
	proc.pool.answer(c, c.result(v, proc.pool.launch.name))
	return nil
}

// shorten returns the beginning of a line.
func shorten(line []byte) string {
	if len(line) > 120 {
		return string(line[:120]) + "…"
	}
	return string(line)
}

// result is what becomes of a packet.
func (c *call) result(answer value.Value, name string) node.Result {
	failure, failed := answer.Get("error")
	if !failed || failure.IsNull() {
		payload, ok := answer.Get("payload")
		port, err := c.of.port(answer)
		if err == nil && !ok { // the payload of a function that returned nothing may be missing
			err = misspelled(answer)
		}
		if err != nil {
			return node.Fail(&node.Error{Err: fmt.Errorf("%s: %w", name, err), Status: 502, Code: "exec_output"})
		}
		return node.Send(port, payload)
	}
	e := failureOf(failure, name)
	if c.of.failure != nil {
		return node.Fail(c.of.failure(failure, e))
	}
	return node.Fail(e)
}

// misspelled returns an error if an answer has a field that answers do not have: without a
// payload it would be null, although the program has answered something.
func misspelled(answer value.Value) error {
	for name := range answer.Fields() {
		if !slices.Contains(answerFields, name) {
			return fmt.Errorf("an answer has the field %q, and no payload: its fields are %s", name, strings.Join(answerFields, ", "))
		}
	}
	return nil
}

var answerFields = []string{"id", "payload", "error", "port"}

// port returns the out-port of an answer.
func (n *lines) port(answer value.Value) (int, error) {
	named, ok := answer.Get("port")
	if !ok || named.IsNull() {
		return 0, nil
	}
	at := slices.Index(n.ports, named.String())
	if at < 0 {
		return 0, fmt.Errorf("an answer is for the port %q, and the ports are: %s", named.String(), strings.Join(n.ports, ", "))
	}
	return at, nil
}

// failureOf returns the error that a program has answered with: a text, or a map.
func failureOf(failure value.Value, name string) *node.Error {
	e := &node.Error{Status: 500, Code: "exec"}
	message := failure.String()
	if failure.Kind() == value.KindMap {
		text, _ := failure.Get("message")
		message, _ = text.AsString()
		if code, ok := failure.Get("code"); ok && !code.IsNull() {
			e.Code = code.String()
		}
		status, _ := failure.Get("status")
		if n, ok := status.AsInt(); ok && n >= 400 && n <= 599 {
			e.Status = int(n)
		}
		e.Data, _ = failure.Get("data")
	}
	if message == "" {
		message = name + " answered with an error without a message"
	}
	e.Err = errors.New(message)
	return e
}

// An unreadyError is what a process reports that cannot become ready.
type unreadyError struct{ failure value.Value }

func (e *unreadyError) Error() string { return failureOf(e.failure, "the program").Err.Error() }

// end makes the process end, with its group.
func (proc *process) end(reason error) {
	proc.ending.Store(true)
	proc.reason.Lock()
	if proc.reason.err == nil {
		proc.reason.err = reason
	}
	proc.reason.Unlock()
	proc.group.kill()
}

// wait waits for the end of the process, kills what is left of its group, and lets the readers read what is
// in the pipes. What has left the group and holds a pipe open cannot hold them up.
func (proc *process) wait(cmd *exec.Cmd, stderr *os.File) {
	proc.status = proc.group.wait(cmd)
	close(proc.exited)
	rest := time.Now().Add(endRest)
	_ = proc.output.SetReadDeadline(rest) // a pipe has deadlines
	_ = stderr.SetReadDeadline(rest)      // likewise
	_ = proc.input.Close()                // stop may have closed it; the writer does not wait any more
}

// endRest is how long what a process has left in its pipes is read.
const endRest = time.Second

// endClosed is how long a process may go on that has closed its output.
const endClosed = 100 * time.Millisecond

// finish ends a process whose output has ended, and informs the pool.
func (proc *process) finish(err error) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, os.ErrClosed) {
		proc.end(err)
	}
	select {
	case <-proc.exited:
	case <-time.After(endClosed): // it has closed its output only
		proc.end(errors.New("it closed its output"))
		<-proc.exited
	}
	<-proc.says.done
	_ = proc.output.Close() // all is read
	proc.pool.ended(proc, proc.why(err))
}

// why returns why the process has ended, with the last line that it said.
func (proc *process) why(err error) error {
	proc.reason.Lock()
	reason := proc.reason.err
	proc.reason.Unlock()
	if reason == nil {
		reason = proc.status
	}
	if reason == nil {
		reason = errors.New("it exited with status 0")
	}
	if last := proc.says.last(); last != "" {
		return fmt.Errorf("%w; it said: %s", reason, last)
	}
	return reason
}

// endPatience is how long a process may take to end after its input has, before it is asked by a signal; and as long
// again before it is killed.
const endPatience = 2 * time.Second

// busyPatience is the same for a process that still has packets, although all of them have been given up: at the end
// of the program the grace is over then, and what is not killed in half a second would go on without it.
const busyPatience = 200 * time.Millisecond

// stop ends the process in steps, and returns when nothing is left of it.
func (proc *process) stop(patience time.Duration) {
	proc.reason.Lock()
	if proc.reason.err == nil {
		proc.reason.err = errClosed
	}
	proc.reason.Unlock()
	_ = proc.input.Close() // it may have ended
	for _, signal := range []func(){proc.group.terminate, proc.group.kill} {
		timer := time.NewTimer(patience)
		select {
		case <-proc.exited:
		case <-timer.C:
			signal()
		}
		timer.Stop()
	}
	proc.workers.Wait()
}

// A lineReader reads lines of a bounded length. A line is good until the next.
type lineReader struct {
	r       *bufio.Reader
	most    int
	account *node.Account
	long    []byte // a line that does not fit into the buffer of r
	held    int64
}

func (l *lineReader) next() ([]byte, error) {
	l.done()
	line, err := l.r.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) || len(l.long) > 0 {
		if len(l.long)+len(line) > l.most+1 {
			return nil, fmt.Errorf("it wrote a line longer than max_line, %d bytes: it begins with %q", l.most, shorten(l.long))
		}
		before := cap(l.long)
		l.long = append(l.long, line...)
		grown := int64(cap(l.long) - before)
		l.account.Hold(grown)
		l.held += grown
		if !errors.Is(err, bufio.ErrBufferFull) {
			line = l.long
			break
		}
		line, err = l.r.ReadSlice('\n')
	}
	if err != nil {
		return nil, err // what is left has no end, so it is not a line
	}
	return bytes.TrimSpace(line), nil
}

// done lets go of a long line.
func (l *lineReader) done() {
	if l.long == nil {
		return
	}
	l.long = nil
	l.account.Free(l.held)
	l.held = 0
}
