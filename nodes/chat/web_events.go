package chat

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
)

// events is the handler that sends the frames of a conversation as a stream of events.
type events struct {
	node   *chatNode
	caller caller
	token  string
}

// serveEvents leaves the handler for a stream of events.
func (n *chatNode) serveEvents(p node.Process, c *caller) node.Result {
	s, err := n.rooms.read(c.body, n.maxText)
	if err != nil {
		return node.Fail(err)
	}
	if s.conversation != "" {
		if _, ok := n.signer.verify(s.conversation, c.subject); !ok {
			return node.Fail(errToken)
		}
	}
	if !handover.Leave(p.Context(), &events{n, *c, s.conversation}) {
		return node.Fail(errNoRequest)
	}
	return node.None()
}

// ServeHTTP sends events until the client leaves.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, h := e.node, e.node.rooms
	g, ctx := newViewer(r.Context(), h)
	defer g.cut(nil)
	headers := e.caller.cors("Content-Type", "text/event-stream", "X-Accel-Buffering", "no")
	for i := 0; i < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	var leave func()
	err := n.errFull()
	if h.enter(g, n.connections) {
		defer h.leave(g)
		var in *room
		if in, leave, err = n.attend(ctx, g, e.token, &e.caller); err == nil {
			defer leave()
			sendEvents(ctx, w, g, in, h.drained())
			return
		}
	}
	d := node.Describe(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(max(d.Status, http.StatusBadRequest))
	_ = json.NewEncoder(w).Encode(map[string]string{"error": node.Message(d)}) // fails if the client has left
}

// sendEvents sends the frames of a viewer until it leaves; after drained, until no process of
// the room runs.
func sendEvents(ctx context.Context, w http.ResponseWriter, g *viewer, in *room, drained <-chan struct{}) {
	rc := http.NewResponseController(w)
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	draining := false
	for {
		var data []byte
		select {
		case frame := <-g.frames:
			g.took(frame)
			data = append(append(append(data, "data: "...), frame...), "\n\n"...)
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
		if draining && in.isQuiet() && len(g.frames) == 0 { // in this order: the last frame comes before the quiet
			return
		}
	}
}
