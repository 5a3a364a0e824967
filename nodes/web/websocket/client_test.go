package websocket_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// read starts a workflow that reads from a service, and returns what waits for the next bodies
// that come to the probe seen.
func read(t *testing.T, document string) (f *flowtest.Flow, want func(bodies ...string)) {
	t.Helper()
	f = flowtest.New(t, kinds()...)
	f.Options.Clock = node.SystemClock{}
	f.Load(document)
	n := 0
	return f, func(bodies ...string) {
		t.Helper()
		for _, want := range bodies {
			n++
			f.Probe("seen").Wait(n)
			if body, _ := f.Probe("seen").Payloads()[n-1].Get("body"); body.String() != want {
				t.Errorf("got %q, want %q", body, want)
			}
		}
	}
}

// serveService is a service that ends with the test.
func serveService(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func TestWebsocketClientRefused(t *testing.T) {
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) })
	f := flowtest.New(t, kinds()...)
	list, err := f.Apply("- kind: websocket_client\n  name: events\n  url: " + strings.Replace(url, "http", "ws", 1) + "/?key=hidden\n  auth: {token: secret}\n  ports: {out: []}\n")
	got := fmt.Sprint(list, err)
	if !strings.Contains(got, "test.yaml:4") || !strings.Contains(got, "401") || strings.Contains(got+f.Log(), "secret") || strings.Contains(got+f.Log(), "hidden") {
		t.Errorf("got %s", got)
	}
}

const wrongToken = "a wrong horse"

// webSockets is a server of WebSockets that hands each to f. It does not take the wrong token.
func webSockets(t testing.TB, f func(ctx context.Context, c *websocket.Conn)) string {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	url := serveService(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), wrongToken) {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
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
	doc := "- {kind: websocket_client, name: peer, url: '" + url + "', hello: {subscribe: all}, protocols: [v2], retry: {backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: seen, port: in}]}}\n" +
		"- {kind: snippet, name: tell, language: cel, code: self, ports: {out: [{name: peer, port: send}]}}\n"
	f, want := read(t, doc)
	want(`{"n":0}`)
	tell := func(packet string) {
		t.Helper()
		for { // until there is a connection
			if _, _, err := f.Engine().Run(context.Background(), "tell", flowtest.Parse(t, packet)); err == nil {
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
	want(`{"n":1}`)
	wantReceived(`1 {"a":1}`)
	want(`{"n":0}`) // the second connection
	wantReceived(`2 {"subscribe":"all"}`)
	f.Load(doc + "# a reload keeps the connection\n")
	tell(`{"body":"text"}`)
	wantReceived(`2 text`)
	want(`{"n":1}`)
	if got := connections.Load(); got != 2 {
		t.Errorf("got %d connections, want 2", got)
	}
}

// Both ends are ours: each message goes there and back.
func TestWebsocketBothEnds(t *testing.T) {
	w := serve(t, sockets(toReply, "body", ""))
	f, want := read(t, "- {kind: websocket_client, name: peer, url: 'ws://"+w.Address()+"/rooms/x', ports: {out: [{name: seen, port: in}]}}\n"+
		"- {kind: snippet, name: tell, language: cel, code: self, ports: {out: [{name: peer, port: send}]}}\n")
	for i := range 200 {
		if _, _, err := f.Engine().Run(context.Background(), "tell", value.Int(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		want(fmt.Sprint(i))
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
	_, want := read(t, "- {kind: websocket_client, name: peer, url: '"+url+"', ping: 20ms, retry: {backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: seen, port: in}]}}\n")
	want("2")
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
	_, want := read(t, "- {kind: websocket_client, name: peer, url: '"+url+"', max_message: 1KiB, retry: {backoff: {initial: 1ms, max: 5ms}}, ports: {out: [{name: seen, port: in}]}}\n")
	want("1")
}
