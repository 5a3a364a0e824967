package main

import (
	"context"
	"sync"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/lock"
)

// A duel is what lock.Mutex and sync.Mutex got done, each once a round, one right
// after the other.
type duel struct {
	ours, theirs []float64 // per second
}

// fight adds rounds to a duel. The two take turns in who is first.
func (d *duel) fight(ctx context.Context, rounds int, measure func(make func() sync.Locker) (perSecond float64, err error)) error {
	for range rounds {
		ours := len(d.ours)%2 == 0
		for range 2 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			make, to := newTheirs, &d.theirs
			if ours {
				make, to = newOurs, &d.ours
			}
			got, err := measure(make)
			if err != nil {
				return err
			}
			*to = append(*to, got)
			ours = !ours
		}
	}
	return nil
}

// ratio returns the median of the rounds' ratios of ours to theirs.
func (d *duel) ratio() float64 {
	var all []float64
	for i, ours := range d.ours {
		all = append(all, ours/d.theirs[i])
	}
	return program.Median(all)
}

func newOurs() sync.Locker   { return &new(padded[lock.Mutex]).l }
func newTheirs() sync.Locker { return &new(padded[sync.Mutex]).l }
