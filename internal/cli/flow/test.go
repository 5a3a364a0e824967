package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/suite"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
)

const testLong = `Test runs the nodes of kind test whose NAMESPACE/NAME matches the regular expression
REGEX, or all. They run concurrently, each with nodes, caches and connections of its
own; no listener is opened. All namespaces are tested unless --namespace is given.

A test that fails shows its errors with their place, what an assert got and expected,
the packets that were sent, and what the nodes logged. Test exits with 1 if one fails.

--mock replaces a node, or a sub-graph as a whole, by the code in a file, whose extension
is its language (.js, .ts, .cel, .json, .yaml, .txt): what the code makes of a payload is
what the node sends, and JSON, YAML and text are always that. A file .jsonl is a
recording: with --update the node runs, and what it sends for each payload is written to
the file; without, the node sends what the file has. --mock may be repeated.

--cover lists the nodes, ports and links that no test has used.`

const testExample = `  uniflow test --from-specs examples
  uniflow test 'orders/.*price' -f flows --from-values test.yaml
  uniflow test -f flows --mock payment=approved.json --mock eu/stock=stock.js
  uniflow test -f flows --junit report.xml --cover`

type testOptions struct {
	json         bool
	junit        string
	timeout      time.Duration
	mocks        []string
	update       bool
	cover        bool
	coverListing bool

	command string
	match   *regexp.Regexp // nil is all
	only    bool           // one namespace
}

func testCommand(a commands) *cobra.Command {
	s := settings.New()
	o := &testOptions{}
	cmd := &cobra.Command{
		Use:               "test [REGEX]",
		Short:             "Run the tests in documents",
		Long:              testLong,
		Example:           testExample,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	s.AddDocumentFlags(cmd)
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.StringVar(&o.junit, "junit", "", "write JUnit XML to `FILE`, or \"-\"")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "let a test fail after `DURATION` if it sets no timeout; 0 for no limit")
	flags.StringArrayVar(&o.mocks, "mock", nil, "replace a node by a file: `NAME=FILE`; may be repeated")
	flags.BoolVar(&o.update, "update", false, "let the nodes of mocks that are recordings run, and record what they send")
	flags.BoolVar(&o.cover, "cover", false, "list what no test has used")
	flags.BoolVar(&o.coverListing, "cover-listing", false, "print the documents with the number of packets of each node and link")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.command = cmd.CommandPath()
		if err := o.pattern(args); err != nil {
			return err
		}
		if err := s.Resolve(a.App, cmd); err != nil {
			return err
		}
		if err := o.check(s); err != nil {
			return err
		}
		r, err := newReading(o.command, s, a.App)
		if err != nil {
			return err
		}
		o.only = flags.Changed("namespace") || s.Namespace != "default"
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error { return a.test(ctx, r, s, o) })
	}
	return cmd
}

// pattern returns the pattern of names in the argument.
func (o *testOptions) pattern(args []string) (err error) {
	if len(args) > 1 {
		return app.Usagef(o.command, "write test REGEX --from-specs FILE", "test takes one REGEX, got %q too", args[1])
	}
	if len(args) == 1 {
		if o.match, err = regexp.Compile(args[0]); err != nil {
			return app.Usagef(o.command, "write a regular expression over NAMESPACE/NAME, as in Go", "REGEX: %w", err)
		}
	}
	return nil
}

func (o *testOptions) check(s *settings.Settings) error {
	if len(s.Specs) == 0 {
		hint := "write test --from-specs FILE"
		if o.match != nil {
			if _, err := os.Stat(o.match.String()); err == nil {
				hint = "write test --from-specs " + o.match.String()
			}
		}
		return app.Usagef(o.command, hint, "nothing to test: no specs are named")
	}
	if err := app.NotNegative(o.command, "timeout", o.timeout); err != nil {
		return err
	}
	if o.json && o.junit == app.StdinPath {
		return app.Usagef(o.command, "write --junit FILE", "--json and --junit - both write to standard output")
	}
	if o.update && !slices.ContainsFunc(o.mocks, suite.IsRecording) {
		return app.Usagef(o.command, "add --mock NAME=FILE.jsonl", "--update has nothing to record: no mock is a file .jsonl")
	}
	return nil
}

// test runs tests and prints the results.
func (a commands) test(ctx context.Context, r *reading, s *settings.Settings, o *testOptions) (err error) {
	src, list, err := r.read()
	if err != nil {
		return err
	}
	kinds := a.kinds(s.Language)
	engine, err := uniflow.New(uniflow.Options{Kinds: kinds, Namespace: s.Namespace, Whole: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Shutdown(context.WithoutCancel(ctx))) }() // it serves nothing
	outline, found := engine.Outline(src.source())
	list.Append(found)
	list.Sort()
	if err := a.showFindings(list, src); err != nil {
		return err
	}
	tests, err := o.chosen(outline.Tests, s.Namespace)
	if err != nil {
		return err
	}
	mocks, err := a.mocks(o, outline)
	if err != nil {
		return err
	}
	data := a.Stdout
	if o.json || o.junit == app.StdinPath {
		data = a.Stderr
	}
	printed := newInOrder(tests, func(r *suite.Result) error { return r.Text(data, src.text, a.ColourOut) })
	began := time.Now()
	results, coverage := suite.Run(ctx, tests, suite.Options{
		Kinds: kinds, Outline: outline, Mocks: mocks, Timeout: o.timeout,
		Done: printed.done, Redact: engine.Redact,
	})
	took := time.Since(began)
	if err := printed.err; err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if err := o.writeRecordings(ctx, mocks); err != nil {
		return err
	}
	return errors.Join(a.reportTests(o, src, tests, results, coverage, took), ctx.Err())
}

func (o *testOptions) chosen(all []uniflow.Test, namespace string) (tests []uniflow.Test, err error) {
	var names []string
	for _, t := range all {
		if o.only && t.Node.Namespace != namespace {
			continue
		}
		names = append(names, suite.Name(t))
		if o.match == nil || o.match.MatchString(suite.Name(t)) {
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

func (a commands) mocks(o *testOptions, outline uniflow.Outline) ([]*suite.Mock, error) {
	var mocks []*suite.Mock
	languages := builtin.Languages(a.worker()...)
	for _, pair := range o.mocks {
		name, file, ok := strings.Cut(pair, "=")
		if !ok || name == "" || file == "" {
			return nil, app.Usagef(o.command, "write --mock NAME=FILE", "--mock takes NAME=FILE, got %q", pair)
		}
		if !suite.IsRecording(file) && !languages.Has(lang.OfExtension(filepath.Ext(file))) {
			return nil, app.Usagef(o.command, "name the file .js, .ts, .cel, .json, .yaml, .txt or .jsonl", "--mock %s: %s does not have the extension of a language", name, file)
		}
		code, err := readMock(file)
		if errors.Is(err, fs.ErrNotExist) && suite.IsRecording(file) {
			if !o.update {
				return nil, app.Usagef(o.command, "--update records it", "--mock %s: %w", name, err)
			}
			err = nil
		}
		if err != nil {
			return nil, app.Usagef(o.command, "", "--mock %s: %w", name, err)
		}
		m, err := suite.NewMock(name, file, code, languages)
		if err != nil {
			list := asFindings(err)
			if err := diag.Render(a.Stderr, list, func(string) []byte { return code }, a.ColourErr); err != nil {
				return nil, err
			}
			return nil, app.ErrFindings()
		}
		if o.update && suite.IsRecording(file) {
			m.Record(o.match != nil) // the tests that do not run need what they have
		}
		mocks = append(mocks, m)
	}
	return mocks, o.checkMocks(mocks, outline)
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
func (o *testOptions) writeRecordings(ctx context.Context, mocks []*suite.Mock) error {
	for _, m := range mocks {
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

// checkMocks refuses mocks of what does not exist, of tests, and of what another mock
// replaces.
func (o *testOptions) checkMocks(mocks []*suite.Mock, outline uniflow.Outline) error {
	by := make(map[int]*suite.Mock) // which mock a node is for
	for _, m := range mocks {
		found := false
		var names []string
		for i, ref := range outline.Nodes {
			switch {
			case !m.Replaces(ref):
				names = append(names, ref.Name, ref.Namespace+"/"+ref.Name)
			case slices.ContainsFunc(outline.Tests, func(t uniflow.Test) bool { return t.Node.ID == ref.ID }):
				return app.Usagef(o.command, "name a node that the test leads to", "--mock: %q is a test", m.Node)
			case by[i] != nil:
				return app.Usagef(o.command, "leave one of them out", "--mock %s=%s and --mock %s=%s replace the same node", by[i].Node, by[i].File, m.Node, m.File)
			default:
				by[i], found = m, true
			}
		}
		if !found {
			return app.Usagef(o.command, mockHint(m.Node, names, outline.Nodes), "--mock: there is no node %q", m.Node)
		}
	}
	for i := range outline.Nodes {
		for outer := outline.Outer[i]; by[i] != nil && outer >= 0; outer = outline.Outer[outer] {
			if graph := by[outer]; graph != nil && !graph.Records() {
				return app.Usagef(o.command, "leave one of them out", "--mock %s=%s is for a node in %s, all of which --mock %s=%s replaces",
					by[i].Node, by[i].File, outline.Nodes[outer], graph.Node, graph.File)
			}
		}
	}
	return nil
}

// mockHint says what may have been meant by the name of a node.
func mockHint(name string, names []string, nodes []node.Ref) string {
	if i := slices.IndexFunc(nodes, func(ref node.Ref) bool { return ref.Kind == name && ref.Name != "" }); i >= 0 {
		return "it is the kind of the node " + nodes[i].Name
	}
	return app.DidYouMean(name, names, "")
}

// reportTests prints what a run of tests has found.
func (a commands) reportTests(o *testOptions, src *sources, tests []uniflow.Test, results []*suite.Result, coverage *suite.Coverage, took time.Duration) error {
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
	report := suite.NewReport(results, len(tests), took)
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
	summary := fmt.Sprintf("%s: %d passed, %d failed", show.Count(int64(len(tests)), "test"), passed, failed)
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
	at      map[string]int // indexes of tests by id
	results []*suite.Result
	next    int
	err     error // the first of print
}

func newInOrder(tests []uniflow.Test, print func(*suite.Result) error) *inOrder {
	p := &inOrder{print: print, at: make(map[string]int, len(tests)), results: make([]*suite.Result, len(tests))}
	for i, t := range tests {
		p.at[t.Node.ID] = i
	}
	return p
}

func (p *inOrder) done(r *suite.Result) {
	p.results[p.at[r.Test.Node.ID]] = r
	for p.next < len(p.results) && p.results[p.next] != nil {
		if err := p.print(p.results[p.next]); err != nil && p.err == nil {
			p.err = err
		}
		p.next++
	}
}
