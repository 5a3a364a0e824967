package chat

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

// weigh returns what a hub should have counted, if no process runs.
func weigh(h *hub) (bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := h.mu.recent.Front(); e != nil; e = e.Next() {
		r := e.Value.(*room)
		bytes += roomWeight
		r.mu.Lock()
		for _, l := range r.mu.lines {
			bytes += int64(l.weight())
		}
		r.mu.Unlock()
	}
	for g := range h.mu.guests {
		bytes += g.queued.Load()
	}
	return bytes
}

func (h *hub) check(t *testing.T, when string) {
	t.Helper()
	if used, want := h.used.Load(), weigh(h); used != want || used > h.most.Load() {
		t.Fatalf("%s: counted %d bytes, want %d, and %d at most", when, used, want, h.most.Load())
	}
}

// TestMemoryIsBounded opens conversations with long texts. Those that were not used for the
// longest time are forgotten first.
func TestMemoryIsBounded(t *testing.T) {
	h := newHub()
	defer h.Close()
	h.most.Store(1 << 20)
	long := strings.Repeat("x", 8<<10)
	for i := range 500 {
		r, _ := h.open(fmt.Sprint(i))
		if r == nil {
			t.Fatalf("room %d was not made", i)
		}
		for k := range 20 {
			if r.say(fmt.Sprint("u", k), long); k%7 == 0 {
				r.restore([]*line{{Text: long}})
			}
			r.unsay("u0", "")
		}
		r.unpin()
		h.check(t, fmt.Sprint("room ", i))
	}
	if n := len(h.mu.rooms); n < 10 || n > 20 {
		t.Errorf("got %d rooms of 64 KiB, in 1 MiB", n)
	}
	for i := 499; i >= 495; i-- {
		if _, made := h.open(fmt.Sprint(i)); made {
			t.Errorf("room %d was forgotten before older ones", i)
		}
	}
	if _, made := h.open("0"); !made {
		t.Error("the first room was not forgotten")
	}
}

// TestMemoryInUse fills rooms that clients look at: what they have on the screen need not be
// kept, and what they do not read is not.
func TestMemoryInUse(t *testing.T) {
	h := newHub()
	defer h.Close()
	h.most.Store(1 << 20)
	long := strings.Repeat("x", 8<<10)
	var rooms []*room
	var guests []*guest
	var cut []context.Context
	for i := range 100 {
		r, _ := h.open(fmt.Sprint(i))
		if r == nil {
			t.Fatalf("room %d was not made", i)
		}
		g, ctx := newGuest(t.Context(), h)
		if !h.enter(g, 100) || !r.enter(g, frame{Type: "hello"}) {
			t.Fatal("not let in")
		}
		rooms, guests, cut = append(rooms, r), append(guests, g), append(cut, ctx)
		for k := range 20 {
			r.say(fmt.Sprint("u", k), long)
		}
		for i, ctx := range cut { // their connections end
			if ctx.Err() != nil {
				h.leave(guests[i])
			}
		}
		h.check(t, fmt.Sprint("room ", i))
	}
	if len(h.mu.rooms) != 100 {
		t.Errorf("got %d rooms, want all of those that are in use", len(h.mu.rooms))
	}
	for i, r := range rooms {
		r.leave(guests[i])
		h.leave(guests[i])
		r.unpin()
	}
	h.check(t, "after all have left")
	if h.fits(0, 1<<20); h.used.Load() > 1<<20 {
		t.Errorf("%d bytes are left", h.used.Load())
	}
}

// TestMemoryOfAnswers has a process write into a room of a hub that is full: the answer that
// is being written stays whole.
func TestMemoryOfAnswers(t *testing.T) {
	h := newHub()
	defer h.Close()
	h.most.Store(64 << 10)
	r, _ := h.open("r")
	r.say("u1", strings.Repeat("q", 8<<10))
	tn := &turn{room: r, held: heldWeight}
	h.used.Add(tn.held)
	r.pins.Add(1)
	tn.begin()
	for range 30 {
		if err := tn.Part(t.Context(), value.String(strings.Repeat("a", 4<<10))); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.mu.lines) != 1 || len(r.mu.lines[0].Text) != 120<<10 {
		t.Errorf("got %d lines", len(r.mu.lines))
	}
	if other, _ := h.open("other"); other != nil {
		t.Error("got another room, although there is no memory")
	}
	tn.end([]answer{{text: "short"}, {text: "shorter", edit: true}})
	h.check(t, "at the end")
	if other, _ := h.open("other"); other == nil {
		t.Error("got no room after the end")
	}
}
