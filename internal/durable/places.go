package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
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
	queues     map[journal.QueueID]int32
	err        error
	archive    *Archive    // nil for what is served
	runs       int         // that have not ended
	left       bool        // it is closed
	idle       *time.Timer // until it is, as no run needs it; nil before that was so
}

// A place is where a run goes on.
type place struct {
	*home
	of      *places
	trigger int32
	host    node.Host // nil if the trigger is none
}

// serve lets runs go on in a generation that serves from now on.
func (p *places) serve(g *run.Generation, current journal.Revision, archive func(journal.Revision) (*Archive, error)) *home {
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
	return p.made[current.Hash]
}

func homeOf(g *run.Generation) *home {
	h := &home{generation: g, triggers: make(map[string]int32), queues: make(map[journal.QueueID]int32)}
	vertices := g.Program().Vertices
	for at := range vertices {
		ref := &vertices[at].Ref
		h.triggers[ref.ID] = int32(at)
		if _, ok := vertices[at].Node.(node.ItemQueue); ok {
			h.queues[journal.QueueID{Namespace: ref.Namespace, Name: ref.Name}] = int32(at)
		}
	}
	return h
}

// of returns where a run goes on.
func (p *places) of(f *flight) (place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return place{}, node.ErrStopped
	}
	h := p.made[f.run.Revision]
	if h == nil {
		h = p.open(f.run.Revision)
		if errors.Is(h.err, context.Canceled) { // the program ends
			return place{}, h.err
		}
		p.made[f.run.Revision] = h
	}
	at, ok := h.triggers[f.run.Trigger]
	if f.run.Queue != "" { // an item belongs to the queue of the name
		at, ok = h.queues[idOf(f.run)]
	}
	switch {
	case h.err != nil:
		return place{}, h.err
	case !ok:
		p.rest(h)
		return place{}, errors.New("the node that has started it is gone")
	}
	host, ok := hostOf(h.generation, at)
	if ok && h.archive != nil { // whose triggers are not opened
		if host, ok = p.hostToday(f.run.Trigger); !ok {
			p.rest(h)
			return place{}, errors.New("the node that has started it, and that takes its answers, is gone: bring it back, and retry the run")
		}
	}
	h.runs++
	return place{h, p, at, host}, nil
}

// hostOf returns the trigger of a generation, if it is a host.
func hostOf(g *run.Generation, at int32) (node.Host, bool) {
	host, ok := g.Program().Vertices[at].Node.(node.Host)
	return host, ok
}

// hostToday returns the host with an id in what is served. The caller holds the lock.
func (p *places) hostToday(id string) (node.Host, bool) {
	h := p.made[p.current.Hash]
	if h == nil || h.err != nil {
		return nil, false
	}
	at, ok := h.triggers[id]
	if !ok {
		return nil, false
	}
	return hostOf(h.generation, at)
}

// today returns the revision that is served, if it has the node that starts a run.
func (p *places) today(trigger string) (journal.Revision, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.made[p.current.Hash]
	if h == nil {
		return journal.Revision{}, false
	}
	_, ok := h.triggers[trigger]
	return p.current, ok
}

// again lets a revision be opened that could not be before.
func (p *places) again(hash string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.made[hash]; h != nil && h.err != nil {
		delete(p.made, hash)
	}
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
	p.runs--
	p.of.rest(p.home)
}

// rest closes an archive after a while, if no run needs it. The caller holds the lock.
func (p *places) rest(h *home) {
	switch {
	case h.runs > 0 || h.archive == nil || p.closed:
	case h.idle == nil:
		h.idle = time.AfterFunc(lingers, func() { p.leave(h) })
	default:
		h.idle.Reset(lingers)
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
	for _, h := range p.made {
		if h.idle != nil {
			h.idle.Stop()
		}
	}
}
