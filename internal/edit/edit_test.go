package edit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) { leak.Main(m) }

// disk is the files of a program, and what it is asked to write.
type disk struct {
	sync.Mutex
	docs   []spec.Document
	refuse error
	writes int
}

func (d *disk) read() ([]spec.Document, error) {
	d.Lock()
	defer d.Unlock()
	return append([]spec.Document(nil), d.docs...), nil
}

func (d *disk) write(_ context.Context, changes []Change) Outcome {
	d.Lock()
	defer d.Unlock()
	d.writes++
	if d.refuse != nil {
		return Outcome{Err: d.refuse}
	}
	for _, c := range changes {
		for i := range d.docs {
			if d.docs[i].File == c.File {
				if string(d.docs[i].Data) != string(c.Before) {
					return Outcome{Err: ErrConflict}
				}
				d.docs[i].Data = c.After
			}
		}
	}
	return Outcome{Generation: d.writes + 1}
}

func service(t *testing.T, d *disk, editable bool) *Service {
	t.Helper()
	opts := Options{Kinds: std.Defs("cel"), Read: d.read, Check: func(docs []spec.Document) (list diag.List) {
		for _, doc := range docs {
			_, found := spec.Parse(doc, spec.ParseOptions{})
			list.Append(found)
		}
		return list
	}}
	if editable {
		opts.Write = d.write
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func doc(file, text string) spec.Document { return spec.Document{File: file, Data: []byte(text)} }

func TestPlan(t *testing.T) {
	d := &disk{docs: []spec.Document{doc("a.yaml", "- {kind: log, name: one}\n"), doc("b.yaml", "- {kind: nop, name: two}\n")}}
	s := service(t, d, false)
	p, err := s.Plan([]spec.Document{doc("b.yaml", "- {kind: nop, name: three}\n- kind: [\n")})
	if err != nil || len(p.Findings) != 1 || p.Findings[0].From.Line != 3 && p.Findings[0].From.Line != 2 {
		t.Errorf("got %+v, %v", p, err)
	}
	if len(p.Changes) != 0 {
		t.Errorf("nodes of a document that cannot be read count as changed: %+v", p.Changes)
	}
	p, err = s.Plan([]spec.Document{doc("b.yaml", "- {kind: nop, name: three}\n")})
	if err != nil || len(p.Changes) != 2 || p.Changes[0].Before.Name != "two" || p.Changes[1].After.Name != "three" {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err = s.Plan(nil); err != nil || len(p.Changes) != 0 {
		t.Errorf("without drafts: %+v, %v", p, err)
	}
	if _, err = s.Plan([]spec.Document{doc("/etc/passwd", "x")}); !errors.Is(err, ErrFile) {
		t.Errorf("another file: %v", err)
	}
	items, err := s.Complete([]spec.Document{doc("b.yaml", "- kind: ")}, diag.Pos{File: "b.yaml", Line: 1, Col: 9})
	if err != nil || len(items) < 20 {
		t.Errorf("%d items, %v", len(items), err)
	}
	if _, text, ok, err := s.Hover(nil, diag.Pos{File: "b.yaml", Line: 1, Col: 10}); err != nil || !ok || !strings.Contains(text, "nop") {
		t.Errorf("hover: %q, %v", text, err)
	}
	if _, err := s.Apply(t.Context(), p.Revision, []spec.Document{doc("b.yaml", "x")}, ""); !errors.Is(err, ErrReadOnly) || s.Editable() {
		t.Errorf("without a way to write: %v", err)
	}
}

func TestApply(t *testing.T) {
	const before = "- {kind: log, name: one}\n"
	d := &disk{docs: []spec.Document{doc("a.yaml", before), doc("b.yaml", "")}}
	s := service(t, d, true)
	first, err := s.Documents()
	if err != nil {
		t.Fatal(err)
	}
	drafts := []spec.Document{doc("a.yaml", before+"# more\n")}
	out, err := s.Apply(t.Context(), first.ID, drafts, "a reason")
	if err != nil || out.Generation != 2 || string(d.docs[0].Data) != before+"# more\n" {
		t.Errorf("got %+v, %v, and %s", out, err, d.docs[0].Data)
	}
	if _, err := s.Apply(t.Context(), first.ID, drafts, ""); !errors.Is(err, ErrConflict) {
		t.Errorf("an older revision: %v", err)
	}
	now, err := s.Documents()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), now.ID, drafts, ""); !errors.Is(err, ErrSame) {
		t.Errorf("no change: %v", err)
	}
	d.refuse = errors.New("the port is taken")
	if out, err := s.Apply(t.Context(), now.ID, []spec.Document{doc("b.yaml", "x")}, "no"); err != nil || out.Err == nil {
		t.Errorf("one that cannot be served: %+v, %v", out, err)
	}
	d.refuse = nil
	if all := s.Revisions(); len(all) != 2 || all[0].Why != "a reason" || all[1].ID != first.ID {
		t.Errorf("the revisions are %+v", all)
	}
	if _, err := s.Rollback(t.Context(), first.ID); err != nil || string(d.docs[0].Data) != before {
		t.Errorf("%v, and %s", err, d.docs[0].Data)
	}
	if _, err := s.Rollback(t.Context(), "none"); !errors.Is(err, ErrRevision) {
		t.Errorf("a revision that is not kept: %v", err)
	}
}

// TestConcurrently has many clients change the same document: each change is made of what was there, or
// refused.
func TestConcurrently(t *testing.T) {
	d := &disk{docs: []spec.Document{doc("a.yaml", "")}}
	s := service(t, d, true)
	var clients sync.WaitGroup
	var mu sync.Mutex
	applied := 0
	for c := range 8 {
		clients.Go(func() {
			for i := range 20 {
				now, err := s.Documents()
				if err != nil {
					t.Error(err)
					return
				}
				text := string(now.Documents[0].Data) + fmt.Sprintf("# %d %d\n", c, i)
				switch _, err := s.Apply(t.Context(), now.ID, []spec.Document{doc("a.yaml", text)}, ""); {
				case err == nil:
					mu.Lock()
					applied++
					mu.Unlock()
				case !errors.Is(err, ErrConflict):
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	if lines := strings.Count(string(d.docs[0].Data), "\n"); lines != applied || applied == 0 {
		t.Errorf("%d changes were applied, and %d are there", applied, lines)
	}
	if kept := len(s.Revisions()); kept > maxRevisions {
		t.Errorf("%d revisions are kept", kept)
	}
}

// TestWords asks about drafts: where a node has its name, the documents when it has another one, and their form.
func TestWords(t *testing.T) {
	d := &disk{docs: []spec.Document{
		{File: "a.yaml", Data: []byte("- {kind: nop, name: one, ports: {out: two}}\n")},
		{File: "b.yaml", Data: []byte("- {kind: nop, name: other}\n")},
	}}
	s := service(t, d, true)
	drafts := []spec.Document{{File: "b.yaml", Data: []byte("# new\r\n-  {kind: nop, name: two}\r\n")}}
	at := diag.Pos{File: "a.yaml", Line: 1, Col: 39}
	if pos, ok, err := s.Definition(drafts, at); err != nil || !ok || pos != (diag.Pos{File: "b.yaml", Line: 2, Col: 22}) {
		t.Errorf("the definition is at %v, %v, %v", pos, ok, err)
	}
	docs, err := s.Rename(drafts, at, "three")
	if err != nil || len(docs) != 2 || string(docs[0].Data) != "- {kind: nop, name: one, ports: {out: three}}\n" || string(docs[1].Data) != "# new\r\n-  {kind: nop, name: three}\r\n" {
		t.Errorf("renamed: %q, %v", docs, err)
	}
	if _, err := s.Rename(drafts, at, "one"); !errors.Is(err, ErrName) {
		t.Errorf("to a name that is taken: %v", err)
	}
	if text, list := s.Format(drafts[0]); list.HasErrors() || !strings.Contains(string(text), "- {kind: nop, name: two}") {
		t.Errorf("formatted: %q, %v", text, list)
	}
	if text, list := s.Format(spec.Document{File: "b.yaml", Data: []byte("- [")}); !list.HasErrors() || text != nil {
		t.Errorf("what cannot be read: %q, %v", text, list)
	}
}
