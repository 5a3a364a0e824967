package web

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
)

const (
	// wsGoodbye is how long processes may go on for a client that has closed its
	// connection. One that is lost ends them immediately.
	wsGoodbye = 5 * time.Second

	// wsCloseWait is how long a client may take to confirm that a connection ends.
	wsCloseWait = time.Second

	// wsMaxHeld bounds the bytes of long messages that are being received, or
	// handled; a node whose messages may be longer has room for 32 of them.
	wsMaxHeld = 256 << 20
)

// A wsHub has the connections of a WebSocket server. It lives in the pool, so that a
// reload keeps them: new messages start processes in the last generation.
type wsHub struct {
	current    atomic.Pointer[wsGeneration] // nil before the first
	goroutines sync.WaitGroup               // of the connections
	held       *node.Account                // bytes of long messages
	received   atomic.Uint64
	sent       atomic.Uint64
	refused    atomic.Uint64
	behind     atomic.Uint64 // closed, as they did not take their messages
	buffers    sync.Pool     // of *[]byte
	call       *node.Call

	mu struct {
		sync.Mutex
		generations []*wsGeneration
		stopped     bool          // no generation is attached: there are no new connections
		empty       chan struct{} // closed when the last connection has ended; nil unless detach waits for that
		reserved    int           // connections, with those that are being made
		conns       map[string]*wsConn
		topics      map[string]map[*wsConn]struct{}
	}
}

// A wsGeneration is what a hub needs of one generation. It is immutable.
type wsGeneration struct {
	starter  node.Starter
	settings wsSettings
	closes   bool // the port close is linked
	fails    bool // the port error is linked
	parts    bool
	log      *slog.Logger
}

func newWSHub(memory *node.Memory) *wsHub {
	h := &wsHub{held: memory.Account("websocket")}
	h.mu.conns = make(map[string]*wsConn)
	h.mu.topics = make(map[string]map[*wsConn]struct{})
	h.call = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Fail(resp.Payload.AsError())
		}
		return node.Respond(resp)
	})
	return h
}

// attach makes a generation handle all messages from now on, in place of another
// attachment of its own, if it had one.
func (h *wsHub) attach(g, before *wsGeneration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.generations = append(slices.DeleteFunc(h.mu.generations, func(other *wsGeneration) bool { return other == before }), g)
	h.mu.stopped = false
	h.current.Store(g)
}

// detach ends what attach began. If no other generation is attached, it ends all
// connections, and waits for that or for ctx.
func (h *wsHub) detach(ctx context.Context, g *wsGeneration) error {
	code := websocket.StatusServiceRestart
	if node.IsStopping(ctx) {
		code = websocket.StatusGoingAway
	}
	h.mu.Lock()
	h.mu.generations = slices.DeleteFunc(h.mu.generations, func(other *wsGeneration) bool { return other == g })
	if n := len(h.mu.generations); n > 0 {
		h.current.Store(h.mu.generations[n-1])
		h.mu.Unlock()
		return nil
	}
	h.mu.stopped = true
	empty := make(chan struct{})
	if h.mu.empty = empty; len(h.mu.conns) == 0 {
		close(empty)
		h.mu.empty = nil
	}
	all := make([]*wsConn, 0, len(h.mu.conns))
	for _, c := range h.mu.conns {
		all = append(all, c)
	}
	h.mu.Unlock()
	var closing sync.WaitGroup
	for _, c := range all {
		closing.Go(func() { c.stop(ctx, code) })
	}
	closing.Wait()
	return node.WaitFor(ctx, empty)
}

// Close ends what is left. The pool calls it when no generation uses the hub any more.
func (h *wsHub) Close() error {
	h.mu.Lock()
	h.mu.stopped = true
	for _, c := range h.mu.conns {
		c.cut(errWSStopped)
	}
	h.mu.Unlock()
	h.goroutines.Wait()
	h.held.Close()
	return nil
}

// full reports whether there is no room for another connection.
func (h *wsHub) full(limit int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.reserved >= limit {
		h.refused.Add(1)
		return true
	}
	return false
}

// reserve makes room for a connection.
func (h *wsHub) reserve(limit int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.stopped || h.mu.reserved >= limit {
		h.refused.Add(1)
		return false
	}
	h.mu.reserved++
	return true
}

// unreserve takes back what reserve has made, with the connection if there is one.
func (h *wsHub) unreserve(c *wsConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.reserved--
	if c == nil {
		return
	}
	if delete(h.mu.conns, c.id); len(h.mu.conns) == 0 && h.mu.empty != nil {
		close(h.mu.empty)
		h.mu.empty = nil
	}
	for _, name := range c.topics {
		members := h.mu.topics[name]
		if delete(members, c); len(members) == 0 {
			delete(h.mu.topics, name)
		}
	}
}

// add begins to serve a connection, unless the hub has stopped.
func (h *wsHub) add(c *wsConn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.stopped {
		return false
	}
	h.mu.conns[c.id] = c
	for _, name := range c.topics {
		members := h.mu.topics[name]
		if members == nil {
			members = make(map[*wsConn]struct{})
			h.mu.topics[name] = members
		}
		members[c] = struct{}{}
	}
	h.goroutines.Go(c.serve)
	return true
}

// find returns a connection, or nil.
func (h *wsHub) find(id string) *wsConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.conns[id]
}

// publish sends a message to all connections of a topic. It does not wait for them.
func (h *wsHub) publish(topic string, kind websocket.MessageType, data []byte) {
	h.mu.Lock()
	members := make([]*wsConn, 0, len(h.mu.topics[topic]))
	for c := range h.mu.topics[topic] {
		members = append(members, c)
	}
	h.mu.Unlock()
	for _, c := range members {
		c.publish(kind, data)
	}
}

func (h *wsHub) measure(report func(node.Metric)) {
	h.mu.Lock()
	open := len(h.mu.conns)
	h.mu.Unlock()
	report(node.Metric{Name: "websocket_connections", Help: "Connections that are open.", Value: float64(open)})
	for _, m := range []struct {
		name, help string
		count      *atomic.Uint64
	}{
		{"websocket_received_total", "Messages received.", &h.received},
		{"websocket_sent_total", "Messages sent.", &h.sent},
		{"websocket_refused_total", "Connections refused, as there were too many.", &h.refused},
		{"websocket_behind_total", "Connections closed, as their clients did not take the messages of a topic.", &h.behind},
	} {
		report(node.Metric{Name: m.name, Help: m.help, Type: node.MetricCounter, Value: float64(m.count.Load())})
	}
}

var (
	errWSStopped = errors.New("the server stops")
	errWSEnded   = errors.New("the connection has ended")
)

// newWSID returns the id of a connection.
func newWSID() string { return rand.Text() }
