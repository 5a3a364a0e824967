package durable

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
)

// places are the generations in which runs go on, by the hash of their revision. One goroutine
// uses them.
type places struct {
	k       *Keeper
	archive func(journal.Revision) (*Archive, error)
	made    map[string]*home
}

// A home is a generation with its triggers, or why there is none.
type home struct {
	generation *run.Generation
	triggers   map[string]int32 // by id
	err        error
	archive    *Archive     // nil for what is served
	runs       atomic.Int64 // that have not ended, and one while more may be resumed
}

// A place is where a run goes on.
type place struct {
	*home
	trigger int32
}

func newPlaces(k *Keeper, g *run.Generation, current journal.Revision, archive func(journal.Revision) (*Archive, error)) *places {
	p := &places{k: k, archive: archive, made: make(map[string]*home)}
	p.made[current.Hash] = homeOf(g)
	return p
}

func homeOf(g *run.Generation) *home {
	h := &home{generation: g, triggers: make(map[string]int32)}
	h.runs.Store(1)
	vertices := g.Program().Vertices
	for at := range vertices {
		h.triggers[vertices[at].Ref.ID] = int32(at)
	}
	return h
}

// of returns where a run goes on.
func (p *places) of(f *flight) (place, error) {
	h := p.made[f.run.Revision]
	if h == nil {
		h = p.open(f.run.Revision)
		p.made[f.run.Revision] = h
	}
	at, ok := h.triggers[f.run.Trigger]
	switch {
	case h.err != nil:
		return place{}, h.err
	case !ok:
		return place{}, errors.New("the node that has started it is gone")
	}
	h.runs.Add(1)
	return place{h, at}, nil
}

// open makes a generation of an older workflow.
func (p *places) open(hash string) *home {
	rev, err := p.k.journal.Store().Revision(p.k.ctx, hash)
	var a *Archive
	if err == nil {
		a, err = p.archive(rev)
	}
	if err != nil {
		return &home{err: fmt.Errorf("the workflow has changed since it began, and what it was cannot run: %w", err)}
	}
	h := homeOf(a.Generation)
	h.archive = a
	return h
}

// ended says that a run has ended, or that no more are resumed. The last closes an archive.
func (h *home) ended() {
	if h.runs.Add(-1) == 0 && h.archive != nil {
		h.archive.Close()
	}
}

// close says that no more runs are resumed.
func (p *places) close() {
	for _, h := range p.made {
		if h.err == nil {
			h.ended()
		}
	}
}
