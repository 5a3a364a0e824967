// Package language answers what an editor asks about workflow documents: what is wrong and how to put it
// right, what can be written here, what stands here, where a name comes from and where it is used.
//
// Read [Workspace] first. A half-written document is read around the cursor, see spot.go; what can be
// written there comes from the JSON Schema of documents, see schema.go; what names mean across documents is
// in names.go. Nothing is opened, and no document is changed: an [Edit] is for the caller to make.
//
// The package must not know protocols of editors, nor where documents come from.
package language

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/expand"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
)

// Options are what a workspace knows besides its documents.
type Options struct {
	Kinds     []*node.Def
	Namespace string // of specs without one

	// Check returns the findings of the documents of one workflow. It is called without a lock, by [Workspace.Check] alone.
	Check func([]spec.Document) diag.List

	// Variables returns the variables that env can name. It may be nil.
	Variables func() []*spec.Variable
}

// A Workspace is documents as they are in an editor. It is safe for concurrent use.
type Workspace struct {
	opts   Options
	kinds  *registry.Registry
	schema func() *grammar

	mu    sync.Mutex
	texts map[string]*text
}

// New returns a workspace without documents.
func New(opts Options) (*Workspace, error) {
	kinds, err := registry.New(opts.Kinds)
	if err != nil {
		return nil, err
	}
	if opts.Variables == nil {
		opts.Variables = func() []*spec.Variable { return nil }
	}
	opts.Namespace = cmp.Or(opts.Namespace, "default")
	return &Workspace{
		opts: opts, kinds: kinds, texts: make(map[string]*text),
		schema: sync.OnceValue(func() *grammar { return newGrammar(opts.Kinds) }),
	}, nil
}

// With returns a workspace that has only some documents, and knows what w knows besides.
func (w *Workspace) With(docs []spec.Document) *Workspace {
	other := &Workspace{opts: w.opts, kinds: w.kinds, schema: w.schema, texts: make(map[string]*text)}
	for _, doc := range docs {
		other.Set(doc)
	}
	return other
}

// Set adds a document, or replaces the one of the same file.
func (w *Workspace) Set(doc spec.Document) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &text{Document: doc}
	if before := w.texts[doc.File]; before != nil {
		t.last, t.templates = before.nodes, before.templates
		if !before.read {
			t.last = before.last
		}
	}
	w.texts[doc.File] = t
}

// Remove forgets a document.
func (w *Workspace) Remove(file string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.texts, file)
}

// Files returns the files of all documents, sorted.
func (w *Workspace) Files() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return sortedFiles(w.texts)
}

// Workflow returns the files of the workflow that a document belongs to.
func (w *Workspace) Workflow(file string) (files []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.workflow(file, w.known) {
		files = append(files, t.File)
	}
	return files
}

// A Range is a part of a document, from a place to before another in the same file.
type Range struct{ From, To diag.Pos }

// holds reports whether a place is in the range or at its end.
func (r Range) holds(at diag.Pos) bool {
	return r.From.File == at.File && !before(at, r.From) && !before(r.To, at)
}

// before reports whether a stands before b in their document.
func before(a, b diag.Pos) bool {
	return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col
}

// An Edit puts a text in the place of a part of a document.
type Edit struct {
	Range
	Text string
}

// Apply returns the documents that edits change, as they are then, by name. Edits must not overlap.
func (w *Workspace) Apply(edits []Edit) (docs []spec.Document) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edits = slices.Clone(edits)
	slices.SortFunc(edits, func(a, b Edit) int { // the last of each document first
		return cmp.Or(strings.Compare(a.From.File, b.From.File), cmp.Compare(b.From.Line, a.From.Line), cmp.Compare(b.From.Col, a.From.Col))
	})
	for _, e := range edits {
		t := w.texts[e.From.File]
		if len(docs) == 0 || docs[len(docs)-1].File != t.File {
			docs = append(docs, spec.Document{File: t.File, Data: t.Data})
		}
		src := t.src()
		from, to := src.Offset(e.From.Line, e.From.Col), src.Offset(e.To.Line, e.To.Col)
		at := &docs[len(docs)-1]
		at.Data = slices.Concat(at.Data[:from], []byte(e.Text), at.Data[to:])
	}
	return docs
}

// A text is a document with what is known of it.
type text struct {
	spec.Document
	source    *doctree.Source
	nodes     []*spec.Node // with those of sub-graphs, and the bodies of templates
	templates []*node.Def  // that it declares
	stale     bool         // the text cannot be read: nodes are those of the one before
	read      bool
	last      []*spec.Node // of the text before
}

// src returns the text by lines.
func (t *text) src() *doctree.Source {
	if t.source == nil {
		t.source = doctree.New(t.File, t.Data, doctree.Limits{Size: yamltree.MaxSize, Values: 1 << 20})
	}
	return t.source
}

// parse reads the nodes once. Those of a text that cannot be read are those of the one before.
func (w *Workspace) parse(t *text) []*spec.Node {
	if t.read {
		return t.nodes
	}
	t.read = true
	parsed, list := spec.Parse(t.Document, spec.ParseOptions{Namespace: w.opts.Namespace})
	specs, _ := expand.Subgraphs(parsed, w.kinds) // the check reports what is wrong
	t.nodes = append(specs.Nodes, specs.Bodies...)
	templates := t.templates
	t.templates = nil
	for _, def := range specs.Kinds.All() {
		if _, ok := w.kinds.Kind(def.Kind); !ok {
			t.templates = append(t.templates, def)
		}
	}
	t.stale = spec.Unreadable(list)
	if t.stale && t.last != nil {
		t.nodes, t.templates = t.last, templates
	}
	t.last = nil
	return t.nodes
}

// known returns the nodes of a text as they were read last, which may be those of the text before: a large
// document is not read again for each key.
func (w *Workspace) known(t *text) []*spec.Node {
	if !t.read && t.last != nil {
		return t.last
	}
	return w.parse(t)
}

// workflow returns the documents of the workflow that a file belongs to, by file. nodes are [Workspace.parse]
// or [Workspace.known].
func (w *Workspace) workflow(file string, nodes func(*text) []*spec.Node) []*text {
	files := sortedFiles(w.texts)
	parsed := make([][]*spec.Node, len(files))
	for i, f := range files {
		parsed[i] = nodes(w.texts[f])
	}
	at, found := slices.BinarySearch(files, file)
	if !found {
		return nil
	}
	var group []*text
	for _, members := range spec.Group(parsed, false, w.kinds.IsTemplate) {
		if slices.Contains(members, at) {
			for _, i := range members {
				group = append(group, w.texts[files[i]])
			}
		}
	}
	return group
}

// related returns the documents whose names a file can use: its own first, those of its workflow, and
// those of its folder, which it may link to next.
func (w *Workspace) related(file string, nodes func(*text) []*spec.Node) []*text {
	own := w.texts[file]
	if own == nil {
		return nil
	}
	all := []*text{own}
	add := func(t *text) {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	for _, t := range w.workflow(file, nodes) {
		add(t)
	}
	for _, f := range sortedFiles(w.texts) {
		if filepath.Dir(f) == filepath.Dir(file) {
			add(w.texts[f])
		}
	}
	return all
}

func sortedFiles(texts map[string]*text) []string {
	files := make([]string, 0, len(texts))
	for f := range texts {
		files = append(files, f)
	}
	slices.Sort(files)
	return files
}
