package streams

import (
	"container/heap"
	"slices"
	"sort"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// This file has the windows that are open: which a payload belongs to, and what they hold.

// A window is open until it is taken.
type window struct {
	bundle
	key        state.Key
	name       value.Value // the key
	start, end int64
	partial    bool
	fault      *fault // of a window that is open again; nil otherwise
	at         int    // in the heap
	number     uint64 // counts windows

	values []value.Value // of payloads that are answered
	acc    value.Value   // with step
	size   int64         // of both, in the account
}

// A span is the time of a window: the end is not in it.
type span struct{ start, end int64 }

// spans returns the windows that a time is in; of sessions, that of a payload by itself.
func (n *windower) spans(at int64) (all []span) {
	if n.gap > 0 {
		return []span{{at, at + n.gap}}
	}
	last := at - ((at%n.slide)+n.slide)%n.slide
	for start := last; start > at-n.size; start -= n.slide {
		all = append(all, span{start, start + n.size})
	}
	slices.Reverse(all)
	return all
}

// targets returns the windows that take an event, and makes those that are missing: none if it is late.
func (n *windower) targets(e *event, full *[]*bundle) (targets []*window) {
	for _, s := range n.spans(e.at) {
		var open []*window
		if k := n.keys[e.key]; k != nil {
			open = k.find(s, n.gap > 0)
		}
		switch {
		case len(open) > 0:
			targets = append(targets, n.merge(e, s, open, full))
		case s.end > n.events.watermark:
			targets = append(targets, n.begin(e, s))
		default:
			if f := n.events.faultOf(e.key, e.at, s, n.gap > 0); f != nil {
				targets = append(targets, n.reopen(e, f))
			}
		}
	}
	return targets
}

// begin opens a window.
func (n *windower) begin(e *event, s span) *window {
	w := n.make(e, s)
	w.partial = n.events.isCut(e.key, s.start)
	w.forget = func() { n.close(w) }
	k := n.keys[e.key]
	if k == nil {
		k = new(keyed)
		n.keys[e.key] = k
	}
	i := sort.Search(len(k.windows), func(i int) bool { return k.windows[i].start > s.start })
	k.windows = slices.Insert(k.windows, i, w)
	heap.Push(&n.byEnd, w)
	return w
}

func (n *windower) make(e *event, s span) *window {
	n.made++
	w := &window{key: e.key, name: e.name, start: s.start, end: s.end, acc: n.init, number: n.made}
	w.early = n.early
	w.payload = func() value.Value {
		switch {
		case n.step != nil:
			return w.show(true, w.acc)
		case n.early:
			return w.show(false, value.List(w.values...))
		}
		return w.show(false, w.payloads())
	}
	w.ended = func(resp node.Response) { n.ended(w, resp) }
	return w
}

// close forgets a window that is taken.
func (n *windower) close(w *window) {
	heap.Remove(&n.byEnd, w.at)
	k := n.keys[w.key]
	k.remove(w)
	if len(k.windows) == 0 {
		delete(n.keys, w.key)
	}
	n.values -= len(w.values)
	if w.partial && (w.early || len(w.items) > 0) {
		n.partials++
	}
}

// reopen opens a window whose process has failed, for its messages that come again.
func (n *windower) reopen(e *event, f *fault) *window {
	w := n.reopened[f]
	if w == nil {
		w = n.make(e, f.span)
		w.fault = f
		w.forget = func() {
			if delete(n.reopened, f); len(w.items) == 0 {
				return
			}
			short := int64(len(w.items)) < f.expect.Load()
			if w.partial = short || f.partial.Load() || w.partial; w.partial {
				n.partials++
			}
		}
		n.reopened[f] = w
	}
	w.due = n.clock.Now().Add(n.idleAfter)
	if w.stop == nil {
		n.arm(&w.bundle)
	}
	return w
}

// merge extends a session by an event, which may make one of two. Windows with a size stay as they are.
func (n *windower) merge(e *event, s span, open []*window, full *[]*bundle) *window {
	w := open[0]
	if n.gap == 0 {
		return w
	}
	if len(open) > 1 {
		later := open[1]
		if n.step != nil { // two values cannot become one
			w.partial, later.partial = true, true
			*full = append(*full, n.takeAll([]*bundle{&w.bundle})...)
			w = later
		} else {
			n.absorb(w, later)
		}
	}
	w.start, w.end = min(w.start, s.start), max(w.end, s.end)
	heap.Fix(&n.byEnd, w.at)
	return w
}

// absorb moves what a session has to the one before.
func (n *windower) absorb(w, later *window) {
	for _, item := range later.items {
		item.in[slices.Index(item.in, &later.bundle)] = &w.bundle
	}
	w.items, w.bytes = append(w.items, later.items...), w.bytes+later.bytes
	w.values, w.size = append(w.values, later.values...), w.size+later.size
	w.end, w.partial = max(w.end, later.end), w.partial || later.partial
	later.values, later.partial, later.taken = nil, false, true
	n.close(later)
}
