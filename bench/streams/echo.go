package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/bench/server"
)

// echoConns and echoBytes are what S4 sends over, and how much; idleConns are connections
// that say nothing.
const (
	echoConns = 64
	echoBytes = 128
	idleConns = 10_000
)

// measureEcho is S4: echoes over connections of WebSocket, and what idle ones take.
func measureEcho(ctx context.Context, l *lab) error {
	idle := make(map[string]float64) // resident MB of 10,000 idle connections
	echo := func(ctx context.Context, name string, s *server.Server) (c cost, n int, err error) {
		before, err := s.Resident()
		if err != nil {
			return cost{}, 0, err
		}
		if idle[name], err = l.idle(ctx, s); err != nil {
			return cost{}, 0, err
		}
		busy, begun := s.Busy(), time.Now()
		n, err = echoes(ctx, s.Addr, l.span())
		return cost{wall: time.Since(begun), cpu: s.Busy() - busy, peak: before}, n, err
	}
	document := func(port string) string {
		return fmt.Sprintf(`
- {kind: listener, name: in, protocol: http, host: 127.0.0.1, port: %s, ports: {out: [{name: routes}]}}
- kind: router
  name: routes
  routes: [{method: GET, path: /ping, port: "out[0]"}, {method: GET, path: /echo, port: "out[1]"}]
  ports: {"out[0]": [{name: pong}], "out[1]": [{name: echo}]}
- {kind: snippet, name: pong, language: text, code: pong}
- {kind: websocket, name: echo, decode: text}
`, port)
	}
	ours, best, err := l.compare(ctx, "S4", l.servers("echo", document, []string{"read", "reader"}, echo)...)
	if err != nil {
		return err
	}
	l.rate("S4", ours, best, 0.85)
	each := (idle[ours.Name] - idle[best.Name]) * 1e6 / 1e3 / idleConns
	l.targets.Add(each <= 5, "S4, an idle connection, over "+best.Name, "at most 5 KB", fmt.Sprintf("%.1f KB", each))
	l.targets.Add(idle[ours.Name] <= 350, "S4, resident with 10,000 idle connections", "at most 350 MB", fmt.Sprintf("%.0f MB, of the handler %.0f MB", idle[ours.Name], idle[best.Name]))
	return nil
}

// span is how long a load lasts.
func (l *lab) span() time.Duration {
	return max(time.Second, time.Duration(float64(5*time.Second)*l.scale))
}

// idle returns what the server takes while 10,000 connections say nothing, in MB.
func (l *lab) idle(ctx context.Context, s *server.Server) (resident float64, err error) {
	conns := make([]*websocket.Conn, l.count(idleConns))
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.CloseNow() // the load is over
			}
		}
	}()
	for i := range conns {
		if conns[i], err = dialEcho(ctx, s.Addr); err != nil {
			return 0, err
		}
	}
	return s.Resident()
}

func dialEcho(ctx context.Context, addr string) (*websocket.Conn, error) {
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/echo", &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	return c, err
}

// echoes sends messages over all connections, each when the answer to the last has come, and
// returns how many came back.
func echoes(ctx context.Context, addr string, d time.Duration) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, d+10*time.Second)
	defer cancel()
	var conns [echoConns]*websocket.Conn
	for i := range conns {
		if conns[i], err = dialEcho(ctx, addr); err != nil {
			return 0, err
		}
		defer conns[i].CloseNow()
	}
	until := time.Now().Add(d)
	var all atomic.Int64
	errs := make([]error, len(conns))
	var clients sync.WaitGroup
	for i, c := range conns {
		clients.Go(func() {
			message := bytes.Repeat([]byte{byte('a' + i%26)}, echoBytes)
			for time.Now().Before(until) {
				if errs[i] = c.Write(ctx, websocket.MessageText, message); errs[i] != nil {
					return
				}
				_, got, err := c.Read(ctx)
				if err != nil || !bytes.Equal(got, message) {
					errs[i] = errors.Join(err, fmt.Errorf("the echo was %q", got))
					return
				}
				all.Add(1)
			}
		})
	}
	clients.Wait()
	return int(all.Load()), errors.Join(errs...)
}

// echoForm is the baseline: form, address.
func echoForm(ctx context.Context, args []string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pong") })
	mux.HandleFunc("GET /echo", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		if args[0] == "reader" {
			echoReader(r.Context(), c)
			return
		}
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	})
	return server.Listen(ctx, args[1], mux)
}

// echoReader uses one buffer for all messages of a connection.
func echoReader(ctx context.Context, c *websocket.Conn) {
	var b bytes.Buffer
	for {
		kind, r, err := c.Reader(ctx)
		if err != nil {
			return
		}
		b.Reset()
		if _, err := b.ReadFrom(r); err != nil || c.Write(ctx, kind, b.Bytes()) != nil {
			return
		}
	}
}
