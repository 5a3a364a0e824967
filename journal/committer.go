package journal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/kill"
)

// Limits of what waits to be committed. Past them no run starts.
const (
	maxWaiting      = 65_536 // records
	maxWaitingBytes = 16 << 20

	maxCalls = 4096 // functions that wait to be called
)

// retryFull is how long a journal on a full disk waits before it tries again.
const retryFull = time.Second

// trimEvery is how often runs that have ended are removed, at least.
const trimEvery = time.Second

// Options are how a journal works. Zero fields take their default.
type Options struct {
	KeepOK     time.Duration // how long a run that ended well is kept; 24 h
	KeepFailed time.Duration // how long one that ended otherwise is; 336 h
	MaxBytes   int64         // of the whole journal; 1 GiB

	// Failed is told when commits begin to fail, and with nil when they work again. It may be nil.
	Failed func(error)
}

// A Journal commits what runs add, in groups. Any goroutine may call its methods. Functions that
// it is given are called on goroutines of its own, and may block.
type Journal struct {
	store   Store
	opts    Options
	wake    chan struct{} // there is something to commit, or the journal is being closed
	over    chan struct{} // the committer has ended
	ctx     context.Context
	stop    context.CancelFunc
	calls   chan func()
	workers sync.WaitGroup

	mu struct {
		sync.Mutex
		next      *group // gathers
		spare     *group // an empty one to use again; nil for none
		flying    *group // is being committed; nil between commits
		added     uint64 // in all
		committed uint64 // of these
		waiting   int    // sizes of both groups
		bytes     int    // of their payloads
		broken    error
		full      error // the disk is full since the last commit
		closed    bool
	}
}

// A group is what one commit makes durable.
type group struct {
	Batch
	starts []func(existing *Run, err error) // by index of Starts
	done   []func(error)
	last   uint64 // number of what was added last
	size   int    // all that the batch has, without revisions
	bytes  int
}

// New returns a journal that commits to a store, which it closes.
func New(store Store, opts Options) *Journal {
	if opts.KeepOK == 0 {
		opts.KeepOK = 24 * time.Hour
	}
	if opts.KeepFailed == 0 {
		opts.KeepFailed = 336 * time.Hour
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 1 << 30
	}
	j := &Journal{store: store, opts: opts, wake: make(chan struct{}, 1), over: make(chan struct{}), calls: make(chan func(), maxCalls)}
	j.ctx, j.stop = context.WithCancel(context.Background())
	j.mu.next = new(group)
	for range max(2, runtime.GOMAXPROCS(0)) {
		j.workers.Go(func() {
			for f := range j.calls {
				f()
			}
		})
	}
	j.workers.Go(j.run)
	return j
}

// Store returns what the journal commits to, to read from.
func (j *Journal) Store() Store { return j.store }

// Ready returns why no run can start, or nil.
func (j *Journal) Ready() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.refuses()
}

// refuses is Ready for a caller that holds the lock.
func (j *Journal) refuses() error {
	switch m := &j.mu; {
	case m.closed:
		return ErrClosed
	case m.broken != nil:
		return m.broken
	case m.full != nil:
		return m.full
	case m.waiting >= maxWaiting || m.bytes >= maxWaitingBytes:
		return ErrBusy
	}
	return nil
}

// Start adds a run. done is called when it is durable, with the run that had its key already, or
// with an error; a nil done does not ask. The journal owns the run from then on.
func (j *Journal) Start(r *Run, done func(existing *Run, err error)) (seq uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.refuses(); err != nil {
		return 0, err
	}
	g := j.mu.next
	g.Starts, g.starts = append(g.Starts, r), append(g.starts, done)
	return j.add(1, len(r.Input)), nil
}

// Add adds a record without waiting. The number that it returns is for [Journal.Flush].
func (j *Journal) Add(r Record) (seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.next.Records = append(j.mu.next.Records, r)
	return j.add(1, len(r.Payload))
}

// A Part is what one caller adds together. Its fields are those of a [Batch].
type Part struct {
	Revisions []Revision
	Starts    []*Run // without keys: what has a key may not be inserted
	Claims    []Claim
	Records   []Record
	Waits     []Wait
	Over      []WaitID
	Signals   []Signal
	Taken     []SignalID
	Ends      []End
	Requeues  []Requeue
	Pauses    []Pause
}

// Put adds a part without waiting: all of it becomes durable together, or nothing. The number
// that it returns is for [Journal.Flush]. The journal owns the payloads and tokens from then
// on, and not the slices.
func (j *Journal) Put(p Part) (seq uint64) {
	bytes := 0
	for i := range p.Records {
		bytes += len(p.Records[i].Payload)
	}
	for i := range p.Signals {
		bytes += len(p.Signals[i].Payload)
	}
	for _, r := range p.Starts {
		bytes += len(r.Input)
	}
	for i := range p.Ends {
		bytes += len(p.Ends[i].Answer)
	}
	for i := range p.Requeues {
		bytes += len(p.Requeues[i].Input)
	}
	size := len(p.Revisions) + len(p.Starts) + len(p.Claims) + len(p.Records) + len(p.Waits) + len(p.Over) + len(p.Signals) + len(p.Taken) + len(p.Ends) + len(p.Requeues) + len(p.Pauses)
	j.mu.Lock()
	defer j.mu.Unlock()
	if size == 0 { // a group of nothing is never committed
		return j.mu.added
	}
	g := j.mu.next
	g.Records = append(g.Records, p.Records...)
	g.Waits, g.Over = append(g.Waits, p.Waits...), append(g.Over, p.Over...)
	g.Signals, g.Taken = append(g.Signals, p.Signals...), append(g.Taken, p.Taken...)
	g.Revisions, g.Claims = append(g.Revisions, p.Revisions...), append(g.Claims, p.Claims...)
	g.Starts, g.starts = append(g.Starts, p.Starts...), append(g.starts, make([]func(*Run, error), len(p.Starts))...)
	g.Ends, g.Requeues, g.Pauses = append(g.Ends, p.Ends...), append(g.Requeues, p.Requeues...), append(g.Pauses, p.Pauses...)
	return j.add(size, bytes)
}

// Resume says that a run goes on, after a crash or a wait, and calls done when that is durable.
func (j *Journal) Resume(run ID, done func(error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.lost(); err != nil {
		j.workers.Go(func() { done(err) })
		return
	}
	j.mu.next.Resumed, j.mu.next.done = append(j.mu.next.Resumed, run), append(j.mu.next.done, done)
	j.add(1, 0)
}

// Retry lets a run go on that has ended or was put aside, and calls done when that is durable.
func (j *Journal) Retry(r Retry, done func(error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.lost(); err != nil {
		j.workers.Go(func() { done(err) })
		return
	}
	j.mu.next.Retried, j.mu.next.done = append(j.mu.next.Retried, r), append(j.mu.next.done, done)
	j.add(1, 0)
}

// End adds the end of a run, or that it is put to wait, and calls done when it is durable.
func (j *Journal) End(e End, done func(error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.lost(); err != nil {
		j.workers.Go(func() { done(err) })
		return
	}
	j.mu.next.Ends, j.mu.next.done = append(j.mu.next.Ends, e), append(j.mu.next.done, done)
	j.add(1, len(e.Answer))
}

// lost returns why nothing can become durable any more, for a caller that holds the lock.
func (j *Journal) lost() error {
	if j.mu.broken == nil && j.mu.closed {
		return ErrClosed
	}
	return j.mu.broken
}

// add counts what was added, for a caller that holds the lock.
func (j *Journal) add(size, bytes int) (seq uint64) {
	g := j.mu.next
	g.size += size
	g.bytes += bytes
	j.mu.waiting += size
	j.mu.bytes += bytes
	j.mu.added++
	g.last = j.mu.added
	j.signal()
	return g.last
}

func (j *Journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default: // it wakes anyway
	}
}

// Flush reports whether what was added under a number is durable, with all before it. If not, it
// calls done when it is, or when it cannot be any more.
func (j *Journal) Flush(seq uint64, done func(error)) (durable bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g := j.mu.next
	if f := j.mu.flying; f != nil && seq <= f.last {
		g = f
	}
	switch err := j.lost(); {
	case seq <= j.mu.committed:
		return true
	case err != nil:
		j.workers.Go(func() { done(err) })
	default:
		g.done = append(g.done, done)
	}
	return false
}

// run commits group after group until the journal is closed.
func (j *Journal) run() {
	defer close(j.over)
	trimmed := time.Now()
	for {
		j.mu.Lock()
		g, closed := j.mu.next, j.mu.closed
		if g.size == 0 {
			j.mu.Unlock()
			if closed {
				return
			}
			<-j.wake
			continue
		}
		if j.mu.next = j.mu.spare; j.mu.next == nil {
			j.mu.next = new(group)
		}
		j.mu.spare, j.mu.flying = nil, g
		j.mu.Unlock()
		err := j.commit(g)
		j.settle(g, err)
		if err == nil && time.Since(trimmed) >= trimEvery {
			j.trim()
			trimmed = time.Now()
		}
	}
}

// commit commits a group. On a full disk it tries again until there is room.
func (j *Journal) commit(g *group) error {
	j.mu.Lock()
	broken := j.mu.broken
	j.mu.Unlock()
	if broken != nil { // nothing may be durable behind a gap
		return broken
	}
	for told := false; ; {
		kill.At(kill.StartAdded, len(g.Starts) > 0)
		err := j.store.Commit(j.ctx, &g.Batch)
		if err == nil {
			g.committed()
		}
		full := errors.Is(err, ErrFull)
		j.mu.Lock()
		j.mu.full = nil
		if full {
			j.mu.full = err
		}
		j.mu.Unlock()
		if failed := err != nil; failed != told && j.opts.Failed != nil { // after Ready says so, too
			told = failed
			j.opts.Failed(err)
		}
		if !full {
			return err
		}
		select {
		case <-time.After(retryFull):
		case <-j.ctx.Done():
			return err
		}
	}
}

// settle calls what waits for a group.
func (j *Journal) settle(g *group, err error) {
	if err != nil && !errors.Is(err, ErrBroken) {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	j.mu.Lock()
	j.mu.flying = nil
	j.mu.waiting -= g.size
	j.mu.bytes -= g.bytes
	groups := []*group{g}
	if err == nil {
		j.mu.committed = g.last
	} else { // what gathers can be committed neither
		j.mu.broken = err
		groups = append(groups, j.mu.next)
		j.mu.next = new(group)
	}
	j.mu.Unlock()
	defer j.reuse(g)
	for _, g := range groups {
		for i, done := range g.starts {
			var existing *Run
			if i < len(g.Existing) {
				existing = g.Existing[i]
			}
			if done != nil {
				j.calls <- func() { done(existing, err) }
			}
		}
		for _, done := range g.done {
			j.calls <- func() { done(err) }
		}
	}
}

// reuse keeps a group that is settled for a later commit, unless it was large.
func (j *Journal) reuse(g *group) {
	if g.size > maxReused {
		return
	}
	clear(g.Revisions)
	clear(g.Starts)
	clear(g.Retried)
	clear(g.Records)
	clear(g.Waits)
	clear(g.Over)
	clear(g.Signals)
	clear(g.Taken)
	clear(g.Ends)
	clear(g.Claims)
	clear(g.Requeues)
	clear(g.Pauses)
	clear(g.Existing)
	clear(g.starts)
	clear(g.done)
	*g = group{
		Batch: Batch{
			Revisions: g.Revisions[:0], Starts: g.Starts[:0], Retried: g.Retried[:0], Records: g.Records[:0], Waits: g.Waits[:0], Over: g.Over[:0],
			Signals: g.Signals[:0], Taken: g.Taken[:0], Ends: g.Ends[:0], Existing: g.Existing[:0],
			Claims: g.Claims[:0], Requeues: g.Requeues[:0], Pauses: g.Pauses[:0],
		},
		starts: g.starts[:0], done: g.done[:0],
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.spare = g
}

// maxReused is how much a group has that is used again, at most.
const maxReused = 4096

// trim removes what is not kept any more, for at most a tenth of the time.
func (j *Journal) trim() {
	begun := time.Now()
	for more := true; more && time.Since(begun) < trimEvery/10; {
		var err error
		_, more, err = j.store.Trim(j.ctx, Policy{
			Now: begun, KeepOK: j.opts.KeepOK, KeepFailed: j.opts.KeepFailed, MaxBytes: j.opts.MaxBytes, Most: 500,
		})
		if err != nil && j.ctx.Err() == nil && j.opts.Failed != nil {
			j.opts.Failed(fmt.Errorf("what is not kept any more was not removed: %w", err))
		}
		if err != nil {
			return
		}
	}
}

// Close commits what was added, and closes the store. What is added later is lost. If ctx ends
// before, what is left is not committed.
func (j *Journal) Close(ctx context.Context) error {
	j.mu.Lock()
	j.mu.closed = true
	j.mu.Unlock()
	j.signal()
	stop := context.AfterFunc(ctx, j.stop)
	<-j.over
	stop()
	j.stop()
	close(j.calls)
	j.workers.Wait()
	return j.store.Close()
}
