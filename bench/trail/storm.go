package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A stormFigures is the result of concurrent clients, each of which asks one question
// after the other.
type stormFigures struct {
	Engine    string  `json:"engine"`
	Clients   int     `json:"clients"`
	Queries   int     `json:"queries"`
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
	PerSecond float64 `json:"queries_per_second"`
	Memory    int64   `json:"memory_bytes,omitempty"` // largest heap, without that of the open store
}

// A storm is how many clients ask how many questions each.
type storm struct{ clients, rounds int }

func storms() []storm { return []storm{{8, 10}, {64, 2}} }

// storms has clients ask the questions that are mixed, in turn.
func (l *lab) storms(ctx context.Context, all []*subject) ([]stormFigures, error) {
	mixed := slices.DeleteFunc(slices.Clone(all), func(s *subject) bool { return !s.mixed })
	if len(mixed) == 0 {
		return nil, nil
	}
	var got []stormFigures
	for _, s := range storms() {
		l.Progress("%d concurrent clients", s.clients)
		f, err := l.stormTrail(ctx, s, mixed)
		if err != nil {
			return nil, err
		}
		got = append(got, f)
		if l.duck == nil {
			continue
		}
		if f, err = l.stormDuck(s, mixed); err != nil {
			return nil, err
		}
		got = append(got, f)
	}
	return got, nil
}

func (l *lab) stormTrail(ctx context.Context, s storm, mixed []*subject) (stormFigures, error) {
	times := make([][]time.Duration, s.clients)
	errs := make([]error, s.clients)
	var elapsed time.Duration
	if err := l.reopen(); err != nil {
		return stormFigures{}, err
	}
	settle()
	base := heap()
	peak, err := watched(func() error {
		var clients sync.WaitGroup
		begin := time.Now()
		for client := range s.clients {
			clients.Go(func() {
				for round := range s.rounds {
					asked := time.Now()
					if _, errs[client] = l.ask(ctx, &mixed[(client+round)%len(mixed)].question, cores); errs[client] != nil {
						return
					}
					times[client] = append(times[client], time.Since(asked))
				}
			})
		}
		clients.Wait()
		elapsed = time.Since(begin)
		return errors.Join(errs...)
	})
	f := stormOf(engineTrail, s, slices.Concat(times...), elapsed)
	f.Memory = peak.Heap - base
	return f, err
}

func (l *lab) stormDuck(s storm, mixed []*subject) (stormFigures, error) {
	r := request{Op: "storm", Clients: s.clients, Rounds: s.rounds, Threads: cores}
	for _, m := range mixed {
		r.SQLs = append(r.SQLs, m.statement.SQL)
	}
	a, err := l.duck.ask(r)
	if err != nil {
		return stormFigures{}, err
	}
	rows, err := a.pairs() // index, microseconds
	var times []time.Duration
	for _, row := range rows {
		times = append(times, time.Duration(row[1])*time.Microsecond)
	}
	return stormOf(engineDuck, s, times, time.Duration(a.ElapsedUS)*time.Microsecond), err
}

func stormOf(engine string, s storm, times []time.Duration, elapsed time.Duration) stormFigures {
	slices.Sort(times)
	f := stormFigures{Engine: engine, Clients: s.clients, Queries: len(times)}
	if n := len(times); n > 0 && elapsed > 0 {
		f.P50, f.P95 = millis(times[(n-1)/2]), millis(times[(n-1)*95/100])
		f.PerSecond = float64(n) / elapsed.Seconds()
	}
	return f
}
