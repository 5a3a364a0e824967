package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/clock"
	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// maxCrashes is how many steps of a test are crashed at; of more, a sample.
const maxCrashes = 200

// Crashes are the crashes of a test that has passed without.
type Crashes struct {
	Steps  int        // of the journal
	Done   int        // crashes that the test has passed
	Seed   uint64     // of the sample; 0 if it was all steps, or one that was chosen
	Failed *CrashStep // nil unless it failed after a crash
}

// A CrashStep is a step of the journal, after which the program is gone.
type CrashStep struct {
	Number int    // from 1
	Node   string // that it is of
	Type   string // start, or a type of records
}

// A durableRun is the durable process of a test, as the journal has it.
type durableRun struct {
	*journal.Run
	records []journal.Record
}

// runOf returns the durable process of a test, or nil if it has not begun.
func runOf(ctx context.Context, store journal.Store) (*durableRun, error) {
	list, err := store.List(ctx, journal.Filter{Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	r, err := store.Get(ctx, list[0].ID)
	if err != nil {
		return nil, err
	}
	records, err := store.Records(ctx, r.ID)
	return &durableRun{r, records}, err
}

// step returns a step of the process: its start, or a record. Its end is none: after that nothing runs again.
func (r *durableRun) step(number int, nodes []node.Ref) CrashStep {
	id, kind := r.Trigger, "start"
	if number > 1 {
		rec := &r.records[number-2]
		id, kind = rec.Node, rec.Type.String()
	}
	return CrashStep{number, refOf(id, nodes).String(), kind}
}

func refOf(id string, nodes []node.Ref) node.Ref {
	if i := slices.IndexFunc(nodes, func(ref node.Ref) bool { return ref.ID == id }); i >= 0 {
		return nodes[i]
	}
	return node.Ref{ID: id}
}

// crash repeats a test that has passed, with a crash at each step of its journal. It returns the attempt that
// failed, or else the whole one.
func (s *session) crash(ctx context.Context, t uniflow.Test, whole *attempt, store *memory.Store, r *Result) *attempt {
	want, err := runOf(ctx, store.Reopen())
	if err == nil && want == nil {
		err = errors.New("the test has not started its durable process")
	}
	if err != nil {
		whole.err = err
		return whole
	}
	r.Crashes = &Crashes{Steps: len(want.records) + 1}
	steps, err := s.chosen(r.Crashes)
	if err != nil {
		whole.err = err
		return whole
	}
	for _, number := range steps {
		a := s.crashAt(ctx, t, number, whole, want)
		if a.err != nil {
			step := want.step(number, s.Outline.Nodes)
			r.Crashes.Failed = &step
			return a
		}
		r.Crashes.Done++
	}
	return whole
}

// chosen returns the steps to crash at, in order.
func (s *session) chosen(c *Crashes) (steps []int, err error) {
	switch {
	case s.Crash > c.Steps:
		return nil, fmt.Errorf("there is no step %d to crash at: the journal of the test has %d", s.Crash, c.Steps)
	case s.Crash > 0:
		return []int{s.Crash}, nil
	}
	steps = make([]int, c.Steps)
	for i := range steps {
		steps[i] = i + 1
	}
	if len(steps) <= maxCrashes {
		return steps, nil
	}
	c.Seed = cmp.Or(s.Seed, 1+uint64(rand.Uint32()))
	rng := rand.New(rand.NewPCG(c.Seed, 0))
	rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	steps = steps[:maxCrashes]
	slices.Sort(steps)
	return steps, nil
}

// crashAt runs a test in a program that is gone after a step, and again in one that goes on. The error of the
// attempt says what differs from the whole run.
func (s *session) crashAt(ctx context.Context, t uniflow.Test, step int, whole *attempt, want *durableRun) *attempt {
	within, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	store := memory.New()
	fake := clockOf(t, epoch)
	crashing := NewCrashStore(store, step, fake, gone)
	before := s.attempt(within, t, crashing, fake)
	switch cause := context.Cause(within); {
	case errors.Is(before.err, errAbandoned) || ctx.Err() != nil:
		return before
	case before.err != nil && !errors.Is(cause, errGone):
		return before // it has not come to the crash
	}
	store = store.Reopen()
	had, err := runOf(ctx, store)
	if err != nil {
		before.err = err
		return before
	}
	after := s.attempt(ctx, t, store, clockOf(t, crashing.Last()))
	if after.err != nil {
		return after
	}
	got, err := runOf(ctx, store.Reopen())
	if err == nil && got == nil {
		err = errors.New("the journal has lost the run")
	}
	if err == nil {
		err = errors.Join(sameEnd(want.Run, got.Run), sameCalls(whole.calls, before.calls, after.calls, had, s.Redact))
	}
	after.err = err
	return after
}

// sameEnd returns how the end of a run differs from that of one without a crash.
func sameEnd(want, got *journal.Run) error {
	wanted, err := durable.Answer(want.Answer)
	if err != nil {
		return err
	}
	answer, err := durable.Answer(got.Answer)
	switch {
	case err != nil:
		return err
	case want.State != got.State:
		return fmt.Errorf("the run is %s (%s), and %s without a crash", got.State, cmp.Or(got.Error, "no error"), want.State)
	}
	left, right := value.ErrorMap(answer.Payload), value.ErrorMap(wanted.Payload)
	if left.Equal(right) && answer.None == wanted.None {
		return nil
	}
	return &node.Error{
		Err: errors.New("the answer is not the same as without a crash"), Code: string(diag.CodeAssert),
		Data: value.UniqueMap([]value.Field{
			{Name: "payload", Value: left}, {Name: "comparison", Value: value.String("answer after the crash == answer without a crash")},
			{Name: "operator", Value: value.String("==")}, {Name: "left", Value: left}, {Name: "right", Value: right},
		}),
	}
}

// errGone is why nothing is done any more in a program that has crashed.
var errGone = errors.New("the program has crashed")

// A CrashStore is the journal of a program that is gone when a number of steps is durable: starts and ends of runs,
// and records. What it does until its next step is not known to the journal: that fails.
type CrashStore struct {
	*memory.Store
	clock *clock.Fake // nil for the clock of the machine
	gone  context.CancelCauseFunc

	// Only Commit uses these, until the store is closed.
	left int
	last time.Time // when a step became durable, by the clock
}

// NewCrashStore returns a journal that crashes after some steps, and calls gone then. The clock is that of the
// program, or nil.
func NewCrashStore(store *memory.Store, steps int, fake *clock.Fake, gone context.CancelCauseFunc) *CrashStore {
	c := &CrashStore{Store: store, left: steps, clock: fake, last: epoch, gone: gone}
	if fake != nil {
		c.last = fake.Now()
	}
	return c
}

// Last returns when the last step became durable, by the clock, once the store is closed.
func (c *CrashStore) Last() time.Time { return c.last }

// Commit makes as much of the batch durable as is left. A batch is what came while the one before was written,
// so any beginning of it might have been one.
func (c *CrashStore) Commit(ctx context.Context, b *journal.Batch) error {
	if c.clock != nil && c.left > 0 {
		c.last = c.clock.Now()
	}
	part := *b
	part.Starts = b.Starts[:c.take(len(b.Starts))]
	part.Records = b.Records[:c.take(len(b.Records))]
	part.Ends = b.Ends[:c.take(len(b.Ends))]
	if len(part.Records) < len(b.Records) { // waits that begin and end are of one commit with their records
		part.Waits = slices.DeleteFunc(slices.Clone(b.Waits), func(w journal.Wait) bool {
			return !slices.ContainsFunc(part.Records, func(r journal.Record) bool { return r.Run == w.Run && r.Pos == w.Pos })
		})
		part.Over, part.Taken = nil, nil // a wait that is left is found to be over by its record
	}
	if len(part.Starts)+len(part.Records)+len(part.Ends) < len(b.Starts)+len(b.Records)+len(b.Ends) {
		part.Claims, part.Requeues, part.Pauses = nil, nil, nil // they come after what is left out
	}
	err := c.Store.Commit(ctx, &part)
	b.Existing = part.Existing
	if err == nil && len(part.Starts)+len(part.Records)+len(part.Ends) < len(b.Starts)+len(b.Records)+len(b.Ends) {
		c.gone(errGone)
		return errGone
	}
	return err
}

func (c *CrashStore) take(n int) int {
	n = min(n, c.left)
	c.left -= n
	return n
}

// calls are the payloads that mocks have got in place of nodes whose results a journal keeps.
type calls struct {
	mu     sync.Mutex
	counts map[string]map[string]int // by id of the node and payload
	refs   map[string]node.Ref
}

func newCalls() *calls {
	return &calls{counts: make(map[string]map[string]int), refs: make(map[string]node.Ref)}
}

// of returns what takes the payloads of a mock.
func (c *calls) of(ref node.Ref, recall node.Recall) func(value.Value) {
	if recall != node.Effects && recall != node.Reads {
		return func(value.Value) {} // it runs again after a crash
	}
	return func(payload value.Value) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.counts[ref.ID] == nil {
			c.counts[ref.ID], c.refs[ref.ID] = make(map[string]int), ref
		}
		c.counts[ref.ID][sorted(payload).String()]++
	}
}

// sameCalls returns which mocks have got something else in two programs than in the whole run, or have got again
// what had a record. had is the process at the crash; nil if it had not begun.
func sameCalls(whole, before, after *calls, had *durableRun, redact func(string) string) error {
	recorded := make(map[string]int) // results, by id of the node
	if had != nil {
		for _, r := range had.records {
			if r.Type == journal.Result {
				recorded[r.Node]++
			}
		}
	}
	refs := make(map[string]node.Ref)
	for _, c := range []*calls{whole, before, after} {
		maps.Copy(refs, c.refs)
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(refs)) {
		if why := differs(whole.counts[id], before.counts[id], after.counts[id], recorded[id], redact); why != "" {
			errs = append(errs, &node.Error{Err: errors.New(why), Node: refs[id]})
		}
	}
	return errors.Join(errs...)
}

// differs says how the calls of a mock before and after a crash differ from those of the whole run.
func differs(whole, before, after map[string]int, recorded int, redact func(string) string) string {
	payloads := make(map[string]bool)
	wanted, again := -recorded, 0
	for _, c := range []map[string]int{whole, before, after} {
		for payload := range c {
			payloads[payload] = true
		}
	}
	for _, payload := range slices.Sorted(maps.Keys(payloads)) {
		w, b, a := whole[payload], before[payload], after[payload]
		if b > w || a > w || a+b < w {
			return fmt.Sprintf("its mock got %s %d times before the crash and %d times after it, and %d times without a crash", shown(value.String(payload), redact), b, a, w)
		}
		wanted += w
		again += a
	}
	if again != wanted {
		return fmt.Sprintf("its mock got %d payloads after the crash: want %d, as %d had results in the journal", again, wanted, recorded)
	}
	return ""
}
