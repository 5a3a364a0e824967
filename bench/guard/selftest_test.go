package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// lockPatch puts one lock, shared by all processes, around opening and closing the
// ports of a process: the regression that once made an engine six times slower
// without being noticed.
var lockPatch = filepath.Join("testdata", "shared-lock.patch")

// lockFunctions is the prefix in profiles of the functions that the patch adds.
const lockFunctions = "internal/run.(*openPorts)"

// How often the guard must find something, and nothing.
const (
	slowerRuns = 3
	sameRuns   = 20
	noisyRuns  = 4
)

// repository is the folder of the working tree.
var repository = filepath.Join("..", "..")

// BenchmarkSelftest shows that the guard catches what it should, and nothing else, in about 20
// minutes: make guard-selftest runs it. It is a benchmark as tests run always.
func BenchmarkSelftest(b *testing.B) {
	dir, seed := b.TempDir(), rand.Uint64()
	fmt.Printf("seed %d\n", seed)
	bed := &testbed{
		settings: settings{
			rounds: minRounds, seed: seed, limit: 0.1, slice: 40 * time.Millisecond, patience: 3 * time.Minute,
			pingSlice: 400 * time.Millisecond, // there are many runs
			profiles:  filepath.Join(dir, "profiles"), all: true,
		},
		dir: dir, tree: filepath.Join(dir, "tree"), log: os.Stdout,
	}
	if err := (Repo{Dir: repository}).Copy(b.Context(), bed.tree); err != nil {
		b.Fatal(err)
	}
	b.Run("lock", bed.sharedLock)
	b.Run("fifteen", bed.fifteen)
	b.Run("same", func(b *testing.B) { bed.twice(b, sameRuns) })
	b.Run("noisy", bed.noisy)
}

// A testbed is what the trials run on: a copy of the working tree.
type testbed struct {
	settings
	dir   string
	tree  string    // the copy
	log   io.Writer // not of the benchmark, whose output is cut
	twins *comparer // of the copy with itself
	plan  *plan     // of twins
}

// compare returns a comparer of the copy with another tree, for the rows whose
// groups or names match, and its plan.
func (bed *testbed) compare(b *testing.B, name, tree, only string) (*comparer, *plan) {
	s := bed.settings
	s.only = regexp.MustCompile(only).MatchString
	base := &side{Name: "base", Revision: "the working tree", dir: bed.tree, out: filepath.Join(bed.dir, name+".base")}
	head := &side{Name: "head", Revision: name, dir: tree, out: filepath.Join(bed.dir, name+".head")}
	c, err := newComparer(s, base, head, budgetList{}, bed.dir, bed.log)
	if err != nil {
		b.Fatal(err)
	}
	p, err := c.build(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return c, p
}

// rows compares once.
func (bed *testbed) rows(b *testing.B, c *comparer, p *plan) []*row {
	all, err := c.compare(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintln(bed.log, summary(all))
	return all
}

// changed returns another copy of the working tree, after change.
func (bed *testbed) changed(b *testing.B, name string, change func(tree string) error) string {
	tree := filepath.Join(bed.dir, name)
	if err := (Repo{Dir: repository}).Copy(b.Context(), tree); err != nil {
		b.Fatal(err)
	}
	if err := change(tree); err != nil {
		b.Fatal(err)
	}
	return tree
}

// sharedLock checks that the guard catches the patch, and names a function of it.
func (bed *testbed) sharedLock(b *testing.B) {
	tree := bed.changed(b, "shared-lock", func(tree string) error { return Apply(b.Context(), tree, lockPatch) })
	c, p := bed.compare(b, "shared-lock", tree, "^(process life|concurrent processes|end to end)$")
	all := bed.rows(b, c, p)
	if err := table(bed.log, all); err != nil {
		b.Fatal(err)
	}
	for _, id := range []string{"internal/run.Process", "internal/run.Parallel"} {
		i := slices.IndexFunc(all, func(r *row) bool { return r.ID == id })
		switch {
		case i < 0 || !all[i].Failed:
			b.Errorf("%s did not fail", id)
		case !names(all[i], lockFunctions):
			b.Errorf("%s does not blame %s", id, lockFunctions)
		}
	}
}

func names(r *row, function string) bool {
	return slices.ContainsFunc(r.Blame, func(s suspects) bool {
		return slices.ContainsFunc(s.Functions, func(f Suspect) bool { return strings.HasPrefix(f.Name, function) })
	})
}

// fifteen checks that the guard catches work that is done twice in 15 % of calls.
func (bed *testbed) fifteen(b *testing.B) {
	// Of the benchmarks that call Send, the one that becomes 15 % slower. Processes
	// of one hop become 17 % slower, and processes of 1,000 hops 12 %, since the second
	// run finds everything in the cache.
	const id = "internal/run.Observer/observed=false"
	c, p := bed.compare(b, "fifteen", bed.changed(b, "fifteen", addFifteen), "^unobserved chain$")
	for i := range slowerRuns {
		if !slices.ContainsFunc(bed.rows(b, c, p), func(r *row) bool { return r.ID == id && r.Time.grown }) {
			b.Errorf("run %d: %s did not fail", i+1, id)
		}
	}
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

// twice checks that no comparison of the code with itself fails.
func (bed *testbed) twice(b *testing.B, runs int) {
	if bed.twins == nil {
		bed.twins, bed.plan = bed.compare(b, "twin", bed.tree, subset)
	}
	for i := range runs {
		for _, r := range bed.rows(b, bed.twins, bed.plan) {
			if r.Failed {
				b.Errorf("run %d: %s failed: %s", i+1, r.ID, strings.Join(r.Reasons, "; "))
			}
		}
	}
}

// noisy is twice, with another process that keeps the processor busy which the
// guard would take first.
func (bed *testbed) noisy(b *testing.B) {
	cpus, err := program.Processors()
	if err != nil {
		b.Fatal(err)
	}
	busy, stop := context.WithCancel(b.Context())
	neighbour := exec.CommandContext(busy, "sh", "-c", "while :; do :; done")
	if err := program.Pinned(cpus[len(cpus)-1:], neighbour.Start); err != nil {
		stop()
		b.Fatal(err)
	}
	defer func() {
		stop()
		_ = neighbour.Wait() // it was killed
	}()
	bed.twice(b, noisyRuns)
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

// Copy writes the files of the working tree as they are, without those that are
// ignored, into a folder, which is made.
func (r Repo) Copy(ctx context.Context, dir string) error {
	list, err := r.git(ctx, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	var names []byte
	for name := range strings.SplitSeq(strings.Trim(string(list), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(r.Dir, name)); errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		names = append(append(names, name...), 0)
	}
	archive, err := runIn(ctx, r.Dir, names, "tar", "--create", "--null", "--files-from=-")
	if err != nil {
		return err
	}
	return unpack(ctx, archive, dir)
}

// Apply applies a patch to a tree that Export or Copy made.
func Apply(ctx context.Context, dir, patch string) error {
	patch, err := filepath.Abs(patch)
	if err != nil {
		return err
	}
	// In a folder of a repository, git leaves out what is not in its index.
	cmd := exec.CommandContext(ctx, "git", "apply", "--whitespace=nowarn", patch)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(dir, "no-repository"), "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git apply %s: %w: %.1000s", filepath.Base(patch), err, bytes.TrimSpace(out))
	}
	return nil
}
