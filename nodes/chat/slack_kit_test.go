package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// An exchange is Slack's side of Socket Mode. It refuses tokens that are not of the app,
// tickets that are used twice, confirmations of what it has not sent, and those that come
// after three seconds.
type exchange struct {
	f     *fake
	wires chan *wire    // connections, once each has been greeted
	pings chan struct{} // of clients
	acks  chan string   // ids of envelopes

	mu      sync.Mutex
	tokens  []string
	refuses string         // what open answers with, unless it is empty
	address string         // what open gives instead of the address
	first   map[string]any // what a connection gets first
	hole    bool           // pings are not answered
	tickets map[string]bool
	opened  int
	last    int
	sent    map[string]time.Time // envelopes that are not confirmed, by id
	begun   sync.WaitGroup
	deaf    chan struct{} // if not nil, nothing is read until it is closed
}

// A wire is a connection of a client.
type wire struct {
	x     *exchange
	ws    *websocket.Conn
	ended chan error // of one: why reading has ended
}

const slackAppToken = "xapp-1-an-app-token"

// newExchange returns a fake of Slack with an app that is in Socket Mode.
func newExchange(t testing.TB) (*fake, *exchange) {
	f := newFake(t, "slack")
	x := &exchange{
		f: f, wires: make(chan *wire, 16), pings: make(chan struct{}, 100), acks: make(chan string, 1000),
		tokens: []string{slackAppToken}, first: map[string]any{"type": "hello", "num_connections": 1},
		tickets: map[string]bool{}, sent: map[string]time.Time{},
	}
	f.exchange = x
	t.Cleanup(x.begun.Wait)
	return f, x
}

func (x *exchange) set(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
}

// open answers apps.connections.open.
func (x *exchange) open(r *http.Request, body map[string]any) map[string]any {
	x.mu.Lock()
	defer x.mu.Unlock()
	refuse := func(why string) map[string]any { return map[string]any{"ok": false, "error": why} }
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.Method != http.MethodPost:
		return refuse("insecure_request")
	case strings.HasPrefix(token, "xoxb-"):
		return refuse("not_allowed_token_type")
	case !slices.Contains(x.tokens, token) || body["token"] != nil:
		return refuse("invalid_auth")
	case x.refuses != "":
		return refuse(x.refuses)
	}
	x.opened++
	ticket := "ticket-" + strconv.Itoa(x.opened)
	x.tickets[ticket] = true
	address := x.address
	if address == "" {
		address = "ws" + strings.TrimPrefix(x.f.server.URL, "http") + "/link/"
	}
	return map[string]any{"ok": true, "url": address + "?ticket=" + ticket}
}

// connect makes a connection, and reads confirmations until it ends.
func (x *exchange) connect(rw http.ResponseWriter, r *http.Request) {
	x.begun.Add(1)
	defer x.begun.Done()
	x.mu.Lock()
	ticket := r.URL.Query().Get("ticket")
	good := x.tickets[ticket]
	delete(x.tickets, ticket)
	first := x.first
	x.mu.Unlock()
	if !good || r.Header.Get("Authorization") != "" {
		rw.WriteHeader(http.StatusForbidden)
		return
	}
	ws, err := websocket.Accept(rw, r, &websocket.AcceptOptions{OnPingReceived: func(context.Context, []byte) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.pings <- struct{}{}
		return !x.hole
	}})
	if err != nil {
		x.f.t.Error(err)
		return
	}
	defer ws.CloseNow()
	c := &wire{x: x, ws: ws, ended: make(chan error, 1)}
	if first != nil {
		c.write(first)
	}
	x.wires <- c
	if x.deaf != nil {
		<-x.deaf
		return
	}
	for {
		_, data, err := ws.Read(context.Background())
		if err != nil {
			c.ended <- err
			return
		}
		x.confirm(data)
	}
}

func (x *exchange) confirm(data []byte) {
	var ack map[string]any
	err := json.Unmarshal(data, &ack)
	id, _ := ack["envelope_id"].(string)
	x.mu.Lock()
	at, sent := x.sent[id]
	delete(x.sent, id)
	x.mu.Unlock()
	if err != nil || len(ack) != 1 || !sent || time.Since(at) > 3*time.Second {
		x.f.t.Errorf("Slack has got %s, sent %v: %v", data, at, err)
	}
	x.acks <- id
}

// accept returns the next connection.
func (x *exchange) accept() *wire {
	x.f.t.Helper()
	select {
	case c := <-x.wires:
		return c
	case <-time.After(20 * time.Second):
		x.f.t.Fatal("no connection was made")
		return nil
	}
}

// pinged waits for a ping.
func (x *exchange) pinged() {
	x.f.t.Helper()
	select {
	case <-x.pings:
	case <-time.After(20 * time.Second):
		x.f.t.Fatal("no ping has come")
	}
}

func (c *wire) write(v any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = c.ws.Write(context.Background(), websocket.MessageText, data)
	}
	if err != nil {
		c.x.f.t.Error(err)
	}
}

// send sends an envelope, and returns its id.
func (c *wire) send(kind, payload string) string {
	c.x.mu.Lock()
	c.x.last++
	id := fmt.Sprintf("envelope-%d", c.x.last)
	c.x.mu.Unlock()
	c.repeat(id, kind, payload)
	return id
}

// repeat sends an envelope with an id.
func (c *wire) repeat(id, kind, payload string) {
	c.x.set(func() { c.x.sent[id] = time.Now() })
	c.write(map[string]any{"envelope_id": id, "type": kind, "payload": json.RawMessage(payload), "accepts_response_payload": kind != "events_api"})
}

// hears sends an envelope, and waits until it is confirmed.
func (c *wire) hears(kind, payload string) {
	c.x.f.t.Helper()
	c.x.confirmed(c.send(kind, payload))
}

// confirmed waits for the next confirmation, which must have the id of an envelope.
func (x *exchange) confirmed(id string) {
	x.f.t.Helper()
	select {
	case got := <-x.acks:
		if got != id {
			x.f.t.Errorf("%s was confirmed, want %s", got, id)
		}
	case <-time.After(20 * time.Second):
		x.f.t.Fatalf("%s was not confirmed", id)
	}
}

// end waits until a connection has ended, and returns how the client has closed it.
func (c *wire) end() websocket.StatusCode {
	c.x.f.t.Helper()
	select {
	case err := <-c.ended:
		return websocket.CloseStatus(err)
	case <-time.After(20 * time.Second):
		c.x.f.t.Fatal("the connection goes on")
		return 0
	}
}
