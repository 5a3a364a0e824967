package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// helloWait is how long a client may take to name its conversation.
	helloWait = 10 * time.Second

	// pingEvery is how often a connection is used, at least, so that a lost one is found.
	pingEvery = 25 * time.Second

	// writeWait is how long a client may take to read one event, or to confirm the end.
	writeWait = 10 * time.Second
)

// hello is the first event.
func (n *chatNode) hello(token string) event {
	return event{Type: "hello", Conversation: token, Title: n.title, Greeting: n.greeting}
}

// newViewer returns a viewer whose context ends when it is cut off.
func newViewer(ctx context.Context, h *conversations) (*viewer, context.Context) {
	v := &viewer{all: h, events: make(chan []byte, mostEvents)}
	ctx, v.cut = context.WithCancelCause(ctx)
	return v, ctx
}

// attend lets a viewer into the conversation of a token. leave is to be called once if err is nil.
func (n *chatNode) attend(ctx context.Context, v *viewer, token string, c *caller) (conv *conversation, leave func(), err error) {
	conv, token, err = n.enter(token, c)
	if err != nil {
		return nil, nil, err
	}
	n.front().prepare(ctx, conv)
	if !conv.enter(v, n.hello(token)) {
		conv.unpin()
		return nil, nil, public(http.StatusTooManyRequests, "the conversation has too many connections")
	}
	return conv, func() { conv.leave(v); conv.unpin() }, nil
}

var errFull = errors.New("there are too many connections")

// A socket is the handler that makes a WebSocket of a request.
type socket struct {
	node   *chatNode
	caller caller
}

// ServeHTTP makes the connection, which goes on after it has returned.
func (s *socket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := s.node.conversations
	v, ctx := newViewer(h.ctx, h)
	if !h.enter(v, s.node.connections) {
		v.cut(nil)
		w.Header().Set("Retry-After", "1")
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		return
	}
	kept := &hijacked{ResponseWriter: w}
	ws, err := websocket.Accept(kept, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the node has checked the origin
	if err != nil {
		v.cut(nil)
		h.leave(v)
		return
	}
	ws.SetReadLimit(int64(maxBody(s.node.maxText)))
	h.sockets.Go(func() {
		defer h.leave(v)
		written := make(chan struct{})
		h.sockets.Go(func() {
			defer close(written)
			if writeAll(ctx, v, ws) != nil {
				v.cut(errLost)
			}
			end(ctx, ws, kept.conn)
		})
		v.cut(s.serve(ctx, v, ws))
		<-written
	})
}

// A hijacked writer remembers the connection, to close it whatever the library waits for.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements [http.Hijacker].
func (w *hijacked) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	conn, rw, err = http.NewResponseController(w.ResponseWriter).Hijack()
	w.conn = conn
	return conn, rw, err
}

// end closes a connection with the code that fits.
func end(ctx context.Context, ws *websocket.Conn, conn net.Conn) {
	code := websocket.StatusNormalClosure
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errBehind), errors.Is(cause, errMemory):
		code = websocket.StatusTryAgainLater
	case errors.Is(cause, errRefused):
		code = websocket.StatusPolicyViolation
	case cause != nil:
		code = websocket.StatusGoingAway
	}
	abandon := time.AfterFunc(time.Second, func() {
		_ = conn.Close() // it is closed already, or will not come to life again
	})
	defer abandon.Stop()
	_ = ws.Close(code, "") // an error says that the client did not confirm it
	_ = conn.Close()       // as above
}

// serve reads the messages of a client until the connection ends.
func (s *socket) serve(ctx context.Context, v *viewer, ws *websocket.Conn) error {
	late := time.AfterFunc(helloWait, func() { v.cut(errLost) })
	in, err := s.read(ws)
	late.Stop()
	var conv *conversation
	var leave func()
	if err == nil {
		conv, leave, err = s.node.attend(ctx, v, in.conversation, &s.caller)
	}
	if err != nil {
		v.offer(refusal("", err))
		return errRefused
	}
	defer leave()
	for {
		in, err := s.read(ws)
		if err == nil {
			_, _, err = s.node.front().say(conv, &s.caller, &in, nil)
		} else if errors.Is(err, errMemory) {
			return err
		} else if !errors.Is(err, errUnreadable) {
			return errLost
		}
		if err != nil {
			v.offer(refusal("u"+in.id, err))
		}
	}
}

var (
	errLost       = errors.New("the connection has ended")
	errRefused    = errors.New("the client was refused")
	errUnreadable = errors.New("the message is not what a chat reads")
)

// read reads what a client sends. An error that is errUnreadable is about what it says.
func (s *socket) read(ws *websocket.Conn) (in posted, err error) {
	all, held := s.node.conversations, int64(0)
	defer func() { all.held.Free(held) }()
	_, r, err := ws.Reader(context.Background())
	if err != nil {
		return in, err
	}
	data, err := content.ReadAll(r, -1, maxBody(s.node.maxText), func(bytes int) error {
		more := int64(bytes)
		switch {
		case bytes < -smallMessage:
			all.held.Free(-more)
		case bytes <= smallMessage:
			return nil
		case !all.held.Take(more):
			return errMemory
		}
		held += more
		return nil
	})
	if err != nil {
		return in, err
	}
	if in, err = all.read(value.Binary(data), s.node.maxText); err != nil && !errors.Is(err, errMemory) {
		err = &readError{err}
	}
	return in, err
}

// smallMessage is how many bytes of a message that has not come whole are not counted.
const smallMessage = 1 << 10

// A readError is errUnreadable with its reason.
type readError struct{ cause error }

func (e *readError) Error() string        { return e.cause.Error() }
func (e *readError) Unwrap() error        { return e.cause }
func (e *readError) Is(target error) bool { return target == errUnreadable }

// offer sends an event to one viewer, unless it is too far behind.
func (v *viewer) offer(data []byte) {
	if !v.put(data) {
		v.cut(errBehind)
	}
}

// refusal returns the event for a client whose message, or token, was refused.
func refusal(id string, err error) []byte {
	f := event{Type: "error", ID: id, Text: "The message was refused."}
	if errors.Is(err, errToken) {
		f.Code = "token"
	}
	if e := node.Describe(err); e.Public {
		f.Text = node.Message(e)
	}
	return f.encode()
}

// writeAll sends the events of a viewer, until its context ends.
func writeAll(ctx context.Context, v *viewer, ws *websocket.Conn) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case data := <-v.events:
			v.took(data)
			if err := write(ws, data); err != nil {
				return err
			}
		case <-ping.C:
			soon, cancel := context.WithTimeout(context.Background(), writeWait)
			err := ws.Ping(soon)
			if cancel(); err != nil {
				return err
			}
		case <-ctx.Done():
			for len(v.events) > 0 && errors.Is(context.Cause(ctx), errRefused) {
				data := <-v.events
				v.took(data)
				if err := write(ws, data); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

func write(ws *websocket.Conn, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWait)
	defer cancel()
	return ws.Write(ctx, websocket.MessageText, data)
}

// An eventStream is the handler that sends the events of a conversation.
type eventStream struct {
	node   *chatNode
	caller caller
	token  string
}

// serveEvents leaves the handler for a stream of events.
func (n *chatNode) serveEvents(p node.Process, c *caller) node.Result {
	s, err := n.conversations.read(c.body, n.maxText)
	if err != nil {
		return node.Fail(err)
	}
	if s.conversation != "" {
		if _, ok := n.signer.verify(s.conversation, c.subject); !ok {
			return node.Fail(errToken)
		}
	}
	if !handover.Leave(p.Context(), &eventStream{n, *c, s.conversation}) {
		return node.Fail(errNoRequest)
	}
	return node.None()
}

// ServeHTTP sends events until the client leaves.
func (e *eventStream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, h := e.node, e.node.conversations
	v, ctx := newViewer(r.Context(), h)
	defer v.cut(nil)
	headers := e.caller.cors("Content-Type", "text/event-stream", "X-Accel-Buffering", "no")
	for i := 0; i < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	var leave func()
	var err error = busy(errFull)
	if h.enter(v, n.connections) {
		defer h.leave(v)
		var conv *conversation
		if conv, leave, err = n.attend(ctx, v, e.token, &e.caller); err == nil {
			defer leave()
			sendEvents(ctx, w, v, conv, h.drained())
			return
		}
	}
	d := node.Describe(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(max(d.Status, http.StatusBadRequest))
	_ = json.NewEncoder(w).Encode(map[string]string{"error": node.Message(d)}) // fails if the client has left
}

// sendEvents sends the events of a viewer until it leaves; after drained, until no process of
// the conversation runs.
func sendEvents(ctx context.Context, w http.ResponseWriter, v *viewer, conv *conversation, drained <-chan struct{}) {
	rc := http.NewResponseController(w)
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	draining := false
	for {
		var data []byte
		select {
		case event := <-v.events:
			v.took(event)
			data = append(append(append(data, "data: "...), event...), "\n\n"...)
		case <-tick.C:
			data = []byte(":\n\n")
		case <-drained:
			draining, drained = true, nil
		case <-ctx.Done():
			return
		}
		if len(data) > 0 {
			_, err := w.Write(data)
			if err == nil {
				err = rc.Flush()
			}
			if err != nil {
				return // the client has left
			}
		}
		if draining && conv.isQuiet() && len(v.events) == 0 { // in this order: the last event comes before the quiet
			return
		}
	}
}
