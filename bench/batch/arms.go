package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/batch/channels"
	"github.com/uniflow-labs/uniflow/bench/batch/model"
)

// designs returns all that this program can be as a child.
func designs() []arm.Design {
	return slices.Concat(channels.Designs(), []arm.Design{channels.Sized()}, ours())
}

// others are the designs of the module peers, by name.
func others() []string { return []string{"otel batch span processor", "posthog-go"} }

// producers is how many goroutines offer in a saturation run.
const producers = 2

// entrants returns the arms of a measurement.
func (l *lab) entrants() []entrant {
	var all []entrant
	add := func(d arm.Design, mode model.Mode) {
		all = append(all, entrant{name: d.Name, copies: d.Copies != nil, mode: mode})
	}
	given := channels.Designs()
	if !l.all {
		given = given[:channels.Founding]
	}
	for _, d := range slices.Concat(given, ours()) {
		add(d, l.mode)
	}
	if l.others != "" {
		for _, name := range others() {
			all = append(all, entrant{name: name, other: true, mode: l.mode})
		}
	}
	if l.all {
		for _, mode := range []model.Mode{model.Serial, model.Lognormal} {
			add(channels.Designs()[channels.Founding-1], mode)
			add(ours()[0], mode)
		}
	}
	return slices.DeleteFunc(all, func(e entrant) bool { return l.only != nil && !l.only.MatchString(e.title()) })
}

// saturated returns the arms of a saturation run: those that wait. Where nobody
// waits, what is dropped would be most of it.
func (l *lab) saturated() []entrant {
	all := channels.Designs()
	given := slices.Clone(all[:channels.Founding])
	for _, d := range all[channels.Founding:] {
		if d.Name == "10 sync, queue 4096" || d.Name == "1 async, queue 4096" {
			given = append(given, d)
		}
	}
	var chosen []entrant
	for _, d := range slices.Concat(given, ours()) {
		if l.only == nil || l.only.MatchString(d.Name) {
			chosen = append(chosen, entrant{name: d.Name})
		}
	}
	return chosen
}

// What the parts take besides the time that events are offered.
const (
	overhead   = 700 * time.Millisecond // of an arm: start, the last batch, profiles
	memoryTime = 2 * time.Second
)

// saturateTime returns how long a saturation run is: 20 s when arms have 60.
func (l *lab) saturateTime() time.Duration { return max(l.length()/3, 500*time.Millisecond) }

// compare measures everything.
func (l *lab) compare(ctx context.Context, f *figures) error {
	var arms, saturated []entrant
	if l.has(string(arm.Deliver)) {
		arms = l.entrants()
		l.steps += len(arms)*l.reps + 1
		l.left += time.Duration(len(arms)*l.reps)*(l.length()+overhead+l.idle) + memoryTime + overhead
	}
	if l.has(string(arm.Saturate)) {
		saturated = l.saturated()
		l.steps += len(saturated) * l.reps
		l.left += time.Duration(len(saturated)*l.reps) * (l.saturateTime() + overhead + l.idle)
	}
	if l.has(childIngest) {
		l.steps++
		l.left += l.ingestTime()
	}
	results, err := l.turns(ctx, arms, arm.Deliver, l.length(), l.client)
	if err != nil {
		return err
	}
	var copies []*arm.Result
	if len(arms) > 0 {
		if copies, err = l.memory(ctx, arms); err != nil {
			return err
		}
	}
	for i := range arms {
		for j := range results[i] {
			if m := copies[i]; m != nil {
				results[i][j].CopyShare, results[i][j].CopyOf = m.CopyShare, m.CopyOf
			}
		}
		f.entered(&f.Arms, arms[i].title(), results[i])
	}
	if results, err = l.turns(ctx, saturated, arm.Saturate, l.saturateTime(), nil); err != nil {
		return err
	}
	for i := range saturated {
		f.entered(&f.Saturation, saturated[i].title(), results[i])
	}
	if l.has(childIngest) {
		if f.Ingest, err = l.ingest(ctx); err != nil && ctx.Err() == nil {
			l.fail("ingest: %v", err)
			f.Failed = append(f.Failed, "ingest")
			err = nil
		}
	}
	f.Notes = l.notes
	return err
}

// entered enters an arm's results, or that there are none.
func (f *figures) entered(all *[]figure, name string, results []arm.Result) {
	if len(results) == 0 {
		f.Failed = append(f.Failed, name)
		return
	}
	*all = append(*all, merge(results))
}

// fail notes what could not be measured. What could be is still worth having.
func (l *lab) fail(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	l.progress("%s", note)
	l.notes = append(l.notes, note)
}

// turns measures each arm reps times, in a random order each time, so that what
// else the machine does meets all of them.
func (l *lab) turns(ctx context.Context, arms []entrant, job arm.Job, length time.Duration, cpus []int) ([][]arm.Result, error) {
	random := rand.New(rand.NewPCG(l.seed, uint64(len(job))))
	results := make([][]arm.Result, len(arms))
	for rep := range l.reps {
		for _, i := range random.Perm(len(arms)) {
			l.step(length+overhead+l.idle, "%s: %s, for %v (repetition %d of %d)", job, arms[i].title(), length.Round(time.Millisecond), rep+1, l.reps)
			r, err := l.measure(ctx, &arms[i], job, length, cpus)
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case err != nil:
				l.fail("%s: %s: %v", job, arms[i].title(), err)
			default:
				results[i] = append(results[i], *r)
			}
			if err := pause(ctx, l.idle); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// memory measures what share of memory copies are, of all arms at once: it is
// not about time.
func (l *lab) memory(ctx context.Context, arms []entrant) ([]*arm.Result, error) {
	l.step(memoryTime+overhead, "%s: all arms at once", arm.Memory)
	results := make([]*arm.Result, len(arms))
	errs := make([]error, len(arms))
	var all sync.WaitGroup
	for i := range arms {
		if !arms[i].copies {
			continue
		}
		all.Go(func() {
			results[i], errs[i] = l.measure(ctx, &arms[i], arm.Memory, min(memoryTime, l.length()), nil)
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			l.fail("%s: %s: %v", arm.Memory, arms[i].title(), err)
		}
	}
	return results, context.Cause(ctx)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// isOurs tells our arms by name.
func isOurs(name string) bool {
	return name == nameOurs || strings.HasPrefix(name, nameOurs+" ") || strings.HasPrefix(name, nameOurs+",")
}
