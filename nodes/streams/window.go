package streams

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed window.md
var windowPage string

func windowDef(o stream.Options) *node.Def {
	span := func(name string) *schema.Field {
		return schema.Duration(name).Range(float64(time.Millisecond), float64(longest))
	}
	return &node.Def{
		Kind:    "window",
		Summary: "Collects payloads by the time at which they happened, and starts one process for each window and key.",
		Page:    node.ReadPage(windowPage),
		Config: schema.Fields(
			span("size").Doc("The length of each window. Windows begin at multiples of it since 1970, in UTC."),
			span("slide").Doc("How long after each other windows begin, if they overlap; `size` unless set."),
			span("gap").Doc("Windows are sessions: one ends when nothing has happened for so long. Instead of `size`."),
			schema.Expr("time").Default("self.time").Doc("An expression over the payload: when it happened, as a timestamp or a text such as 2026-01-31T12:00:00Z."),
			schema.Expr("key").Doc("An expression over the payload: each window has payloads with one key only. Unset, one window has all payloads."),
			schema.Duration("late").Default("0s").Range(0, float64(longest)).Doc("How much later than others a payload may come and still be in its window."),
			span("idle").Default("10s").Doc("After how long without payloads windows end by the clock."),
			schema.Int("max").Default(10_000).Range(1, 1_000_000).Doc("How many payloads may wait, in all windows; with `step`, how many windows may be open. At so many, the oldest window is sent before its end."),
			schema.Enum("ack", "window", "early").Default("window").Doc("When payloads are answered: when their windows are done, or immediately, and then a crash loses what waits."),
			schema.Any("init").Doc("What `acc` is at first, with `step`; null unless set."),
			schema.Expr("step").Doc("The next `acc`, over `acc` and `item`: instead of its payloads, a window keeps one value. It needs `ack: early`."),
		),
		In: []node.Port{{Name: "in", Doc: "A payload with a time."}},
		Out: []node.Port{
			{Name: "out", Doc: "`{key, start, end, items, partial}`, in a process of its own; with `step`, `value` instead of `items`."},
			{Name: "late", Doc: "A payload whose windows have been sent. Without a link, it is a failure of the node."},
		},
		Error:  "A payload whose `key` or `time` fails, and with `ack: early` a window whose process has failed, as `data` of the error. Without a link the first is the answer, and the second is logged.",
		Traits: node.Fixed(node.Traits{Is: node.Inside}),
		Recall: node.Always(node.Attached),
		New:    func(init *node.Init) (node.Node, error) { return newWindower(o, init) },
	}
}

// A windower is a node of kind window.
type windower struct {
	buffer
	size, slide, gap int64 // in nanoseconds, as all times of events
	late             int64
	idleAfter        time.Duration
	exhausted        func() bool // of [node.Init]
	max              int
	key, time, step  lang.Program
	init             value.Value
	early, linked    bool
	log              *slog.Logger
	pool             *node.Pool
	memory           *node.Memory
	shared           string

	events   *eventClock // from Open on, as the others
	release  func() error
	account  *node.Account
	keys     map[state.Key]*keyed
	byEnd    windows
	reopened map[*fault]*window
	values   int // of windows that are answered early
	tick     func() bool
	made     uint64 // windows
	lates    uint64
	partials uint64
}

func newWindower(o stream.Options, init *node.Init) (*windower, error) {
	c := init.Config
	n := &windower{
		size: int64(c.Duration("size")), slide: int64(c.Duration("slide")), gap: int64(c.Duration("gap")),
		late: int64(c.Duration("late")), idleAfter: c.Duration("idle"), exhausted: init.Exhausted, max: int(c.Int("max")), init: c.Value("init"),
		early: c.String("ack") == "early", linked: init.OutLinks[1] > 0, log: init.Log, pool: init.Pool, memory: init.Memory,
		keys: make(map[state.Key]*keyed), reopened: make(map[*fault]*window),
	}
	n.clock, n.alone = init.Clock, n.aloneNow
	n.shared = fmt.Sprintf("window %q %q %d %d %d %d %q %q", init.Node.Namespace, init.Node.String(), n.size, n.slide, n.gap, n.late, c.Text("key").Code, c.Text("time").Code)
	var found diag.List
	switch {
	case n.gap > 0 && n.size > 0:
		found.Add(c.Errorf("gap", diag.CodeBadValue, "size is set, too").WithHint("remove one of them: sessions have no size"))
	case n.gap == 0 && n.size == 0:
		found.Add(c.Errorf("", diag.CodeBadValue, "a window has no length").WithHint("add one such as size: 1m, or gap: 30s for sessions"))
	case n.slide > 0 && n.size == 0:
		found.Add(c.Errorf("slide", diag.CodeBadValue, "is for windows with a size").WithHint("remove slide, or write size instead of gap"))
	case n.slide > n.size:
		found.Add(c.Errorf("slide", diag.CodeBadValue, "is longer than size, so there would be time in no window").WithHint("write %s at most", c.Duration("size")))
	case n.slide > 0 && n.size > mostOverlaps*n.slide:
		found.Add(c.Errorf("slide", diag.CodeBadValue, "each payload would be in more than %d windows", mostOverlaps).WithHint("write %s at least", c.Duration("size")/mostOverlaps))
	case n.slide == 0:
		n.slide = n.size
	}
	if c.Has("step") && !n.early {
		found.Add(c.Errorf("step", diag.CodeBadValue, "a value cannot wait for the answer to its window").WithHint("add ack: early: a crash then loses what the open windows have counted"))
	}
	if c.Has("init") && !c.Has("step") {
		found.Add(c.Errorf("init", diag.CodeBadValue, "init is used with step only").WithHint("add one such as step: acc + 1, or remove it"))
	}
	if !n.early {
		if lowered, err := withinFlight(init, "max", "a window", &n.max); err != nil {
			return nil, errors.Join(found.Err(), err)
		} else if lowered {
			init.AddWarning(c.Errorf("max", diag.CodeNoEffect, "what leads here has at most %d messages in flight, so no more are in windows, and longer ones are sent in parts", n.max).
				WithHint("raise max_in_flight of the source, answer with ack: early, or write max: %d", n.max))
		}
		warnOfOrder(init, "a window has one message of each of these keys at a time", "write order: none there, or ack: early here")
	}
	for _, f := range []struct {
		name string
		to   *lang.Program
	}{{"time", &n.time}, {"key", &n.key}, {"step", &n.step}} {
		var err error
		if *f.to, err = o.Expr(c, f.name, lang.Options{Warn: init.Warn}); err != nil {
			return nil, errors.Join(found.Err(), err)
		}
	}
	return n, found.Err()
}

// mostOverlaps is in how many windows a payload may be.
const mostOverlaps = 256

// Open finds how far the generation before has come.
func (n *windower) Open(context.Context) (err error) {
	n.account = n.memory.Account("window")
	n.events, n.release, err = node.Acquire(n.pool, n.shared, func() (*eventClock, error) { return newEventClock(), nil })
	return err
}

// Close lets go what was counted.
func (n *windower) Close() error {
	n.account.Close()
	return n.release()
}

// Receive puts a payload into its windows.
func (n *windower) Receive(p node.Process, pkt node.Packet) node.Result {
	e, err := n.read(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	if !n.early {
		return n.park(pkt.Payload, func(w *parked) ([]*bundle, node.Result) { return n.enter(p.Context(), &e, w) })
	}
	if !n.serves.Load() {
		return node.Fail(errNotServing)
	}
	n.Lock()
	if n.drained {
		n.Unlock()
		return n.aloneNow(p.Context(), pkt.Payload)
	}
	full, answer := n.enter(p.Context(), &e, nil)
	n.Unlock()
	n.send(full)
	return answer
}

// enter puts an event into its windows, and ends those that are over. The answer is for an event
// that waits for nothing. The caller holds the lock.
func (n *windower) enter(ctx context.Context, e *event, w *parked) (full []*bundle, answer node.Result) {
	n.events.Lock()
	defer n.events.Unlock()
	now := n.clock.Now()
	n.events.advance(e.at, n.late, now)
	targets := n.targets(e, &full)
	if len(targets) == 0 {
		n.lates++
		answer = n.tooLate(e.payload)
	} else if err := n.add(ctx, targets, e, w); err != nil {
		answer = node.Fail(err)
		if errors.Is(err, errFull) {
			full = n.shorten(full)
		}
	} else {
		answer = node.None()
	}
	for _, target := range targets {
		if f := target.fault; f != nil && f.complete(len(target.items)) && n.take(&target.bundle) {
			full = append(full, &target.bundle)
		}
	}
	for len(n.byEnd) > 0 && n.byEnd[0].end <= n.events.watermark {
		full = append(full, n.takeAll([]*bundle{&n.byEnd[0].bundle})...)
	}
	for n.load() >= n.max && n.open() > 0 {
		full = n.shorten(full)
	}
	n.watch(now)
	return full, answer
}

// Measure reports what waits.
func (n *windower) Measure(report func(node.Metric)) {
	waiting, sent := n.waiting()
	n.Lock()
	open, lates, partials := n.open(), n.lates, n.partials
	if n.early {
		waiting = float64(n.values)
	}
	n.Unlock()
	report(node.Metric{Name: "window_waiting", Help: "Payloads that wait in windows.", Value: waiting})
	report(node.Metric{Name: "window_open", Help: "Windows that are not sent.", Value: float64(open)})
	report(node.Metric{Name: "window_bytes", Help: "Bytes of windows whose payloads are answered.", Value: float64(n.account.Held())})
	for name, c := range map[string]struct {
		help string
		n    float64
	}{
		"sent": {"Windows that were sent, in parts or not.", sent}, "partial": {"Windows that were sent as parts.", float64(partials)},
		"late": {"Payloads that were late.", float64(lates)},
	} {
		report(node.Metric{Name: "window_" + name + "_total", Help: c.help, Type: node.MetricCounter, Value: c.n})
	}
}
