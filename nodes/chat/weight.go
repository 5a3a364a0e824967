package chat

import (
	"errors"
	"slices"
)

const (
	// roomWeight and lineWeight are what a room and a line have in memory, in bytes, without
	// their texts; heldWeight is what a message has whose process has not ended.
	roomWeight, lineWeight, heldWeight = 1024, 256, 1024

	// mostQueued is how many bytes may wait for a client that is slow. Where memory is
	// short, it is [littleQueued].
	mostQueued, littleQueued = 1 << 20, 16 << 10

	// mostMemory is what the conversations of a chat may have before its first node serves.
	mostMemory = 64 << 20
)

var errMemory = errors.New("there is no room for more conversations or messages")

// fits reports whether a number of rooms and bytes may be added. It forgets
// what need not be kept.
func (h *rooms) fits(rooms int, bytes int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fitsLocked(rooms, bytes)
}

// fitsLocked forgets rooms in which nothing happens, first those that were not used for the
// longest time. In rooms that are in use, only messages are forgotten, and not if it is
// others who take the memory of the program. It tries some rooms only, so that many
// clients that stay do not make it slow.
func (h *rooms) fitsLocked(rooms int, bytes int64) bool {
	over := func() (many, much, full bool) {
		if full = !h.held.Take(bytes); !full {
			h.held.Free(bytes) // they are counted once they are there
		}
		return len(h.mu.rooms)+rooms > mostRooms, h.held.Held()+bytes > h.most.Load(), full
	}
	for range 64 {
		many, much, full := over()
		e := h.mu.recent.Back()
		if !many && !much && !full || e == nil {
			break
		}
		if r := e.Value.(*room); r.retire(much) {
			delete(h.mu.rooms, r.conversation)
			h.mu.recent.Remove(e)
		} else {
			h.mu.recent.MoveToFront(e) // it is in use
		}
	}
	many, much, full := over()
	return !many && !much && !full
}

// weight is what a line has in memory.
func (l *line) weight() int {
	n := lineWeight + len(l.ID) + len(l.Text)
	for _, b := range l.Buttons {
		n += len(b.Text) + len(b.Data) + len(b.URL)
	}
	for _, f := range l.Files {
		n += len(f.Name) + len(f.URL)
	}
	return n
}

// unlock ends a change of the lines, and counts their weight for the node.
func (r *room) unlock() {
	r.weighLocked()
	r.mu.Unlock()
	if h := r.rooms; h.held.Held() > h.most.Load() {
		h.fits(0, 0)
	}
}

func (r *room) weighLocked() {
	weight := roomWeight + r.mu.bytes
	if more := int64(weight - r.mu.counted); more > 0 {
		r.rooms.held.Hold(more)
	} else {
		r.rooms.held.Free(-more)
	}
	r.mu.counted = weight
}

// unpin takes back that the room is in use: by a request, a connection, or a message whose
// process has not ended. A room that is not is forgotten sooner or later. [rooms.open]
// sets the first pin; who adds one has one.
func (r *room) unpin() { r.pins.Add(-1) }

// retire ends the counting of a room that is not in use, and reports true. In another one it
// forgets messages if memory is short: all, or all but the one that is answered; and it cuts
// off clients that are behind.
func (r *room) retire(short bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pins.Load() == 0 {
		r.rooms.held.Free(int64(r.mu.counted))
		return true
	}
	if !short {
		return false
	}
	defer r.weighLocked()
	last := len(r.mu.lines) - 1
	kept := r.mu.lines[:0]
	for i, l := range r.mu.lines {
		if l.Open || i == last && r.mu.turn != nil {
			kept = append(kept, l)
		} else {
			r.mu.bytes -= l.weight()
		}
	}
	clear(r.mu.lines[len(kept):])
	r.mu.lines = slices.Clip(kept)
	for g := range r.mu.viewers {
		if g.queued.Load() > littleQueued {
			r.cutLocked(g)
		}
	}
	return false
}

// put gives a frame to a viewer, unless that is too far behind.
func (g *viewer) put(data []byte) bool {
	if g.queued.Load() > mostQueued {
		return false
	}
	select {
	case g.frames <- data:
		g.queued.Add(int64(len(data)))
		g.rooms.held.Hold(int64(len(data)))
		return true
	default:
		return false
	}
}

// took says that a frame was taken from the queue.
func (g *viewer) took(data []byte) {
	g.queued.Add(-int64(len(data)))
	g.rooms.held.Free(int64(len(data)))
}
