package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

// An endpoint serves clients. It lives in the pool: calls start processes in the last
// generation, and sessions go on through reloads.
type endpoint struct {
	about   about
	held    *node.Account // bytes of requests that are handled, and of sessions
	server  *sdk.Server
	handler http.Handler // of requests without a session
	keeping http.Handler // of sessions; nil without them

	entering atomic.Int64 // requests that begin a session, or wait for changes and so are one
	running  atomic.Int64 // calls
	answered atomic.Uint64
	failed   atomic.Uint64

	closing sync.WaitGroup // of sessions, and of who waits for their end

	generations state.Generations[server] // guarded by mu; one is current once there are requests

	mu struct {
		sync.Mutex
		offered  map[string]string  // tools that clients see, by name
		last     uint64             // id of a request
		requests map[string]*origin // that are being answered, by id
	}
}

// An origin is where a call has come from.
type origin struct {
	ctx     context.Context // of the request: done when the client has left
	request *request
}

func (a about) key() string {
	return fmt.Sprintf("%q %q %q %t %t %d %d", a.title, a.version, a.instructions, a.anyHost, a.sessions, a.most, a.idle)
}

func newEndpoint(a about, memory *node.Memory) *endpoint {
	h := &endpoint{about: a, held: memory.Account("mcp")}
	h.mu.offered, h.mu.requests = make(map[string]string), make(map[string]*origin)
	h.server = sdk.NewServer(
		&sdk.Implementation{Name: a.title, Version: a.version},
		&sdk.ServerOptions{Instructions: a.instructions, Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: a.sessions}}},
	)
	options := sdk.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: a.anyHost, MaxRequestBodyBytes: -1} // the listener has a limit
	h.handler = h.handlerOf(options)
	if a.sessions {
		options.Stateless, options.SessionTimeout = false, a.idle
		h.keeping = h.handlerOf(options)
	}
	return h
}

func (h *endpoint) handlerOf(o sdk.StreamableHTTPOptions) http.Handler {
	return signedIn(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return h.server }, &o))
}

// sessionWeight is what a session has in memory, in bytes, without what its client has said of
// itself: see TestSessionWeight.
const sessionWeight = 32 << 10

// ServeHTTP gives a request to the session that it belongs to, or begins. Those of newer
// versions of the protocol have none: a request that waits for changes stands for one.
// introduction is what a session keeps of the request, in bytes.
func (h *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request, method string, introduction int64) {
	begins, waits := method == "initialize", method == "subscriptions/listen"
	if waits && !h.about.sessions {
		http.Error(w, "this server has no subscriptions", http.StatusNotFound)
		return
	}
	if h.about.sessions && (begins || waits) {
		h.entering.Add(1) // before the count, as others enter as well
		defer h.entering.Add(-1)
		if h.stopped() || h.sessions() > h.about.most || !h.held.Take(sessionWeight+introduction) {
			noRoom(w, "there is no room for another session")
			return
		}
		defer func() { h.keep(w.Header().Get("Mcp-Session-Id"), sessionWeight+introduction) }()
	}
	if h.about.sessions && (begins || r.Method != http.MethodPost || r.Header.Get("Mcp-Session-Id") != "") {
		h.keeping.ServeHTTP(w, r)
		return
	}
	h.handler.ServeHTTP(w, r)
}

func noRoom(w http.ResponseWriter, text string) {
	w.Header()["Retry-After"] = []string{"10"}
	http.Error(w, text, http.StatusServiceUnavailable)
}

// keep frees the bytes of a session when it ends, or immediately if there is none.
func (h *endpoint) keep(id string, bytes int64) {
	session := h.session(id)
	if session != nil && h.follow(session, bytes) {
		return
	}
	if session != nil {
		_ = session.Close() // detach has not seen it; its client will find that it has ended
	}
	h.held.Free(bytes)
}

// session returns a session by its id, or nil.
func (h *endpoint) session(id string) *sdk.ServerSession {
	for session := range h.server.Sessions() {
		if id != "" && session.ID() == id {
			return session
		}
	}
	return nil
}

// follow frees bytes when a session ends. It reports false if no generation is attached.
func (h *endpoint) follow(session *sdk.ServerSession, bytes int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.generations.Serving() {
		return false
	}
	h.closing.Go(func() {
		_ = session.Wait() // why it has ended does not matter
		h.held.Free(bytes)
	})
	return true
}

// sessions returns how many sessions there are, with those that begin.
func (h *endpoint) sessions() (n int) {
	for session := range h.server.Sessions() {
		if session.ID() != "" { // others end with their request
			n++
		}
	}
	return n + int(h.entering.Load())
}

// attach makes a generation run all calls from now on. Clients with a session are
// notified if the tools have changed.
func (h *endpoint) attach(s *server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.generations.Attach(s)
	h.offerLocked(s)
}

// offerLocked lets clients see the tools of a generation. It does nothing to those that they see.
func (h *endpoint) offerLocked(s *server) {
	left := make(map[string]bool)
	for name := range h.mu.offered {
		left[name] = true
	}
	for _, t := range s.tools {
		delete(left, t.sdk.Name)
		if h.mu.offered[t.sdk.Name] != t.text {
			h.mu.offered[t.sdk.Name] = t.text
			h.server.AddTool(t.sdk, h.call)
		}
	}
	for name := range left {
		delete(h.mu.offered, name)
		h.server.RemoveTools(name)
	}
}

// detach ends what attach began. If no other generation is attached, all sessions end,
// each when its calls are answered.
func (h *endpoint) detach(s *server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.generations.Detach(s) {
		h.offerLocked(h.generations.Current())
		return
	}
	if !h.about.sessions {
		return // each ends with its request
	}
	for session := range h.server.Sessions() {
		h.closing.Go(func() { _ = session.Close() }) // its client has left, or will find that it has ended
	}
}

func (h *endpoint) stopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.generations.Serving()
}

// Close waits for what is left. The pool calls it when no generation uses the endpoint any more.
func (h *endpoint) Close() error {
	h.closing.Wait()
	h.held.Close()
	return nil
}

// remember makes a request known under an id until forget is called.
func (h *endpoint) remember(o *origin) (id string, forget func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.last++
	id = strconv.FormatUint(h.mu.last, 36)
	h.mu.requests[id] = o
	return id, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.mu.requests, id)
	}
}

// originOf returns the request that a call came with; nil for one that came otherwise.
func (h *endpoint) originOf(r *sdk.CallToolRequest) *origin {
	if r.Extra == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.requests[r.Extra.Header.Get(callHeader)]
}

// sessionKey is the key of the context that ends the calls of a session: the library
// gives them the values of it alone.
type sessionKey struct{}

// serveSession serves one client until it leaves or ctx ends.
func (h *endpoint) serveSession(ctx context.Context, t sdk.Transport) node.Result {
	err := h.server.Run(context.WithValue(ctx, sessionKey{}, ctx), t)
	if err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return node.Fail(err)
	}
	return node.None()
}

func (h *endpoint) measure(report func(node.Metric)) {
	report(node.Metric{Name: "mcp_calls", Help: "Calls of tools that run.", Value: float64(h.running.Load())})
	report(node.Metric{Name: "mcp_sessions", Help: "Sessions of clients.", Value: float64(h.sessions())})
	report(node.Metric{Name: "mcp_calls_total", Help: "Calls of tools that were answered.", Type: node.MetricCounter, Value: float64(h.answered.Load())})
	report(node.Metric{Name: "mcp_failed_total", Help: "Calls of tools that have failed.", Type: node.MetricCounter, Value: float64(h.failed.Load())})
}
