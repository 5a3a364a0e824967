package exec

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A Source is a segment or run, and the users whose rows in it do not count.
type Source struct {
	Segment *segment.Segment
	Dropped []uint64 // sorted hashes of deleted users
}

// Input is what a query reads. The query does not change it, and you must not change
// it until the query has ended.
type Input struct {
	Sources []Source
	Schema  event.Schema
	Horizon int64 // events before this time do not exist; math.MinInt64 for none

	// Cohort returns the users of a kept cohort as sorted hashes; nil for none.
	Cohort func(name string) ([]uint64, error)
}

// Options say how a query is run.
type Options struct {
	Workers int   // goroutines; 0 for GOMAXPROCS
	Memory  int64 // bytes that the query may hold in addition to the mapped files; 0 for 64 MiB
	Users   bool  // a cohort answers with the hashes of its users
	IDs     bool  // and with their ids

	Scratch *Scratch // shared by the queries of a store; nil for none
	Reached Reached  // of tests: what the query came to is added; nil for none
}

// DefaultMemory is the budget of a query in bytes.
const DefaultMemory = 64 << 20

// Run answers a query that has passed query.Check. The error is a *query.Error if
// it is about the query, a *segment.DamageError if a segment is damaged, a
// *MemoryError if the budget was too small, or the error of ctx.
func Run(ctx context.Context, in Input, q *query.Query, opt Options) (*query.Answer, error) {
	start := time.Now()
	var (
		b      = newBuilder(in, opt, q.Sample)
		cost   stats
		answer *query.Answer
	)
	err := guard(in, func() (err error) {
		if b.ranked, err = ranked(ctx, in, q, opt); err != nil {
			return err
		}
		k, err := b.kernel(q)
		if err != nil {
			return err
		}
		if err := b.finish(ctx, k); err != nil {
			return err
		}
		for again := true; again; {
			if cost, err = b.run(ctx, k); err != nil {
				return err
			}
			again = false
			if k, ok := k.(repeated); ok {
				if again, err = k.again(b.plan); err != nil {
					return err
				}
			}
		}
		b.reached(opt.Reached, k.need(), cost.ways)
		answer, err = k.answer(b.plan)
		return err
	})
	if err != nil {
		return nil, err
	}
	st := &answer.Stats
	st.EventsRead, st.BytesRead = cost.rows, cost.bytes
	st.Segments, st.Sample, st.Warnings = len(b.sources), b.share, b.warnings
	st.ElapsedUS = time.Since(start).Microseconds()
	return answer, nil
}

// A FaultError is the error of a query that ended because the map of a file could not
// be read, or because of a bug.
type FaultError struct {
	Name  string // of the segment whose map failed; "" if it is not that
	Cause any    // what was recovered
	Stack []byte
}

func (e *FaultError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("%s: the file could not be read: was it cut short, or is the disk damaged?", e.Name)
	}
	return fmt.Sprintf("internal error in a query: %v", e.Cause)
}

// guard calls f. It makes an error of a panic and of a mapped file that cannot be
// read, which must end the query and not the program.
func guard(in Input, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault := &FaultError{Cause: r, Stack: debug.Stack()}
		if at, ok := r.(interface{ Addr() uintptr }); ok {
			for _, s := range in.Sources {
				if s.Segment.Holds(at.Addr()) {
					fault.Name = s.Segment.Name()
				}
			}
		}
		err = fault
	}()
	return f()
}

// A kernel is the part of a query that is different for each kind.
type kernel interface {
	// need returns the parts of a view that the kernel reads.
	need() need

	// settle prepares what depends on the sources. It is called before fork.
	settle(*plan) error

	// fork returns a fold for one worker; it is called before any worker starts.
	fork(*worker) fold

	// explain says in words what the kernel does.
	explain() string

	// answer makes the answer after all folds were joined.
	answer(*plan) (*query.Answer, error)
}

// A repeated is a kernel that may need all rows again, with other folds.
type repeated interface {
	// again is called after the folds were joined.
	again(*plan) (bool, error)
}

// A fold is what one worker has found so far.
type fold interface {
	// shard adds the users of a shard, whose views are by time.
	shard([]*view) error

	// join adds what the fold has found to the kernel. It is called when all
	// workers have ended, for one after the other.
	join() error
}

// kernel makes the kernel of a query, and adds its matchers and columns to the plan.
func (b *builder) kernel(q *query.Query) (k kernel, err error) {
	switch {
	case q.Users != nil:
		k, err = b.behind(q)
	case q.Funnel != nil:
		k = b.funnel(q.Funnel, nil)
	case q.Retention != nil:
		k = b.retention(q.Retention)
	case q.Segment != nil:
		k, err = b.segmentation(q.Segment)
	case q.Cohort != nil:
		k = b.cohort(q)
	case q.Paths != nil:
		k, err = b.paths(q.Paths)
	default:
		err = errorAt(query.Pos{}, "", "the query asks nothing")
	}
	return k, cmp.Or(b.err, err)
}

// A worker takes shards until there are no more.
type worker struct {
	*plan
	arena *arena
	cost  stats
	views []view
	used  []*view
	users users

	stretches []stretch // of the view that is opened
	undecided []stretch // of a filter
}

// stats are what was read.
type stats struct {
	rows, bytes int64
	ways
}

// run lets workers take all shards.
func (p *plan) run(ctx context.Context, k kernel) (stats, error) {
	cost := p.cost
	var (
		next   atomic.Int64
		failed atomic.Bool
		wg     sync.WaitGroup
	)
	n := min(p.opt.Workers, p.shards)
	workers := make([]*worker, n)
	folds := make([]fold, n)
	errs := make([]error, n)
	need := k.need()
	for i := range workers {
		w := &worker{plan: p, views: make([]view, len(p.sources)), arena: p.opt.Scratch.get(p.held)}
		workers[i], folds[i] = w, k.fork(w)
	}
	work := func(i int) {
		for !failed.Load() {
			shard := int(next.Add(1)) - 1
			if shard >= p.shards || len(p.sources) == 0 {
				return
			}
			var err error
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			} else {
				err = guard(p.in, func() error { return workers[i].shard(folds[i], need, shard) })
			}
			if err != nil {
				errs[i] = err
				failed.Store(true)
				return
			}
		}
	}
	for i := 1; i < n; i++ {
		wg.Go(func() { work(i) })
	}
	work(0)
	wg.Wait()
	for _, w := range workers {
		p.opt.Scratch.put(w.arena)
	}
	if err := cmp.Or(errs...); err != nil {
		return cost, err // one is enough: others are of the same kind
	}
	for i, w := range workers {
		cost.rows += w.cost.rows
		cost.bytes += w.cost.bytes
		cost.add(w.cost.ways)
		if err := folds[i].join(); err != nil {
			return cost, err
		}
	}
	return cost, nil
}

// shard opens the views of a shard and gives them to the fold.
func (w *worker) shard(f fold, n need, shard int) error {
	w.arena.reset()
	from, to := w.plan.shard(shard)
	w.used = w.used[:0]
	for i, s := range w.sources {
		ok, err := w.view(&w.views[i], s, from, to, n)
		if err != nil {
			return err
		}
		if ok {
			w.used = append(w.used, &w.views[i])
		}
	}
	if len(w.used) == 0 || w.arena.err != nil {
		return w.arena.err
	}
	if err := f.shard(w.used); err != nil {
		return err
	}
	return w.arena.err
}

// A MemoryError is the error of a query that needs more memory than it may have.
type MemoryError struct {
	Limit int64 // bytes
}

func (e *MemoryError) Error() string {
	limit := fmt.Sprintf("%d MiB", e.Limit>>20)
	if e.Limit < 1<<20 {
		limit = fmt.Sprintf("%d bytes", e.Limit)
	}
	return fmt.Sprintf("the query needs more than its %s of memory: allow more, or ask for less time, a limit of groups or a sample", limit)
}

// A budget is the memory that a query may hold. Its workers share it, and take memory
// from it in large steps.
type budget struct {
	limit int64
	held  atomic.Int64
}

func newBudget(limit int64) *budget {
	if limit <= 0 {
		limit = DefaultMemory
	}
	return &budget{limit: limit}
}

// take accounts for n bytes more.
func (b *budget) take(n int64) error {
	if n != 0 && b.held.Add(n) > b.limit {
		return &MemoryError{b.limit}
	}
	return nil
}

func (b *budget) give(n int64) { b.held.Add(-n) }
