package chat

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	// mostLines and mostLineBytes bound what a room remembers: the last lines, and of
	// these as many as have that many bytes.
	mostLines, mostLineBytes = 200, 64 << 10

	// mostFrames is how many frames may wait for a client that is slow. One that is
	// further behind is cut off: it comes back, and gets the whole conversation.
	mostFrames = 256

	// mostViewers is how many connections a conversation may have.
	mostViewers = 16
)

// A line is a message as clients see it.
type line struct {
	ID      string   `json:"id"`
	From    string   `json:"from"` // "user" or "bot"
	Text    string   `json:"text"`
	Buttons []button `json:"buttons,omitempty"`
	Files   []file   `json:"files,omitempty"`
	Open    bool     `json:"open,omitempty"` // more is to come
	Failed  bool     `json:"failed,omitempty"`
}

// A frame is what clients get. Of the fields those are set that its type needs.
type frame struct {
	Type         string `json:"type"` // hello, message, append, busy, error
	Conversation string `json:"conversation,omitempty"`
	Title        string `json:"title,omitempty"`
	Greeting     string `json:"greeting,omitempty"`
	Messages     []line `json:"messages,omitempty"`
	Message      *line  `json:"message,omitempty"`
	ID           string `json:"id,omitempty"`
	Text         string `json:"text,omitempty"`
	Busy         bool   `json:"busy,omitempty"`
	Code         string `json:"code,omitempty"`
}

func (f *frame) encode() []byte {
	data, err := json.Marshal(f)
	if err != nil {
		return []byte(`{"type":"error","code":"internal"}`) // strings are always encoded
	}
	return data
}

// A room is a conversation of the widget: its last messages, and its viewers. Any
// goroutine may call the methods.
type room struct {
	rooms        *rooms
	conversation string
	pins         atomic.Int64  // how many use it; see unpin
	prepared     atomic.Bool   // earlier messages are being read, have been, or need not be
	ready        chan struct{} // closed when prepared, and that is over

	mu struct {
		sync.Mutex
		lines   []*line
		bytes   int   // what the lines weigh
		counted int   // what the node knows of the weight
		last    int   // number of the last line of the bot
		turn    *turn // whose process runs, or nil
		viewers map[*viewer]struct{}
	}
}

// A viewer is a connection that follows a room.
type viewer struct {
	rooms  *rooms
	frames chan []byte  // of [mostFrames]; never closed
	queued atomic.Int64 // bytes in frames
	cut    context.CancelCauseFunc
}

var errBehind = errors.New("the client does not take its messages")

func newRoom(h *rooms, conversation string) *room {
	r := &room{rooms: h, conversation: conversation, ready: make(chan struct{})}
	r.mu.viewers = make(map[*viewer]struct{})
	r.weighLocked()
	return r
}

// enter adds a viewer, whose first frame is the conversation so far.
func (r *room) enter(g *viewer, hello frame) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.viewers) >= mostViewers {
		return false
	}
	for _, l := range r.mu.lines {
		hello.Messages = append(hello.Messages, *l)
	}
	hello.Busy = r.mu.turn != nil && !r.mu.turn.paused
	g.put(hello.encode()) // it is the first
	r.mu.viewers[g] = struct{}{}
	return true
}

func (r *room) leave(g *viewer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.viewers, g)
}

// fresh says that there is nothing to read from before.
func (r *room) fresh() {
	if !r.prepared.Swap(true) {
		close(r.ready)
	}
}

// isQuiet reports whether no process runs.
func (r *room) isQuiet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.turn == nil
}

// tell sends a frame to all viewers. The caller holds the lock.
func (r *room) tell(f frame) {
	if len(r.mu.viewers) == 0 {
		return
	}
	data := f.encode()
	for g := range r.mu.viewers {
		if !g.put(data) {
			r.cutLocked(g)
		}
	}
}

// cutLocked cuts off a viewer that is behind.
func (r *room) cutLocked(g *viewer) {
	delete(r.mu.viewers, g)
	g.cut(errBehind)
}

// say adds a message of the user. It reports false for one that is there already.
func (r *room) say(id, text string) bool {
	r.mu.Lock()
	defer r.unlock()
	if slices.ContainsFunc(r.mu.lines, func(l *line) bool { return l.ID == id }) {
		return false
	}
	r.add(&line{ID: id, From: "user", Text: text})
	return true
}

// unsay removes a message of the user that was refused.
func (r *room) unsay(id, why string) {
	r.mu.Lock()
	defer r.unlock()
	for i, l := range r.mu.lines {
		if l.ID == id {
			r.mu.lines = slices.Delete(r.mu.lines, i, i+1)
			r.mu.bytes -= l.weight()
			break
		}
	}
	r.tell(frame{Type: "error", ID: id, Text: why})
}

// add adds a line. The caller holds the lock.
func (r *room) add(l *line) {
	if l.ID == "" {
		r.mu.last++
		l.ID = "b" + strconv.Itoa(r.mu.last)
	}
	r.mu.lines = append(r.mu.lines, l)
	r.mu.bytes += l.weight()
	r.forget()
	r.tell(frame{Type: "message", Message: l})
}

// forget drops the first lines, of those that are too many. The last one stays. The caller
// holds the lock.
func (r *room) forget() {
	n := 0
	for len(r.mu.lines)-n > 1 && (len(r.mu.lines)-n > mostLines || r.mu.bytes > mostLineBytes) && !r.mu.lines[n].Open {
		r.mu.bytes -= r.mu.lines[n].weight()
		n++
	}
	r.mu.lines = slices.Delete(r.mu.lines, 0, n)
}

// restore puts earlier messages before those that there are.
func (r *room) restore(earlier []*line) {
	r.mu.Lock()
	defer r.unlock()
	for _, l := range earlier {
		r.mu.last++
		l.ID = "b" + strconv.Itoa(r.mu.last)
		r.mu.bytes += l.weight()
	}
	r.mu.lines = append(earlier, r.mu.lines...)
	r.forget()
}
