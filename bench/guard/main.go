// Command guard compares the performance of the working tree with a
// revision, and fails when something has become slower.
//
//	go run ./bench/guard [-base REV] [-rounds N] [-only REGEXP] [-limit PERCENT]
//	go run ./bench/guard -coverage
//
// Both sides are built, and measured in turns on the same processors: Go
// benchmarks in short slices, and the ping workflow from end to end. What looks
// slower is measured again, and profiled if it is slower again. It prints a table
// and writes everything to OUT/guard.json. The exit code is 1 if something fails.
//
// A failure is a time that has grown by more than the limit, allocations that
// have become more, or a benchmark that is gone, unless the file of budgets
// accepts it. A row that is too noisy to judge is measured longer; if that does
// not help, the table says so. The base is the revision in the file
// bench/guard/base, which moves only in a commit of its own, so that many small
// losses add up to a failure.
//
// Reading order: main.go; catalogue.go (what is guarded), side.go (building),
// subject.go (one measurement), measure.go (rounds), verdict.go.
// judge.go decides, blame.go compares profiles, budget.go reads exceptions, and
// source.go gets trees. coverage.go shows that what is hot is guarded, selftest_test.go that the
// guard works.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

func main() { program.Main(run) }

type config struct {
	dir      string
	base     string
	rounds   int
	only     string
	out      string
	budgets  string
	limit    float64
	seed     uint64
	slice    time.Duration
	load     time.Duration
	patience time.Duration
	coverage bool
}

// minRounds is how many samples the test of significance needs.
const minRounds = 10

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c config
	var s settings
	var budgets budgetList
	flags := program.Flags("guard")
	flags.StringVar(&c.dir, "dir", ".", "the `folder` of the repository")
	flags.StringVar(&c.base, "base", "", "the `revision` to compare with; that in bench/guard/base by default")
	flags.IntVar(&c.rounds, "rounds", minRounds, "how many `rounds` to measure, of each side")
	flags.StringVar(&c.only, "only", "", "compare benchmarks only whose names or groups match a `regexp`")
	flags.StringVar(&c.out, "out", filepath.Join("bench", "out"), "where to write guard.json and profiles, a `folder`")
	flags.StringVar(&c.budgets, "budgets", filepath.Join("bench", "budgets.yaml"), "the `file` of what is accepted")
	flags.Float64Var(&c.limit, "limit", 10, "what a time may grow, in `percent`")
	flags.Uint64Var(&c.seed, "seed", 0, "of the order of measurements, a `number`; random by default")
	flags.DurationVar(&c.slice, "slice", 40*time.Millisecond, "how long to run a benchmark at a time")
	flags.DurationVar(&c.load, "load", 700*time.Millisecond, "how long to load a server at a time")
	flags.DurationVar(&c.patience, "patience", 3*time.Minute, "how long to measure again, in all, what is too noisy to judge")
	flags.BoolVar(&c.coverage, "coverage", false, "list the hot functions of servers under load that no guarded benchmark reaches")
	check := func() (err error) {
		s, budgets, err = c.settings()
		return err
	}
	return program.Run(flags, args, stderr, check, func() (ok bool, err error) {
		dir, err := os.MkdirTemp("", "uniflow-guard-")
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if c.coverage {
			return coverage(ctx, c, dir, stdout, stderr)
		}
		return guard(ctx, c, s, budgets, dir, stdout, stderr)
	})
}

func (c *config) settings() (settings, budgetList, error) {
	var s settings
	var none budgetList
	if c.rounds < minRounds {
		return s, none, fmt.Errorf("-rounds must be at least %d, not %d", minRounds, c.rounds)
	}
	if c.limit <= 0 || c.slice <= 0 || c.load <= 0 {
		return s, none, errors.New("-limit, -slice and -load must be above 0")
	}
	only, err := regexp.Compile(c.only)
	if err != nil {
		return s, none, fmt.Errorf("-only: %w", err)
	}
	data, err := os.ReadFile(c.budgets)
	if err != nil {
		return s, none, err
	}
	budgets, err := parseBudgets(c.budgets, data)
	if err != nil {
		return s, none, err
	}
	if c.seed == 0 {
		c.seed = rand.Uint64()
	}
	return settings{
		rounds: c.rounds, seed: c.seed, limit: c.limit / 100, slice: c.slice, pingSlice: c.load, patience: c.patience,
		only: only.MatchString, profiles: filepath.Join(c.out, "guard"),
	}, budgets, nil
}

// baseFile names the revision to compare with.
var baseFile = filepath.Join("bench", "guard", "base")

// readBase returns the first word of the file that is in no comment.
func readBase(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			return words[0], nil
		}
	}
	return "", fmt.Errorf("%s names no revision", file)
}

// trees returns the sides: the files of the base in a folder, and the working
// tree.
func (c config) trees(ctx context.Context, dir string) (base, head *side, err error) {
	rev := c.base
	if rev == "" {
		if rev, err = readBase(filepath.Join(c.dir, baseFile)); err != nil {
			return nil, nil, err
		}
	}
	repo := Repo{Dir: c.dir}
	hash, err := repo.Resolve(ctx, rev)
	if err != nil {
		return nil, nil, err
	}
	now, err := repo.Resolve(ctx, "HEAD")
	if err != nil {
		return nil, nil, err
	}
	modified, err := repo.Modified(ctx)
	if err != nil {
		return nil, nil, err
	}
	tree, err := filepath.Abs(c.dir)
	if err != nil {
		return nil, nil, err
	}
	base = &side{Name: "base", Revision: hash, dir: filepath.Join(dir, "base"), out: filepath.Join(dir, "base.out")}
	head = &side{Name: "head", Revision: now, Modified: modified, dir: tree, out: filepath.Join(dir, "head.out")}
	return base, head, repo.Export(ctx, hash, base.dir)
}

func guard(ctx context.Context, c config, s settings, budgets budgetList, dir string, stdout, stderr io.Writer) (ok bool, err error) {
	base, head, err := c.trees(ctx, dir)
	if err != nil {
		return false, err
	}
	cmp, err := newComparer(s, base, head, budgets, dir, stderr)
	if err != nil {
		return false, err
	}
	planned, err := cmp.build(ctx)
	if err != nil {
		return false, err
	}
	rows, err := cmp.compare(ctx, planned)
	if err != nil {
		return false, err
	}
	facts := program.Inspect(ctx)
	fmt.Fprintf(stdout, "base %s, head %s%s, %d rounds, seed %d, %v\n%s\n\n", short(base.Revision), short(head.Revision),
		map[bool]string{true: " and changes"}[head.Modified], s.rounds, s.seed, time.Since(cmp.start).Round(time.Second), facts)
	if err := table(stdout, rows); err != nil {
		return false, err
	}
	failed := slices.ContainsFunc(rows, func(r *row) bool { return r.Failed })
	return !failed, program.Write(filepath.Join(c.out, "guard.json"), record{
		Seed: s.seed, Rounds: s.rounds, Limit: s.limit, Seconds: time.Since(cmp.start).Seconds(), Failed: failed,
		Base: base, Head: head, Machine: facts, Rows: rows,
	})
}

func short(hash string) string { return hash[:min(12, len(hash))] }

// A record is all that a comparison found, for guard.json.
type record struct {
	Seed    uint64        `json:"seed"`
	Rounds  int           `json:"rounds"`
	Limit   float64       `json:"limit"`   // of times, a fraction
	Seconds float64       `json:"seconds"` // that it took
	Failed  bool          `json:"failed"`
	Base    *side         `json:"base"`
	Head    *side         `json:"head"`
	Machine program.Facts `json:"machine"`
	Rows    []*row        `json:"benchmarks"`
}
