package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
)

// designs returns all that this program can be as a child.
func designs() []arm.Design { return slices.Concat(arm.Designs(), ours()) }

func others() []string { return []string{"otel batch span processor", "posthog-go"} }

// producers is how many goroutines offer in a saturation run.
const producers = 2

// An entrant is a design as the lab starts it.
type entrant struct {
	name   string
	other  bool // of the program of others
	copies bool // its share of copies can be measured
}

// entrants returns the arms that are offered events at a rate, or as many as they
// accept, which only makes sense for those of this program.
func (l *lab) entrants(saturated bool) []entrant {
	var all []entrant
	for _, d := range designs() {
		if saturated || d.Name != arm.Queued {
			all = append(all, entrant{name: d.Name, copies: d.Copies != nil})
		}
	}
	if !saturated && l.others != "" {
		for _, name := range others() {
			all = append(all, entrant{name: name, other: true})
		}
	}
	return slices.DeleteFunc(all, func(e entrant) bool { return !l.only.MatchString(e.name) })
}

// What the parts take in addition to the time that events are offered.
const (
	overhead   = 700 * time.Millisecond // of an arm: start, the last batch, profiles
	memoryTime = 2 * time.Second
)

// saturateTime returns how long a saturation run is: 20 s when arms have 60.
func (l *lab) saturateTime() time.Duration { return max(l.length()/3, 500*time.Millisecond) }

func (l *lab) compare(ctx context.Context, f *figures) (err error) {
	if l.has(string(arm.Deliver)) {
		if f.Arms, err = l.turns(ctx, f, l.entrants(false), arm.Deliver, l.length(), l.client); err != nil {
			return err
		}
		if err := l.memory(ctx, f.Arms); err != nil {
			return err
		}
	}
	if l.has(string(arm.Saturate)) {
		if f.Saturation, err = l.turns(ctx, f, l.entrants(true), arm.Saturate, l.saturateTime(), nil); err != nil {
			return err
		}
	}
	if l.has(partIngest) {
		if f.Ingest, err = l.ingest(ctx); err != nil && ctx.Err() == nil {
			l.note("ingest: %v", err)
			f.Failed = append(f.Failed, partIngest)
			err = nil
		}
	}
	f.Notes = l.notes
	return err
}

// note notes what could not be measured. The rest is still worth having.
func (l *lab) note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	l.Progress("%s", note)
	l.notes = append(l.notes, note)
}

// turns measures each arm once, in a random order.
func (l *lab) turns(ctx context.Context, f *figures, arms []entrant, job arm.Job, length time.Duration, cpus []int) ([]arm.Result, error) {
	results := make([]*arm.Result, len(arms))
	for n, i := range rand.New(rand.NewPCG(l.seed, uint64(len(job)))).Perm(len(arms)) {
		left := time.Duration(len(arms)-n) * (length + overhead)
		l.Progress("%s, %v to go: %s", job, left.Round(time.Second), arms[i].name)
		r, err := l.measure(ctx, &arms[i], job, length, cpus)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			results[i] = r
		} else {
			l.note("%s: %s: %v", job, arms[i].name, err)
			f.Failed = append(f.Failed, arms[i].name)
		}
	}
	var measured []arm.Result
	for _, r := range results {
		if r != nil {
			measured = append(measured, *r)
		}
	}
	return measured, nil
}

// memory enters the share of copies into results.
func (l *lab) memory(ctx context.Context, results []arm.Result) error {
	for _, e := range l.entrants(false) {
		i := slices.IndexFunc(results, func(r arm.Result) bool { return r.Name == e.name })
		if i < 0 || !e.copies {
			continue
		}
		l.Progress("%s: %s", arm.Memory, e.name)
		m, err := l.measure(ctx, &e, arm.Memory, min(memoryTime, l.length()), nil)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			l.note("%s: %s: %v", arm.Memory, e.name, err)
			continue
		}
		results[i].CopyShare, results[i].CopyOf = m.CopyShare, m.CopyOf
	}
	return nil
}

func isOurs(name string) bool { return name == nameOurs || strings.HasPrefix(name, nameOurs+",") }
