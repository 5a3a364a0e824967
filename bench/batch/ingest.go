package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/program"
)

// A cost is a cell of the ingest table: what adding an event takes when nothing
// is sent. NS is the time that passes divided by the events of all producers.
type cost struct {
	Design    string  `json:"design"`
	Producers int     `json:"producers"`
	Event     string  `json:"event"`
	NS        float64 `json:"ns"`
	Min       float64 `json:"min_ns"`
	Max       float64 `json:"max_ns"`
}

// An adder takes events and discards them.
type adder struct {
	add   func(*arm.Event)
	close func() error
}

// A form is how events are encoded.
type form struct {
	name   string
	encode arm.Encode
}

// forms are 32 bytes as they are in memory, and the JSON of the protocol.
func forms() []form {
	return []form{
		{"struct", arm.AppendFlat},
		{"json150", func(dst []byte, e *arm.Event) []byte { return arm.AppendJSON(dst, e, arm.JSONSize) }},
	}
}

// Names of the rows with channels: with a buffer, which is the fastest, and
// without one, as in the article.
const (
	nameChannel    = "channel"
	nameUnbuffered = "channel, unbuffered"
)

// A contender is a design of the ingest table.
type contender struct {
	name string
	make func(f form, dir string) (adder, error)
}

// contenders returns the rows; the last uses the disk.
func contenders() []contender {
	channel := func(queue int) func(form, string) (adder, error) {
		return func(f form, _ string) (adder, error) {
			c := arm.NewChannel(f.encode, queue)
			return adder{c.Add, func() error { c.Close(); return nil }}, nil
		}
	}
	return []contender{
		{nameChannel, channel(arm.Queue)},
		{nameUnbuffered, channel(0)},
		{"swap", func(f form, _ string) (adder, error) {
			s := arm.NewSwap(f.encode)
			return adder{s.Add, func() error { s.Close(); return nil }}, nil
		}},
		{nameOurs, func(f form, _ string) (adder, error) { return discarding(f, nil) }},
		{nameSpool, func(f form, dir string) (adder, error) {
			return discarding(f, &batch.Spool{Dir: dir, WriteAhead: true})
		}},
	}
}

// discarding returns a processor of ours whose send function takes every batch.
func discarding(f form, spool *batch.Spool) (adder, error) {
	p, err := batch.New(batch.Options[arm.Event]{
		Encode:  func(dst []byte, e *arm.Event) ([]byte, error) { return f.encode(dst, e), nil },
		Send:    func(context.Context, *batch.Batch) batch.Outcome { return batch.Outcome{} },
		Format:  batch.FormatRaw,
		Trigger: batch.Trigger{Count: limit, Bytes: 4 << 20, Linger: interval},
		Spool:   spool,
	})
	if err != nil {
		return adder{}, err
	}
	var failed atomic.Pointer[error]
	return adder{
		add: func(e *arm.Event) {
			if err := p.Add(e); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		},
		close: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			report, err := p.Close(ctx)
			if first := failed.Load(); first != nil {
				err = errors.Join(err, *first)
			}
			if err == nil && report.Undelivered > 0 {
				err = fmt.Errorf("%d events are given back", report.Undelivered)
			}
			return errors.Join(err, p.Stats().Balance())
		},
	}, nil
}

// ingestProducers are the columns.
func ingestProducers() []int { return []int{1, 2, 64} }

// ingest measures what adding costs: each cell for 300 ms when arms have 60 s.
func (l *lab) ingest(ctx context.Context) ([]cost, error) {
	l.Progress("ingest: all designs, in turn")
	return ingestCosts(ctx, 5, min(max(l.length()/100, 10*time.Millisecond), 300*time.Millisecond), l.dir)
}

// ingestCosts measures all cells. Those that use the disk come last, since the
// disk is busy for a while after them.
func ingestCosts(ctx context.Context, rounds int, length time.Duration, dir string) ([]cost, error) {
	var costs []cost
	all := contenders()
	for _, designs := range [][]contender{all[:len(all)-1], all[len(all)-1:]} {
		for _, f := range forms() {
			for _, producers := range ingestProducers() {
				cell, err := ingestCell(ctx, designs, f, producers, rounds, length, dir)
				if err != nil {
					return nil, err
				}
				costs = append(costs, cell...)
			}
		}
	}
	return costs, nil
}

// ingestCell measures the designs in turn, so that other load on the machine
// disturbs all of them.
func ingestCell(ctx context.Context, designs []contender, f form, producers, rounds int, length time.Duration, dir string) ([]cost, error) {
	times := make([][]float64, len(designs))
	for round := range rounds {
		for turn := range designs {
			i := (turn + round) % len(designs)
			runtime.GC() // the garbage of the design before does not count
			ns, err := ingestOnce(ctx, &designs[i], f, producers, length, filepath.Join(dir, fmt.Sprintf("%s-%d-%d", f.name, producers, round)))
			if err != nil {
				return nil, fmt.Errorf("%s, %s, %d producers: %w", designs[i].name, f.name, producers, err)
			}
			times[i] = append(times[i], ns)
		}
	}
	var costs []cost
	for i, d := range designs {
		costs = append(costs, cost{d.name, producers, f.name, program.Median(times[i]), slices.Min(times[i]), slices.Max(times[i])})
	}
	return costs, nil
}

// addsTogether is how many events a producer adds before it counts them and
// checks for the end.
const addsTogether = 128

// ingestWarmUp is not counted. After it all producers run, and the memory that a
// design reuses has been touched once.
const ingestWarmUp = 100 * time.Millisecond

func ingestOnce(ctx context.Context, d *contender, f form, producers int, length time.Duration, dir string) (ns float64, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	a, err := d.make(f, dir)
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	var added atomic.Int64
	var stop atomic.Bool
	for p := range producers {
		all.Go(func() {
			e := arm.Event{Seq: uint64(p) << 40, Time: time.Now().UnixNano(), User: uint64(p), Value: 42}
			for !stop.Load() {
				for range addsTogether {
					e.Seq++
					a.add(&e)
				}
				added.Add(addsTogether)
			}
		})
	}
	timer := time.NewTimer(ingestWarmUp)
	defer timer.Stop()
	<-timer.C
	start, before := time.Now(), added.Load()
	timer.Reset(length)
	<-timer.C
	elapsed, after := time.Since(start), added.Load()
	stop.Store(true)
	all.Wait()
	ns = float64(elapsed) / float64(max(after-before, 1))
	return ns, errors.Join(a.close(), os.RemoveAll(dir))
}
