package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// lockPatch puts one lock, shared by all processes, around opening and closing the
// ports of a process: the regression that once made an engine six times slower
// without being noticed.
var lockPatch = filepath.Join("bench", "guard", "testdata", "shared-lock.patch")

// lockFunctions is the prefix in profiles of the functions that the patch adds.
const lockFunctions = "internal/run.(*openPorts)"

// How often the guard must find something, and nothing.
const (
	slowerRuns = 3
	sameRuns   = 20
	noisyRuns  = 4
)

// A trial is a self-test: it returns what went wrong, if anything did.
type trial struct {
	name string
	run  func(context.Context, *testbed) (wrong []string, err error)
}

func trials() []trial {
	return []trial{
		{"a lock that all processes share", sharedLock},
		{"15 % more of one benchmark", fifteen},
		{"the same code twice", same},
		{"the same code twice, next to a busy loop on a processor", noisy},
	}
}

// A testbed is what the trials run on: a copy of the working tree.
type testbed struct {
	settings
	root   string // of the repository
	dir    string
	tree   string // the copy
	stdout io.Writer
	log    io.Writer
	twins  *comparer // of the copy with itself
	plan   *plan     // of twins
}

// selftest runs the trials and reports whether one went wrong.
func selftest(ctx context.Context, c config, s settings, dir string, stdout, stderr io.Writer) (ok bool, err error) {
	ok = true
	b := &testbed{settings: s, root: c.dir, dir: dir, tree: filepath.Join(dir, "tree"), stdout: stdout, log: stderr}
	b.pingSlice = 400 * time.Millisecond // there are many runs
	b.all = true
	b.profiles = filepath.Join(dir, "profiles")
	if err := (Repo{Dir: c.dir}).Copy(ctx, b.tree); err != nil {
		return false, err
	}
	fmt.Fprintf(stdout, "seed %d, %d rounds\n", s.seed, s.rounds)
	for _, t := range trials() {
		if !s.only(t.name) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(stdout, "\n%s\n", t.name)
		wrong, err := t.run(ctx, b)
		if err != nil {
			return false, fmt.Errorf("%s: %w", t.name, err)
		}
		for _, w := range wrong {
			fmt.Fprintf(stdout, "  WRONG: %s\n", w)
		}
		verdict := "as it must be"
		if len(wrong) > 0 {
			verdict, ok = "WRONG", false
		}
		fmt.Fprintf(stdout, "  %s, in %v\n", verdict, time.Since(began).Round(time.Second))
	}
	return ok, nil
}

// compare returns a comparer of the copy with another tree, for the rows whose
// groups or names match, and its plan.
func (b *testbed) compare(ctx context.Context, name, tree, only string) (*comparer, *plan, error) {
	s := b.settings
	s.only = regexp.MustCompile(only).MatchString
	base := &side{Name: "base", Revision: "the working tree", dir: b.tree, out: filepath.Join(b.dir, name+".base")}
	head := &side{Name: "head", Revision: name, dir: tree, out: filepath.Join(b.dir, name+".head")}
	c, err := newComparer(s, base, head, budgetList{}, b.dir, b.log)
	if err != nil {
		return nil, nil, err
	}
	p, err := c.build(ctx)
	return c, p, err
}

// changed returns another copy of the working tree, after change.
func (b *testbed) changed(ctx context.Context, name string, change func(tree string) error) (string, error) {
	tree := filepath.Join(b.dir, name)
	if err := (Repo{Dir: b.root}).Copy(ctx, tree); err != nil {
		return "", err
	}
	return tree, change(tree)
}

// sharedLock checks that the guard catches the patch, and names a function of it.
func sharedLock(ctx context.Context, b *testbed) (wrong []string, err error) {
	tree, err := b.changed(ctx, "shared-lock", func(tree string) error {
		return Apply(ctx, tree, filepath.Join(b.root, lockPatch))
	})
	if err != nil {
		return nil, err
	}
	c, p, err := b.compare(ctx, "shared-lock", tree, "^(process life|concurrent processes|end to end)$")
	if err != nil {
		return nil, err
	}
	rows, err := c.compare(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := table(b.stdout, rows); err != nil {
		return nil, err
	}
	for _, id := range []string{"internal/run.Process", "internal/run.Parallel"} {
		i := slices.IndexFunc(rows, func(r *row) bool { return r.ID == id })
		switch {
		case i < 0 || !rows[i].Failed:
			wrong = append(wrong, id+" did not fail")
		case !names(rows[i], lockFunctions):
			wrong = append(wrong, id+" does not blame "+lockFunctions)
		}
	}
	return wrong, nil
}

func names(r *row, function string) bool {
	return slices.ContainsFunc(r.Blame, func(s suspects) bool {
		return slices.ContainsFunc(s.Functions, func(f Suspect) bool { return strings.HasPrefix(f.Name, function) })
	})
}

// fifteen checks that the guard catches work that is done twice in 15 % of calls.
func fifteen(ctx context.Context, b *testbed) (wrong []string, err error) {
	tree, err := b.changed(ctx, "fifteen", addFifteen)
	if err != nil {
		return nil, err
	}
	// Of the benchmarks that call Send, the one that becomes 15 % slower. Processes
	// of one hop become 17 % slower, and processes of 1,000 hops 12 %, since the second
	// run finds everything in the cache.
	const id = "internal/run.Observer/observed=false"
	c, p, err := b.compare(ctx, "fifteen", tree, "^unobserved chain$")
	if err != nil {
		return nil, err
	}
	for i := range slowerRuns {
		rows, err := c.compare(ctx, p)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.stdout, "  run %d: %s\n", i+1, summary(rows))
		if !slices.ContainsFunc(rows, func(r *row) bool { return r.ID == id && r.Time.grown }) {
			wrong = append(wrong, fmt.Sprintf("run %d: %s did not fail", i+1, id))
		}
	}
	return wrong, nil
}

// addFifteen changes Generation.Send so that it does its work twice in 3 of 20
// calls.
func addFifteen(tree string) error {
	dir := filepath.Join(tree, "internal", "run")
	file := filepath.Join(dir, "generation.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const was, is = "\nfunc (g *Generation) Send(", "\nfunc (g *Generation) sendOnce("
	if strings.Count(string(text), was) != 1 {
		return fmt.Errorf("%s: no method Send", file)
	}
	text = []byte(strings.Replace(string(text), was, is, 1))
	const again = `package run

import (
	"context"

	"` + module + `/node"
	"` + module + `/value"
)

var sent int

func (g *Generation) Send(ctx context.Context, j node.Judge, at, port int32, payload value.Value) node.Response {
	if sent++; sent%20 < 3 {
		g.sendOnce(ctx, j, at, port, payload)
	}
	return g.sendOnce(ctx, j, at, port, payload)
}
`
	return errors.Join(os.WriteFile(file, text, 0o644), os.WriteFile(filepath.Join(dir, "send_again.go"), []byte(again), 0o644))
}

// subset is what the trials with many runs measure, one of each sort.
const subset = "^(value codec|packet hop|process life|concurrent processes|router|CEL|end to end)$"

// same checks that no comparison of the code with itself fails.
func same(ctx context.Context, b *testbed) ([]string, error) { return b.twice(ctx, sameRuns) }

func (b *testbed) twice(ctx context.Context, runs int) (wrong []string, err error) {
	if b.twins == nil {
		if b.twins, b.plan, err = b.compare(ctx, "twin", b.tree, subset); err != nil {
			return nil, err
		}
		fmt.Fprintf(b.stdout, "  %d figures: %s\n", len(b.plan.rows), subset)
	}
	for i := range runs {
		rows, err := b.twins.compare(ctx, b.plan)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.stdout, "  run %d: %s\n", i+1, summary(rows))
		for _, r := range rows {
			if r.Failed {
				wrong = append(wrong, fmt.Sprintf("run %d: %s failed: %s", i+1, r.ID, strings.Join(r.Reasons, "; ")))
			}
		}
	}
	return wrong, nil
}

// noisy is same, with another process that keeps the processor busy which the
// guard would take first.
func noisy(ctx context.Context, b *testbed) (wrong []string, err error) {
	cpus, err := program.Processors()
	if err != nil {
		return nil, err
	}
	busy, stop := context.WithCancel(ctx)
	neighbour := exec.CommandContext(busy, "sh", "-c", "while :; do :; done")
	if err := program.Pinned(cpus[len(cpus)-1:], neighbour.Start); err != nil {
		stop()
		return nil, err
	}
	defer func() {
		stop()
		_ = neighbour.Wait() // it was killed
	}()
	return b.twice(ctx, noisyRuns)
}

// summary says in a line what came of the rows.
func summary(rows []*row) string {
	suspects, worst := 0, rows[0]
	var failed []string
	for _, r := range rows {
		if r.Second != nil {
			suspects++
		}
		if r.Failed {
			failed = append(failed, r.ID)
		}
		if r.Time.Change() > worst.Time.Change() {
			worst = r
		}
	}
	return fmt.Sprintf("%d failed %v, %d measured again, most is %s %s (p = %.2g)",
		len(failed), failed, suspects, worst.ID, worst.change(), worst.Time.Corrected)
}
