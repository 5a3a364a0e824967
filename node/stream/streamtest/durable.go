package streamtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
)

// errCrashed is why a journal commits nothing more.
var errCrashed = errors.New("streamtest: the program has crashed")

// commits is a journal whose commits can be held: before they are durable, or after that while no one
// learns of it. Then it can crash.
type commits struct {
	*memory.Store
	mu struct {
		sync.Mutex
		before, after chan struct{} // nil: nothing waits there
		crashed       bool
		starts, ends  int // that are durable
	}
}

// holds sets where commits wait.
func (c *commits) holds(before, after chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.before, c.mu.after = before, after
}

func (c *commits) gates() (before, after chan struct{}, crashed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.before, c.mu.after, c.mu.crashed
}

func (c *commits) starts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.starts
}

// ended reports whether the ends of all runs are durable.
func (c *commits) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.ends == c.mu.starts
}

// Commit implements [journal.Store].
func (c *commits) Commit(ctx context.Context, b *journal.Batch) error {
	before, after, crashed := c.gates()
	if before != nil {
		<-before
	}
	if crashed {
		return errCrashed
	}
	if err := c.Store.Commit(ctx, b); err != nil {
		return err
	}
	c.mu.Lock()
	c.mu.starts += len(b.Starts)
	c.mu.ends += len(b.Ends)
	c.mu.Unlock()
	if after != nil {
		<-after
	}
	if _, _, crashed := c.gates(); crashed {
		return errCrashed
	}
	return nil
}

// crash lets nothing more be committed, and what is held fail.
func (c *commits) crash(held chan struct{}) {
	c.mu.Lock()
	c.mu.before, c.mu.after, c.mu.crashed = nil, nil, true
	c.mu.Unlock()
	close(held)
}

// sourceDurable: with durability, a message is acknowledged when the start of its run is durable, and not
// before; its failure is then that of the run. What was committed and not acknowledged when the program
// crashed comes again, and runs once.
func sourceDurable(r *rig) {
	const n = 60
	store := &commits{Store: memory.New()}
	r.journal = store
	doc := r.source(fields{"order": "none", "max_in_flight": n, "durability": "checkpoint"})
	begins := r.durableBegins(store, doc, n)

	// The starts of some are committed, and the program crashes before any of them is acknowledged.
	held := make(chan struct{})
	store.holds(nil, held)
	before := store.starts()
	r.ledger.decide = nil
	r.produce(n, n, 10)
	r.until("starts are committed", patience, func() bool { return store.starts() > before })
	r.never("a message was acknowledged, or an effect has begun, although no commit has ended", func() bool {
		return r.ledger.tally().begun > begins || r.system.Unsettled != nil && r.system.Unsettled(r) < n
	})
	store.crash(held)
	r.stop()
	durable := store.starts() - before

	r.journal = &commits{Store: store.Reopen()}
	r.start(patience)
	r.load(doc)
	want := r.made()
	if _, lossy := r.subject.Without[Kill]; lossy { // perhaps nothing brings the others back
		want = begins + durable
	}
	r.until("what was committed, or may come again, is answered", patience, func() bool { return r.ledger.tally().begun >= want })
	r.settled()
	r.once()
	r.noneTwice()
}

// durableBegins checks when messages are acknowledged, and returns how many were made.
func (r *rig) durableBegins(store *commits, doc string, n int) int {
	r.Helper()
	gate, ended := make(chan struct{}), make(chan struct{})
	store.holds(gate, nil)
	r.ledger.decide = func(run []took) verdict {
		if run[0].id%10 == 0 {
			return verdict{until: ended, err: errOnPurpose}
		}
		return verdict{until: ended}
	}
	r.start(50 * time.Millisecond) // nothing that is held ends when it crashes
	r.load(doc)
	r.produce(n, n, 10)
	r.never("a message was acknowledged, or an effect has begun, although nothing was committed", func() bool {
		return r.ledger.tally().begun > 0 || r.system.Unsettled != nil && r.system.Unsettled(r) < n
	})
	store.holds(nil, nil)
	close(gate)
	r.until("all effects have begun", patience, func() bool { return r.ledger.tally().inFlight == n })
	r.settled() // although no run has ended
	close(ended)
	r.until("all runs have ended", patience, func() bool { return r.ledger.tally().inFlight == 0 && store.ended() })
	if t := r.ledger.tally(); t.done != n-n/10 || t.dead > 0 {
		r.Errorf("got %+v, want the failed ones to be those of runs alone", t)
	}
	r.noneTwice()
	return r.made()
}

// noneTwice checks that no message was in two processes.
func (r *rig) noneTwice() {
	r.Helper()
	for id := 1; id <= r.made(); id++ {
		if f := r.ledger.fate(id); f.begun > 1 {
			r.Errorf("message %d has begun %d times, want once: %+v", id, f.begun, f)
			return
		}
	}
}
