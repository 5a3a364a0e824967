package websocket

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/meter"
	"github.com/uniflow-labs/uniflow/node/state"
)

const (
	// goodbyeTime is how long processes may go on for a client that has closed its
	// connection. One that is lost ends them immediately.
	goodbyeTime = 5 * time.Second

	// closeWait is how long a client may take to confirm that a connection ends.
	closeWait = time.Second
)

// A server has the connections of a WebSocket server. It lives in the pool, so that a
// reload keeps them: new messages start processes in the last generation.
type server struct {
	generations state.Generations[generation] // attached under mu; no new connections come without one
	goroutines  sync.WaitGroup                // of the connections
	held        *node.Account                 // bytes of long messages
	received    atomic.Uint64
	sent        atomic.Uint64
	refused     atomic.Uint64
	behind      atomic.Uint64 // closed, as they did not take their messages
	buffers     sync.Pool     // of *[]byte
	call        *node.Call

	mu struct {
		sync.Mutex
		closed   bool          // the server is: there are no new connections
		empty    chan struct{} // closed when the last connection has ended; nil unless detach waits for that
		reserved int           // connections, with those that are being made
		conns    map[string]*conn
		topics   map[string]map[*conn]struct{}
	}
}

// A generation is what a server needs of one generation. It is immutable
// once it is attached.
type generation struct {
	starter  node.Starter
	settings settings
	closes   bool // the port close is linked
	fails    bool // the port error is linked
	parts    bool
	log      *slog.Logger
}

func newServer(memory *node.Memory) *server {
	s := &server{held: memory.Account("websocket")}
	s.mu.conns = make(map[string]*conn)
	s.mu.topics = make(map[string]map[*conn]struct{})
	s.call = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Fail(resp.Payload.AsError())
		}
		return node.Respond(resp)
	})
	return s
}

// attach makes a generation handle all messages from now on.
func (s *server) attach(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generations.Attach(g)
}

// detach ends what attach began. If no other generation is attached, it ends all
// connections, and waits for that or for ctx.
func (s *server) detach(ctx context.Context, g *generation) error {
	code := websocket.StatusServiceRestart
	if node.IsStopping(ctx) {
		code = websocket.StatusGoingAway
	}
	s.mu.Lock()
	if last := s.generations.Detach(g); !last {
		s.mu.Unlock()
		return nil
	}
	empty := make(chan struct{})
	if s.mu.empty = empty; len(s.mu.conns) == 0 {
		close(empty)
		s.mu.empty = nil
	}
	all := make([]*conn, 0, len(s.mu.conns))
	for _, c := range s.mu.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, c := range all {
		closing.Go(func() { c.stop(ctx, code) })
	}
	closing.Wait()
	return node.WaitFor(ctx, empty)
}

// Close ends what is left. The pool calls it when no generation uses the server any more.
func (s *server) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	for _, c := range s.mu.conns {
		c.cut(errStopped)
	}
	s.mu.Unlock()
	s.goroutines.Wait()
	s.held.Close()
	return nil
}

// servesLocked reports whether there may be new connections.
func (s *server) servesLocked() bool { return s.generations.Serving() && !s.mu.closed }

// full reports whether there may be no other connection.
func (s *server) full(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.reserved >= limit {
		s.refused.Add(1)
		return true
	}
	return false
}

// reserve counts a connection that is about to be made.
func (s *server) reserve(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.servesLocked() || s.mu.reserved >= limit {
		s.refused.Add(1)
		return false
	}
	s.mu.reserved++
	return true
}

// unreserve takes back what reserve has made, with the connection if there is one.
func (s *server) unreserve(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.reserved--
	if c == nil {
		return
	}
	if delete(s.mu.conns, c.id); len(s.mu.conns) == 0 && s.mu.empty != nil {
		close(s.mu.empty)
		s.mu.empty = nil
	}
	for _, name := range c.topics {
		members := s.mu.topics[name]
		if delete(members, c); len(members) == 0 {
			delete(s.mu.topics, name)
		}
	}
}

// add begins to serve a connection, unless the server has stopped.
func (s *server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.servesLocked() {
		return false
	}
	s.mu.conns[c.id] = c
	for _, name := range c.topics {
		members := s.mu.topics[name]
		if members == nil {
			members = make(map[*conn]struct{})
			s.mu.topics[name] = members
		}
		members[c] = struct{}{}
	}
	s.goroutines.Go(c.serve)
	return true
}

// find returns a connection, or nil.
func (s *server) find(id string) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.conns[id]
}

// publish sends a message to all connections of a topic. It does not wait for them.
func (s *server) publish(topic string, kind websocket.MessageType, data []byte) {
	s.mu.Lock()
	members := make([]*conn, 0, len(s.mu.topics[topic]))
	for c := range s.mu.topics[topic] {
		members = append(members, c)
	}
	s.mu.Unlock()
	for _, c := range members {
		c.publish(kind, data)
	}
}

func (s *server) measure(report func(node.Metric)) {
	s.mu.Lock()
	open := len(s.mu.conns)
	s.mu.Unlock()
	report(meter.Gauge("websocket_connections", "Connections that are open.", int64(open)))
	report(meter.Counter("websocket_received_total", "Messages received.", s.received.Load()))
	report(meter.Counter("websocket_sent_total", "Messages sent.", s.sent.Load()))
	report(meter.Counter("websocket_refused_total", "Connections refused, as there were too many.", s.refused.Load()))
	report(meter.Counter("websocket_behind_total", "Connections closed, as their clients did not take the messages of a topic.", s.behind.Load()))
}

var (
	errStopped = errors.New("the server stops")
	errEnded   = errors.New("the connection has ended")
	errLeft    = errors.New("the client has left")
)

// newID returns the id of a connection.
func newID() string { return rand.Text() }
