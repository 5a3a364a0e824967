package main

import (
	"context"
	"sync"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/lock"
)

// A paired measurement has the rates of lock.Mutex and of sync.Mutex, which are
// measured one right after the other in each round.
type paired struct {
	ours, theirs []float64 // per second
}

// addRounds measures more rounds. The two take turns in who is first.
func (d *paired) addRounds(ctx context.Context, rounds int, measure func(make func() sync.Locker) (perSecond float64, err error)) error {
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
func (d *paired) ratio() float64 {
	var all []float64
	for i, ours := range d.ours {
		all = append(all, ours/d.theirs[i])
	}
	return program.Median(all)
}

func newOurs() sync.Locker   { return &new(padded[lock.Mutex]).l }
func newTheirs() sync.Locker { return &new(padded[sync.Mutex]).l }
