// Package schedule has the kind that starts processes at times.
//
// plan.go computes when ticks are due; schedule.go has the kind, and what its nodes
// share across reloads; durable.go starts ticks as durable runs. The package must not know how processes are run.
package schedule

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed schedule.md
var schedulePage string

// Defs returns the kind of the package, freshly made.
func Defs() []*node.Def {
	return []*node.Def{{
		Kind:    "schedule",
		Summary: "Starts a process at given times.",
		Page:    node.ReadPage(schedulePage),
		Config: schema.Fields(
			schema.Text("cron").Pattern(cronPattern).Doc("When ticks are due, as five or six parts, or one such as `@hourly`."),
			schema.String("timezone").Default("UTC").Doc("The time zone of `cron`, such as `Europe/Berlin`; `Local` is that of the machine."),
			schema.Duration("interval").Range(float64(time.Millisecond), float64(100*365*24*time.Hour)).Doc("The time from one tick to the next, in place of `cron`."),
			schema.Any("payload").Doc("What a tick sends; `{time: …}`, the time at which it was due, unless set."),
			schema.Duration("jitter").Default(time.Duration(0)).Doc("Each tick is late by a random time up to this, but not as late as the next one is due."),
			schema.Enum("overlap", "skip", "queue", "allow").Default("skip").Doc("What happens to a tick while the process of an earlier one is running."),
			field.NewDurability(field.Ticks),
			schema.Enum("catch_up", catchUpNone, catchUpLast, catchUpAll).Default(catchUpNone).Doc("With `durability`: which ticks are made up for that were due while the program was down: none, the last one, or all, at most 100."),
		),
		Role: node.Ticks,
		Traits: func(c schema.Config) node.Traits {
			return node.Traits{Is: field.DurableTrait(c), Gives: field.DurabilityGives(c)}
		},
		Out:    []node.Port{{Name: "out", Doc: "The payload of a tick."}},
		Recall: node.Always(node.Effects),
		New:    newNode,
	}}
}

const (
	maxQueue   = 100
	maxRunning = 1000

	// longestWait is how long a timer runs. One that runs while the machine is
	// suspended, or its clock is set, is late by as much.
	longestWait = time.Minute

	// setBack is how much earlier than the last tick the clock must be to have been
	// set back on purpose: the plan then begins again.
	setBack = time.Hour
)

// A ticker is a node of kind schedule. It shares its timetable with the same node of
// earlier and later generations.
type ticker struct {
	plan    plan
	zone    *time.Location
	payload value.Value
	timed   bool // the payload is the time
	jitter  time.Duration
	overlap string
	call    *node.Call
	clock   node.Clock
	log     *slog.Logger
	pool    *node.Pool
	shared  string // key of the timetable in the pool

	timetable *timetable
	release   func() error
	source    node.Starter // immutable after Serve
	durable   durable

	// Guarded by the timetable.
	stop    func() bool // of the timer; nil if there is none
	due, at time.Time   // of the next tick: by the plan, and with jitter
	stopped bool
	running int           // processes of this node
	idle    chan struct{} // made by Stop; closed when none is running
}

func newNode(init *node.Init) (node.Node, error) {
	cfg := init.Config
	n := &ticker{
		payload: cfg.Value("payload"), timed: !cfg.Has("payload"), jitter: cfg.Duration("jitter"), overlap: cfg.String("overlap"),
		clock: init.Clock, log: init.Log, pool: init.Pool, zone: time.UTC,
		call: node.NewCall(func(_ node.Process, resp node.Response) node.Result {
			if resp.IsError() {
				return node.Fail(resp.Payload.AsError())
			}
			return node.Respond(resp)
		}),
	}
	n.shared = fmt.Sprintf("schedule %q %q %q %q %v", init.Node.Namespace, init.Node.String(), cfg.String("cron"), cfg.String("timezone"), cfg.Duration("interval"))
	var found diag.List
	n.setPlan(cfg, &found)
	return n, errors.Join(found.Err(), n.durable.read(init))
}

// setPlan reads the fields that say when ticks are due.
func (n *ticker) setPlan(cfg schema.Config, found *diag.List) {
	zone, err := time.LoadLocation(cfg.String("timezone"))
	if err != nil || cfg.String("timezone") == "" {
		zone = time.UTC
		found.Add(cfg.Errorf("timezone", diag.CodeBadValue, "unknown time zone").WithHint("write one such as Europe/Berlin, UTC or Local"))
	}
	switch {
	case cfg.Has("cron") && cfg.Has("interval"):
		found.Add(cfg.Errorf("interval", diag.CodeBadValue, "cron is set, too").WithHint("remove one of them"))
	case cfg.Has("interval"):
		if cfg.Has("timezone") {
			found.Add(cfg.Errorf("timezone", diag.CodeBadValue, "timezone is used with cron only").WithHint("remove it"))
		}
		n.plan = interval(cfg.Duration("interval"))
	case !cfg.Has("cron"):
		found.Add(cfg.Errorf("", diag.CodeBadValue, "nothing says when").WithHint(`add one such as cron: "30 2 * * *", or interval: 5m`))
	default:
		calendar, err := parseCron(cfg.String("cron"), zone)
		var bad *partError
		if errors.As(err, &bad) {
			d := cfg.Errorf("cron", diag.CodeBadValue, "%s", bad.msg).WithHint("%s", bad.hint)
			if cfg.Hidden("cron") {
				d.Msg = "this is not a list of times" // the message would quote text of a template
			}
			d.Pos = cfg.Text("cron").At(bad.offset)
			found.Add(d)
		}
		n.plan, n.zone = calendar, zone
	}
}

// Receive is never called: a schedule has no in-port.
func (n *ticker) Receive(node.Process, node.Packet) node.Result { return node.None() }

// Open finds the timetable of the generation before, or makes one.
func (n *ticker) Open(context.Context) (err error) {
	n.timetable, n.release, err = node.Acquire(n.pool, n.shared, func() (*timetable, error) { return new(timetable), nil })
	return err
}

func (n *ticker) Close() error { return n.release() }

// A timetable is what the nodes of several generations share. Its lock guards all of it.
type timetable struct {
	sync.Mutex
	nodes      state.Generations[ticker] // the one that serves has the ticks
	last       time.Time                 // when the last tick was due; zero before the first node serves
	running    int                       // processes
	queue      []time.Time               // ticks that wait
	submitting bool                      // a node starts pending ticks
	pending    []time.Time               // ticks that count as running, and whose durable run has not started
	warned     bool                      // that ticks are left out because of the running process

	ticks, skipped, missed uint64
}

// newest returns the node that has the ticks, or nil.
func (t *timetable) newest() *ticker {
	if !t.nodes.Serving() {
		return nil
	}
	return t.nodes.Current()
}

// Serve begins to tick.
func (n *ticker) Serve(src node.Starter) error {
	n.source = src
	last, err := n.durable.serve(src)
	if err != nil {
		return err
	}
	n.timetable.Lock()
	defer n.timetable.Unlock()
	if n.timetable.last.IsZero() && !last.After(n.now()) {
		n.timetable.last = last
	}
	n.timetable.nodes.Attach(n)
	n.arm()
	return nil
}

// now returns the time. For a calendar it is that on the wall, whatever passed since
// the machine has started.
func (n *ticker) now() time.Time {
	if _, ok := n.plan.(interval); ok {
		return n.clock.Now()
	}
	return n.clock.Now().Round(0)
}

// arm sets the timer for the next tick. The caller holds the lock.
func (n *ticker) arm() {
	t, now := n.timetable, n.now()
	if t.last.IsZero() || t.last.Sub(now) > setBack {
		t.last = now
	}
	due := n.plan.next(t.last)
	if due.IsZero() {
		return
	}
	if !due.Equal(n.due) {
		n.due, n.at = due, due
		most := n.jitter
		if following := n.plan.next(due); !following.IsZero() {
			most = min(most, following.Sub(due))
		}
		if most > 0 && due.After(now) { // what is made up for is late anyway
			n.at = due.Add(rand.N(most))
		}
	}
	n.stop = n.clock.AfterFunc(min(n.at.Sub(now), longestWait), n.wake)
}

// wake starts the process of a tick, if one is due.
func (n *ticker) wake(ctx context.Context) {
	if due, ok := n.tick(); ok {
		n.run(ctx, due)
	}
}

// tick sets the next timer, and reports whether a process is to be started now.
func (n *ticker) tick() (due time.Time, start bool) {
	t := n.timetable
	t.Lock()
	defer t.Unlock()
	if n.stopped || t.newest() != n {
		return due, false
	}
	defer n.arm()
	now := n.now()
	if now.Before(n.at) {
		return due, false
	}
	due, missed := n.plan.late(n.due, now)
	made := []time.Time{due}
	if most := n.durable.most(); most > 0 {
		made = latest(n.plan, n.due, now, most)
		due, missed = made[len(made)-1], missed+1-len(made)
	}
	t.last = due
	if missed > 0 {
		t.missed += uint64(missed)
		n.log.Warn("ticks were missed", "count", missed, "since", n.due)
	}
	for _, due := range made {
		if start = n.admit(due); start && n.durable.starter != nil {
			t.pending = append(t.pending, due)
		}
	}
	if n.durable.starter != nil {
		t.submitPending()
		return due, false
	}
	return due, start
}

// admit decides whether a tick starts a process now. The caller holds the lock.
func (n *ticker) admit(due time.Time) bool {
	t := n.timetable
	switch {
	case t.running == 0 || n.overlap == "allow" && t.running < maxRunning:
		t.ticks++
		t.running++
		if n.durable.starter == nil {
			n.running++
		}
		return true
	case n.overlap == "queue" && len(t.queue) < maxQueue:
		t.queue = append(t.queue, due)
		return false
	}
	t.skipped++
	if !t.warned {
		t.warned = true
		n.log.Warn("ticks are left out, because an earlier process is running", "since", due)
	}
	return false
}

// run runs the process of a tick, and those that have waited for it.
func (n *ticker) run(ctx context.Context, due time.Time) {
	for next := n; next == n; {
		payload := n.payload
		if n.timed {
			payload = value.Map(value.Field{Name: "time", Value: value.Time(due.In(n.zone))})
		}
		if resp := n.source.Run(ctx, n.call.Send(0, payload)); resp.IsError() {
			n.log.Error("scheduled process", "due", due, "error", resp.Payload.AsError())
		}
		next, due = n.ended()
		if next != nil && next != n { // a later generation has taken over
			n.clock.AfterFunc(0, func(ctx context.Context) { next.run(ctx, due) })
		}
	}
}

// ended counts a process that has ended. If a tick has waited for that, it returns the
// tick and the node that runs it.
func (n *ticker) ended() (next *ticker, due time.Time) {
	t := n.timetable
	t.Lock()
	defer t.Unlock()
	t.running--
	t.warned = false
	if next = t.newest(); next != nil && len(t.queue) > 0 {
		due, t.queue = t.queue[0], t.queue[1:]
		t.ticks++
		t.running++
		if next.durable.starter == nil {
			next.running++
		} else {
			t.pending = append(t.pending, due)
			t.submitPending()
			next = nil
		}
	} else {
		next = nil
	}
	n.leaves()
	return next, due
}

// leaves counts down what Stop waits for. The caller holds the lock.
func (n *ticker) leaves() {
	if n.running--; n.running == 0 && n.idle != nil {
		close(n.idle)
	}
}

// Stop ends the ticks, and waits for the processes that are running. If a later
// generation has failed to start, the earlier one goes on.
func (n *ticker) Stop(ctx context.Context) error {
	return node.WaitFor(ctx, n.leave())
}

// leave takes the node out of its timetable. It returns a channel that is closed when none
// of its processes is running.
func (n *ticker) leave() <-chan struct{} {
	t := n.timetable
	t.Lock()
	defer t.Unlock()
	n.stopped = true
	n.durable.leave()
	n.idle = make(chan struct{})
	if n.running == 0 {
		close(n.idle)
	}
	if n.stop != nil {
		n.stop()
	}
	serving := t.newest() == n
	t.nodes.Detach(n)
	switch next := t.newest(); {
	case !serving:
	case next != nil:
		next.arm()
		t.submitPending()
	case len(t.queue)+len(t.pending) > 0:
		t.skipped += uint64(len(t.queue) + len(t.pending))
		n.log.Warn("ticks that waited are left out", "count", len(t.queue)+len(t.pending))
		t.running -= len(t.pending)
		t.queue, t.pending = nil, nil
	}
	return n.idle
}

// Measure implements [node.Measured].
func (n *ticker) Measure(report func(node.Metric)) {
	t := n.timetable
	t.Lock()
	ticks, skipped, missed, running, queued := t.ticks, t.skipped, t.missed, t.running, len(t.queue)
	t.Unlock()
	report(node.Metric{Name: "schedule_ticks_total", Help: "Ticks that have started a process.", Type: node.MetricCounter, Value: float64(ticks)})
	report(node.Metric{Name: "schedule_skipped_total", Help: "Ticks that were left out because a process was running.", Type: node.MetricCounter, Value: float64(skipped)})
	report(node.Metric{Name: "schedule_missed_total", Help: "Ticks that were overdue when the next one was, such as after a pause of the machine.", Type: node.MetricCounter, Value: float64(missed)})
	report(node.Metric{Name: "schedule_running", Help: "Processes that are running.", Value: float64(running)})
	report(node.Metric{Name: "schedule_queued", Help: "Ticks that wait for one to end.", Value: float64(queued)})
}
