package flow

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/spec"
)

type document = spec.Document

// A reading says which documents to read. It can be read again: it keeps standard
// input.
type reading struct {
	specPaths, valuePaths []string
	plugins               []string // folders with kinds
	environment           map[string]string
	process               []string // the environment of the process, for references of values
	stdin                 []byte
	flagged               flagged
}

// flagged says what the command line gives: it comes before what tests bring, and that before
// the environment of the process and the config file.
type flagged struct{ environment, values bool }

// newReading checks the settings, and reads standard input if they name it.
func newReading(command string, s *settings.Settings, a *app.App) (*reading, error) {
	if err := checkLanguage(command, s.Language); err != nil {
		return nil, err
	}
	r := &reading{specPaths: s.Specs, valuePaths: s.Values, plugins: s.Plugins, process: a.Environment(), environment: make(map[string]string, len(s.Environment)),
		flagged: flagged{s.Given(settings.Environment), s.Given(settings.FromValues)}}
	for _, pair := range s.Environment {
		key, text, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, app.Usagef(command, "write --environment KEY=VALUE", "--environment takes KEY=VALUE, got %q without \"=\"", key)
		}
		r.environment[key] = text
	}
	uses := 0
	for _, path := range append(append([]string{}, r.specPaths...), r.valuePaths...) {
		if path == app.StdinPath {
			uses++
		}
	}
	if uses == 0 {
		return r, nil
	}
	if uses > 1 {
		return nil, app.Usagef(command, "", "standard input can be read once, but \"-\" is there %d times", uses)
	}
	data, err := io.ReadAll(io.LimitReader(a.Stdin, spec.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	r.stdin = data
	return r, nil
}

// sources are the documents of one reading.
type sources struct {
	specs, values []document
	environment   map[string]string
	flagged       flagged
	sum           [sha256.Size]byte // of what was read, and of the errors
}

// read reads all documents. The list says which could not be read. A values file in a folder of
// specs is not read as specs.
func (r *reading) read() (*sources, diag.List, error) {
	s := &sources{environment: r.environment, flagged: r.flagged}
	var list diag.List
	var err error
	if s.specs, err = documents(&list)(spec.Read(r.specPaths, bytes.NewReader(r.stdin))); err != nil {
		return nil, nil, err
	}
	if s.values, err = documents(&list)(spec.ReadValues(r.valuePaths, bytes.NewReader(r.stdin), r.process)); err != nil {
		return nil, nil, err
	}
	s.specs = slices.DeleteFunc(s.specs, func(doc document) bool {
		return holds(s.values, doc.File) && !slices.ContainsFunc(r.specPaths, func(path string) bool { return sameFile(path, doc.File) })
	})
	kinds, err := documents(&list)(readPlugins(r.plugins))
	if err != nil {
		return nil, nil, err
	}
	s.specs = append(slices.DeleteFunc(s.specs, func(doc document) bool { return holds(kinds, doc.File) }), kinds...)
	h := sha256.New()
	for _, docs := range [][]document{s.specs, s.values} {
		addSum(h, []byte(fmt.Sprint(len(docs))))
		for _, doc := range docs {
			addSum(h, []byte(doc.File))
			addSum(h, doc.Data)
			for _, text := range slices.Sorted(maps.Keys(doc.References)) {
				to := doc.References[text]
				addSum(h, []byte(text))
				addSum(h, to.Data)
				addSum(h, []byte(fmt.Sprint(to.Err)))
			}
		}
	}
	addSum(h, []byte(list.Error()))
	h.Sum(s.sum[:0])
	return s, list, nil
}

func holds(docs []document, file string) bool {
	return slices.ContainsFunc(docs, func(doc document) bool { return sameFile(doc.File, file) })
}

func sameFile(a, b string) bool {
	if filepath.IsAbs(a) == filepath.IsAbs(b) {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}

func addSum(h hash.Hash, part []byte) {
	fmt.Fprintf(h, "%d:", len(part))
	h.Write(part)
}

// documents adds the findings of a reading to a list.
func documents(list *diag.List) func([]document, error) ([]document, error) {
	return func(docs []document, err error) ([]document, error) {
		var found diag.List
		if err != nil && !errors.As(err, &found) {
			return nil, err
		}
		list.Append(found)
		return docs, nil
	}
}

// referred returns the files that references in values files lead to.
func (s *sources) referred() (paths []string) {
	for _, doc := range s.values {
		for _, to := range doc.References {
			if to.Path != "" {
				paths = append(paths, to.Path)
			}
		}
	}
	return paths
}

// source returns the documents for an engine.
func (s *sources) source() uniflow.Source {
	return uniflow.Source{Documents: s.specs, Variables: s.values, Environment: s.environment}
}

// elsewhere returns a hint for a namespace without nodes, such as which others there are.
// It is empty for one with nodes.
func (s *sources) elsewhere(namespace string) string {
	others := make(map[string]bool)
	for _, doc := range s.specs {
		parsed, _ := spec.Parse(doc, spec.ParseOptions{Namespace: namespace}) // the engine reports the errors
		for _, n := range parsed {
			if n.Namespace == namespace {
				return ""
			}
			others[n.Namespace] = true
		}
	}
	names := slices.Sorted(maps.Keys(others))
	if len(names) == 0 {
		return "the documents have no specs"
	}
	return fmt.Sprintf("the nodes are in other namespaces (%s): choose with --namespace %s", strings.Join(names[:min(len(names), 20)], ", "), names[0])
}

// A workflow is documents that belong together.
type workflow struct {
	*sources
	nodes int // of the checked namespaces
}

// workflows groups documents as [spec.Group] does. Nodes without a namespace are in the given one.
// If only is set, nodes of other namespaces are not counted.
func (s *sources) workflows(namespace string, only, joined bool, templates func(string) bool) []workflow {
	parsed := make([][]*spec.Node, len(s.specs))
	for i, doc := range s.specs {
		parsed[i], _ = spec.Parse(doc, spec.ParseOptions{Namespace: namespace}) // the engine reports the errors
	}
	var all []workflow
	for _, group := range spec.Group(parsed, joined, templates) {
		w := workflow{sources: &sources{values: s.values, environment: s.environment, flagged: s.flagged}}
		for _, i := range group {
			w.specs = append(w.specs, s.specs[i])
			for _, n := range parsed[i] {
				if !only || n.Namespace == namespace {
					w.nodes++
				}
			}
		}
		all = append(all, w)
	}
	return all
}

// showFindings writes findings on standard error, and returns an error if one of them is.
func (a commands) showFindings(list diag.List, src *sources) error {
	if err := render(a.Stderr, list, src, a.ColourErr); err != nil {
		return err
	}
	if list.HasErrors() {
		return app.ErrFindings()
	}
	return nil
}

// render writes findings as text, with the lines of the documents.
func render(w io.Writer, list diag.List, src *sources, colour bool) error {
	return diag.Render(w, list, src.text, colour)
}

// text returns the text of a file that a finding is about: as it was read, or as
// it is now for files that documents import.
func (s *sources) text(file string) []byte {
	for _, docs := range [][]document{s.specs, s.values} {
		for _, doc := range docs {
			if doc.File == file {
				return doc.Data
			}
		}
	}
	docs, err := spec.Read([]string{file}, nil)
	if err != nil || len(docs) != 1 {
		return nil // then the finding is shown without its line
	}
	return docs[0].Data
}

// An overview is what documents are compiled to.
type overview struct {
	*sources
	outlines []uniflow.Outline // of each workflow
	redact   func(string) string
}

// overview compiles the documents of the settings: those of arguments as the workflows that they are, the
// others as one. A variable that nothing else binds has the value that a test brings. If a finding is an
// error, all are shown.
func (a commands) overview(cmd *cobra.Command, s *settings.Settings, joined bool) (*overview, error) {
	r, err := newReading(cmd.CommandPath(), s, a.App)
	if err != nil {
		return nil, err
	}
	src, list, err := r.read()
	if err != nil {
		return nil, err
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: a.kinds(s.Language), Namespace: s.Namespace})
	if err != nil {
		return nil, err
	}
	o := &overview{sources: src, redact: engine.Redact}
	for _, w := range src.workflows(s.Namespace, false, joined, a.templates()) {
		source := w.source()
		brought, _ := engine.TestValues(source) // Outline reports what is wrong
		source.Values = w.fallback(brought)
		outline, found := engine.Outline(source)
		list.Append(found)
		o.outlines = append(o.outlines, outline)
	}
	if err := engine.Shutdown(cmd.Context()); err != nil {
		return nil, err
	}
	if list.HasErrors() {
		list.Sort()
		return nil, a.showFindings(distinct(list), src)
	}
	return o, nil
}
