package language

import (
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
)

// A Finding is a finding with the part of the document that it is about.
type Finding struct {
	*diag.Diagnostic
	Range
}

// Check returns the findings of the workflow that a document belongs to, by file: each file of the
// workflow is there, also one without findings. It takes as long as uniflow check, and others may use the
// workspace meanwhile.
func (w *Workspace) Check(file string) map[string][]Finding {
	w.mu.Lock()
	var docs []spec.Document
	texts := make(map[string]*text)
	for _, t := range w.workflow(file, w.parse) {
		docs = append(docs, t.Document)
		texts[t.File] = &text{Document: t.Document}
	}
	names := w.names(file)
	w.mu.Unlock()
	found := make(map[string][]Finding)
	for _, doc := range docs {
		found[doc.File] = nil
	}
	if len(docs) == 0 {
		return found
	}
	for _, f := range placed(w.opts.Check(docs), texts, names) {
		if texts[f.Pos.File] == nil {
			continue
		}
		found[f.Pos.File] = append(found[f.Pos.File], f)
	}
	return found
}

// Place finds the parts of documents that findings are about. Those that are about no document are left
// as they are.
func (w *Workspace) Place(list diag.List) []Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return placed(list, w.texts, nil)
}

// placed finds the parts of documents that findings are about. names are what a link can name.
func placed(list diag.List, texts map[string]*text, names []string) (all []Finding) {
	for _, d := range list {
		t := texts[d.Pos.File]
		if t == nil { // of a values file, or of what a document imports
			all = append(all, Finding{d, Range{d.Pos, d.Pos}})
			continue
		}
		r := t.extent(d.Pos)
		if d.Code == diag.CodeUnknownTarget && d.Fix == nil { // the check knows this workflow alone
			near := *d
			if near.Suggest(t.part(r), names) {
				d = &near
			}
		}
		if d.Fix != nil {
			if exact, ok := t.stands(d.Pos, d.Fix.Old); ok {
				r = exact
			}
		}
		all = append(all, Finding{d, r})
	}
	return all
}

// names returns the names of the nodes that a file can link to.
func (w *Workspace) names(file string) (all []string) {
	for _, t := range w.related(file, w.parse) {
		for _, n := range w.parse(t) {
			if n.Outer == nil && n.Name != "" {
				all = append(all, n.Name)
			}
		}
	}
	return all
}

// part returns the text of a range within a line.
func (t *text) part(r Range) string {
	line := []rune(t.src().Line(r.From.Line))
	return string(line[min(r.From.Col-1, len(line)):min(r.To.Col-1, len(line))])
}

// extent returns the word at a place; the rest of the line where there is none.
func (t *text) extent(at diag.Pos) Range {
	if !at.IsValid() {
		return Range{t.pos(1, 1), t.pos(1, 1)}
	}
	at = t.pos(at.Line, max(1, at.Col))
	line := []rune(t.src().Line(at.Line))
	from := min(at.Col-1, len(line))
	rest := string(line[from:])
	length := len(rest)
	switch {
	case rest == "":
	case rest[0] == '"' || rest[0] == '\'':
		if i := strings.IndexByte(rest[1:], rest[0]); i >= 0 {
			length = i + 2
		}
	default:
		begin := len(rest) - len(strings.TrimLeft(rest, "{[- "))
		if _, to := wordAt(rest, begin); to > begin {
			length = to
		}
	}
	return Range{t.pos(at.Line, from+1), t.pos(at.Line, from+1+runes(rest[:length]))}
}

// An Action is a change that puts a finding right.
type Action struct {
	Title   string
	Edits   []Edit
	Finding *Finding // nil for one about the whole document
}

// Actions returns the changes that put findings right: the words that were meant, and the current form in
// place of the older.
func (w *Workspace) Actions(file string, findings []Finding) (all []Action) {
	w.mu.Lock()
	t := w.texts[file]
	w.mu.Unlock()
	if t == nil {
		return nil
	}
	older := false
	for i, f := range findings {
		older = older || f.Code == diag.CodeOlderForm
		if f.Fix == nil {
			continue
		}
		fresh := &text{Document: t.Document}
		if r, ok := fresh.stands(f.Pos, f.Fix.Old); ok {
			w.mu.Lock()
			edit := Edit{r, w.quoted(r, f.Fix.New)}
			w.mu.Unlock()
			all = append(all, Action{"Write " + f.Fix.New + " in place of " + f.Fix.Old, []Edit{edit}, &findings[i]})
		}
	}
	if older {
		if edits, list := w.Format(file); len(edits) > 0 && !list.HasErrors() {
			all = append(all, Action{"Write the document in its current form", edits, nil})
		}
	}
	return all
}

// Format returns the edits that write a document in its canonical form: none if it is, or if it cannot be
// read, which the list then says.
func (w *Workspace) Format(file string) ([]Edit, diag.List) {
	w.mu.Lock()
	t := w.texts[file]
	w.mu.Unlock()
	if t == nil {
		return nil, nil
	}
	formatted, list := spec.Format(t.Document)
	if list.HasErrors() || string(formatted) == string(t.Data) {
		return nil, list
	}
	src := (&text{Document: t.Document}).src()
	last := len(src.Lines)
	return []Edit{{Range{t.pos(1, 1), t.pos(last, runes(src.Line(last))+1)}, string(formatted)}}, nil
}

// A Test is a node of a document that tests the workflow.
type Test struct {
	Name  string // NAMESPACE/NAME
	Range        // of its kind
}

// Tests returns the tests in a document.
func (w *Workspace) Tests(file string) (all []Test) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.texts[file]
	if t == nil {
		return nil
	}
	for _, n := range w.parse(t) {
		if def, ok := w.kinds.Kind(n.Kind); ok && def.Role.Has(node.Tests) && n.Name != "" {
			all = append(all, Test{n.Namespace + "/" + n.Name, t.extent(n.KindPos)})
		}
	}
	slices.SortFunc(all, func(a, b Test) int { return a.From.Line - b.From.Line })
	return all
}
