package uniflow

import (
	"context"
	"errors"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
)

// archive opens a generation of a revision, in which runs go on that began with it. It has the values
// of today, serves nothing and runs no workflows at lifecycle ports.
func (e *Engine) archive(rev journal.Revision, today Source) (*durable.Archive, error) {
	documents, err := durable.Documents(rev)
	if err != nil {
		return nil, err
	}
	source := today
	source.Documents = documents
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
