package exec

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// maxPath is the most events of a path: the anchor and query.Paths.Steps.
const maxPath = 8

// paths counts the sequences of events from an anchor or to it. Its matchers are all
// events that count, and the anchor.
type paths struct {
	q     *query.Paths
	gap   int64 // milliseconds; 0 for none
	event int   // column of the events' names

	picked *picked // the users that are asked for, nil to count
	counts map[[maxPath]string]int64
}

const (
	pathBit   = 1
	anchorBit = 2
)

func (b *builder) paths(q *query.Paths) (*paths, error) {
	p := &paths{q: q, gap: q.Gap.Milliseconds(), event: b.column(eventName), counts: make(map[[maxPath]string]int64)}
	if q.Steps < 1 || q.Steps >= maxPath {
		return nil, errorAt(query.Pos{}, "", "paths have 1 to %d steps, got %d", maxPath-1, q.Steps)
	}
	lo, hi := b.bounds(q.Bounds)
	b.match(query.Match{Where: q.Where}, lo, hi)
	b.match(q.Anchor, lo, hi)
	return p, nil
}

func (p *paths) explain() string {
	return fmt.Sprintf("paths of %d events and the anchor: the events of each user who has an anchor are collected", p.q.Steps)
}

func (p *paths) settle(*plan) error { return nil }

func (p *paths) need() need { return need{times: true, columns: true} }

func (p *paths) fork(w *worker) fold {
	fold := &pathsFold{paths: p, w: w, names: newDictionary(w.plan), counts: make(map[[maxPath]int32]int64)}
	if p.picked != nil {
		fold.lister = p.picked.fork(w, fold.names)
	}
	return fold
}

func (p *paths) answer(pl *plan) (*query.Answer, error) {
	if p.picked != nil {
		return p.picked.answer(pl)
	}
	a := &query.PathsAnswer{}
	for key, n := range p.counts {
		path := key[:]
		if end := slices.Index(path, ""); end >= 0 {
			path = path[:end]
		}
		a.Paths = append(a.Paths, query.Path{Path: slices.Clone(path), Users: pl.users(n)})
	}
	slices.SortFunc(a.Paths, func(x, y query.Path) int {
		return cmp.Or(cmp.Compare(y.Users.N, x.Users.N), slices.Compare(x.Path, y.Path))
	})
	if top := p.q.Top; top > 0 && len(a.Paths) > top {
		a.Paths = a.Paths[:top]
	}
	return &query.Answer{Paths: a}, nil
}

type pathsFold struct {
	*paths
	w      *worker
	lister *lister // of the users that are asked for; else nil
	names  *dictionary
	counts map[[maxPath]int32]int64 // by numbers in names; 0 behind the last
	steps  []step
	held   int
}

// A step is an event of a user.
type step struct {
	t      int64
	name   int32
	anchor bool
}

func (p *pathsFold) shard(views []*view) error {
	p.names.open(views)
	u := &p.w.users
	u.open(views)
	for u.next() {
		if !p.collect(u.parts) {
			continue
		}
		if grown := cap(p.steps) - p.held; grown > 0 {
			p.held += grown
			if err := p.w.held.take(int64(grown) * 16); err != nil {
				return err
			}
		}
		if p.lister != nil {
			if !p.picked.absent && p.is(p.path()) {
				p.lister.seen = true
				if err := p.lister.add(&u.parts[0]); err != nil {
					return err
				}
			}
			continue
		}
		before := len(p.counts)
		p.counts[p.path()]++
		if len(p.counts) > before {
			if err := p.w.held.take(2 * (4*maxPath + 8)); err != nil {
				return err
			}
		}
	}
	return p.names.err
}

// collect gathers the events of a user, by time and then by name. It reports whether
// there is an anchor.
func (p *pathsFold) collect(parts []part) (anchored bool) {
	p.steps = p.steps[:0]
	if !slices.ContainsFunc(parts, func(p part) bool { return p.some(anchorBit) }) {
		return false
	}
	sorted := true
	for i := range parts {
		part := &parts[i]
		for row := part.lo; row < part.hi; row++ {
			m := part.mask(row)
			if m&pathBit == 0 {
				continue
			}
			s := step{part.time(row), p.names.id(part.view, p.event, row), m&anchorBit != 0}
			anchored = anchored || s.anchor
			if n := len(p.steps); n > 0 && p.steps[n-1].t >= s.t {
				sorted = false
			}
			p.steps = append(p.steps, s)
		}
	}
	if anchored && !sorted {
		slices.SortFunc(p.steps, func(a, b step) int {
			return cmp.Or(cmp.Compare(a.t, b.t), event.Compare(p.names.value(a.name), p.names.value(b.name)))
		})
	}
	return anchored
}

// path returns the path of the user whose steps were collected.
func (p *pathsFold) path() (key [maxPath]int32) {
	if p.q.Previous {
		slices.Reverse(p.steps)
	}
	from := slices.IndexFunc(p.steps, func(s step) bool { return s.anchor })
	n := 1
	key[0] = p.steps[from].name
	for i := from + 1; i < len(p.steps) && n <= p.q.Steps; i++ {
		pause := p.steps[i].t - p.steps[i-1].t
		if p.gap > 0 && max(pause, -pause) > p.gap {
			break
		}
		if name := p.steps[i].name; name != key[n-1] {
			key[n] = name
			n++
		}
	}
	if p.q.Previous {
		slices.Reverse(key[:n])
	}
	return key
}

// is reports whether a path is the one whose users are asked for.
func (p *pathsFold) is(key [maxPath]int32) bool {
	want := p.picked.selection.Path
	for i, id := range key {
		if id == 0 || i == len(want) {
			return id == 0 && i == len(want)
		}
		if p.names.value(id).Text() != want[i] {
			return false
		}
	}
	return len(want) == len(key)
}

func (p *pathsFold) join() error {
	if p.lister != nil {
		p.lister.join()
		return nil
	}
	for key, n := range p.counts {
		var path [maxPath]string
		for i, id := range key {
			path[i] = p.names.value(id).Text()
		}
		before := len(p.paths.counts)
		p.paths.counts[path] += n
		if len(p.paths.counts) > before {
			// The map is at most half full; the path of the answer comes to it.
			if err := p.w.held.take(3*16*maxPath + 64); err != nil {
				return err
			}
		}
	}
	return nil
}
