package chat

import (
	"strconv"
	"testing"
)

// TestConversationsAreBounded opens conversations without an end, as clients may that send no token.
func TestConversationsAreBounded(t *testing.T) {
	h := newConversations(nil)
	defer h.Close()
	for i := range mostConversations + 100 {
		r, made := h.open(strconv.Itoa(i))
		if r == nil || !made {
			t.Fatalf("conversation %d was not made", i)
		}
		r.unpin()
	}
	if got := h.mu.byKey.Len(); got != mostConversations {
		t.Errorf("got %d conversations, want %d", got, mostConversations)
	}
	if _, made := h.open("0"); !made {
		t.Error("the first conversation was not forgotten")
	}
	// A conversation that is in use stays: there is no place for another one.
	for _, r := range h.mu.byKey.Values() {
		r.pins.Add(1)
	}
	if r, _ := h.open("another"); r != nil {
		t.Error("got a conversation, although all are in use")
	}
}

// TestViewersAreBounded counts connections, of all conversations and of one.
func TestViewersAreBounded(t *testing.T) {
	h := newConversations(nil)
	defer h.Close()
	var all []*viewer
	for range 3 {
		g := &viewer{all: h, events: make(chan []byte, 1), cut: func(error) {}}
		if h.enter(g, 3) {
			all = append(all, g)
		}
	}
	late := &viewer{all: h, events: make(chan []byte, 1), cut: func(error) {}}
	if len(all) != 3 || h.enter(late, 3) {
		t.Errorf("got %d viewers or more, want 3", len(all))
	}
	if h.leave(all[0]); !h.enter(late, 3) {
		t.Error("got no place after one has left")
	}
	r := newConversation(h, "r")
	for i := range mostViewers + 1 {
		g := &viewer{all: h, events: make(chan []byte, 1), cut: func(error) {}}
		if got, want := r.enter(g, event{Type: "hello"}), i < mostViewers; got != want {
			t.Errorf("viewer %d of a conversation: got %v, want %v", i, got, want)
		}
	}
}
