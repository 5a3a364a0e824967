package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

// role is the environment variable that makes this binary a child of a test.
const role = "BATCH_FAULTS_ROLE"

func TestMain(m *testing.M) {
	if child, ok := roles[os.Getenv(role)]; ok {
		var orphan sync.WaitGroup
		orphan.Go(func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
			os.Exit(1)
		})
		os.Exit(child())
	}
	leak.Main(m)
}

// roles are the kinds of child processes.
var roles = map[string]func() int{
	"crash": crashChild,
	"space": spaceChild,
}

// startChild starts this binary in a role, with more environment variables. It returns the
// output of the child.
func startChild(t *testing.T, what string, attr *syscall.SysProcAttr, env ...string) (*exec.Cmd, io.Reader, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), role+"="+what), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() }) // the child has ended, or ends now
	return cmd, out, cmd.Start()
}

// full reports whether the matrix runs at full length.
func full() bool { return os.Getenv("BATCH_FAULTS") == "full" }

// scale returns the first number, or the second one at full length.
func scale(short, long int) int {
	if full() {
		return long
	}
	return short
}

// A bench is a test or a child process that uses a rig.
type bench interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
	Cleanup(func())
}

type (
	event  = oracle.Event
	config = batch.Options[event]
)

// patience limits everything without a limit of its own. It is reached only if something
// hangs.
const patience = time.Minute

// A rig is a processor whose events are recorded. A goroutine reads its Stats all the time
// and checks that they balance.
type rig struct {
	bench
	*batch.Processor[event]
	ledger  *oracle.Ledger
	badDisk bool // Close may return that the spool cannot be written
	stop    chan struct{}
	watch   sync.WaitGroup
	drops   struct {
		sync.Mutex
		of map[batch.Reason]uint64
	}
	most struct { // over all stats of the watcher; read after close
		queuedBytes int64
		queued      uint64
		inFlight    uint64
	}
}

// start makes a processor. It sets Encode and OnDrop, and short back-offs unless c has some.
func start(t bench, c config) *rig {
	t.Helper()
	return startOn(t, new(oracle.Ledger), c)
}

// startOn is start for a processor that continues after another.
func startOn(t bench, l *oracle.Ledger, c config) *rig {
	t.Helper()
	r := &rig{bench: t, ledger: l, stop: make(chan struct{})}
	r.drops.of = make(map[batch.Reason]uint64)
	if c.Encode == nil {
		c.Encode = oracle.Encode
	}
	c.OnDrop = r.dropped
	c.Log = slog.New(slog.DiscardHandler)
	if c.Retry.Initial == 0 {
		c.Retry.Initial, c.Retry.Max = time.Millisecond, 20*time.Millisecond
	}
	if c.Lanes.Order == batch.OrderPerKey && c.Lanes.Key == nil {
		c.Lanes.Key = func(e *event) uint64 { return e.Key }
	}
	p, err := batch.New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	r.Processor = p
	r.watch.Go(r.watchStats)
	t.Cleanup(func() { // after a fatal error; otherwise it does nothing
		r.unwatch()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if r.Processor != nil {
			_, _ = r.Close(ctx) // its result is known
		}
	})
	return r
}

func (r *rig) dropped(d batch.Dropped) {
	for _, raw := range d.Events {
		if raw != nil {
			r.ledger.Dropped(raw, d.Reason.String())
		}
	}
	r.drops.Lock()
	defer r.drops.Unlock()
	r.drops.of[d.Reason] += uint64(len(d.Events))
}

func (r *rig) watchStats() {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.stop:
			return
		}
		s := r.Stats()
		if err := s.Balance(); err != nil {
			r.Errorf("while it ran: %v", err)
			return
		}
		r.most.queuedBytes = max(r.most.queuedBytes, s.QueuedBytes)
		r.most.queued = max(r.most.queued, s.Queued)
		r.most.inFlight = max(r.most.inFlight, s.InFlight)
	}
}

func (r *rig) unwatch() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	r.watch.Wait()
}

// balance checks Stats.Balance now.
func (r *rig) balance(when string) batch.Stats {
	r.Helper()
	s := r.Stats()
	if err := s.Balance(); err != nil {
		r.Errorf("%s: %v", when, err)
	}
	return s
}

// add adds one new event and records the result.
func (r *rig) add(ctx context.Context, key uint64, pad int) error {
	e := r.ledger.Next(key, pad)
	return r.ledger.Added(e, r.AddWait(ctx, e))
}

// load adds each events by each of the producers, with a key per producer, and returns when
// all are added. All must be accepted.
func (r *rig) load(producers, each, pad int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	var work sync.WaitGroup
	for k := range producers {
		work.Go(func() {
			for range each {
				if err := r.add(ctx, uint64(k)+1, pad); err != nil {
					r.Errorf("producer %d: %v", k, err)
					return
				}
			}
		})
	}
	work.Wait()
}

// until waits for a condition on the stats of the processor.
func (r *rig) until(what string, ok func(batch.Stats) bool) batch.Stats {
	r.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		s := r.balance(what)
		if ok(s) {
			return s
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			r.Fatalf("%s: not after %v: %+v", what, patience, s)
		}
	}
}

// flush waits until everything is settled.
func (r *rig) flush() batch.Stats {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if err := r.Flush(ctx); err != nil {
		r.Fatalf("Flush: %v; %+v", err, r.Stats())
	}
	return r.balance("after Flush")
}

// end closes the processor and returns its last stats. It records the result of Close, and
// checks that stats, report, ledger and OnDrop agree.
func (r *rig) end(within time.Duration) (batch.Report, batch.Stats) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	report, err := r.Close(ctx)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !r.badDisk {
		r.Errorf("Close: got %v, want nil or the deadline", err)
	}
	if (err != nil) != (report.Undelivered > 0) && !r.badDisk {
		r.Errorf("Close: got %v with %d events undelivered", err, report.Undelivered)
	}
	returned := 0
	for raw := range report.Events() {
		r.ledger.Returned(raw)
		returned++
	}
	r.unwatch()
	s := r.balance("after Close")
	same := func(what string, got, want uint64) {
		r.Helper()
		if got != want {
			r.Errorf("after Close: %s: got %d, want %d; %+v", what, got, want, s)
		}
	}
	same("events returned", uint64(returned), uint64(report.Undelivered))
	same("Stats.Returned", s.Returned, uint64(report.Undelivered))
	same("Stats.Queued", s.Queued, 0)
	same("Stats.InFlight", s.InFlight, 0)
	same("Report.Delivered", report.Delivered, s.Delivered)
	same("Report.Refused", report.Refused, s.Refused)
	same("Report.Spooled", report.Spooled, s.Spooled)
	return report, s
}

// verdict fails the test for each violation that the oracle finds, after the last Add. It
// also checks that OnDrop got the dropped events of the stats.
func (r *rig) verdict(store *oracle.Store, p oracle.Promise) {
	r.Helper()
	s := r.balance("at the end")
	r.drops.Lock()
	defer r.drops.Unlock()
	for _, x := range []struct {
		why  batch.Reason
		want uint64
	}{
		{batch.ReasonQueueFull, s.DroppedFull}, {batch.ReasonExpired, s.DroppedExpired}, {batch.ReasonExhausted, s.DroppedExhausted}, {batch.ReasonRefused, s.Refused}, {batch.ReasonUnreadable, s.Unreadable},
	} {
		if got := r.drops.of[x.why]; got != x.want {
			r.Errorf("OnDrop got %d events that are %s, the stats count %d", got, x.why, x.want)
		}
	}
	for _, problem := range oracle.Judge(store, r.ledger, p) {
		r.Errorf("%s", problem)
	}
}

// allDelivered ends the rig and checks that each event was delivered once.
func (r *rig) allDelivered(store *oracle.Store, order bool) batch.Stats {
	r.Helper()
	r.flush()
	_, s := r.end(patience)
	if s.Delivered != s.Accepted+s.Recovered {
		r.Errorf("got %d of %d delivered", s.Delivered, s.Accepted+s.Recovered)
	}
	r.verdict(store, oracle.Promise{Once: true, Order: order})
	return s
}

// viaHTTP returns a SendFunc of NewHTTP.
func viaHTTP(t bench, addr string, o batch.HTTPOptions) batch.SendFunc {
	t.Helper()
	send, err := batch.NewHTTP("http://"+addr+"/batch", o)
	if err != nil {
		t.Fatalf("NewHTTP: %v", err)
	}
	return send
}

// into returns a SendFunc to a store without a network.
func into(store *oracle.Store) batch.SendFunc {
	return func(_ context.Context, b *batch.Batch) batch.Outcome { return give(store, b) }
}

func give(store *oracle.Store, b *batch.Batch) batch.Outcome {
	raws := make([][]byte, 0, b.Len())
	for raw := range b.Events() {
		raws = append(raws, raw)
	}
	answer, status := store.Take(b.Key(), raws)
	switch status {
	case 400:
		return batch.Outcome{Verdict: batch.VerdictBisect, Err: errors.New("malformed"), Status: status}
	case 413:
		return batch.Outcome{Verdict: batch.VerdictSplit, Err: errors.New("too large"), Status: status}
	}
	out := batch.Outcome{Duplicate: answer.Duplicate}
	for _, x := range answer.Rejected {
		out.Refused = append(out.Refused, batch.Refusal{Index: x.Index, Reason: x.Reason, Retry: x.Retry})
	}
	return out
}

// A valve is a SendFunc that can be shut.
type valve struct {
	store *oracle.Store
	open  atomic.Bool
}

func (v *valve) send(_ context.Context, b *batch.Batch) batch.Outcome {
	if !v.open.Load() {
		return batch.Outcome{Err: errors.New("the receiver is down")}
	}
	return give(v.store, b)
}

// acked is an event with its ticket.
type acked struct {
	e      *event
	ticket batch.Ticket
}

// random returns a source whose seed is in the output of a failed test.
func random(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed: %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// chance is true with a probability in per cent. Scripts may use a random source without a
// lock, because they are called one after the other.
func chance(rnd *rand.Rand, percent int) bool { return rnd.IntN(100) < percent }

var orders = []batch.Order{batch.OrderNone, batch.OrderPerKey, batch.OrderTotal}

func name(parts ...any) string { return fmt.Sprint(parts...) }
