// Package edit changes the documents of a running program, for clients that show them: what there is,
// what a draft would change and what is wrong with it, and applying it or going back.
//
// Read [Service] first. A draft is a text in place of that of a file; nothing is kept of it here. A
// revision is all documents as they were once.
//
// Invariants: what is written is what the client has seen changed, or nothing ([ErrConflict]); a draft that
// cannot be served leaves the files as they were. Only who may control the program sees a document whole.
//
// The package must not know who asks, nor how documents are read, written and served.
package edit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/expand"
	"github.com/uniflow-labs/uniflow/internal/language"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// Limits of what is kept of former revisions.
const (
	maxRevisions = 100
	maxKept      = 16 << 20 // bytes
)

// Errors of a [Service].
var (
	ErrConflict = errors.New("the documents have changed since they were read")
	ErrReadOnly = errors.New("the program was started without --edit, so its documents cannot be changed here")
	ErrFile     = errors.New("the program has no such document")
	ErrRevision = errors.New("this revision is not kept any more")
	ErrSame     = errors.New("nothing is changed")
	ErrTests    = errors.New("no test can be run")
	ErrName     = errors.New("nothing is renamed")
)

// A Change is a file with its text before and after.
type Change struct {
	File          string
	Before, After []byte
}

// An Outcome is what came of a change.
type Outcome struct {
	Err        error     // why it is not served; nil if the findings say so, or if it is
	Findings   diag.List // if one is an error, the files are as before
	Generation int       // that serves now
}

// Options are what a service works with. Write, Test and Try may be nil.
type Options struct {
	Kinds     []*node.Def
	Namespace string
	Read      func() ([]spec.Document, error)         // the documents as they are now
	Check     func([]spec.Document) diag.List         // findings of a whole program; one call at a time
	Write     func(context.Context, []Change) Outcome // writes files and serves them, or restores them; nil for none

	// Test runs the tests in documents whose NAMESPACE/NAME match, as uniflow test does; an empty run
	// matches all. It is called only if Write is there.
	Test func(ctx context.Context, docs []spec.Document, run string) (Tests, error)

	// Try sends a packet through documents. Nothing outside changes but by nodes that are allowed. It is
	// called only if Write is there.
	Try func(context.Context, []spec.Document, Trial) (Tried, error)
}

// A Test is what came of one.
type Test struct {
	Name  string // NAMESPACE/NAME
	Pos   diag.Pos
	Took  time.Duration
	Error string // what failed, in lines; empty if it passed
}

// Tests are what came of a run.
type Tests struct {
	List         []Test
	Nodes, Links Share // that were used
}

// A Trial is a packet through a program that is not served.
type Trial struct {
	Node    string // NAME or NAMESPACE/NAME; a trigger stands for what it leads to
	Payload value.Value
	Pins    []Pin
	Allow   []string // the names of nodes that may change something outside
}

// A Pin is what a node answers in place of what it does.
type Pin struct {
	Node   string // likewise
	Answer value.Value
}

// Tried is what came of a trial.
type Tried struct {
	Answer   *value.Value // nil if there is none
	Failures diag.List    // of the drafts, or of the process
	Steps    []Step       // the last packets that were sent
	Skipped  int          // packets before these
	Log      string
	Took     time.Duration
}

// A Step is a packet that a node has sent.
type Step struct {
	From, Out string
	Named     bool     // From is the name of a node, which a pin can have
	To        []string // NODE.PORT
	Payload   value.Value
}

// A Share is how many of all.
type Share struct{ Used, Of int }

// A Service answers clients. It is safe for concurrent use.
type Service struct {
	opts  Options
	kinds *registry.Registry

	mu struct {
		sync.Mutex
		words     *language.Workspace // without documents: see workspace
		revisions []Revision          // the newest last
		kept      int                 // bytes of their documents
	}
	checking sync.Mutex
	trying   sync.Mutex // a trial may wait for long, and must not hold up a check
	applying sync.Mutex
}

// A Revision is all documents as they were once.
type Revision struct {
	ID        string
	Since     time.Time // it was read or applied
	Why       string    // what the author said; empty for one that was read
	Documents []spec.Document
}

// New returns a service.
func New(opts Options) (*Service, error) {
	kinds, err := registry.New(opts.Kinds)
	if err != nil {
		return nil, err
	}
	opts.Namespace = cmp.Or(opts.Namespace, "default")
	return &Service{opts: opts, kinds: kinds}, nil
}

// Editable reports whether documents can be changed.
func (s *Service) Editable() bool { return s.opts.Write != nil }

// idOf returns the revision of documents.
func idOf(docs []spec.Document) string {
	h := sha256.New()
	for _, doc := range docs {
		fmt.Fprintf(h, "%d:%s%d:", len(doc.File), doc.File, len(doc.Data))
		h.Write(doc.Data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Documents returns the documents as they are now.
func (s *Service) Documents() (Revision, error) {
	docs, err := s.opts.Read()
	if err != nil {
		return Revision{}, err
	}
	r := Revision{ID: idOf(docs), Since: time.Now(), Documents: docs}
	s.keep(r)
	return r, nil
}

// keep keeps a revision, if it is not the last one.
func (s *Service) keep(r Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.mu.revisions) - 1; last >= 0 && s.mu.revisions[last].ID == r.ID {
		if r.Why != "" {
			s.mu.revisions[last].Why = r.Why
		}
		return
	}
	s.mu.revisions = append(s.mu.revisions, r)
	s.mu.kept += r.size()
	for len(s.mu.revisions) > 1 && (len(s.mu.revisions) > maxRevisions || s.mu.kept > maxKept) {
		s.mu.kept -= s.mu.revisions[0].size()
		s.mu.revisions = slices.Delete(s.mu.revisions, 0, 1)
	}
}

func (r *Revision) size() (n int) {
	for _, doc := range r.Documents {
		n += len(doc.Data)
	}
	return n
}

// Revisions returns what is kept, the newest first.
func (s *Service) Revisions() []Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.mu.revisions)
	slices.Reverse(all)
	return all
}

// drafted returns documents with drafts in the place of files.
func drafted(docs, drafts []spec.Document) ([]spec.Document, error) {
	docs = slices.Clone(docs)
	for _, d := range drafts {
		i := slices.IndexFunc(docs, func(doc spec.Document) bool { return doc.File == d.File })
		if i < 0 {
			return nil, fmt.Errorf("%w: %s", ErrFile, d.File)
		}
		docs[i] = d
	}
	return docs, nil
}

// A Plan is what drafts would change.
type Plan struct {
	Revision string // that they were compared with
	Findings []language.Finding
	Changes  []spec.NodeChange // none while a document cannot be read
}

// Plan compares drafts with the documents, and checks them.
func (s *Service) Plan(drafts []spec.Document) (Plan, error) {
	now, err := s.Documents()
	if err != nil {
		return Plan{}, err
	}
	docs, err := drafted(now.Documents, drafts)
	if err != nil {
		return Plan{}, err
	}
	words, err := s.workspace(docs)
	if err != nil {
		return Plan{}, err
	}
	s.checking.Lock()
	list := s.opts.Check(docs)
	s.checking.Unlock()
	p := Plan{Revision: now.ID, Findings: words.Place(list)}
	before, read := s.nodes(now.Documents)
	after, readNow := s.nodes(docs)
	if read && readNow {
		p.Changes = spec.Compare(before, after)
	}
	return p, nil
}

// nodes returns all nodes of documents, those of sub-graphs included. ok is false if a document cannot be
// read: its nodes are not gone, but not known.
func (s *Service) nodes(docs []spec.Document) (all []*spec.Node, ok bool) {
	ok = true
	for _, doc := range docs {
		nodes, found := spec.Parse(doc, spec.ParseOptions{Namespace: s.opts.Namespace}) // the check reports what is wrong
		all = append(all, nodes...)
		ok = ok && !spec.Unreadable(found)
	}
	specs, _ := expand.Subgraphs(all, s.kinds)
	return append(specs.Nodes, specs.Bodies...), ok
}

// workspace returns a workspace with documents. All share what is known of kinds.
func (s *Service) workspace(docs []spec.Document) (*language.Workspace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.words == nil {
		words, err := language.New(language.Options{Kinds: s.opts.Kinds, Namespace: s.opts.Namespace})
		if err != nil {
			return nil, err
		}
		s.mu.words = words
	}
	return s.mu.words.With(docs), nil
}

// Complete returns what can be written at a place of a draft.
func (s *Service) Complete(drafts []spec.Document, at diag.Pos) ([]language.Item, error) {
	words, err := s.drafted(drafts)
	if err != nil {
		return nil, err
	}
	return words.Complete(at), nil
}

// Hover returns what the word at a place of a draft means, in Markdown.
func (s *Service) Hover(drafts []spec.Document, at diag.Pos) (r language.Range, doc string, ok bool, err error) {
	words, err := s.drafted(drafts)
	if err != nil {
		return language.Range{}, "", false, err
	}
	r, doc, ok = words.Hover(at)
	return r, doc, ok, nil
}

// Definition returns where the node, or the template, at a place of a draft is given its name.
func (s *Service) Definition(drafts []spec.Document, at diag.Pos) (pos diag.Pos, ok bool, err error) {
	words, err := s.drafted(drafts)
	if err != nil {
		return pos, false, err
	}
	r, ok := words.Definition(at)
	return r.From, ok, nil
}

// Rename returns the documents that change when the node, or the template, at a place of a draft gets another
// name. An error that says why it cannot is an [ErrName].
func (s *Service) Rename(drafts []spec.Document, at diag.Pos, name string) ([]spec.Document, error) {
	if !s.Editable() {
		return nil, ErrReadOnly // the documents have secrets
	}
	words, err := s.drafted(drafts)
	if err != nil {
		return nil, err
	}
	edits, err := words.Rename(at, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrName, err)
	}
	return words.Apply(edits), nil
}

// Format returns a draft in its canonical form, or why it cannot be read.
func (s *Service) Format(draft spec.Document) ([]byte, diag.List) {
	formatted, list := spec.Format(draft)
	if list.HasErrors() {
		return nil, list
	}
	return formatted, nil
}

// drafted returns a workspace with drafts.
func (s *Service) drafted(drafts []spec.Document) (*language.Workspace, error) {
	docs, err := s.opts.Read()
	if err != nil {
		return nil, err
	}
	if docs, err = drafted(docs, drafts); err != nil {
		return nil, err
	}
	return s.workspace(docs)
}

// Test runs the tests in drafts, one run at a time. The nodes have the effects that they have in uniflow test,
// so it is for those who may change documents.
func (s *Service) Test(ctx context.Context, drafts []spec.Document, run string) (t Tests, err error) {
	err = s.run(&s.checking, drafts, func(docs []spec.Document) (err error) {
		t, err = s.opts.Test(ctx, docs, run)
		return err
	})
	return t, err
}

// Try sends a packet through drafts, which are not served, one at a time.
func (s *Service) Try(ctx context.Context, drafts []spec.Document, trial Trial) (t Tried, err error) {
	err = s.run(&s.trying, drafts, func(docs []spec.Document) (err error) {
		t, err = s.opts.Try(ctx, docs, trial)
		return err
	})
	return t, err
}

// run runs drafts, for those who may change documents, one run at a time by the lock.
func (s *Service) run(lock *sync.Mutex, drafts []spec.Document, f func([]spec.Document) error) error {
	if !s.Editable() {
		return ErrReadOnly
	}
	docs, err := s.opts.Read()
	if err != nil {
		return err
	}
	if docs, err = drafted(docs, drafts); err != nil {
		return err
	}
	lock.Lock()
	defer lock.Unlock()
	return f(docs)
}

// Apply writes drafts of a revision, and serves them. If that fails, the files are as before.
func (s *Service) Apply(ctx context.Context, revision string, drafts []spec.Document, why string) (Outcome, error) {
	if !s.Editable() {
		return Outcome{}, ErrReadOnly
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	now, err := s.Documents()
	if err != nil {
		return Outcome{}, err
	}
	if now.ID != revision {
		return Outcome{}, ErrConflict
	}
	docs, err := drafted(now.Documents, drafts)
	if err != nil {
		return Outcome{}, err
	}
	var changes []Change
	for i := range docs {
		if before := now.Documents[i].Data; string(before) != string(docs[i].Data) {
			changes = append(changes, Change{docs[i].File, before, docs[i].Data})
		}
	}
	if len(changes) == 0 {
		return Outcome{}, ErrSame
	}
	out := s.opts.Write(ctx, changes)
	if errors.Is(out.Err, ErrConflict) {
		return Outcome{}, ErrConflict
	}
	if out.Err == nil && !out.Findings.HasErrors() {
		s.keep(Revision{ID: idOf(docs), Since: time.Now(), Why: why, Documents: docs})
	}
	return out, nil
}

// Rollback applies the documents of a revision that is kept.
func (s *Service) Rollback(ctx context.Context, to string) (Outcome, error) {
	i := -1
	all := s.Revisions()
	if i = slices.IndexFunc(all, func(r Revision) bool { return r.ID == to }); i < 0 {
		return Outcome{}, ErrRevision
	}
	now, err := s.Documents()
	if err != nil {
		return Outcome{}, err
	}
	return s.Apply(ctx, now.ID, all[i].Documents, "back to "+to)
}
