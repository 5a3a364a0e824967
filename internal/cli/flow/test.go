package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/suite"
	"github.com/uniflow-labs/uniflow/spec"
)

const testLong = `Test runs the nodes of kind test in the given files and folders: all, or those whose
NAMESPACE/NAME matches --run. They run concurrently, each with nodes, caches and connections
of its own; no listener is opened. All namespaces are tested unless --namespace is given.
Files that link to one another are one workflow, other files are workflows of their own;
with --from-specs all files are one workflow.

A test brings its own values and mocks: --environment, --from-values and --mock come before
those of the tests.

A test that fails shows its errors with their place, what an assert got and expected,
the packets that were sent, and what the nodes logged. Test exits with 1 if one fails.

A test with durability: checkpoint runs whole, and once more for each step of its journal: there
the program is gone, and a new one goes on. --crash N repeats only step N, as a failure names it.

--mock replaces a node, or a sub-graph as a whole, by the code in a file, whose extension
is its language (.js, .ts, .cel, .json, .yaml, .txt): what the code makes of a payload is
what the node sends, and JSON, YAML and text are always that. A file .jsonl is a
recording: with --update the node runs, and what it sends for each payload is written to
the file; without, the node sends what the file has. --mock may be repeated.

--cover lists the nodes, ports and links that no test has used.`

const testExample = `  uniflow test examples/prices.yaml
  uniflow test flows --run 'orders/.*price' --watch
  uniflow test flows --mock payment=approved.json --mock eu/stock=stock.js
  uniflow test flows --junit report.xml --cover`

type testOptions struct {
	json         bool
	junit        string
	timeout      time.Duration
	mocks        []string
	update       bool
	cover        bool
	coverListing bool
	crash        int
	seed         uint64

	run     string
	command string
	match   *regexp.Regexp // nil is all
	only    bool           // one namespace
	joined  bool           // all files are one workflow
	watch   bool

	read []string // files that runs have read apart from documents and values files
}

func testCommand(a commands) *cobra.Command {
	s := settings.New()
	o := &testOptions{}
	cmd := &cobra.Command{
		Use:               "test [FILE...]",
		Short:             "Run the tests in documents",
		Long:              testLong,
		Example:           testExample,
		ValidArgsFunction: completeDocuments,
	}
	var profiles profiles
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.run, "run", "", "run the tests whose NAMESPACE/NAME matches `REGEX`")
	s.AddDocumentFlags(cmd, settings.AllowExec)
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.StringVar(&o.junit, "junit", "", "write JUnit XML to `FILE`, or \"-\"")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "let a test fail after `DURATION` if it sets no timeout; 0 for no limit")
	flags.StringArrayVar(&o.mocks, "mock", nil, "replace a node by a file: `NAME=FILE`; may be repeated")
	flags.IntVar(&o.crash, "crash", 0, "in tests with crashes, crash only at step `N` of the journal; 0 for all")
	flags.Uint64Var(&o.seed, "seed", 0, "choose the steps of tests with too many by `N`, as an earlier run has printed it; 0 for others each time")
	flags.BoolVar(&o.update, "update", false, "let the nodes of mocks that are recordings run, and record what they send")
	flags.BoolVar(&o.watch, settings.Watch, false, "run the tests again when documents, values files, scripts or mocks change; print failures and a line for each run")
	flags.BoolVar(&o.cover, "cover", false, "list what no test has used")
	flags.BoolVar(&o.coverListing, "cover-listing", false, "print the documents with the number of packets of each node and link")
	profiles.addFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.command = cmd.CommandPath()
		if o.run == "" && len(args) == 1 && !isFile(args[0]) {
			fmt.Fprintf(a.Stderr, "remark: there is no file %q, so it is a pattern: write test FILE... --run REGEX, as a later version takes files only\n", args[0])
			o.run, args = args[0], nil
		}
		if err := o.pattern(); err != nil {
			return err
		}
		if err := s.Resolve(a.App, cmd, args...); err != nil {
			return err
		}
		o.watch = o.watch && s.Given(settings.Watch) // the config file means start
		if err := o.check(s); err != nil {
			return err
		}
		r, err := newReading(o.command, s, a.App)
		if err != nil {
			return err
		}
		o.only = flags.Changed("namespace") || s.Namespace != "default"
		o.joined = len(args) == 0
		run := a.test
		if o.watch {
			run = a.testAgain
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			return profiles.during(func() error { return run(ctx, r, s, o) })
		})
	}
	return cmd
}

// pattern compiles the pattern of names.
func (o *testOptions) pattern() (err error) {
	if o.run == "" {
		return nil
	}
	if o.match, err = regexp.Compile(o.run); err != nil {
		return app.Usagef(o.command, "write a regular expression over NAMESPACE/NAME, as in Go", "--run: %w", err)
	}
	return nil
}

func (o *testOptions) check(s *settings.Settings) error {
	if err := checkPlugins(o.command, s); err != nil {
		return err
	}
	if len(s.Specs)+len(s.Plugins) == 0 {
		return app.Usagef(o.command, "write test FILE...", "nothing to test: no specs are named")
	}
	if err := app.NotNegative(o.command, "timeout", o.timeout); err != nil {
		return err
	}
	if o.crash < 0 {
		return app.Usagef(o.command, "steps are counted from 1, the start", "--crash %d: there is no such step", o.crash)
	}
	if o.json && o.junit == app.StdinPath {
		return app.Usagef(o.command, "write --junit FILE", "--json and --junit - both write to standard output")
	}
	if o.watch && (o.update || o.junit == app.StdinPath || o.json) {
		return app.Usagef(o.command, "", "--watch is for people: it does not go with --update, --json and --junit -")
	}
	if o.watch && slices.Contains(slices.Concat(s.Specs, s.Values), app.StdinPath) {
		return app.Usagef(o.command, "name a file", "--watch cannot watch standard input")
	}
	return nil
}

// test runs tests and prints the results.
func (a commands) test(ctx context.Context, r *reading, s *settings.Settings, o *testOptions) (err error) {
	src, list, err := r.read()
	if err != nil {
		return err
	}
	p, err := a.newPlanner(o.command, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	p.update, p.keep = o.update, o.match != nil // the tests that do not run need what they have
	if err := p.readGiven(o.mocks); err != nil {
		return err
	}
	var all []suite.Case
	for i, w := range src.workflows(s.Namespace, o.only, o.joined, a.templates()) {
		cases, found := p.cases(i, w.sources)
		all = append(all, cases...)
		list.Append(found)
	}
	for _, file := range append(src.referred(), p.read...) {
		if !slices.Contains(o.read, file) {
			o.read = append(o.read, file)
		}
	}
	list.Sort()
	if err := a.showFindings(list, src); err != nil {
		return err
	}
	if o.update && !slices.ContainsFunc(mocksOf(all), func(m *suite.Mock) bool { return suite.IsRecording(m.File) }) {
		return app.Usagef(o.command, "add --mock NAME=FILE.jsonl", "--update has nothing to record: no mock is a file .jsonl")
	}
	tests, err := o.chosen(all, s.Namespace)
	if err != nil {
		return err
	}
	if err := p.checkGiven(outlines(all)); err != nil {
		return err
	}
	data := a.Stdout
	if o.json || o.junit == app.StdinPath {
		data = a.Stderr
	}
	printed := newInOrder(len(tests), func(r *suite.Result) error {
		if o.watch && r.Err == nil {
			return nil
		}
		return r.Text(data, src.text, a.ColourOut)
	})
	began := time.Now()
	results, coverage := suite.Run(ctx, tests, suite.Options{
		Kinds: a.kinds(s.Language), Programs: a.programs(s), Timeout: o.timeout, Done: printed.done, Redact: p.engine.Redact, Crash: o.crash, Seed: o.seed,
	})
	took := time.Since(began)
	if err := printed.err; err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if err := o.writeRecordings(ctx, tests); err != nil {
		return err
	}
	return errors.Join(a.reportTests(o, src, len(tests), results, coverage, took), ctx.Err())
}

func (o *testOptions) chosen(all []suite.Case, namespace string) (tests []suite.Case, err error) {
	var names []string
	for _, t := range all {
		if o.only && t.Node.Namespace != namespace {
			continue
		}
		names = append(names, suite.Name(t.Test))
		if o.match == nil || o.match.MatchString(suite.Name(t.Test)) {
			tests = append(tests, t)
		}
	}
	switch {
	case len(tests) > 0:
		return tests, nil
	case len(names) > 0:
		hint := "the tests are: " + strings.Join(names[:min(len(names), 20)], ", ")
		return nil, &app.ExitError{Code: app.ExitUsage, Err: fmt.Errorf("no test matches %q", o.match), Hint: hint}
	}
	return nil, &app.ExitError{Code: app.ExitUsage, Err: errors.New("the documents have no tests"), Hint: "a test is a node of kind test; uniflow describe test shows one"}
}

// outlines returns one outline of each workflow.
func outlines(cases []suite.Case) (all []uniflow.Outline) {
	last := -1
	for _, c := range cases {
		if c.Round.Workflow != last {
			all, last = append(all, c.Round.Outline), c.Round.Workflow
		}
	}
	return all
}

// mocksOf returns the mocks of tests, once each.
func mocksOf(cases []suite.Case) (all []*suite.Mock) {
	for _, c := range cases {
		for _, m := range c.Round.Mocks {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all
}

func readMock(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	code, err := io.ReadAll(io.LimitReader(f, spec.MaxSize+1))
	if err == nil && len(code) > spec.MaxSize {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, spec.MaxSize)
	}
	return code, err
}

// writeRecordings writes what mocks have recorded, unless the run was interrupted.
func (o *testOptions) writeRecordings(ctx context.Context, tests []suite.Case) error {
	for _, m := range mocksOf(tests) {
		if !o.update || !suite.IsRecording(m.File) || ctx.Err() != nil {
			continue
		}
		text, err := m.Recording()
		if err != nil {
			return err
		}
		if err := app.ReplaceFile(m.File, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
			return err
		}
	}
	return nil
}

// reportTests prints what a run of tests has found.
func (a commands) reportTests(o *testOptions, src *sources, tests int, results []*suite.Result, coverage *suite.Coverage, took time.Duration) error {
	passed, failed := suite.Counts(results)
	if o.junit != "" {
		write := func(w io.Writer) error { return suite.JUnit(w, results, took, src.text) }
		if o.junit == app.StdinPath {
			if err := write(a.Stdout); err != nil {
				return fmt.Errorf("write to standard output: %w", err)
			}
		} else if err := app.ReplaceFile(o.junit, write); err != nil {
			return err
		}
	}
	report := suite.NewReport(results, tests, took)
	if o.cover {
		covered := coverage.Report()
		report.Coverage = &covered
	}
	switch {
	case o.json:
		if err := a.PrintJSON(report); err != nil {
			return err
		}
	case o.junit != app.StdinPath:
		if err := a.Print(a.coverage(o, src, report, coverage)); err != nil {
			return err
		}
	}
	summary := fmt.Sprintf("%s: %d passed, %d failed", show.Count(int64(tests), "test"), passed, failed)
	if report.NotRun > 0 {
		summary += fmt.Sprintf(", %d not run", report.NotRun)
	}
	a.Talk("%s (%s)\n", summary, show.Duration(took))
	if failed > 0 {
		return app.ErrFindings()
	}
	return nil
}

func (a commands) coverage(o *testOptions, src *sources, report *suite.Report, coverage *suite.Coverage) string {
	var b strings.Builder
	if o.coverListing {
		for _, doc := range src.specs {
			fmt.Fprintf(&b, "%s\n%s", doc.File, coverage.Listing(doc.File, doc.Data))
		}
	}
	if report.Coverage != nil {
		b.WriteString(report.Coverage.Text())
	}
	return b.String()
}

// inOrder prints results in the order of their tests, each as soon as those before it
// have been printed.
type inOrder struct {
	print   func(*suite.Result) error
	results []*suite.Result
	next    int
	err     error // the first of print
}

func newInOrder(tests int, print func(*suite.Result) error) *inOrder {
	return &inOrder{print: print, results: make([]*suite.Result, tests)}
}

func (p *inOrder) done(at int, r *suite.Result) {
	p.results[at] = r
	for p.next < len(p.results) && p.results[p.next] != nil {
		if err := p.print(p.results[p.next]); err != nil && p.err == nil {
			p.err = err
		}
		p.next++
	}
}
