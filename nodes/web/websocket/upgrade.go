package websocket

import (
	"bufio"
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/value"
)

// A upgrade is the handler that makes a connection of a request.
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
	ws, err := websocket.Accept(hijack, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // endpoint.refusal has looked at the origin
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
