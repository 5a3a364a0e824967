package websocket_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A reading is an engine whose messages end at the kind test_seen.
type reading struct {
	t      *testing.T
	engine *uniflow.Engine
	logs   syncbuffer.Buffer
	seen   chan string
}

// read starts a workflow that reads from a service.
func read(t *testing.T, document string) *reading {
	t.Helper()
	r := &reading{t: t, seen: make(chan string, 10000)}
	seen := &node.Def{
		Kind: "test_seen", Summary: "Tells the test.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				body, _ := pkt.Payload.Get("body")
				id, _ := pkt.Payload.Get("id")
				event, _ := pkt.Payload.Get("event")
				r.seen <- strings.TrimSpace(fmt.Sprintf("%s %s %s", body, clipID(event), clipID(id)))
				return node.None()
			}), nil
		},
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: append(kinds(), seen), Log: slog.New(slog.NewTextHandler(&r.logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r.engine = engine
	t.Cleanup(r.stop)
	if list := r.apply(document); list != "" {
		t.Fatal(list)
	}
	return r
}

func clipID(v value.Value) string {
	s, _ := v.AsString()
	if strings.Contains(s, "/") {
		return "" // made by the node
	}
	return s
}

func (r *reading) apply(document string) string {
	r.t.Helper()
	list, err := r.engine.Apply(context.Background(), uniflow.Source{Documents: []spec.Document{{File: "test.yaml", Data: []byte(document)}}})
	if err != nil {
		return err.Error()
	}
	if list.HasErrors() {
		return fmt.Sprint(list)
	}
	return ""
}

func (r *reading) stop() {
	if err := r.engine.Shutdown(context.Background()); err != nil {
		r.t.Error(err)
	}
}

func (r *reading) want(list ...string) {
	r.t.Helper()
	for _, want := range list {
		select {
		case got := <-r.seen:
			if got != want {
				r.t.Errorf("got %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			r.t.Fatalf("got nothing, want %q; log:\n%s", want, r.logs.String())
		}
	}
}

// serveService is a service that ends with the test.
func serveService(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

const seenNode = "- {kind: test_seen, name: seen}\n"

func TestWebsocketClientRefused(t *testing.T) {
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) })
	r := &reading{t: t}
	engine, err := uniflow.New(uniflow.Options{Kinds: kinds(), Log: slog.New(slog.NewTextHandler(&r.logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r.engine = engine
	got := r.apply("- kind: websocket_client\n  name: events\n  url: " + strings.Replace(url, "http", "ws", 1) + "/?key=hidden\n  auth: {token: secret}\n  ports: {out: []}\n")
	if !strings.Contains(got, "test.yaml:4") || !strings.Contains(got, "401") || strings.Contains(got+r.logs.String(), "secret") || strings.Contains(got+r.logs.String(), "hidden") {
		t.Errorf("got %s", got)
	}
	r.stop()
}

// webSockets is a server of WebSockets that hands each to f.
func webSockets(t *testing.T, f func(ctx context.Context, c *websocket.Conn)) string {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"v2"}})
		if err != nil {
			return
		}
		all.Add(1)
		defer all.Done()
		defer c.CloseNow()
		f(ctx, c)
	})
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	return strings.Replace(url, "http", "ws", 1)
}

// The client says hello at each connection, comes back when the connection is lost, and
// sends what comes in.
func TestWebsocketClient(t *testing.T) {
	var connections atomic.Int32
	received := make(chan string, 100)
	url := webSockets(t, func(ctx context.Context, c *websocket.Conn) {
		n := connections.Add(1)
		for i := 0; ; i++ {
			_, data, err := c.Read(ctx)
			if err != nil {
				return
			}
			received <- fmt.Sprintf("%d %s", n, data)
			c.Write(ctx, websocket.MessageText, []byte(fmt.Sprintf(`{"n":%d}`, i)))
			if n == 1 && i == 1 {
				return // without a word
			}
		}
	})
	doc := "- {kind: websocket_client, name: peer, url: '" + url + "', hello: {subscribe: all}, protocols: [v2], retry: {backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: seen, port: in}]}}\n" + seenNode +
		"- {kind: snippet, name: tell, language: cel, code: self, ports: {out: [{name: peer, port: send}]}}\n"
	r := read(t, doc)
	r.want(`{"n":0}`)
	tell := func(packet string) {
		t.Helper()
		for { // until there is a connection
			if _, _, err := r.engine.Run(context.Background(), "tell", parseValue(t, packet)); err == nil {
				return
			} else if !strings.Contains(err.Error(), "no connection") && !strings.Contains(err.Error(), "closed") {
				t.Fatal(err)
			}
		}
	}
	wantReceived := func(want string) {
		t.Helper()
		if got := <-received; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	wantReceived(`1 {"subscribe":"all"}`)
	tell(`{"a":1}`)
	r.want(`{"n":1}`)
	wantReceived(`1 {"a":1}`)
	r.want(`{"n":0}`) // the second connection
	wantReceived(`2 {"subscribe":"all"}`)
	if got := r.apply(doc + "# a reload keeps the connection\n"); got != "" {
		t.Error(got)
	}
	tell(`{"body":"text"}`)
	wantReceived(`2 text`)
	r.want(`{"n":1}`)
	if got := connections.Load(); got != 2 {
		t.Errorf("got %d connections, want 2", got)
	}
}

// Both ends are ours: each message goes there and back.
func TestWebsocketBothEnds(t *testing.T) {
	w := serve(t, sockets(toReply, "body", ""))
	r := read(t, "- {kind: websocket_client, name: peer, url: 'ws://"+w.addr+"/rooms/x', ports: {out: [{name: seen, port: in}]}}\n"+seenNode+
		"- {kind: snippet, name: tell, language: cel, code: self, ports: {out: [{name: peer, port: send}]}}\n")
	for i := range 200 {
		if _, _, err := r.engine.Run(context.Background(), "tell", value.Int(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		r.want(fmt.Sprint(i))
	}
}

// A server that does not answer pings has gone.
func TestWebsocketClientHalfOpen(t *testing.T) {
	var connections atomic.Int32
	url := webSockets(t, func(ctx context.Context, c *websocket.Conn) {
		if connections.Add(1) == 2 {
			c.Write(ctx, websocket.MessageText, []byte("2"))
		}
		<-ctx.Done() // reads nothing
	})
	r := read(t, "- {kind: websocket_client, name: peer, url: '"+url+"', ping: 20ms, retry: {backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: seen, port: in}]}}\n"+seenNode)
	r.want("2")
}

func TestWebsocketClientTooLong(t *testing.T) {
	var connections atomic.Int32
	url := webSockets(t, func(ctx context.Context, c *websocket.Conn) {
		text := "1"
		if connections.Add(1) == 1 {
			text = `"` + strings.Repeat("x", 2000) + `"`
		}
		c.Write(ctx, websocket.MessageText, []byte(text))
		c.Read(ctx)
	})
	r := read(t, "- {kind: websocket_client, name: peer, url: '"+url+"', max_message: 1KiB, retry: {backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: seen, port: in}]}}\n"+seenNode)
	r.want("1")
}
