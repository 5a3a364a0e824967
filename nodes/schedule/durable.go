package schedule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/value"
)

// With durability a tick is the start of a run, whose key is the time of the tick: so a tick has one run,
// whatever the clock does. Starts are committed in the order of their ticks. So after a crash the last tick
// that the journal knows says which ones are to be made up for.

// The words of catch_up.
const (
	catchUpNone = "none"
	catchUpLast = "last"
	catchUpAll  = "all"
)

// mostMadeUp is how many ticks are made up for.
const mostMadeUp = 100

// retryTime is after how long a start is tried again that the journal could not take.
const retryTime = time.Second

// durable is what a ticker has for durable runs; zero for processes that are not durable. Its fields are
// immutable after Serve.
type durable struct {
	with    *field.Durability
	catchUp string
	plan    string // names the plan: its ticks are not those of another one
	name    string // of the node

	starter node.DurableStarter
	over    context.Context // done when the node stops
	leave   func()
}

// read reads the fields.
func (d *durable) read(init *node.Init) error {
	cfg := init.Config
	with, err := field.Options{}.DurabilityOf(cfg, field.Ticks)
	d.with, d.catchUp, d.name, d.leave = with, cfg.String("catch_up"), init.Node.String(), func() {}
	d.plan = fmt.Sprintf("%q %q %v", cfg.String("cron"), cfg.String("timezone"), cfg.Duration("interval"))
	if with == nil && d.catchUp != catchUpNone {
		return cfg.Errorf("catch_up", diag.CodeBadValue, "without durability, it is not known which ticks were missed").WithHint("add durability: checkpoint")
	}
	return err
}

// serve returns the last tick that the journal knows, if ticks are made up for.
func (d *durable) serve(src node.Starter) (last time.Time, err error) {
	if d.with == nil {
		return last, nil
	}
	if d.starter, err = d.with.Starter(src); err != nil {
		return last, err
	}
	d.over, d.leave = context.WithCancel(context.Background())
	if d.most() > 0 {
		if last, err = d.starter.LastTick(d.over, d.plan); err != nil {
			return last, fmt.Errorf("the last tick is not known: %w", err)
		}
	}
	return last, nil
}

// most is how many overdue ticks are made up for; 0 if it is left to the plan.
func (d *durable) most() int {
	switch {
	case d.with == nil || d.catchUp == catchUpNone:
		return 0
	case d.catchUp == catchUpLast:
		return 1
	}
	return mostMadeUp
}

// latest returns the latest ticks of a plan that are due from first on and not after now, at most so many.
// first is one of them, unless there are more.
func latest(p plan, first, now time.Time, most int) (due []time.Time) {
	if d, ok := p.(interval); ok { // which has ticks from first on alone
		_, missed := d.late(first, now)
		first = first.Add(time.Duration(max(0, missed+1-most)) * time.Duration(d))
	}
	for span := time.Minute; ; span *= 2 {
		at, whole := now.Add(-span), false
		due = due[:0]
		if _, ok := p.(interval); ok || !at.After(first) {
			at, whole = first, true
			due = append(due, first)
		}
		for at = p.next(at); !at.IsZero() && !at.After(now); at = p.next(at) {
			if len(due) == most {
				due = append(due[:0], due[1:]...)
			}
			due = append(due, at)
		}
		if whole || len(due) == most {
			return due
		}
	}
}

// later calls f on a goroutine that Stop waits for. The caller holds the lock.
func (n *ticker) later(f func(context.Context)) {
	n.running++
	n.clock.AfterFunc(0, func(ctx context.Context) {
		f(ctx)
		n.timetable.Lock()
		defer n.timetable.Unlock()
		n.leaves()
	})
}

// submit starts the runs of pending ticks one after the other, unless another call does.
func (n *ticker) submit(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.durable.over, cancel)()
	for first := true; ; first = false {
		due, ok := n.nextPending(first)
		if !ok {
			return
		}
		r, err := n.start(ctx, due)
		n.started(due, r, err)
	}
}

// nextPending returns the first pending tick, if this node is to start it. The first call of several
// ends the others.
func (n *ticker) nextPending(first bool) (due time.Time, ok bool) {
	t := n.timetable
	t.Lock()
	defer t.Unlock()
	if first && t.submitting {
		return due, false
	}
	if t.submitting = !n.stopped && len(t.pending) > 0; !t.submitting {
		t.submitPending()
		return due, false
	}
	return t.pending[0], true
}

// submitPending has the serving node start the ticks that are pending. The caller holds the lock.
func (t *timetable) submitPending() {
	if n := t.newest(); n != nil && len(t.pending) > 0 && n.durable.starter != nil {
		n.later(n.submit)
	}
}

// start starts the run of a tick. It tries again until the journal takes it.
func (n *ticker) start(ctx context.Context, due time.Time) (*node.Receipt, error) {
	payload := n.payload
	if n.timed {
		payload = value.Map(value.Field{Name: "time", Value: value.Time(due.In(n.zone))})
	}
	s, _, err := n.durable.with.Submission(ctx, payload, n.durable.name+"@"+due.UTC().Format(time.RFC3339Nano))
	if err != nil {
		return nil, err
	}
	s.Plan, s.Tick = n.durable.plan, due
	for told := false; ; told = true {
		r, err := n.durable.starter.Submit(ctx, s)
		if err == nil || ctx.Err() != nil || errors.Is(err, node.ErrStopped) || node.Describe(err).Status != http.StatusServiceUnavailable {
			return r, err
		}
		if !told {
			n.log.Error("a tick waits for the journal", "due", due, "error", err)
		}
		if err := n.clock.Sleep(ctx, retryTime); err != nil {
			return nil, err
		}
	}
}

// started notes how the start of a tick has ended.
func (n *ticker) started(due time.Time, r *node.Receipt, err error) {
	t := n.timetable
	t.Lock()
	defer t.Unlock()
	if err != nil && n.stopped { // it is left to the next generation, or to the next start of the program
		return
	}
	if len(t.pending) > 0 {
		t.pending = t.pending[1:]
	}
	if err != nil {
		n.log.Error("scheduled process", "due", due, "error", err)
		n.later(func(context.Context) { n.next() })
		return
	}
	n.later(func(ctx context.Context) { n.follow(ctx, due, r) })
}

// follow waits until a run has ended, or takes no memory as it only waits: then the next tick may begin.
func (n *ticker) follow(ctx context.Context, due time.Time, r *node.Receipt) {
	defer r.Leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.durable.over, cancel)()
	if n.clock.Wait(ctx, r.Away()) == nil {
		select {
		case <-r.Done:
			if resp := r.Answer(); resp.IsError() {
				n.log.Error("scheduled process", "due", due, "run", r.Run, "error", resp.Payload.AsError())
			}
		default:
		}
	}
	n.next()
}

// next starts the tick that has waited for the end of a run.
func (n *ticker) next() {
	n.timetable.Lock()
	n.running++ // ended takes it back
	n.timetable.Unlock()
	if next, due := n.ended(); next != nil { // a later generation without durability
		n.clock.AfterFunc(0, func(ctx context.Context) { next.run(ctx, due) })
	}
}
