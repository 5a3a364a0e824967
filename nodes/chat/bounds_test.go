package chat

import (
	"strconv"
	"testing"
)

// TestRoomsAreBounded opens conversations without an end, as clients may that send no token.
func TestRoomsAreBounded(t *testing.T) {
	h := newRooms(nil)
	defer h.Close()
	for i := range mostRooms + 100 {
		r, made := h.open(strconv.Itoa(i))
		if r == nil || !made {
			t.Fatalf("room %d was not made", i)
		}
		r.unpin()
	}
	if got := len(h.mu.rooms); got != mostRooms || h.mu.recent.Len() != mostRooms {
		t.Errorf("got %d rooms, want %d", got, mostRooms)
	}
	if _, made := h.open("0"); !made {
		t.Error("the first room was not forgotten")
	}
	// A room that is in use stays: there is no place for another one.
	for e := h.mu.recent.Front(); e != nil; e = e.Next() {
		e.Value.(*room).pins.Add(1)
	}
	if r, _ := h.open("another"); r != nil {
		t.Error("got a room, although all are in use")
	}
}

// TestViewersAreBounded counts connections, of all conversations and of one.
func TestViewersAreBounded(t *testing.T) {
	h := newRooms(nil)
	defer h.Close()
	var all []*viewer
	for range 3 {
		g := &viewer{rooms: h, frames: make(chan []byte, 1), cut: func(error) {}}
		if h.enter(g, 3) {
			all = append(all, g)
		}
	}
	late := &viewer{rooms: h, frames: make(chan []byte, 1), cut: func(error) {}}
	if len(all) != 3 || h.enter(late, 3) {
		t.Errorf("got %d viewers or more, want 3", len(all))
	}
	if h.leave(all[0]); !h.enter(late, 3) {
		t.Error("got no place after one has left")
	}
	r := newRoom(h, "r")
	for i := range mostViewers + 1 {
		g := &viewer{rooms: h, frames: make(chan []byte, 1), cut: func(error) {}}
		if got, want := r.enter(g, frame{Type: "hello"}), i < mostViewers; got != want {
			t.Errorf("viewer %d of a room: got %v, want %v", i, got, want)
		}
	}
}
