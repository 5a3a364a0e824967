package websocket_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// plainEcho is what a program without an engine would be: the best form that the library
// has, a goroutine a connection and a buffer that is used again.
func plainEcho(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	ctx := context.Background()
	buf := make([]byte, 0, 4<<10)
	for {
		kind, m, err := c.Reader(ctx)
		if err != nil {
			return
		}
		buf = buf[:0]
		for err == nil {
			var n int
			n, err = m.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
		}
		if err := c.Write(ctx, kind, buf); err != nil {
			return
		}
	}
}

// echoServers are the addresses of an engine and of plainEcho, which both echo.
func echoServers(t testing.TB) map[string]string {
	w := serve(t, sockets("decode: text", "body", ""))
	plain := httptest.NewServer(http.HandlerFunc(plainEcho))
	t.Cleanup(plain.Close)
	return map[string]string{"engine": "ws://" + w.Address() + "/rooms/x", "plain": strings.Replace(plain.URL, "http", "ws", 1)}
}

// BenchmarkWebsocketEcho has 64 connections that send 128 bytes and wait for them.
func BenchmarkWebsocketEcho(b *testing.B) {
	for _, name := range []string{"engine", "plain"} {
		b.Run(name, func(b *testing.B) {
			url := echoServers(b)[name]
			const clients = 64
			conns := make([]*websocket.Conn, clients)
			for i := range conns {
				c, _, err := websocket.Dial(b.Context(), url, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer c.CloseNow()
				conns[i] = c
			}
			payload := []byte(strings.Repeat("x", 128))
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for i, c := range conns {
				all.Go(func() {
					ctx := context.Background()
					for range (b.N + i) / clients {
						if err := c.Write(ctx, websocket.MessageText, payload); err != nil {
							b.Error(err)
							return
						}
						if _, _, err := c.Read(ctx); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// TestWebsocketIdleMemory compares what an idle connection takes with plainEcho.
func TestWebsocketIdleMemory(t *testing.T) {
	if invariant.Race {
		return // memory is not what it is without the race detector
	}
	const n = 500
	took := make(map[string]float64)
	servers := echoServers(t)
	for _, name := range []string{"plain", "engine", "plain", "engine"} { // the first round fills pools
		before := memory()
		conns := make([]*websocket.Conn, n)
		for i := range conns {
			c, _, err := websocket.Dial(t.Context(), servers[name], nil)
			if err != nil {
				t.Fatal(err)
			}
			conns[i] = c
			say(t, c, "x")
			wantHeard(t, c, "x")
		}
		took[name] = (memory() - before) / n
		for _, c := range conns {
			c.CloseNow()
		}
	}
	t.Logf("both ends of a connection: engine %.0f bytes, plain %.0f", took["engine"], took["plain"])
	if more := took["engine"] - took["plain"]; more > 5<<10 {
		t.Errorf("an idle connection takes %.0f bytes more than a plain one: want at most 5 KiB", more)
	}
}

// memory returns the bytes in use, on the heap and on stacks.
func memory() float64 {
	var m runtime.MemStats
	for range 3 { // pools are empty after two
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
