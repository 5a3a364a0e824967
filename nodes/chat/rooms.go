package chat

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// mostRooms is how many conversations are remembered. The one that was not used for the
// longest time is forgotten first.
const mostRooms = 10_000

// rooms are the conversations of a node of kind chat, with its connections. They live in the
// pool, so that a reload keeps both.
type rooms struct {
	*conversations
	sockets sync.WaitGroup

	held *node.Account // bytes of the rooms, of what waits for processes and clients, and of what is read
	most atomic.Int64  // what that may be, of the last generation

	mu struct {
		sync.Mutex
		rooms   map[string]*list.Element // of *room, by conversation
		recent  *list.List               // the last one that was used first
		viewers map[*viewer]struct{}
		drained chan struct{} // closed when streams of events have to end
		stopped bool
	}
}

func newRooms(memory *node.Memory) *rooms {
	h := &rooms{conversations: newConversations(), held: memory.Account(platformChat)}
	h.most.Store(mostMemory)
	h.mu.rooms = make(map[string]*list.Element)
	h.mu.recent = list.New()
	h.mu.viewers = make(map[*viewer]struct{})
	h.mu.drained = make(chan struct{})
	return h
}

// front returns the node of the last generation, or n before the first serves.
func (n *chatNode) front() *chatNode {
	if s := n.rooms.Current(); s != nil {
		return s.node.(*chatNode)
	}
	return n
}

// open returns the room of a conversation, for use until unpin. made reports that there was none. Without room
// for another one it returns nil.
func (h *rooms) open(conversation string) (r *room, made bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.mu.rooms[conversation]; e != nil {
		h.mu.recent.MoveToFront(e)
		r = e.Value.(*room)
		r.pins.Add(1)
		return r, false
	}
	if !h.fitsLocked(1, roomWeight) {
		return nil, false
	}
	r = newRoom(h, conversation)
	r.pins.Add(1)
	h.mu.rooms[conversation] = h.mu.recent.PushFront(r)
	return r, true
}

// enter counts a viewer, unless there are too many.
func (h *rooms) enter(g *viewer, most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.stopped || len(h.mu.viewers) >= most {
		h.counts.refused.Add(1)
		return false
	}
	h.mu.viewers[g] = struct{}{}
	return true
}

func (h *rooms) leave(g *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.viewers, g)
	h.held.Free(g.queued.Swap(0)) // nothing is put into its queue any more
}

// drain lets the streams of events end, so that their server can.
func (h *rooms) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.mu.drained:
	default:
		close(h.mu.drained)
	}
}

func (h *rooms) drained() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.drained
}

// resume takes a drain back: another generation has come.
func (h *rooms) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.stopped = false
	select {
	case <-h.mu.drained:
		h.mu.drained = make(chan struct{})
	default:
	}
}

// stop cuts off all connections, and lets none in until resume. alone reports that there were none.
func (h *rooms) stop() (alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.stopped = true
	for g := range h.mu.viewers {
		g.cut(errStopped)
	}
	return len(h.mu.viewers) == 0
}

// shut ends all connections, and waits for that or for ctx.
func (h *rooms) shut(ctx context.Context) error {
	h.drain()
	if h.stop() { // what is left of sockets does not wait for anything
		h.sockets.Wait()
		return nil
	}
	done := make(chan struct{})
	h.work.Go(func() {
		h.sockets.Wait()
		close(done)
	})
	return node.WaitFor(ctx, done)
}

func (h *rooms) Close() error {
	h.stop()
	h.sockets.Wait()
	defer h.held.Close()
	return h.conversations.Close()
}

func (h *rooms) measure(report func(node.Metric)) {
	h.mu.Lock()
	viewers, rooms := len(h.mu.viewers), len(h.mu.rooms)
	h.mu.Unlock()
	report(node.Metric{Name: "chat_connections", Help: "Connections that look at a conversation.", Value: float64(viewers)})
	report(node.Metric{Name: "chat_memory_bytes", Help: "Memory of the conversations.", Value: float64(h.held.Held())})
	report(node.Metric{Name: "chat_conversations", Help: "Conversations in memory.", Value: float64(rooms)})
	h.conversations.measure("chat", report)
}

// prepare reads what was said in a room before, if there is a port for that. The first
// caller does it; the others wait.
func (n *chatNode) prepare(ctx context.Context, r *room) {
	if r.prepared.Swap(true) {
		select {
		case <-r.ready:
		case <-ctx.Done():
		}
		return
	}
	defer close(r.ready)
	if !n.recalls || n.starter == nil {
		return
	}
	asked := message{platform: platformChat, conversation: r.conversation, event: "history"}
	resp := n.starter.Run(n.rooms.ctx, n.rooms.call.Send(outHistory, asked.payload()))
	if resp.IsError() {
		n.log.Warn("earlier messages cannot be read", "conversation", r.conversation, "error", node.Clip(resp.Payload.AsError().Error(), 1000))
		return
	}
	r.restore(historyOf(resp.Payload))
}

// historyOf reads messages as models have them: a list of role and content. Others are not
// for clients.
func historyOf(v value.Value) []*line {
	var lines []*line
	for i, elem := range v.Elems() {
		if v.Len()-i > mostLines || elem.Kind() != value.KindMap {
			continue
		}
		content := textOrNumber(elem, "content")
		from := map[string]string{"user": "user", "assistant": "bot"}[textOrNumber(elem, "role")]
		if content != "" && from != "" {
			lines = append(lines, &line{From: from, Text: content})
		}
	}
	return lines
}
