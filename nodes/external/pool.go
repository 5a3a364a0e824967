package external

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A pool shares calls out to processes of one program. It starts processes as they are needed, and again
// when they end. Calls that no process has room for wait in the order in which they came; the processes of
// the engine that they belong to bound their number, and the account their bytes.
type pool struct {
	settings *settings
	log      *slog.Logger
	launch   *launcher
	account  *node.Account
	open     context.Context // done when the pool is closed
	close    context.CancelFunc
	workers  sync.WaitGroup
	buffers  sync.Pool // of []byte

	mu struct {
		sync.Mutex
		closed      bool
		running     []*process
		starting    int
		first, last *call // that wait
		number      uint64
		failures    int       // of processes in a row that have answered nothing
		again       time.Time // when the next one starts, after a failure
		err         error     // why there is no process; nil if there is one, or soon
	}
}

// newPool starts the first process.
func newPool(ctx context.Context, init *node.Init, s *settings) (*pool, error) {
	l, err := newLauncher(init, s)
	if err != nil {
		return nil, err
	}
	p := &pool{settings: s, log: init.Log, launch: l, account: init.Memory.Account(init.Node.Kind)}
	p.open, p.close = context.WithCancel(context.WithoutCancel(ctx))
	proc, err := p.start(ctx)
	if err != nil {
		p.close()
		p.account.Close()
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(proc)
	return p, nil
}

// maxBuffer is the largest buffer that is kept.
const maxBuffer = 64 << 10

func (p *pool) buffer() []byte {
	if b, ok := p.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

func (p *pool) reuse(b []byte) {
	if cap(b) > 0 && cap(b) <= maxBuffer {
		p.buffers.Put(&b)
	}
}

// give takes a call, which is answered by done.
func (p *pool) give(ctx context.Context, c *call, done func(node.Result)) {
	c.size = int64(len(c.payload))
	if !p.account.Take(c.size) {
		done(node.Fail(errMemory()))
		return
	}
	c.Begin(ctx, done, func(cause error) {
		if silent := p.left(c); silent != nil && errors.Is(cause, context.DeadlineExceeded) { // which does not say what was waited for
			silent.says.complain("a program has answered nothing since it started: it must write a line for each that it reads", "program", p.launch.name)
		}
	})
	p.mu.Lock()
	err := p.refusalLocked()
	if err == nil {
		p.waitLocked(c)
		p.assignLocked()
	}
	p.mu.Unlock()
	if err != nil {
		p.answer(c, node.Fail(err))
	}
}

func errMemory() error {
	return &node.Error{Err: errors.New("the payload does not fit into the memory that is left"), Status: 503, Code: "memory"}
}

// refusalLocked returns why no process can take a call now or soon.
func (p *pool) refusalLocked() error {
	switch {
	case p.mu.closed:
		return &node.Error{Err: errClosed, Status: 503, Code: "exec_closed"}
	case p.mu.err != nil && len(p.mu.running) == 0:
		return p.away(p.mu.err, time.Until(p.mu.again))
	}
	return nil
}

// away is the error of packets that no process has got: they may be sent again.
func (p *pool) away(reason error, after time.Duration) error {
	return &node.Error{Err: fmt.Errorf("%s does not run: %w", p.launch.name, reason), Status: 503, Code: "exec_away", Outage: true, RetryAfter: max(0, after)}
}

var errClosed = errors.New("the node is closed")

// answer answers a call, unless that has been done.
func (p *pool) answer(c *call, r node.Result) {
	if c.Claim() {
		p.account.Free(c.size)
		c.Done(r)
	}
}

// left forgets a call whose process has ended. A process that has it goes on, and its answer is for none; silent is
// that process if it has not answered anything.
func (p *pool) left(c *call) (silent *process) {
	p.account.Free(c.size)
	p.mu.Lock()
	defer p.mu.Unlock()
	if proc := c.proc; proc != nil {
		if p.settings.Timeout > 0 { // else it would keep its place for ever in a program that loops
			time.AfterFunc(p.settings.Timeout, func() { p.forgotten(proc, c.id) })
		}
		if proc.answered {
			return nil
		}
		return proc
	}
	for at := &p.mu.first; *at != nil; at = &(*at).next {
		if *at == c {
			*at = c.next
			p.relinkLocked()
			break
		}
	}
	return nil
}

// forgotten ends a process that has not answered a call although its packet has left long ago.
func (p *pool) forgotten(proc *process, id uint64) {
	p.mu.Lock()
	_, open := proc.open[id]
	p.mu.Unlock()
	if open {
		proc.end(fmt.Errorf("it was killed, as a packet whose client has left had no answer within %s", p.settings.Timeout))
	}
}

func (p *pool) waitLocked(c *call) {
	if p.mu.last == nil {
		p.mu.first, p.mu.last = c, c
		return
	}
	p.mu.last.next = c
	p.mu.last = c
}

// relinkLocked finds the last call that waits, after one was taken out.
func (p *pool) relinkLocked() {
	p.mu.last = p.mu.first
	for p.mu.last != nil && p.mu.last.next != nil {
		p.mu.last = p.mu.last.next
	}
}

// assignLocked gives waiting calls to the processes that have the fewest, and starts another process while all
// are busy.
func (p *pool) assignLocked() {
	for p.mu.first != nil {
		var best *process
		for _, proc := range p.mu.running {
			if !proc.ending.Load() && (best == nil || len(proc.open) < len(best.open)) {
				best = proc
			}
		}
		if (best == nil || len(best.open) > 0) && len(p.mu.running)+p.mu.starting < p.settings.Processes && p.mu.starting == 0 {
			p.startLocked(0)
		}
		if best == nil || len(best.open) >= p.roomLocked(best) {
			return
		}
		c := p.mu.first
		if p.mu.first = c.next; p.mu.first == nil {
			p.mu.last = nil
		}
		c.next = nil
		p.giveLocked(best, c)
	}
}

// roomLocked returns how many calls a process may have. After a failure, it has to prove itself with one: so
// a program that is broken costs few packets an attempt.
func (p *pool) roomLocked(proc *process) int {
	if p.mu.failures > 0 && !proc.answered {
		return 1
	}
	return p.settings.InFlight
}

// giveLocked makes a call the next line of a process.
func (p *pool) giveLocked(proc *process, c *call) {
	p.mu.number++
	c.id, c.proc = p.mu.number, proc
	proc.open[c.id] = c
	proc.out = append(proc.out, `{"id":`...)
	proc.out = strconv.AppendUint(proc.out, c.id, 10)
	proc.out = append(proc.out, `,"payload":`...)
	proc.out = append(proc.out, c.payload...)
	proc.out = append(proc.out, '}', '\n')
	p.reuse(c.payload)
	c.payload = nil
	c.Limit(node.SystemClock{}, p.settings.Timeout, func() node.Result { return p.late(proc, c) })
	proc.awake()
}

// late kills the process of a call that has taken too long.
func (p *pool) late(proc *process, c *call) node.Result {
	p.account.Free(c.size)
	proc.end(fmt.Errorf("it was killed, as a packet had no answer within %s", p.settings.Timeout))
	return node.Fail(&node.Error{Err: fmt.Errorf("%s gave no answer within %s, and was killed", p.launch.name, p.settings.Timeout), Status: 504, Code: "timeout"})
}

// startLocked starts a process after a wait, and tries until there is one.
func (p *pool) startLocked(wait time.Duration) {
	p.mu.starting++
	p.workers.Go(func() {
		for {
			timer := time.NewTimer(wait)
			select {
			case <-p.open.Done():
			case <-timer.C:
			}
			timer.Stop()
			proc, err := p.start(p.open)
			var failed []*call
			p.mu.Lock()
			if err == nil || p.mu.closed {
				p.mu.starting--
				if err == nil {
					p.addLocked(proc)
				}
				p.mu.Unlock()
				return
			}
			wait, failed = p.failedLocked(err)
			p.mu.Unlock()
			p.log.Error("a program does not start", "program", p.launch.name, "error", err, "again", wait)
			p.refuse(failed, err, wait)
		}
	})
}

// failedLocked counts a process that has answered nothing. Without another one, it takes the waiting calls out.
func (p *pool) failedLocked(err error) (wait time.Duration, failed []*call) {
	p.mu.failures++
	wait = p.settings.Backoff.Wait(p.mu.failures)
	p.mu.err, p.mu.again = err, time.Now().Add(wait)
	if len(p.mu.running) == 0 {
		for c := p.mu.first; c != nil; c = c.next {
			failed = append(failed, c)
		}
		p.mu.first, p.mu.last = nil, nil
	}
	return wait, failed
}

func (p *pool) refuse(calls []*call, reason error, after time.Duration) {
	for _, c := range calls {
		p.answer(c, node.Fail(p.away(reason, after)))
	}
}

// addLocked adds a process that runs.
func (p *pool) addLocked(proc *process) {
	if p.mu.closed {
		proc.end(errClosed)
		p.workers.Go(func() { proc.workers.Wait() })
		return
	}
	p.mu.running = append(p.mu.running, proc)
	proc.listed = true
	if proc.ended != nil { // meanwhile
		proc.workers.Go(func() { p.ended(proc, proc.ended) })
		return
	}
	p.assignLocked()
}

// ended takes a process out that has ended, and all that it wrote has been read. What it had fails; another one
// starts.
func (p *pool) ended(proc *process, reason error) {
	p.mu.Lock()
	if !proc.listed {
		proc.ended = reason
		p.mu.Unlock()
		return
	}
	p.mu.running = slices.DeleteFunc(p.mu.running, func(other *process) bool { return other == proc })
	open := make([]*call, 0, len(proc.open))
	for _, c := range proc.open {
		open = append(open, c)
	}
	slices.SortFunc(open, func(a, b *call) int { return int(a.id) - int(b.id) })
	clear(proc.open)
	var failed []*call
	var wait time.Duration
	closed := p.mu.closed
	if !closed {
		switch {
		case proc.answered:
			p.mu.failures = 0
		case len(open) > 0 && p.mu.failures == 0: // it may be the packet: another process shows
			p.mu.failures = 1
		default:
			wait, failed = p.failedLocked(reason)
		}
		if len(p.mu.running)+p.mu.starting == 0 || p.mu.first != nil && p.mu.starting == 0 {
			p.startLocked(wait)
		}
	}
	p.mu.Unlock()
	if !closed {
		p.log.Error("a program has ended", "program", p.launch.name, "pid", proc.pid, "error", reason, "open", len(open), "again", wait)
	}
	for _, c := range open {
		// It may be this packet that ended the process, so it is not an outage: attempts count, and then it is a dead letter.
		p.answer(c, node.Fail(&node.Error{Err: fmt.Errorf("%s ended before it answered: %w", p.launch.name, reason), Status: 502, Code: "exec_ended"}))
	}
	p.refuse(failed, reason, wait)
}

// settle returns the call that an answer is for. It is nil if its packet has left. Not ok is an id that no
// call has.
func (p *pool) settle(proc *process, id uint64) (c *call, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok = proc.open[id]
	if !ok {
		return nil, false
	}
	delete(proc.open, id)
	if !proc.answered {
		proc.answered = true
		p.mu.failures, p.mu.err = 0, nil
	}
	p.assignLocked()
	return c, true
}

// ready returns why no process runs.
func (p *pool) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.running) == 0 && p.mu.err != nil {
		return p.away(p.mu.err, 0)
	}
	return nil
}

// Close ends the processes: it ends their input, then asks them by a signal, then kills them.
func (p *pool) Close() error {
	p.mu.Lock()
	p.mu.closed = true
	running := slices.Clone(p.mu.running)
	patience := make([]time.Duration, len(running))
	for i, proc := range running {
		if patience[i] = endPatience; len(proc.open) > 0 {
			patience[i] = busyPatience
		}
	}
	var waiting []*call
	for c := p.mu.first; c != nil; c = c.next {
		waiting = append(waiting, c)
	}
	p.mu.first, p.mu.last = nil, nil
	p.mu.Unlock()
	p.close()
	for _, c := range waiting {
		p.answer(c, node.Fail(&node.Error{Err: errClosed, Status: 503, Code: "exec_closed"}))
	}
	for i, proc := range running {
		p.workers.Go(func() { proc.stop(patience[i]) })
	}
	p.workers.Wait()
	p.account.Close()
	return nil
}
