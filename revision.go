package uniflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/spec"
)

// A document is what a revision has of a [spec.Document].
type document struct{ File, Text string }

// revision returns the workflow of a source as durable runs are pinned to it: the documents as they
// are written. Values are not a part of it, so no secret is kept.
func revision(source Source) journal.Revision {
	documents := make([]document, len(source.Documents))
	for i, d := range source.Documents {
		documents[i] = document{d.File, string(d.Data)}
	}
	body, err := json.Marshal(documents)
	if err != nil {
		panic(err) // texts can be encoded
	}
	sum := sha256.Sum256(body)
	return journal.Revision{Hash: hex.EncodeToString(sum[:16]), Body: body}
}

// archive opens a generation of a revision, in which runs go on that began with it. It has the values
// of today, serves nothing and runs no workflows at lifecycle ports.
func (e *Engine) archive(rev journal.Revision, today Source) (*durable.Archive, error) {
	var documents []document
	if err := json.Unmarshal(rev.Body, &documents); err != nil {
		return nil, err
	}
	source := today
	source.Documents = nil
	for _, d := range documents {
		source.Documents = append(source.Documents, spec.Document{File: d.File, Data: []byte(d.Text)})
	}
	prog, _, list := e.compile(source, false, false)
	if prog == nil {
		return nil, list.Err()
	}
	withoutTriggers(prog)
	g := run.New(prog, e.runOptions(e.keeper.For(rev)))
	if err := g.Open(e.ending); err != nil {
		return nil, errors.Join(err, g.Close(context.WithoutCancel(e.ending)))
	}
	e.opts.Log.Info("an older workflow goes on", "revision", rev.Hash)
	var ended sync.Once
	end := func(ctx context.Context) (err error) {
		ended.Do(func() {
			err = errors.Join(g.Stop(ctx), g.Close(context.WithoutCancel(ctx)))
			e.opts.Log.Info("an older workflow has ended", "revision", rev.Hash, "error", err)
		})
		return err
	}
	e.archives.Lock()
	e.archives.ends = append(e.archives.ends, end)
	e.archives.Unlock()
	return &durable.Archive{Generation: g, Close: func() {
		e.drains.Go(func() {
			if err := end(e.drainCtx); errors.Is(err, ErrAbandoned) {
				e.abandoned.Store(true)
			}
		})
	}}, nil
}

// endArchives ends the archives that are left, for a caller that lets none be opened any more.
func (e *Engine) endArchives(ctx context.Context) error {
	e.archives.Lock()
	defer e.archives.Unlock()
	var errs []error
	for _, end := range e.archives.ends {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}

// withoutTriggers leaves out of a program what starts processes: those nodes are not opened, and nothing
// runs at lifecycle ports.
func withoutTriggers(prog *compile.Program) {
	var order []int32
	for _, at := range prog.Order {
		v := &prog.Vertices[at]
		v.Lifecycle = [lifecycle.Phases][]compile.Edge{}
		if def := prog.Outline[at].Def; def == nil || !def.Begins() {
			order = append(order, at)
		}
	}
	prog.Order = order
}
