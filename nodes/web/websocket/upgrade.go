package websocket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

// An upgrade is the handler that makes a connection of a request.
type upgrade struct {
	server *server
	params value.Value
	topics []string
}

// ServeHTTP makes the connection, which goes on after it has returned.
func (u *upgrade) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := u.server
	g := s.generations.Current()
	if !s.reserve(g.settings.connections) {
		w.Header()["Retry-After"] = []string{"1"}
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		return
	}
	hijack := &hijackedWriter{ResponseWriter: w}
	ws, err := websocket.Accept(hijack, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // endpoint.refusal has checked the origin
	if err != nil {
		s.unreserve(nil)
		g.log.Debug("no WebSocket", "remote", r.RemoteAddr, "error", err)
		return
	}
	c := newConn(s, ws, hijack.conn, u)
	if s.add(c) {
		return
	}
	s.unreserve(nil)
	c.shake(context.Background(), websocket.StatusGoingAway, "")
}

// A hijackedWriter remembers the connection, to close it whatever the library waits for.
type hijackedWriter struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements [http.Hijacker].
func (w *hijackedWriter) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	conn, rw, err = http.NewResponseController(w.ResponseWriter).Hijack()
	w.conn = conn
	return conn, rw, err
}

// refusal returns why a request cannot become a WebSocket, or nil. What is left is found
// when its handler runs.
func (n *endpoint) refusal(payload value.Value) error {
	header, _ := payload.Get(envelope.KeyHeader)
	view, ok := request.HeaderOf(header)
	if !ok {
		return errors.New("want the request of a listener: nothing else can become a WebSocket")
	}
	public := func(status int, format string, args ...any) error {
		return &node.Error{Err: fmt.Errorf(format, args...), Status: status, Public: true}
	}
	if !strings.EqualFold(http.Header(view.Header).Get("Upgrade"), "websocket") {
		return public(http.StatusUpgradeRequired, "this is a WebSocket: ask for an upgrade over HTTP/1.1")
	}
	host, _ := payload.Get(envelope.KeyHost)
	name, _ := host.AsString()
	if ok, _ := n.settings.origins.Admits(view.Header["Origin"], name); !ok {
		return public(http.StatusForbidden, "pages of this origin may not connect")
	}
	if n.server.full(n.settings.connections) {
		return &node.Error{Err: errors.New("there are too many connections"), Status: http.StatusServiceUnavailable, Public: true, RetryAfter: time.Second}
	}
	return nil
}

// take leaves the handler that makes the connection.
func (n *endpoint) take(p node.Process, payload value.Value) node.Result {
	u := &upgrade{server: n.server}
	u.params, _ = payload.Get(envelope.KeyParams)
	topics, _, err := n.topics.Render(p.Context(), payload)
	if err == nil {
		u.topics, err = topicsOf(topics)
	}
	if err != nil {
		return node.Fail(fmt.Errorf("topics: %w", err))
	}
	if !handover.Leave(p.Context(), u) {
		return node.Fail(errors.New("there is no request to take over: another node has taken it, or it has been answered"))
	}
	return node.None()
}

// maxTopics is how many topics a connection may have.
const maxTopics = 1000

func topicsOf(v value.Value) ([]string, error) {
	if v.IsNull() {
		return nil, nil
	}
	if s, ok := envelope.Text(v); ok {
		return []string{s}, nil
	}
	var list []string
	for _, elem := range v.Elems() {
		more, err := topicsOf(elem)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	switch {
	case v.Kind() != value.KindList:
		return nil, fmt.Errorf("want text, got %s", v.Kind())
	case len(list) > maxTopics:
		return nil, fmt.Errorf("got %d topics, want at most %d", len(list), maxTopics)
	}
	return list, nil
}
