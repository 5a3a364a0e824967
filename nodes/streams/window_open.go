package streams

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

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

// keyed are the windows of a key, the earliest first.
type keyed struct{ windows []*window }

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
		case s.end > n.tide.mark:
			targets = append(targets, n.begin(e, s))
		default:
			if f := n.tide.faultOf(e.key, e.at, s, n.gap > 0); f != nil {
				targets = append(targets, n.reopen(e, f))
			}
		}
	}
	return targets
}

// find returns the windows that have a span; of sessions, those that it touches.
func (k *keyed) find(s span, sessions bool) []*window {
	if !sessions {
		i, ok := slices.BinarySearchFunc(k.windows, s.start, func(w *window, start int64) int { return cmp.Compare(w.start, start) })
		if !ok {
			return nil
		}
		return k.windows[i : i+1]
	}
	i := sort.Search(len(k.windows), func(i int) bool { return k.windows[i].end > s.start })
	j := i
	for j < len(k.windows) && k.windows[j].start < s.end {
		j++
	}
	return k.windows[i:j]
}

// remove takes a window out: mostly the first, which moves no others.
func (k *keyed) remove(w *window) {
	i := slices.Index(k.windows, w)
	if i == 0 {
		k.windows[0] = nil
		k.windows = k.windows[1:]
		return
	}
	k.windows = slices.Delete(k.windows, i, i+1)
}

// begin opens a window.
func (n *windower) begin(e *event, s span) *window {
	w := n.make(e, s)
	w.partial = n.tide.isCut(e.key, s.start)
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

// add puts an event into windows: all of them, or none.
func (n *windower) add(ctx context.Context, targets []*window, e *event, item *parked) error {
	if !n.early {
		for _, w := range targets {
			n.put(&w.bundle, item)
		}
		return nil
	}
	more := make([]int64, len(targets))
	accs := make([]value.Value, len(targets))
	sum := int64(0)
	for i, w := range targets {
		more[i] = int64(e.payload.Size())
		if n.step != nil {
			var err error
			if accs[i], err = n.fold(ctx, w.acc, e.payload); err != nil {
				n.abandon(targets)
				return err
			}
			more[i] = int64(accs[i].Size()) - int64(w.acc.Size())
		}
		if w.size == 0 {
			more[i] += windowSize + int64(e.name.Size())
		}
		sum += more[i]
	}
	if sum > 0 && !n.account.Take(sum) {
		n.abandon(targets)
		return errFull
	}
	if sum < 0 {
		n.account.Free(-sum)
	}
	for i, w := range targets {
		w.size += more[i]
		if n.step != nil {
			w.acc = accs[i]
			continue
		}
		w.values = append(w.values, e.payload)
		n.values++
	}
	return nil
}

// windowSize is about what a window takes by itself, in bytes, without its key.
const windowSize = 1024

// abandon forgets windows that were made for an event that they do not get.
func (n *windower) abandon(targets []*window) {
	for _, w := range targets {
		if w.size == 0 && w.fault == nil {
			w.taken, w.partial = true, false
			n.close(w)
		}
	}
}

// fold is one step.
func (n *windower) fold(ctx context.Context, acc, item value.Value) (value.Value, error) {
	names := value.UniqueMap([]value.Field{{Name: "acc", Value: acc}, {Name: "item", Value: item}})
	next, err := names, names.AsError()
	if err == nil {
		next, err = n.step.Eval(ctx, names)
	}
	if err != nil {
		return next, unusable("step", fmt.Errorf("step: %w", err), item)
	}
	return next, nil
}

// show returns what is sent of a window.
func (w *window) show(folded bool, content value.Value) value.Value {
	name := "items"
	if folded {
		name = "value"
	}
	return value.UniqueMap([]value.Field{
		{Name: "key", Value: w.name}, {Name: "start", Value: value.Time(time.Unix(0, w.start).UTC())}, {Name: "end", Value: value.Time(time.Unix(0, w.end).UTC())},
		{Name: name, Value: content}, {Name: "partial", Value: value.Bool(w.partial)},
	})
}

// ended notes how the process of a window has ended, before its packets are answered: if it has failed, its
// messages come again, although the window is over.
func (n *windower) ended(w *window, resp node.Response) {
	if !n.early {
		n.tide.settle(w, resp.IsError(), n.max)
		return
	}
	n.account.Free(w.size)
	if !resp.IsError() {
		return
	}
	err := *node.Describe(resp.Payload.AsError())
	err.Data = w.payload()
	n.clock.AfterFunc(0, func(ctx context.Context) {
		n.source.Start(ctx, nil, node.Fail(&err), func(resp node.Response) {
			if resp.IsError() {
				n.log.Error("a window is lost: its process has failed, and its payloads are answered already", "start", time.Unix(0, w.start).UTC(), "error", resp.Payload.AsError())
			}
		})
	})
}

// windows is a heap by the end, and those that were opened earlier first.
type windows []*window

func (h windows) Len() int { return len(h) }
func (h windows) Less(i, j int) bool {
	return h[i].end < h[j].end || h[i].end == h[j].end && h[i].number < h[j].number
}
func (h windows) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements [heap.Interface].
func (h *windows) Push(x any) {
	w := x.(*window)
	w.at = len(*h)
	*h = append(*h, w)
}

// Pop implements [heap.Interface].
func (h *windows) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}
