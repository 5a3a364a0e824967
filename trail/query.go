package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Query answers a query over everything that was acknowledged before. It takes no
// lock, and writes do not disturb it. Queries share GOMAXPROCS workers; a query waits
// until one is free.
//
// The error is a *query.Error or query.Errors about the query, the error of ctx, or names
// a damaged or missing file. Queries that do not need the file still get their
// answers.
func (s *Store) Query(ctx context.Context, q *query.Query, opt QueryOptions) (*query.Answer, error) {
	start := time.Now() // not Options.now, which may be a test's
	q, err := prepare(q, opt)
	if err != nil {
		return nil, err
	}
	if opt.Save && s.opt.ReadOnly {
		return nil, ErrReadOnly
	}
	if opt.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opt.Timeout)
		defer cancel()
	}
	answer, err := s.run(ctx, q, opt)
	if err != nil {
		return nil, err
	}
	if opt.Save {
		if err := s.saveFound(ctx, q, answer, opt); err != nil {
			return nil, fmt.Errorf("keep cohort %q: %w", q.Name, err)
		}
	}
	answer.Stats.ElapsedUS = time.Since(start).Microseconds()
	return answer, nil
}

// Explain says in words how a query would be run.
func (s *Store) Explain(q *query.Query, opt QueryOptions) (string, error) {
	opt.Save = false
	q, err := prepare(q, opt)
	if err != nil {
		return "", err
	}
	sn, err := s.state.view()
	if err != nil {
		return "", err
	}
	defer sn.unpin()
	in, err := sn.execInput(q)
	if err != nil {
		return "", err
	}
	text, err := exec.Explain(in, q)
	return text, sn.asDamaged(err)
}

var errNoQuery = errors.New("no query: it is nil")

func prepare(q *query.Query, opt QueryOptions) (*query.Query, error) {
	if q == nil {
		return nil, errNoQuery
	}
	own := *q
	if opt.Sample < 0 || opt.Sample > 1 || math.IsNaN(opt.Sample) {
		return nil, fmt.Errorf("a sample of %v: want a share above 0, up to 1", opt.Sample)
	}
	if opt.Sample > 0 {
		own.Sample = opt.Sample
	}
	if err := own.Check(); err != nil {
		return nil, err
	}
	if !opt.Save {
		return &own, nil
	}
	switch {
	case own.Cohort == nil && own.Users == nil:
		return nil, errors.New("only a cohort, or the users of another query, can be kept")
	case own.Name == "":
		return nil, errors.New("users are kept under the name of their query, which has none")
	case own.Sample < 1:
		return nil, errors.New("users of a sample cannot be kept")
	}
	return &own, nil
}

func (s *Store) run(ctx context.Context, q *query.Query, opt QueryOptions) (*query.Answer, error) {
	workers, err := s.acquireWorkers(ctx, cmp.Or(opt.Workers, math.MaxInt))
	if err != nil {
		return nil, err
	}
	defer s.releaseWorkers(workers)
	sn, err := s.state.view()
	if err != nil {
		return nil, err
	}
	defer sn.unpinAsync()
	in, err := sn.execInput(q)
	if err != nil {
		return nil, err
	}
	for {
		answer, err := exec.Run(ctx, in, q, exec.Options{Workers: workers, Memory: opt.Memory, Users: opt.Users || opt.Save, IDs: opt.IDs, Scratch: &s.scratch})
		damage, ok := errors.AsType[*segment.DamageError](err)
		if err == nil && sn.lost > 0 {
			answer.Stats.Warnings = append(answer.Stats.Warnings, lossWarning(sn.lost))
		}
		if err == nil && len(sn.sources) == 0 {
			unfinished, failed := s.files.importUnfinished()
			if failed != nil {
				return nil, failed
			}
			if unfinished {
				answer.Stats.Warnings = append(answer.Stats.Warnings, UnfinishedImport)
			}
		}
		if !ok {
			return answer, err
		}
		// A damaged dictionary is met before it is known that no row counts.
		rest := sn.without(in.Sources, damage.Path, q)
		if len(rest) == len(in.Sources) {
			return nil, sn.asDamaged(err)
		}
		in.Sources = rest
	}
}

// without returns the sources except the one at a path, if a query cannot reach its
// events.
func (sn *snapshot) without(sources []exec.Source, path string, q *query.Query) []exec.Source {
	from, to := reach(q)
	return slices.DeleteFunc(slices.Clone(sources), func(src exec.Source) bool {
		seg := src.Segment
		return seg.Name() == path && (seg.MaxTime() < from || seg.MinTime() >= to)
	})
}

// acquireWorkers waits for one slot and takes further free ones, up to limit. It
// waits for other queries, never for writers.
func (s *Store) acquireWorkers(ctx context.Context, limit int) (workers int, err error) {
	select {
	case s.slots <- struct{}{}:
	default:
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	for workers = 1; workers < limit; workers++ {
		select {
		case s.slots <- struct{}{}:
		default:
			return workers, nil
		}
	}
	return workers, nil
}

func (s *Store) releaseWorkers(workers int) {
	for range workers {
		<-s.slots
	}
}

// execInput returns the input of a query, or an error that names a damaged segment
// the query needs.
func (sn *snapshot) execInput(q *query.Query) (exec.Input, error) {
	horizon := sn.kept()
	if len(sn.input) < len(sn.sources) {
		from, to := reach(q)
		for _, src := range sn.sources {
			if src.seg == nil && src.MaxTime >= max(from, horizon) && src.MinTime < to {
				return exec.Input{}, fmt.Errorf("query: %w", src.damage)
			}
		}
	}
	return exec.Input{Sources: sn.input, Schema: sn.schema, Horizon: horizon, Cohort: sn.cohort}, nil
}

// reach returns the times [from, to) of events that a query may read.
func reach(q *query.Query) (from, to int64) {
	b := q.Reach()
	from, to = math.MinInt64, math.MaxInt64
	if b.HasFrom {
		from = b.From
	}
	if b.HasTo {
		to = b.To
	}
	return from, to
}

func (s *Store) saveFound(ctx context.Context, q *query.Query, a *query.Answer, opt QueryOptions) error {
	err := s.change(ctx, func(context.Context) error { return s.saveCohort(q.Name, a.Cohort.Found) })
	if err != nil {
		return err
	}
	if !opt.Users && !opt.IDs {
		a.Cohort.Found = nil
	}
	return nil
}

// bounds returns the times of the first and the last event, in milliseconds since
// 1970 UTC. It is not ok if there are none.
func (sn *snapshot) bounds() (first, last int64, ok bool) {
	horizon := sn.kept()
	first, last = event.MaxTime, event.MinTime
	for _, src := range sn.sources {
		if src.MaxTime >= horizon {
			first, last = min(first, max(src.MinTime, horizon)), max(last, src.MaxTime)
		}
	}
	return first, last, first <= last
}
