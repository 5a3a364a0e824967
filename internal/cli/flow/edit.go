package flow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/edit"
	"github.com/uniflow-labs/uniflow/internal/suite"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
)

// An editing is a change of documents that a client of the admin server asks for. The loop applies it.
type editing struct {
	changes []edit.Change
	done    chan edit.Outcome // buffer of one: the client may have left
}

// newEdit returns the service that shows documents to clients of the admin server, and changes them with
// --edit. Without it, clients see what is served.
func (s *server) newEdit(kinds []*node.Def) (*edit.Service, error) {
	opts := edit.Options{Kinds: kinds, Namespace: s.opts.Namespace, Read: s.shownDocuments}
	planned := sync.OnceValues(func() (p *planner, err error) {
		s.planner, err = s.newPlanner("uniflow start", s.opts.Settings)
		return s.planner, err
	})
	opts.Check = func(docs []spec.Document) diag.List {
		p, err := planned()
		if err != nil {
			return diag.List{diag.Errorf(diag.CodeBug, "%w", err)}
		}
		src, list, err := s.reading.read()
		if err != nil {
			return diag.List{diag.Errorf(diag.CodeRead, "%w", err)}
		}
		src.specs = docs
		list.Append(p.findings(0, src, false))
		return list
	}
	if s.opts.Edit {
		opts.Write = s.edit
		opts.Test = func(ctx context.Context, docs []spec.Document, run string) (edit.Tests, error) {
			p, err := planned()
			if err != nil {
				return edit.Tests{}, err
			}
			return s.testDrafts(ctx, p, docs, run)
		}
		opts.Try = func(ctx context.Context, docs []spec.Document, trial edit.Trial) (edit.Tried, error) {
			p, err := planned()
			if err != nil {
				return edit.Tried{}, err
			}
			return s.tryDrafts(ctx, p, docs, trial)
		}
	}
	return edit.New(opts)
}

// shownDocuments returns the documents for clients: with --edit those in the files, else those that are
// served, whose secrets are known.
func (s *server) shownDocuments() ([]spec.Document, error) {
	if !s.opts.Edit {
		if src := s.current.Load(); src != nil {
			return src.specs, nil
		}
		return nil, nil
	}
	src, list, err := s.reading.read()
	if err == nil {
		err = list.Err()
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(src.specs), func(doc document) bool { return doc.File == spec.Stdin }), nil // it cannot be written
}

// Limits of the tests that a client runs.
const (
	testTime  = 10 * time.Second // of each that sets none
	testsTime = 2 * time.Minute  // of all
)

// testDrafts runs the tests in documents.
func (s *server) testDrafts(ctx context.Context, p *planner, docs []spec.Document, run string) (edit.Tests, error) {
	match, err := regexp.Compile(run)
	if err != nil {
		return edit.Tests{}, fmt.Errorf("%w: %w", edit.ErrTests, err)
	}
	src, list, err := s.reading.read()
	if err != nil {
		return edit.Tests{}, err
	}
	src.specs = docs
	all, found := p.cases(0, src)
	if list.Append(found); list.HasErrors() {
		return edit.Tests{}, fmt.Errorf("%w: the documents have errors: %w", edit.ErrTests, list.Err())
	}
	cases := slices.DeleteFunc(all, func(c suite.Case) bool { return !match.MatchString(suite.Name(c.Test)) })
	if len(cases) == 0 {
		return edit.Tests{}, fmt.Errorf("%w: the documents have none that matches %q", edit.ErrTests, run)
	}
	ctx, cancel := context.WithTimeout(ctx, testsTime)
	defer cancel()
	results, coverage := suite.Run(ctx, cases, suite.Options{Kinds: s.kinds(s.opts.Language), Timeout: testTime, Programs: ofDrafts(), Running: true, Redact: p.engine.Redact})
	var tests edit.Tests
	for _, r := range results {
		t := edit.Test{Name: r.Name(), Pos: r.Test.Node.Pos, Took: r.Duration}
		if r.Err != nil {
			var text strings.Builder
			if err := r.Text(&text, src.text, false); err != nil {
				return edit.Tests{}, err
			}
			t.Error = text.String()
		}
		tests.List = append(tests.List, t)
	}
	report := coverage.Report()
	tests.Nodes, tests.Links = edit.Share{Used: report.Nodes.Used, Of: report.Nodes.Total}, edit.Share{Used: report.Links.Used, Of: report.Links.Total}
	return tests, ctx.Err()
}

// edit has the loop apply a change, and waits for what comes of it.
func (s *server) edit(ctx context.Context, changes []edit.Change) edit.Outcome {
	e := &editing{changes, make(chan edit.Outcome, 1)}
	select {
	case s.edits <- e:
	case <-ctx.Done():
		return edit.Outcome{Err: ctx.Err()}
	}
	select {
	case out := <-e.done:
		return out
	case <-ctx.Done():
		return edit.Outcome{Err: fmt.Errorf("the change is still being applied: %w", ctx.Err())}
	}
}

// applyEdit writes a change and applies the documents. If they cannot be served, the files are as before.
func (s *server) applyEdit(ctx context.Context, e *editing) outcome {
	src, list, err := s.reading.read()
	if err == nil {
		err = list.Err()
	}
	if err != nil {
		return outcome{err: err, edit: e}
	}
	for _, c := range e.changes {
		if !slices.ContainsFunc(src.specs, func(doc document) bool { return doc.File == c.File && bytes.Equal(doc.Data, c.Before) }) {
			return outcome{err: edit.ErrConflict, edit: e}
		}
	}
	written := 0
	for _, c := range e.changes {
		if err = writeDocument(c.File, c.After); err != nil {
			break
		}
		written++
	}
	r := outcome{err: err}
	if err == nil {
		defer s.programs.Freeze()() // the author may not choose what runs on this machine
		r = s.apply(ctx, true)
	}
	if r.err != nil || r.list.HasErrors() {
		for _, c := range e.changes[:written] {
			if err := writeDocument(c.File, c.Before); err != nil {
				r.err = errors.Join(r.err, fmt.Errorf("and %s is not as it was before: %w", c.File, err))
			}
		}
	}
	r.edit = e
	return r
}

func writeDocument(file string, text []byte) error {
	return app.ReplaceFile(file, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// edited reports the outcome of a change to who asked for it. One that failed has changed nothing, so the
// loop goes on as if it had not been.
func (s *server) edited(r outcome) error {
	failed := r.err != nil || r.list.HasErrors()
	if failed {
		s.log.Warn("a change of the documents was not served: the files are as before", keyLogFindings, len(r.list), keyLogError, errorText(r.err))
	} else if err := s.applied(r); err != nil {
		return err
	}
	r.edit.done <- edit.Outcome{Err: r.err, Findings: r.list, Generation: s.engine.Status().Generation}
	return nil
}
