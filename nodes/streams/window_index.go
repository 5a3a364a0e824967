package streams

import (
	"cmp"
	"slices"
	"sort"
)

// This file has the order of windows: by key, and by their end.

// keyed are the windows of a key, the earliest first.
type keyed struct{ windows []*window }

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
