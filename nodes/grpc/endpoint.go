package grpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/meter"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// An endpoint has the calls of a server. It lives in the pool, so that a reload keeps streams: new
// messages start processes in the last generation.
type endpoint struct {
	held        *node.Account                 // bytes of requests, and of lists of messages
	generations state.Generations[generation] // guarded by mu
	answered    atomic.Uint64
	failed      atomic.Uint64
	refused     atomic.Uint64

	mu struct {
		sync.Mutex
		calls    map[*call]struct{}
		stopping chan struct{} // closed when no generation serves any more
		empty    chan struct{} // closed when the last call has ended; nil unless wait waits for that
	}
}

func newEndpoint(memory *node.Memory) *endpoint {
	h := &endpoint{held: memory.Account("grpc")}
	h.mu.calls, h.mu.stopping = make(map[*call]struct{}), make(chan struct{})
	return h
}

// attach makes a generation handle all calls from now on.
func (h *endpoint) attach(g *generation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.generations.Attach(g); h.stoppedLocked() {
		h.mu.stopping = make(chan struct{})
	}
}

func (h *endpoint) stoppedLocked() bool {
	select {
	case <-h.mu.stopping:
		return true
	default:
		return false
	}
}

// stopping returns what is closed when calls must end.
func (h *endpoint) stopping() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.stopping
}

// detach ends what attach began. If no other generation is attached, streams that wait for their
// clients end, and others when their messages are answered.
func (h *endpoint) detach(g *generation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := h.generations.Detach(g); !last || h.stoppedLocked() {
		return
	}
	close(h.mu.stopping)
	for c := range h.mu.calls {
		if c.reading {
			c.interrupt()
		}
	}
}

// wait waits until all calls have ended, unless a generation serves.
func (h *endpoint) wait(ctx context.Context) error {
	h.mu.Lock()
	if h.generations.Serving() || len(h.mu.calls) == 0 {
		h.mu.Unlock()
		return nil
	}
	if h.mu.empty == nil {
		h.mu.empty = make(chan struct{})
	}
	empty := h.mu.empty
	h.mu.Unlock()
	return node.WaitFor(ctx, empty)
}

// Close is called by the pool when no generation uses the endpoint any more.
func (h *endpoint) Close() error {
	h.held.Close()
	return nil
}

// begin counts a call, or says why there may be none.
func (h *endpoint) begin(c *call) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.generations.Serving():
		return errStopping
	case len(h.mu.calls) >= h.generations.Current().calls:
		h.refused.Add(1)
		return connect.NewError(connect.CodeUnavailable, errors.New("the server has too many calls: try again soon"))
	}
	h.mu.calls[c] = struct{}{}
	return nil
}

func (h *endpoint) end(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.mu.calls, c); len(h.mu.calls) == 0 && h.mu.empty != nil {
		close(h.mu.empty)
		h.mu.empty = nil
	}
	h.held.Free(c.held)
}

var errStopping = connect.NewError(connect.CodeUnavailable, errors.New("the server stops: try again soon"))

func (h *endpoint) measure(report func(node.Metric)) {
	h.mu.Lock()
	n := len(h.mu.calls)
	h.mu.Unlock()
	report(meter.Gauge("grpc_server_calls", "Calls that are being answered, streams included.", int64(n)))
	report(meter.Counter("grpc_server_answered_total", "Processes of calls that have ended well.", h.answered.Load()))
	report(meter.Counter("grpc_server_failed_total", "Processes of calls that have failed.", h.failed.Load()))
	report(meter.Counter("grpc_server_refused_total", "Calls refused, as there were too many.", h.refused.Load()))
}

// taken is the handler of a request that a server has taken over.
type taken struct {
	endpoint *endpoint
	method   *method
	payload  value.Value // without the body
	data     []byte      // the body, unless it is live
	live     bool        // the body comes from the client, while the call goes on
	held     int64       // bytes of data that are counted
}

// reserve counts bytes that are about to be allocated.
func (t *taken) reserve(bytes int) error {
	switch n := int64(bytes); {
	case n < 0:
		t.endpoint.held.Free(-n)
	case !t.endpoint.held.Take(n):
		return content.ErrBusy
	}
	t.held += int64(bytes)
	return nil
}

// Close is called if the request is not answered by ServeHTTP.
func (t *taken) Close() error {
	t.endpoint.held.Free(t.held)
	t.held = 0
	return nil
}

// ServeHTTP implements [http.Handler]. It is called after the process of the request has ended,
// maybe by a later generation, and returns when the call has ended.
func (t *taken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{endpoint: t.endpoint, method: t.method, payload: t.payload, control: http.NewResponseController(w), held: t.held}
	t.held = 0
	if err := t.endpoint.begin(c); err != nil {
		t.endpoint.held.Free(c.held)
		_ = connect.NewErrorWriter().Write(w, r, err) // the client has left
		return
	}
	defer t.endpoint.end(c)
	ctx := context.WithValue(r.Context(), callKey{}, c)
	if limit := t.endpoint.generations.Current().timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	r = r.WithContext(ctx)
	if !t.live {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(t.data)), int64(len(t.data))
	}
	t.method.handler.ServeHTTP(&flusher{w, c.control}, r)
}

// A flusher is the writer of an answer with the method that package connect looks for.
type flusher struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Flush implements [http.Flusher].
func (f *flusher) Flush() { _ = f.control.Flush() } // the next write has the error

type callKey struct{}

// A call is one that is being answered.
type call struct {
	endpoint *endpoint
	method   *method
	payload  value.Value
	control  *http.ResponseController
	held     int64 // bytes that are counted; owned by the call
	reading  bool  // it waits for its client; guarded by endpoint.mu

	// Of the process that runs.
	reply   *reply
	failure error // why the answer cannot be sent
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// interrupt makes the call stop waiting for its client.
func (c *call) interrupt() {
	_ = c.control.SetReadDeadline(time.Now().Add(-time.Second)) // fails if the connection has: so does the read
}

// read reads from the client by f, which fails if the server stops.
func (c *call) read(f func() error) error {
	h := c.endpoint
	h.mu.Lock()
	if h.stoppedLocked() {
		h.mu.Unlock()
		return errStopping
	}
	c.reading = true
	h.mu.Unlock()
	err := f()
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.reading = false; err != nil && !errors.Is(err, io.EOF) && h.stoppedLocked() {
		return errStopping
	}
	return err
}
