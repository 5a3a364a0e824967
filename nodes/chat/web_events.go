package chat

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
)

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
