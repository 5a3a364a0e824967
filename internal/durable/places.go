package durable

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
)

// places are the generations in which runs go on, by the hash of their revision.
type places struct {
	k  *Keeper
	mu sync.Mutex // over what follows, and the runs of homes

	archive func(journal.Revision) (*Archive, error)
	current journal.Revision
	made    map[string]*home
	closed  bool
}

// A home is a generation with its triggers, or why there is none.
type home struct {
	generation *run.Generation
	triggers   map[string]int32 // by id
	err        error
	archive    *Archive // nil for what is served
	runs       int      // that have not ended
	left       bool     // it is closed
}

// A place is where a run goes on.
type place struct {
	*home
	of      *places
	trigger int32
}

// serve lets runs go on in a generation that serves from now on.
func (p *places) serve(g *run.Generation, current journal.Revision, archive func(journal.Revision) (*Archive, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.made[current.Hash]; before != nil && before.archive != nil && before.runs == 0 && !before.left {
		before.left = true
		before.archive.Close()
	}
	delete(p.made, p.current.Hash)
	for hash, h := range p.made {
		if h.err != nil { // perhaps it can run now
			delete(p.made, hash)
		}
	}
	p.current, p.archive, p.made[current.Hash] = current, archive, homeOf(g)
}

func homeOf(g *run.Generation) *home {
	h := &home{generation: g, triggers: make(map[string]int32)}
	vertices := g.Program().Vertices
	for at := range vertices {
		h.triggers[vertices[at].Ref.ID] = int32(at)
	}
	return h
}

// of returns where a run goes on.
func (p *places) of(f *flight) (place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	h.runs++
	return place{h, p, at}, nil
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

// lingers is how long an archive is kept that no run in memory needs, for those that are resumed soon.
const lingers = time.Minute

// ended says that a run has ended, or has left memory.
func (p place) ended() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.runs--; p.runs == 0 && p.home.archive != nil && !p.of.closed {
		time.AfterFunc(lingers, func() { p.of.leave(p.home) })
	}
}

// leave closes an archive that no run needs.
func (p *places) leave(h *home) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.runs > 0 || p.closed || h.left {
		return
	}
	h.left = true
	for hash, one := range p.made {
		if one == h {
			delete(p.made, hash)
		}
	}
	h.archive.Close()
}

// close says that no more runs are resumed. The engine ends what is left.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}
