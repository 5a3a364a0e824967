package flow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/suite"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A planner finds the tests of workflows, and what each is run with: its own values and
// mocks, and before these what the command line gives. Test and check use it.
type planner struct {
	commands
	command   string
	engine    *uniflow.Engine // with Whole; the caller shuts it down
	languages *lang.Set

	update bool                   // recordings are made: their files may be missing
	keep   bool                   // a recording that is made keeps what it has
	given  []*suite.Mock          // of the command line
	made   map[string]*suite.Mock // of tests, by node and file
	read   []string               // the files of mocks, found or not
}

func (a commands) newPlanner(command string, s *settings.Settings) (*planner, error) {
	engine, err := uniflow.New(uniflow.Options{Kinds: a.kinds(s.Language), Namespace: s.Namespace, Whole: true, Memory: checkMemory})
	if err != nil {
		return nil, err
	}
	return &planner{
		commands: a, command: command, engine: engine, languages: builtin.Languages(a.worker()...),
		made: make(map[string]*suite.Mock),
	}, nil
}

func (p *planner) close(ctx context.Context) error {
	return p.engine.Shutdown(context.WithoutCancel(ctx))
} // it serves nothing

// cases returns the tests of a workflow. Documents without a test are read, and not compiled.
func (p *planner) cases(number int, src *sources) (cases []suite.Case, list diag.List) {
	brought, unread := p.engine.TestValues(src.source())
	if len(brought) == 0 {
		return nil, unread
	}
	type compiled struct {
		outline uniflow.Outline
		rounds  map[string]*suite.Round // by mocks
	}
	byValues := make(map[string]*compiled)
	outline := func(of map[string]value.Value) *compiled {
		values := src.testValues(of)
		key := fmt.Sprint(sortedValues(values))
		if c := byValues[key]; c != nil {
			return c
		}
		source := src.source()
		source.Values = values
		made, found := p.engine.Outline(source)
		list.Append(found)
		byValues[key] = &compiled{made, make(map[string]*suite.Round)}
		return byValues[key]
	}
	for _, values := range brought {
		outline(values)
	}
	// The same test has the same index in each.
	tests := outline(brought[0]).outline.Tests
	for i, t := range tests {
		c := outline(t.Values)
		if list.HasErrors() {
			break
		}
		t = c.outline.Tests[i]
		mocks, found := p.mocks(t, c.outline)
		list.Append(found)
		key := ""
		for _, m := range mocks {
			key += fmt.Sprintf(" %p", m)
		}
		if c.rounds[key] == nil {
			c.rounds[key] = &suite.Round{Outline: c.outline, Mocks: mocks, Workflow: number}
		}
		cases = append(cases, suite.Case{Test: t, Round: c.rounds[key]})
	}
	list = distinct(list)
	if list.HasErrors() {
		return nil, list
	}
	return cases, list
}

// distinct returns findings once each: those of one document come again with other values.
func distinct(list diag.List) (all diag.List) {
	seen := make(map[string]bool)
	for _, d := range list {
		if key := d.Error(); !seen[key] {
			seen[key] = true
			all.Add(d)
		}
	}
	return all
}

// testValues returns what a test binds: what it brings, except for what the command line does.
func (s *sources) testValues(brought map[string]value.Value) map[string]value.Value {
	return without(brought, s.flagged.environment, s.flagged.values, s)
}

// fallback returns what check binds: of what tests bring, what nothing else does.
func (s *sources) fallback(brought []map[string]value.Value) map[string]value.Value {
	all := make(map[string]value.Value)
	for _, values := range slices.Backward(brought) { // the first test counts
		for name, v := range values {
			all[name] = v
		}
	}
	return without(all, true, true, s)
}

// without returns values without those of the environment, and of variables.
func without(values map[string]value.Value, environment, variables bool, s *sources) map[string]value.Value {
	bound := make(map[string]bool)
	for name := range s.environment {
		bound[name] = environment
	}
	if variables && len(values) > 0 {
		for _, doc := range s.values {
			parsed, _ := spec.ParseVariables(doc) // the engine reports the errors
			for _, v := range parsed {
				bound[v.Name] = true
			}
		}
	}
	rest := make(map[string]value.Value)
	for name, v := range values {
		if !bound[name] {
			rest[name] = v
		}
	}
	return rest
}

func sortedValues(values map[string]value.Value) (pairs []string) {
	for name, v := range values {
		pairs = append(pairs, fmt.Sprintf("%q=%s:%q", name, v.Kind(), v))
	}
	slices.Sort(pairs)
	return pairs
}

// mocks returns the mocks of a test, those of the command line first.
func (p *planner) mocks(t uniflow.Test, outline uniflow.Outline) (mocks []*suite.Mock, list diag.List) {
	report := func(m *suite.Mock, hint, text string) {
		d := diag.Errorf(diag.CodeBadValue, "%s", text)
		d.Hint, d.Node = hint, t.Node.String()
		list.Add(d.At(m.Pos, "mocks"))
	}
	var own []*suite.Mock
	for _, written := range t.Mocks {
		m, hint, err := p.ownMock(t, written)
		var found diag.List
		switch {
		case err == nil:
			own = append(own, m)
		case errors.As(err, &found) || errors.As(err, new(*diag.Diagnostic)):
			list.Append(asFindings(err))
		default:
			report(&suite.Mock{Pos: written.Pos}, hint, err.Error())
		}
	}
	elsewhere := func(ref node.Ref) bool { return ref.Namespace != t.Node.Namespace }
	found := conflicts(own, outline, elsewhere, report)
	for _, m := range own {
		if !found[m] {
			names := namesOf(outline.Nodes, elsewhere)
			report(m, mockHint(m.Node, names, outline.Nodes), fmt.Sprintf("there is no node %q", m.Node))
		}
	}
	for _, m := range p.given {
		if slices.ContainsFunc(outline.Nodes, m.Replaces) {
			mocks = append(mocks, m)
		}
	}
	given := mocks
	for _, m := range own {
		if !overridden(m, given, outline) {
			mocks = append(mocks, m)
		}
	}
	return mocks, list
}

// ownMock returns what a test has among its mocks. Tests that name the same file share it, as a
// run may record it.
func (p *planner) ownMock(t uniflow.Test, written node.TestMock) (m *suite.Mock, hint string, err error) {
	if written.File == "" {
		m, err = suite.NewInlineMock(written, p.languages)
		return m, "", err
	}
	file := written.File
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(written.Pos.File), file)
	}
	key := written.Node + "\x00" + file
	if m := p.made[key]; m != nil {
		return m, "", nil
	}
	if m, hint, err = p.mock(written.Node, file); err == nil {
		m.Pos = written.Pos
		p.made[key] = m
	}
	return m, hint, err
}

// mock reads a mock from a file. What is wrong with the code is a list of findings.
func (p *planner) mock(name, file string) (m *suite.Mock, hint string, err error) {
	if !suite.IsRecording(file) && !p.languages.Has(lang.OfExtension(filepath.Ext(file))) {
		return nil, "name the file .js, .ts, .cel, .json, .yaml, .txt or .jsonl", fmt.Errorf("%s does not have the extension of a language", file)
	}
	p.read = append(p.read, file)
	code, err := readMock(file)
	if errors.Is(err, fs.ErrNotExist) && suite.IsRecording(file) {
		if !p.update {
			return nil, "--update records it", err
		}
		err = nil
	}
	if err != nil {
		return nil, "", err
	}
	if m, err = suite.NewMock(name, file, code, p.languages); err != nil {
		return nil, "", asFindings(err)
	}
	if p.update && suite.IsRecording(file) {
		m.Record(p.keep)
	}
	return m, "", nil
}

// conflicts reports mocks of tests, and of what another mock replaces, and returns which of
// them have a node. Nodes that are skipped are as if they were not there.
func conflicts(mocks []*suite.Mock, outline uniflow.Outline, skip func(node.Ref) bool, report func(m *suite.Mock, hint, text string)) map[*suite.Mock]bool {
	found := make(map[*suite.Mock]bool)
	by := make(map[int]*suite.Mock) // which mock a node is for
	for i, ref := range outline.Nodes {
		for _, m := range mocks {
			if skip(ref) || !m.Replaces(ref) {
				continue
			}
			found[m] = true
			switch {
			case slices.ContainsFunc(outline.Tests, func(t uniflow.Test) bool { return t.Node.ID == ref.ID }):
				report(m, "name a node that the test leads to", fmt.Sprintf("%q is a test", m.Node))
			case by[i] != nil:
				report(m, "leave one of them out", fmt.Sprintf("%s and %s replace the same node", label(by[i]), label(m)))
			default:
				by[i] = m
			}
		}
		for outer := outline.Outer[i]; by[i] != nil && outer >= 0; outer = outline.Outer[outer] {
			if graph := by[outer]; graph != nil && !graph.Records() {
				report(by[i], "leave one of them out", fmt.Sprintf("%s is for a node in %s, all of which %s replaces", label(by[i]), outline.Nodes[outer], label(graph)))
			}
		}
	}
	return found
}

// label says which mock is meant.
func label(m *suite.Mock) string {
	if m.Pos.IsValid() {
		return "the mock of " + m.Node
	}
	return "--mock " + m.Node + "=" + m.File
}

// overridden reports whether the command line has a mock for what a mock of a test replaces, or
// for a node in it.
func overridden(m *suite.Mock, given []*suite.Mock, outline uniflow.Outline) bool {
	for i := range outline.Nodes {
		if !slices.ContainsFunc(given, func(g *suite.Mock) bool { return g.Replaces(outline.Nodes[i]) }) {
			continue
		}
		for at := i; at >= 0; at = outline.Outer[at] {
			if m.Replaces(outline.Nodes[at]) {
				return true
			}
		}
	}
	return false
}

func namesOf(nodes []node.Ref, skip func(node.Ref) bool) (names []string) {
	for _, ref := range nodes {
		if !skip(ref) && ref.Name != "" {
			names = append(names, ref.Name, ref.Namespace+"/"+ref.Name)
		}
	}
	return names
}

// readGiven reads the mocks of the command line: each NAME=FILE.
func (p *planner) readGiven(pairs []string) error {
	for _, pair := range pairs {
		name, file, ok := strings.Cut(pair, "=")
		if !ok || name == "" || file == "" {
			return app.Usagef(p.command, "write --mock NAME=FILE", "--mock takes NAME=FILE, got %q", pair)
		}
		m, hint, err := p.mock(name, file)
		var list diag.List
		if errors.As(err, &list) {
			if err := diag.Render(p.Stderr, list, (&sources{}).text, p.ColourErr); err != nil {
				return err
			}
			return app.ErrFindings()
		}
		if err != nil {
			return app.Usagef(p.command, hint, "--mock %s: %w", name, err)
		}
		p.given = append(p.given, m)
	}
	return nil
}

// checkGiven refuses mocks of the command line that no workflow can use.
func (p *planner) checkGiven(outlines []uniflow.Outline) (err error) {
	found := make(map[*suite.Mock]bool)
	var names []string
	var nodes []node.Ref
	all := func(node.Ref) bool { return false }
	for _, outline := range outlines {
		names, nodes = append(names, namesOf(outline.Nodes, all)...), append(nodes, outline.Nodes...)
		for m := range conflicts(p.given, outline, all, func(m *suite.Mock, hint, text string) {
			if err == nil {
				err = app.Usagef(p.command, hint, "%s", text)
			}
		}) {
			found[m] = true
		}
	}
	for _, m := range p.given {
		if err == nil && !found[m] {
			err = app.Usagef(p.command, mockHint(m.Node, names, nodes), "--mock: there is no node %q", m.Node)
		}
	}
	return err
}

// mockHint says what may have been meant by the name of a node.
func mockHint(name string, names []string, nodes []node.Ref) string {
	if i := slices.IndexFunc(nodes, func(ref node.Ref) bool { return ref.Kind == name && ref.Name != "" }); i >= 0 {
		return "it is the kind of the node " + nodes[i].Name
	}
	return app.DidYouMean(name, names, "")
}
