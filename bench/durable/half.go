package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/bench/server"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
	"github.com/uniflow-labs/uniflow/node"
)

// small reports whether the span is that of a look. Then journals have fewer runs.
func (l *lab) small() bool { return l.span < 2*time.Second }

// measureHalves is D7: runs of which the program was killed after their first effect, next to as many that begin and
// have the effects that are left.
func measureHalves(ctx context.Context, l *lab) error {
	runs := 100_000
	if l.small() {
		runs = 10_000
	}
	whole := l.job("runs of two effects", job{Form: "engine", Flights: inFlight, Runs: runs, Hops: effects - 1})
	killed := round{"runs with one effect of three, after a kill", func(ctx context.Context) (f figures, err error) {
		l.files++
		file := l.File(fmt.Sprintf("%d-half", l.files))
		if err := makeHalves(ctx, file, runs); err != nil {
			return f, err
		}
		return l.do(ctx, job{Form: "half", File: file, Runs: runs})
	}}
	once := &lab{config: l.config, Lab: l.Lab, files: l.files} // each side is long enough
	once.rounds = 1
	sides, err := once.turns(ctx, "D7", whole, killed)
	if err != nil {
		return err
	}
	l.files = once.files
	l.Progress("  %d runs", runs)
	for i := range sides {
		sides[i].Name = fmt.Sprintf("%d %s", runs, sides[i].Name)
	}
	l.enter(sides[0].Rate, sides...)
	l.most("D7, time to finish ÷ the same halves uncrashed", 1.5, sides[0].Rate/sides[1].Rate)
	l.most("D7, s until the first effect", 2, sides[1].First)
	l.most("D7, MB more than without the runs", 256, sides[1].RSS)
	return nil
}

// makeHalves makes a journal as it is when the program is killed while runs have a record of their first effect. All
// are copies of one that the engine has made.
func makeHalves(ctx context.Context, file string, runs int) error {
	e, src, err := serve(ctx, chain("effect", effects), file, func() {})
	if err != nil {
		return err
	}
	in := payload()
	receipt, err := src.(node.DurableStarter).Submit(ctx, node.Submission{Level: node.LevelCheckpoint, Payload: in, Same: in})
	if err == nil {
		<-receipt.Done
	}
	if err := errors.Join(err, e.Shutdown(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	return copies(ctx, file, runs, func(run *journal.Run, records []journal.Record, _ []journal.Wait, b *journal.Batch, _ int) {
		run.State, run.Answer, run.Ended = journal.Running, nil, time.Time{}
		b.Records = append(b.Records, records[0])
	})
}

// copies adds copies of the latest run of a journal, which each gets before it is added, with its records and with what the first waits for.
func copies(ctx context.Context, file string, runs int, each func(run *journal.Run, records []journal.Record, waits []journal.Wait, b *journal.Batch, i int)) (err error) {
	s, err := sqlite.Open(file, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	listed, err := s.List(ctx, journal.Filter{Limit: 1})
	if err != nil || len(listed) != 1 {
		return errors.Join(err, errors.New("the journal has no run to copy"))
	}
	first, err := s.Get(ctx, listed[0].ID)
	if err != nil {
		return err
	}
	records, err := s.Records(ctx, first.ID)
	if err != nil || len(records) == 0 {
		return errors.Join(err, fmt.Errorf("the run to copy has %d records", len(records)))
	}
	waits, err := s.Waits(ctx, first.ID)
	if err != nil {
		return err
	}
	for from := 0; from < runs; from += 1000 {
		b := new(journal.Batch)
		for i := from; i < min(from+1000, runs); i++ {
			run := *first
			binary.BigEndian.PutUint64(run.ID[:], uint64(run.Created.UnixMilli())<<16|7<<12)
			binary.BigEndian.PutUint64(run.ID[8:], 1<<63|uint64(i))
			mine := append([]journal.Record(nil), records...)
			for k := range mine {
				mine[k].Run = run.ID
			}
			each(&run, mine, waits, b, i)
			b.Starts = append(b.Starts, &run)
		}
		if err := s.Commit(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// halfForm resumes the runs of a journal, and waits for their ends.
func halfForm(ctx context.Context, j job) (f figures, err error) {
	idle, _, err := server.Resident(os.Getpid())
	if err != nil {
		return f, err
	}
	var calls, first atomic.Int64
	done := make(chan struct{})
	watch := begun()
	e, _, err := serve(ctx, chain("effect", effects), j.File, func() {
		switch calls.Add(1) {
		case 1:
			first.Store(int64(time.Since(watch.start)))
		case int64(j.Runs) * (effects - 1):
			close(done)
		}
	})
	if err != nil {
		return f, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err := errors.Join(err, e.Shutdown(context.WithoutCancel(ctx))); err != nil { // commits the ends
		return f, err
	}
	f = watch.figures(j.Runs, nil)
	f.First = time.Duration(first.Load()).Seconds()
	_, peak, err := server.Resident(os.Getpid())
	f.RSS = peak - idle
	return f, err
}
