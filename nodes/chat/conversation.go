package chat

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	// mostMessages and mostMessageBytes bound what a conversation remembers: the last
	// messages, and of these as many as have that many bytes.
	mostMessages, mostMessageBytes = 200, 64 << 10

	// mostEvents is how many events may wait for a client that is slow. One that is
	// further behind is cut off: it comes back, and gets the whole conversation.
	mostEvents = 256

	// mostViewers is how many connections a conversation may have.
	mostViewers = 16
)

// A message is one of a conversation, as clients see it.
type message struct {
	ID      string   `json:"id"`
	From    string   `json:"from"` // "user" or "bot"
	Text    string   `json:"text"`
	Buttons []button `json:"buttons,omitempty"`
	Files   []file   `json:"files,omitempty"`
	Open    bool     `json:"open,omitempty"` // more is to come
	Failed  bool     `json:"failed,omitempty"`
}

// An event is what clients get. Of the fields those are set that its type needs.
type event struct {
	Type         string    `json:"type"` // hello, message, append, busy, error
	Conversation string    `json:"conversation,omitempty"`
	Title        string    `json:"title,omitempty"`
	Greeting     string    `json:"greeting,omitempty"`
	Messages     []message `json:"messages,omitempty"`
	Partial      bool      `json:"partial,omitempty"` // there were messages before these, which only pages have
	Message      *message  `json:"message,omitempty"`
	ID           string    `json:"id,omitempty"`
	Text         string    `json:"text,omitempty"`
	Busy         bool      `json:"busy,omitempty"`
	Code         string    `json:"code,omitempty"`
}

func (f *event) encode() []byte {
	data, err := json.Marshal(f)
	if err != nil {
		return []byte(`{"type":"error","code":"internal"}`) // strings are always encoded
	}
	return data
}

// A conversation is one of the widget: its last messages, and its viewers. Any goroutine may
// call the methods.
type conversation struct {
	all      *conversations
	key      string
	pins     atomic.Int64  // how many use it; see unpin
	prepared atomic.Bool   // earlier messages are being read, have been, or need not be
	ready    chan struct{} // closed when prepared, and that is over

	mu struct {
		sync.Mutex
		messages []*message
		bytes    int    // what the messages weigh
		counted  int    // what the node knows of the weight
		last     int    // number of the last message of the bot
		ids      string // what the ids of the bot's messages begin with
		partial  bool   // see [conversation.beganBefore]
		turn     *turn  // whose process runs, or nil
		viewers  map[*viewer]struct{}
	}
}

// A viewer is a connection that follows a conversation.
type viewer struct {
	all    *conversations
	events chan []byte  // of [mostEvents]; never closed
	queued atomic.Int64 // bytes in events
	cut    context.CancelCauseFunc
}

var errBehind = errors.New("the client does not take its messages")

func newConversation(h *conversations, key string) *conversation {
	conv := &conversation{all: h, key: key, ready: make(chan struct{})}
	conv.mu.viewers, conv.mu.ids = make(map[*viewer]struct{}), "b"
	conv.weighLocked()
	return conv
}

// enter adds a viewer, whose first event is the conversation so far.
func (conv *conversation) enter(v *viewer, hello event) bool {
	conv.mu.Lock()
	defer conv.mu.Unlock()
	if len(conv.mu.viewers) >= mostViewers {
		return false
	}
	for _, l := range conv.mu.messages {
		hello.Messages = append(hello.Messages, *l)
	}
	hello.Partial = conv.mu.partial
	hello.Busy = conv.mu.turn != nil && !conv.mu.turn.paused
	v.put(hello.encode()) // it is the first
	conv.mu.viewers[v] = struct{}{}
	return true
}

func (conv *conversation) leave(v *viewer) {
	conv.mu.Lock()
	defer conv.mu.Unlock()
	delete(conv.mu.viewers, v)
}

// fresh says that there is nothing to read from before.
func (conv *conversation) fresh() {
	if !conv.prepared.Swap(true) {
		close(conv.ready)
	}
}

// beganBefore says that there were messages before, which cannot be read: the program has started again, or has
// forgotten the conversation. The ids of new messages differ from those that pages show.
func (conv *conversation) beganBefore() {
	conv.mu.Lock()
	defer conv.mu.Unlock()
	conv.mu.partial, conv.mu.ids = true, "b"+rand.Text()+"-"
}

// isQuiet reports whether no process runs.
func (conv *conversation) isQuiet() bool {
	conv.mu.Lock()
	defer conv.mu.Unlock()
	return conv.mu.turn == nil
}

// broadcast sends an event to all viewers. The caller holds the lock.
func (conv *conversation) broadcast(f event) {
	if len(conv.mu.viewers) == 0 {
		return
	}
	data := f.encode()
	for v := range conv.mu.viewers {
		if !v.put(data) {
			conv.cutLocked(v)
		}
	}
}

// cutLocked cuts off a viewer that is behind.
func (conv *conversation) cutLocked(v *viewer) {
	delete(conv.mu.viewers, v)
	v.cut(errBehind)
}

// say adds a message of the user. It reports false for one that is there already.
func (conv *conversation) say(id, text string) bool {
	conv.mu.Lock()
	defer conv.unlock()
	if slices.ContainsFunc(conv.mu.messages, func(l *message) bool { return l.ID == id }) {
		return false
	}
	conv.add(&message{ID: id, From: "user", Text: text})
	return true
}

// unsay removes a message of the user that was refused.
func (conv *conversation) unsay(id, why string) {
	conv.mu.Lock()
	defer conv.unlock()
	for i, l := range conv.mu.messages {
		if l.ID == id {
			conv.mu.messages = slices.Delete(conv.mu.messages, i, i+1)
			conv.mu.bytes -= l.weight()
			break
		}
	}
	conv.broadcast(event{Type: "error", ID: id, Text: why})
}

// add adds a message. The caller holds the lock.
func (conv *conversation) add(l *message) {
	if l.ID == "" {
		conv.mu.last++
		l.ID = conv.mu.ids + strconv.Itoa(conv.mu.last)
	}
	conv.mu.messages = append(conv.mu.messages, l)
	conv.mu.bytes += l.weight()
	conv.forget()
	conv.broadcast(event{Type: "message", Message: l})
}

// forget drops the first messages, of those that are too many. The last one stays. The caller
// holds the lock.
func (conv *conversation) forget() {
	n := 0
	for len(conv.mu.messages)-n > 1 && (len(conv.mu.messages)-n > mostMessages || conv.mu.bytes > mostMessageBytes) && !conv.mu.messages[n].Open {
		conv.mu.bytes -= conv.mu.messages[n].weight()
		n++
	}
	conv.mu.messages = slices.Delete(conv.mu.messages, 0, n)
}

// restore puts earlier messages before those that there are.
func (conv *conversation) restore(earlier []*message) {
	conv.mu.Lock()
	defer conv.unlock()
	for _, l := range earlier {
		conv.mu.last++
		l.ID = conv.mu.ids + strconv.Itoa(conv.mu.last)
		conv.mu.bytes += l.weight()
	}
	conv.mu.messages = append(earlier, conv.mu.messages...)
	conv.forget()
}
