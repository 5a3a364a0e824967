package main

import (
	"context"
	"slices"
	"sync"

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

// ratio returns the median of ours by theirs over the rounds, in each of which the
// rest of the machine was much the same for both.
func (d *duel) ratio() float64 {
	var all []float64
	for i, ours := range d.ours {
		all = append(all, ours/d.theirs[i])
	}
	return middle(all)
}

// middle returns the median, 0 of nothing.
func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func newOurs() sync.Locker   { return &new(padded[lock.Mutex]).l }
func newTheirs() sync.Locker { return &new(padded[sync.Mutex]).l }
