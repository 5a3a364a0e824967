package chat

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// mostWaiting is how many messages of a conversation may wait for the one before.
	mostWaiting = 32

	// mostTalks is how many conversations may have a process at a time.
	mostTalks = 10_000
)

var (
	errTooFast = errors.New("too many messages of this conversation wait for an answer")
	errBusy    = errors.New("too many conversations wait for an answer")
	errStopped = errors.New("the program takes no new messages")
)

// An outlet is where the answers to one message go. The desk calls begin before its
// process starts and end after it has ended, once each; neither blocks. Nodes of the
// process call Part.
type outlet interface {
	node.Parts
	begin()
	end(answers []answer)
}

// A desk runs the processes of the conversations of a node, one after the other in each.
// It lives in the pool, so that a reload neither loses what waits nor lets two processes of
// a conversation run side by side: the next message starts in the last shift. Any goroutine
// may call the methods.
type desk struct {
	current atomic.Pointer[shift] // nil before the first
	ctx     context.Context       // of the processes
	cancel  context.CancelFunc
	work    sync.WaitGroup // of processes whose start follows from another's end
	call    *node.Call
	counts  struct{ taken, delivered, refused, failed atomic.Uint64 }

	mu struct {
		sync.Mutex
		shifts []*shift
		talks  map[string]*talk // by conversation, while a process runs
		empty  chan struct{}    // closed when talks is empty; nil unless detach waits for that
	}
}

// A shift is what a desk needs of one generation. It is immutable.
type shift struct {
	starter node.Starter
	waits   node.Waits
	log     *slog.Logger
	failure string // what a client is told of an error that is not public; empty is nothing
	node    node.Node
}

func newDesk() *desk {
	d := &desk{}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.mu.talks = make(map[string]*talk)
	d.call = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Fail(resp.Payload.AsError()) // to the port error
		}
		return node.Respond(resp)
	})
	return d
}

// attach makes new processes start in a shift.
func (d *desk) attach(s *shift) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.shifts = append(d.mu.shifts, s)
	d.current.Store(s)
}

// detach ends what attach began. If no other shift is there, new messages are refused, and
// it waits until the others are answered, or for ctx, whose end ends their processes.
func (d *desk) detach(ctx context.Context, s *shift) (last bool, err error) {
	d.mu.Lock()
	d.mu.shifts = slices.DeleteFunc(d.mu.shifts, func(other *shift) bool { return other == s })
	if n := len(d.mu.shifts); n > 0 {
		d.current.Store(d.mu.shifts[n-1])
		d.mu.Unlock()
		return false, nil
	}
	empty := make(chan struct{})
	if d.mu.empty = empty; len(d.mu.talks) == 0 {
		close(empty)
		d.mu.empty = nil
	}
	d.mu.Unlock()
	if err = node.WaitFor(ctx, empty); err != nil {
		d.cancel()
	}
	return true, err
}

// Close ends what is left. The pool calls it when no generation uses the desk any more.
func (d *desk) Close() error {
	d.cancel()
	d.work.Wait()
	return nil
}

// take gives a message to the process that waits for one in its conversation, or else to
// one of its own. It does not wait for the answer. delivered reports the former: to is not
// used then.
func (d *desk) take(conversation string, payload value.Value, to outlet) (delivered bool, err error) {
	s := d.current.Load()
	if s == nil {
		return false, errStopped
	}
	if s.waits != nil && s.waits.Deliver(conversation, payload) {
		d.counts.delivered.Add(1)
		return true, nil
	}
	t, err := d.queue(conversation, entry{payload, to})
	if err != nil {
		d.counts.refused.Add(1)
		return false, err
	}
	d.counts.taken.Add(1)
	if t != nil {
		d.work.Go(t.runAll)
	}
	return false, nil
}

// queue lets a message wait for those before it. If there are none, it returns the talk to
// run.
func (d *desk) queue(conversation string, e entry) (*talk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.mu.talks[conversation]
	switch {
	case len(d.mu.shifts) == 0 || d.ctx.Err() != nil:
		return nil, errStopped
	case t == nil && len(d.mu.talks) >= mostTalks:
		return nil, errBusy
	case t == nil:
		t = &talk{desk: d, conversation: conversation, entry: e}
		t.ctx = node.WithConversation(d.ctx, conversation)
		t.done = t.onDone
		d.mu.talks[conversation] = t
		return t, nil
	case len(t.waiting) >= mostWaiting:
		return nil, errTooFast
	}
	t.waiting = append(t.waiting, e)
	return nil, nil
}

// next takes the message that has waited longest; without one, the talk ends.
func (d *desk) next(t *talk) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(t.waiting) > 0 {
		t.entry, t.waiting = t.waiting[0], t.waiting[1:]
		return true
	}
	delete(d.mu.talks, t.conversation)
	if len(d.mu.talks) == 0 && d.mu.empty != nil {
		close(d.mu.empty)
		d.mu.empty = nil
	}
	return false
}

func (d *desk) measure(platform string, report func(node.Metric)) {
	d.mu.Lock()
	running := len(d.mu.talks)
	d.mu.Unlock()
	report(node.Metric{Name: platform + "_processes", Help: "Conversations with a process.", Value: float64(running)})
	for _, m := range []struct {
		name, help string
		count      *atomic.Uint64
	}{
		{"_messages_total", "Messages that started a process.", &d.counts.taken},
		{"_replies_total", "Messages that a process had waited for.", &d.counts.delivered},
		{"_refused_total", "Messages refused, as too many waited.", &d.counts.refused},
		{"_failed_total", "Processes of messages that ended with an error.", &d.counts.failed},
	} {
		report(node.Metric{Name: platform + m.name, Help: m.help, Type: node.MetricCounter, Value: float64(m.count.Load())})
	}
}
