// Package suite runs the tests in documents, and reports what they found.
//
// Read [Run] first, then recorder.go (what a test has sent and received), mock.go
// (nodes that a run replaces), record.go (what mocks record), crash.go (tests with crashes), and what is reported: report.go, failure.go and
// coverage.go.
//
// Invariants: each test has an engine of its own, so nothing that one does is seen by
// another; what a test has started has ended when its result is reported, unless the
// result says otherwise.
//
// The package must not know which kinds exist, except for the trigger that a fake clock
// lets run.
package suite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/clock"
	limits "github.com/uniflow-labs/uniflow/internal/memory"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Options are how to run. Kinds are required.
type Options struct {
	Kinds    []*node.Def
	Programs *node.Programs // whether nodes may start programs
	Timeout  time.Duration  // of each test that sets none; 0 for none

	// Redact hides secrets in texts of reports and recordings; nil hides none.
	Redact func(text string) string

	// Running says that the program runs meanwhile: nodes that hold what only one may have, such as a
	// spool or a store of events, are not opened. A test that sends to one fails.
	Running bool

	// Dry says that nothing outside may change: a node that might change something is not run, unless
	// Allowed has its name, with its namespace or without. What is sent to it fails, but is answered None
	// while nodes start, as at a port init: it is not what is tried.
	Dry     bool
	Allowed []string

	// Crash is the only step at which a test with crashes is repeated; 0 for all. Above [maxCrashes] steps it is
	// a sample, which Seed chooses; 0 for another one each time.
	Crash int
	Seed  uint64

	// Done is called after each test with its index, for one at a time, in any order.
	Done func(at int, r *Result)
}

// A Round is what tests have in common. Make one for all that do.
type Round struct {
	Outline  uniflow.Outline // of an engine with Whole
	Mocks    []*Mock
	Workflow int // rounds of one workflow, which has the same nodes in each, have the same number
}

// A Case is a test of a round's outline.
type Case struct {
	uniflow.Test
	Round *Round
}

// A Result is how one test ended.
type Result struct {
	Test     uniflow.Test
	Start    time.Time
	Duration time.Duration
	Err      error    // nil if the test passed
	Steps    []Step   // what the test sent, up to its failure
	Skipped  int      // earlier steps, which Steps leaves out
	Log      string   // what the nodes logged
	Crashes  *Crashes // nil for a test that is not repeated with crashes

	redact func(string) string
}

// Name returns the name of the test with its namespace.
func (r *Result) Name() string { return Name(r.Test) }

// Name returns the name of a test with its namespace.
func Name(t uniflow.Test) string { return t.Node.Namespace + "/" + t.Node.String() }

// epoch is when the time of a fake clock begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// abandon is how long a test may go on after its context has ended.
const abandon = time.Second

// Run runs tests concurrently, and returns the results in the order of the tests. When
// ctx ends, tests in progress fail, and the others are left out.
func Run(ctx context.Context, tests []Case, opts Options) ([]*Result, *Coverage) {
	if opts.Redact == nil {
		opts.Redact = unchanged
	}
	cover := newCoverage(opts.Kinds, tests)
	bytes := limits.Limit() / 2 // the machine is asked once
	sessions := make(map[*Round]*session)
	for _, t := range tests {
		if sessions[t.Round] != nil {
			continue
		}
		sessions[t.Round] = &session{
			Options: opts, Round: t.Round, names: newPortNames(opts.Kinds, t.Round.Outline), bytes: bytes,
		}
		for _, m := range t.Round.Mocks {
			m.redact = opts.Redact
		}
	}
	var mu sync.Mutex // of what tests report to
	results := make([]*Result, len(tests))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(len(tests), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range next {
				r, rec := sessions[tests[i].Round].test(ctx, tests[i].Test)
				results[i] = r
				mu.Lock()
				cover.of[tests[i].Round.Workflow].add(rec)
				if opts.Done != nil {
					opts.Done(i, r)
				}
				mu.Unlock()
			}
		})
	}
	for i := range tests {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	var ended []*Result
	for _, r := range results {
		if r != nil {
			ended = append(ended, r)
		}
	}
	return ended, cover
}

// A session runs the tests of a round.
type session struct {
	Options
	*Round
	names *portNames
	bytes int64 // what each test may hold, see [uniflow.Options]
}

func (s *session) test(ctx context.Context, t uniflow.Test) (*Result, *recorder) {
	r := &Result{Test: t, Start: time.Now(), redact: s.Redact}
	var store *memory.Store
	var kept journal.Store
	if t.Durable {
		store = memory.New()
		kept = store
	}
	whole := s.attempt(ctx, t, kept, clockOf(t, epoch))
	last := whole
	if whole.err == nil && t.Crashes && !slices.ContainsFunc(s.Mocks, (*Mock).Records) {
		last = s.crash(ctx, t, whole, store, r)
	}
	r.Duration = time.Since(r.Start)
	r.Err = last.err
	r.Steps, r.Skipped = last.rec.steps(s.names)
	r.Log = last.log.String()
	return r, whole.rec
}

// An attempt is one run of a test in a program, which a crash may have ended.
type attempt struct {
	rec   *recorder
	calls *calls
	log   logBuffer
	err   error
}

// clockOf returns a clock for a test that shows now; nil for the clock of the machine.
func clockOf(t uniflow.Test, now time.Time) *clock.Fake {
	if !t.FakeClock {
		return nil
	}
	return clock.New(now)
}

// attempt runs a test. Journal and clock may be nil.
func (s *session) attempt(ctx context.Context, t uniflow.Test, store journal.Store, fake *clock.Fake) *attempt {
	a := &attempt{rec: newRecorder(t.Node), calls: newCalls()}
	limit := s.Timeout
	if t.Timeout > 0 {
		limit = t.Timeout
	}
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if limit > 0 {
		late := time.AfterFunc(limit, func() { cancel(fmt.Errorf("timeout: the test took longer than %s", limit)) })
		defer late.Stop()
	}
	done := make(chan error, 1) // room for the result after the test was abandoned
	opts := uniflow.Options{
		Namespace: t.Node.Namespace, Observer: s.recordings(a.rec.observer()), Kinds: s.Kinds, Programs: s.Programs, Memory: s.bytes, Journal: store,
		Log: slog.New(slog.NewTextHandler(&a.log, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime})),
	}
	var worker sync.WaitGroup // waited for by the result, unless it is abandoned
	begin := func() { worker.Go(func() { done <- s.run(ctx, t, a, opts) }) }
	if fake != nil {
		opts.Clock = fake
		begin = func() {
			fake.AfterFunc(0, func(begun context.Context) {
				within, cancel := context.WithCancelCause(begun)
				defer cancel(nil)
				defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
				done <- s.run(within, t, a, opts)
			})
		}
	}
	begin()
	a.err = wait(ctx, done)
	switch abandoned := errors.Is(a.err, errAbandoned); {
	case a.err == nil || abandoned:
	case outer.Err() != nil:
		a.err = errInterrupted
	case ctx.Err() != nil:
		a.err = context.Cause(ctx)
	}
	return a
}

// errInterrupted is the failure of a test that was under way when the run ended.
var errInterrupted = errors.New("the run was interrupted")

// errAbandoned is the failure of a test that does not obey its context.
var errAbandoned = errors.New("the test goes on although its time is over: it is abandoned")

// wait returns the result of a test, or gives up some time after its context has ended.
func wait(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	over := time.NewTimer(abandon)
	defer over.Stop()
	select {
	case err := <-done:
		return err
	case <-over.C:
		return errors.Join(context.Cause(ctx), errAbandoned)
	}
}

// run runs a test in an engine of its own. What it has forked is cancelled in the end.
func (s *session) run(ctx context.Context, t uniflow.Test, a *attempt, opts uniflow.Options) (err error) {
	engine, err := uniflow.New(opts)
	if err != nil {
		return err
	}
	defer func() {
		over, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		if stopped := engine.Shutdown(over); errors.Is(stopped, uniflow.ErrAbandoned) {
			err = errors.Join(err, stopped)
		}
	}()
	if err := engine.ApplyTest(ctx, t, s.replace(t.FakeClock, a)); err != nil {
		return err
	}
	if s.Dry {
		ctx = node.WithParts(ctx, unread{})
	}
	defer a.rec.end()
	return engine.Test(ctx, t.Node.Name)
}

// An unread takes parts of an answer, as a client would. They are among the steps of a result.
type unread struct{}

func (unread) Part(context.Context, value.Value) error { return nil }

// replace returns what makes nodes of a test in place of their kinds: mocks replace nodes, and others
// may not be run.
func (s *session) replace(fake bool, a *attempt) func(node.Ref, *node.Def) func(*node.Init) (node.Node, error) {
	return func(ref node.Ref, def *node.Def) func(*node.Init) (node.Node, error) {
		records := false
		for _, m := range s.Mocks {
			switch {
			case !m.Replaces(ref):
			case m.records:
				records = true
			default:
				return func(init *node.Init) (node.Node, error) {
					return m.node(init, def, a.calls.of(ref, recallOf(def, init.Config))), nil
				}
			}
		}
		if def.New == nil {
			return nil
		}
		return func(init *node.Init) (node.Node, error) {
			n, err := def.New(init)
			if _, tests := n.(node.Tester); err != nil || tests {
				return n, err
			}
			if why := s.inert(ref, def, init.Config, fake, records); why != nil {
				left := inert{why: why}
				if s.Dry {
					left.begun = a.rec.hasBegun
				}
				return left, nil
			}
			return n, nil
		}
	}
}

// inert returns why a node is not run: triggers start nothing, and nothing connects to another system when
// it is opened, unless it is recorded; then what [Options] say. It is nil for a node that is run.
func (s *session) inert(ref node.Ref, def *node.Def, c schema.Config, fake, records bool) error {
	var traits node.Traits
	if def.Traits != nil {
		traits = def.Traits(c)
	}
	recall := recallOf(def, c)
	changes := recall == node.Effects || recall == node.Reruns || recall == node.Attached
	records = records && !def.Starts()
	why := ""
	switch {
	case def.Begins() && !(fake && def.Role.Has(node.Ticks)) && !records:
		why = "does not connect"
	case s.Running && (len(traits.Holds) > 0 || traits.Events != ""):
		why = "is not opened while its program runs"
	case s.Dry && slices.ContainsFunc(s.Allowed, func(name string) bool { return named(ref, name) }):
	case def.Role.Has(node.Connects) && !records:
		why = "does not connect"
	case s.Dry && changes && !traits.Is.Has(node.Inside):
		why = "is not run, as it may change something"
	}
	name := cmp.Or(ref.Name, "NAME")
	switch {
	case why == "":
		return nil
	case s.Dry && ref.Name == "":
		return fmt.Errorf("%s %s in a try: give the node a name, to pin what it answers or to allow it", def.Kind, why)
	case s.Dry:
		return fmt.Errorf("%s %s in a try: pin what %s answers, or allow it by its name", def.Kind, why, name)
	}
	return fmt.Errorf("%s %s in tests: mocks of the test, or --mock %s=FILE, say what it answers", def.Kind, why, name)
}

func recallOf(def *node.Def, c schema.Config) node.Recall {
	if def.Recall == nil {
		return node.Effects
	}
	return def.Recall(c)
}

// named reports whether a name is that of a node, with its namespace or without.
func named(ref node.Ref, name string) bool {
	return ref.Name != "" && (name == ref.Name || name == ref.Namespace+"/"+ref.Name)
}

// firstOut returns the index of the first out-port, as the engine counts: in a
// sub-graph, the out-ports follow the in-ports.
func firstOut(def *node.Def) int {
	if def.Subgraph == node.NoSubgraph {
		return 0
	}
	return len(def.In)
}

// An inert node starts nothing and connects to nothing. What is sent to it fails.
type inert struct {
	why   error
	begun func() bool // until it is true, packets are answered None; nil is always
}

func (n inert) Receive(node.Process, node.Packet) node.Result {
	if n.begun != nil && !n.begun() {
		return node.None()
	}
	return node.Fail(n.why)
}

// A logBuffer keeps the beginning of what is logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

const maxLog = 64 << 10

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text.Len() < maxLog {
		b.text.Write(line)
	}
	return len(line), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
