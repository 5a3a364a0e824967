package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// weigh returns what the node should have counted, if no process runs.
func weigh(h *conversations) (bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.mu.byKey.Values() {
		bytes += conversationWeight
		r.mu.Lock()
		for _, l := range r.mu.messages {
			bytes += int64(l.weight())
		}
		r.mu.Unlock()
	}
	for g := range h.mu.viewers {
		bytes += g.queued.Load()
	}
	return bytes
}

func (h *conversations) check(t *testing.T, when string) {
	t.Helper()
	if used, want := h.held.Held(), weigh(h); used != want || used > h.most.Load() {
		t.Fatalf("%s: counted %d bytes, want %d, and %d at most", when, used, want, h.most.Load())
	}
}

// TestMemoryIsBounded opens conversations with long texts. Those that were not used for the
// longest time are forgotten first.
func TestMemoryIsBounded(t *testing.T) {
	h := newConversations(nil)
	defer h.Close()
	h.most.Store(1 << 20)
	long := strings.Repeat("x", 8<<10)
	for i := range 500 {
		r, _ := h.open(fmt.Sprint(i))
		if r == nil {
			t.Fatalf("conversation %d was not made", i)
		}
		for k := range 20 {
			if r.say(fmt.Sprint("u", k), long); k%7 == 0 {
				r.restore([]*message{{Text: long}})
			}
			r.unsay("u0", "")
		}
		r.unpin()
		h.check(t, fmt.Sprint("conversation ", i))
	}
	if n := h.mu.byKey.Len(); n < 10 || n > 20 {
		t.Errorf("got %d conversations of 64 KiB, in 1 MiB", n)
	}
	for i := 499; i >= 495; i-- {
		if _, made := h.open(fmt.Sprint(i)); made {
			t.Errorf("conversation %d was forgotten before older ones", i)
		}
	}
	if _, made := h.open("0"); !made {
		t.Error("the first conversation was not forgotten")
	}
}

// TestMemoryInUse fills conversations that clients follow: what they have on the screen need not be
// kept, and what they do not read is not.
func TestMemoryInUse(t *testing.T) {
	h := newConversations(nil)
	defer h.Close()
	h.most.Store(1 << 20)
	long := strings.Repeat("x", 8<<10)
	var conversations []*conversation
	var viewers []*viewer
	var cut []context.Context
	for i := range 100 {
		r, _ := h.open(fmt.Sprint(i))
		if r == nil {
			t.Fatalf("conversation %d was not made", i)
		}
		g, ctx := newViewer(t.Context(), h)
		if !h.enter(g, 100) || !r.enter(g, event{Type: "hello"}) {
			t.Fatal("not let in")
		}
		conversations, viewers, cut = append(conversations, r), append(viewers, g), append(cut, ctx)
		for k := range 20 {
			r.say(fmt.Sprint("u", k), long)
		}
		for i, ctx := range cut { // their connections end
			if ctx.Err() != nil {
				h.leave(viewers[i])
			}
		}
		h.check(t, fmt.Sprint("conversation ", i))
	}
	if h.mu.byKey.Len() != 100 {
		t.Errorf("got %d conversations, want all of those that are in use", h.mu.byKey.Len())
	}
	for i, r := range conversations {
		r.leave(viewers[i])
		h.leave(viewers[i])
		r.unpin()
	}
	h.check(t, "after all have left")
	if h.fits(0, 1<<20); h.held.Held() > 1<<20 {
		t.Errorf("%d bytes are left", h.held.Held())
	}
}

// TestMemoryOfAnswers has a process write into a conversation of a chat that is full: the answer that
// is being written stays whole.
func TestMemoryOfAnswers(t *testing.T) {
	h := newConversations(nil)
	defer h.Close()
	h.most.Store(64 << 10)
	r, _ := h.open("r")
	r.say("u1", strings.Repeat("q", 8<<10))
	tn := &turn{conversation: r, held: heldWeight}
	h.held.Hold(tn.held)
	r.pins.Add(1)
	tn.begin()
	for range 30 {
		if err := tn.Part(t.Context(), value.String(strings.Repeat("a", 4<<10))); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.mu.messages) != 1 || len(r.mu.messages[0].Text) != 120<<10 {
		t.Errorf("got %d messages", len(r.mu.messages))
	}
	if other, _ := h.open("other"); other != nil {
		t.Error("got another conversation, although there is no memory")
	}
	tn.end([]answer{{text: "short"}, {text: "shorter", edit: true}})
	h.check(t, "at the end")
	if other, _ := h.open("other"); other == nil {
		t.Error("got no conversation after the end")
	}
}

// An endless starter starts processes that end when the test says so.
type endless struct {
	node.Starter
	ends chan func(node.Response)
}

func (s *endless) Start(_ context.Context, judge node.Judge, _ node.Result, done func(node.Response)) bool {
	s.ends <- func(resp node.Response) {
		if err := judge(resp); err != nil {
			panic(err)
		}
		done(resp)
	}
	return false
}

// A silentPoster sends nothing.
type silentPoster struct{}

func (silentPoster) post(context.Context, target, string, []button) (string, error) { return "1", nil }
func (silentPoster) edit(context.Context, target, string, string, []button) error   { return nil }
func (silentPoster) silent(context.Context, target) error                           { return nil }

// TestMemoryOfPlatforms has messages of many conversations wait: in total they have half of the
// memory of the program, what is more comes again, and all of it is free in the end.
func TestMemoryOfPlatforms(t *testing.T) {
	const limit = 1 << 20
	d, held := newDispatcher(), node.NewMemory(limit).Account("telegram")
	b := &branch{dispatcher: d, held: held, clock: node.SystemClock{}, seen: newMemory(node.SystemClock{})}
	b.outbox = newOutbox(d, held, b.clock, slog.New(slog.DiscardHandler), silentPoster{}, 4096)
	defer b.Close()
	starter := &endless{ends: make(chan func(node.Response), 1000)}
	d.attach(&generation{starter: starter, log: slog.New(slog.DiscardHandler)})
	take := func(i int) error {
		name := fmt.Sprint("telegram/", i)
		m := incoming{platform: "telegram", conversation: name, text: strings.Repeat("x", 10<<10), event: eventMessage}
		_, err := b.takeOnce(t.Context(), &platformEvent{incoming: m, once: name, to: target{conversation: name}})
		return err
	}
	n := 0
	for ; take(n) == nil; n++ {
		if n > 100 {
			t.Fatal("100 messages of 10 KiB were taken within 512 KiB")
		}
	}
	if n < 40 || held.Held() > limit/2 || b.counts.refused.Load() != 1 {
		t.Errorf("%d messages of 10 KiB were taken, %d bytes are held, %d were refused", n, held.Held(), b.counts.refused.Load())
	}
	(<-starter.ends)(node.Response{None: true})
	d.work.Wait()
	if err := take(n); err != nil {
		t.Errorf("a message that was refused came again: %v", err)
	}
	for range n {
		(<-starter.ends)(node.Response{Payload: value.String(strings.Repeat("y", 10<<10))})
	}
	if _, err := d.detach(t.Context(), d.Current()); err != nil {
		t.Fatal(err)
	}
	if err := b.outbox.flush(t.Context()); err != nil || held.Held() != 0 {
		t.Errorf("got %v, and %d bytes are held in the end", err, held.Held())
	}
}

// TestMemoryOfTheProgram has others take the memory: a chat forgets conversations in which nothing
// happens, refuses new messages, and keeps the messages of conversations in use.
func TestMemoryOfTheProgram(t *testing.T) {
	memory := node.NewMemory(1 << 20)
	h := newConversations(memory)
	defer h.Close()
	idle, _ := h.open("idle")
	idle.say("u1", "hello")
	idle.unpin()
	used, _ := h.open("used")
	used.say("u1", strings.Repeat("x", 20<<10))
	other := memory.Account("listener")
	other.Hold(1 << 20)
	h.held.Hold(32 << 10) // more than the block that the account has
	if h.fits(0, 4<<10) {
		t.Error("a message fits where there is no memory")
	}
	if h.mu.byKey.Len() != 1 || len(used.mu.messages) != 1 {
		t.Errorf("got %d conversations, and %d messages of the one in use", h.mu.byKey.Len(), len(used.mu.messages))
	}
	if _, err := h.read(value.String(`{"text": "hello", "rest": [`+strings.Repeat("0,", 1<<10)+`0]}`), 1000); !errors.Is(err, errMemory) {
		t.Errorf("got %v", err)
	}
	other.Close()
	h.held.Free(32 << 10)
	if !h.fits(0, 4<<10) {
		t.Error("a message does not fit where there is memory again")
	}
	h.check(t, "in the end")
}
