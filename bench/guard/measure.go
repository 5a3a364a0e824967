package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// settings are how a comparison is made.
type settings struct {
	rounds    int
	seed      uint64
	limit     float64       // of the growth of a time, as a fraction
	slice     time.Duration // of a Go benchmark
	patience  time.Duration // for measuring longer what is too noisy to judge
	pingSlice time.Duration // of the load of the ping workflow
	only      func(id string) bool
	profiles  string // the folder of the profiles of what failed
	all       bool   // what is equal to the byte is measured as well
}

// again is how many times as many rounds the second set has, of Go benchmarks.
const again = 2

// A comparer compares two sides. It is for one goroutine.
type comparer struct {
	settings
	sides   [2]*side // base and head
	budgets budgetList
	dir     string // of files that are removed at the end
	*program.Log
	start  time.Time
	rng    *rand.Rand
	cpus   *chooser
	shown  time.Time     // when progress within a measurement was last reported
	longer time.Duration // that measuring longer has taken
}

func newComparer(s settings, base, head *side, budgets budgetList, dir string, log io.Writer) (*comparer, error) {
	allowed, err := program.Processors()
	if err != nil {
		return nil, err
	}
	return &comparer{
		settings: s, sides: [2]*side{base, head}, budgets: budgets, dir: dir, Log: program.NewLog(log), start: time.Now(),
		rng: rand.New(rand.NewPCG(s.seed, 0)), cpus: newChooser(allowed),
	}, nil
}

// selected returns the items to build, and whether to build the program: those
// whose group or package matches only. If none does, only must match a single
// benchmark, whose name is not known before all are built.
func (c *comparer) selected() (items []item, ping bool) {
	for _, it := range catalogue() {
		if c.only(it.group) || c.only(it.pkg) {
			items = append(items, it)
		}
	}
	if ping = c.matches(pingGroup, pingCPU) || c.matches(pingGroup, pingRate); len(items) > 0 || ping {
		return items, ping
	}
	return catalogue(), false
}

// matches reports whether a row is selected.
func (c *comparer) matches(group, id string) bool { return c.only(group) || c.only(id) }

// A plan is what to measure, and the rows of the table.
type plan struct {
	subjects []subject
	rows     []row
}

// build builds what is selected and finds the benchmarks in it.
func (c *comparer) build(ctx context.Context) (*plan, error) {
	items, ping := c.selected()
	var packages []string
	for _, it := range items {
		if !slices.Contains(packages, it.pkg) {
			packages = append(packages, it.pkg)
		}
	}
	c.Progress("building %s and %s", c.sides[0].Revision, c.sides[1].Revision)
	if err := buildBoth(ctx, c.sides, packages, ping); err != nil {
		return nil, err
	}
	var equal []string
	if !c.all {
		var err error
		if equal, err = unchanged(c.sides); err != nil {
			return nil, err
		}
	}
	if len(equal) > 0 {
		c.Progress("not measured, as the test binaries are equal to the byte: %s", strings.Join(equal, ", "))
	}
	c.Progress("looking for benchmarks")
	base, err := c.sides[0].discover(ctx, items)
	if err != nil {
		return nil, err
	}
	head, err := c.sides[1].discover(ctx, items)
	if err != nil {
		return nil, err
	}
	p := new(plan)
	known := []string{pingCPU, pingRate}
	for _, b := range slices.Concat(head, base) {
		if slices.Contains(known, b.id()) {
			continue
		}
		known = append(known, b.id())
		if !c.matches(b.group, b.id()) {
			continue
		}
		r := row{ID: b.id(), Group: b.group}
		switch {
		case !c.sides[0].names[b.id()]:
			r.State = stateNew
		case !c.sides[1].names[b.id()]:
			r.State = stateGone
		case slices.Contains(equal, b.pkg):
			r.State = stateEqual
		default:
			slice := c.slice
			if b.long {
				slice *= longSlices
			}
			p.subjects = append(p.subjects, benchSubject{b, slice})
		}
		p.rows = append(p.rows, r)
	}
	for _, it := range items {
		if !slices.ContainsFunc(slices.Concat(head, base), func(b goBench) bool { return b.item == it }) && c.matches(it.group, it.pkg) {
			p.rows = append(p.rows, row{ID: it.pkg, Group: it.group, State: stateNotYet})
		}
	}
	if ping {
		p.subjects = append(p.subjects, pingSubject{c.dir, c.pingSlice})
		p.rows = append(p.rows, row{ID: pingCPU, Group: pingGroup}, row{ID: pingRate, Group: pingGroup, rate: true})
	}
	if len(p.rows) == 0 {
		return nil, errors.New("-only matches no name in the table")
	}
	return p, c.checkBudgets(known, items)
}

// checkBudgets refuses exceptions for benchmarks that do not exist, except in
// packages whose benchmarks are not all known because of -only.
func (c *comparer) checkBudgets(known []string, items []item) error {
	l := budgetList{File: c.budgets.File}
	for _, b := range c.budgets.Budgets {
		unseen := slices.ContainsFunc(catalogue(), func(it item) bool {
			return strings.HasPrefix(b.Benchmark, it.pkg+".") && !slices.Contains(items, it)
		})
		if !unseen {
			l.Budgets = append(l.Budgets, b)
		}
	}
	return l.Check(known)
}

// sets are samples by row.
type sets map[string]*set

// A set is what was measured of a row.
type set struct {
	Time   Samples `json:"time"` // nanoseconds for each operation
	Allocs Samples `json:"allocs"`
	Bytes  Samples `json:"bytes"`
}

func (s *set) add(side int, v sample) {
	for _, p := range []struct {
		to *Samples
		v  float64
	}{{&s.Time, v.ns}, {&s.Allocs, v.allocs}, {&s.Bytes, v.bytes}} {
		if side == 0 {
			p.to.Base = append(p.to.Base, p.v)
		} else {
			p.to.Head = append(p.to.Head, p.v)
		}
	}
}

// append adds the samples of another set.
func (s *set) append(more *set) {
	s.Time, s.Allocs, s.Bytes = s.Time.Plus(more.Time), s.Allocs.Plus(more.Allocs), s.Bytes.Plus(more.Bytes)
}

// measure measures both sides of the subjects for a number of rounds. Each round
// has a random order of subjects. The sides of a subject come one right after the
// other, in random order, on the same processors.
func (c *comparer) measure(ctx context.Context, subjects []subject, rounds int) (sets, error) {
	got := make(sets)
	var estimate time.Duration
	for _, s := range subjects {
		estimate += 2 * s.takes()
		for _, id := range s.rows() {
			got[id] = new(set)
		}
	}
	c.Progress("%d rounds of %d, about %v", rounds, len(subjects), (time.Duration(rounds) * estimate).Round(time.Second))
	began := time.Now()
	for round := range rounds {
		for _, i := range c.rng.Perm(len(subjects)) {
			if err := c.pair(ctx, subjects[i], got); err != nil {
				return nil, err
			}
		}
		took := time.Since(began)
		left := took / time.Duration(round+1) * time.Duration(rounds-round-1)
		if time.Since(c.shown) >= showEvery {
			c.shown = time.Now()
			c.Progress("round %d of %d, %v left", round+1, rounds, left.Round(time.Second))
		}
	}
	return got, nil
}

// showEvery is the time between reports of progress within a measurement.
const showEvery = 10 * time.Second

// sharpen measures subjects again until their times are precise enough to be
// judged, or the patience is used up.
func (c *comparer) sharpen(ctx context.Context, subjects []subject, got sets, byID map[string]*row) error {
	for {
		noisy := slices.DeleteFunc(slices.Clone(subjects), func(s subject) bool {
			return !slices.ContainsFunc(s.rows(), func(id string) bool { return byID[id].noisy(got[id].Time) })
		})
		if len(noisy) == 0 || c.longer >= c.patience {
			return nil
		}
		began := time.Now()
		c.Progress("measuring longer what is too noisy to judge: %d", len(noisy))
		more, err := c.measure(ctx, noisy, c.rounds)
		if err != nil {
			return err
		}
		for id, s := range more {
			got[id].append(s)
		}
		c.longer += time.Since(began)
	}
}

// pair measures both sides of a subject.
func (c *comparer) pair(ctx context.Context, s subject, into sets) error {
	on := c.cpus.pick(s.cpus())
	for _, i := range c.rng.Perm(len(c.sides)) {
		samples, used, err := s.measure(ctx, c.sides[i], on)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		c.cpus.used(on, used)
		for n, id := range s.rows() {
			into[id].add(i, samples[n])
		}
	}
	if s.cpus() == 0 {
		c.cpus.forget()
	}
	return nil
}

// compare measures the plan and returns the rows. Those that failed have the
// functions that have grown.
func (c *comparer) compare(ctx context.Context, p *plan) ([]*row, error) {
	first, err := c.measure(ctx, p.subjects, c.rounds)
	if err != nil {
		return nil, err
	}
	var rows []*row
	byID := make(map[string]*row)
	for _, planned := range p.rows {
		r := new(planned)
		rows = append(rows, r)
		byID[r.ID] = r
		r.allow(c.limit, c.budgets)
		r.First = first[r.ID]
	}
	if err := c.sharpen(ctx, p.subjects, first, byID); err != nil {
		return nil, err
	}
	suspects := slices.DeleteFunc(slices.Clone(p.subjects), func(s subject) bool {
		return !slices.ContainsFunc(s.rows(), func(id string) bool { return byID[id].suspect() })
	})
	if len(suspects) > 0 {
		c.Progress("measuring again what looks slower")
	}
	for _, s := range suspects {
		rounds := c.rounds
		if s.cpus() > 0 {
			rounds *= again
		}
		second, err := c.measure(ctx, []subject{s}, rounds)
		if err != nil {
			return nil, err
		}
		if err := c.sharpen(ctx, []subject{s}, second, byID); err != nil {
			return nil, err
		}
		for _, id := range s.rows() {
			byID[id].Second = second[id]
		}
	}
	decide(rows)
	for _, s := range suspects {
		if err := c.blame(ctx, s, byID); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// blamed is how many functions are named for a benchmark.
const blamed = 5

// blame takes profiles of both sides of a subject that failed: of the
// processors if it became slower, of its allocations if they became more.
func (c *comparer) blame(ctx context.Context, s subject, byID map[string]*row) error {
	for _, by := range []profileKind{profileCPU, profileAllocs} {
		failed := func(id string) bool {
			return map[profileKind]bool{profileCPU: byID[id].Time.grown, profileAllocs: byID[id].Allocs.grown}[by]
		}
		if !slices.ContainsFunc(s.rows(), failed) {
			continue
		}
		found, err := c.differ(ctx, s, by)
		if err != nil {
			return err
		}
		for _, id := range s.rows() {
			byID[id].Blame = append(byID[id].Blame, suspects{by, found})
		}
	}
	return nil
}

// differ profiles both sides of a subject and returns the functions that have grown.
func (c *comparer) differ(ctx context.Context, s subject, by profileKind) ([]Suspect, error) {
	if err := os.MkdirAll(c.profiles, 0o755); err != nil {
		return nil, err
	}
	c.Progress("profiling the %s of %s", by, s.rows()[0])
	on := c.cpus.pick(s.cpus())
	var files [2]string
	for i, side := range c.sides {
		name := strings.ReplaceAll(s.rows()[0], "/", "-") + "." + side.Name + "." + string(by) + ".pprof"
		file, err := filepath.Abs(filepath.Join(c.profiles, name))
		if err != nil {
			return nil, err
		}
		if err := s.profile(ctx, side, on, by, file); err != nil {
			return nil, err
		}
		files[i] = file
	}
	base, err := program.ReadProfile(files[0])
	if err != nil {
		return nil, err
	}
	head, err := program.ReadProfile(files[1])
	if err != nil {
		return nil, err
	}
	return Diff(base, head, module, blamed), nil
}
