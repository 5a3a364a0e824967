package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// partClients is how many clients S5 has; each gets a part every partEvery.
const (
	partClients = 1000
	partEvery   = 50 * time.Millisecond
)

// measureParts is S5: server-sent events with the time at which they were made, once for all
// clients. The rate is the same on both sides if they keep up, so what counts is the processor
// time a part, and how late the parts are: the last of 1,000 waits for the others.
func measureParts(ctx context.Context, l *lab) error {
	late := make(map[string]time.Duration)
	parts := func(name string, start func(context.Context) (*server.Server, error)) round {
		return round{name, func(ctx context.Context) (c cost, n int, err error) {
			s, err := start(ctx)
			if err != nil {
				return cost{}, 0, err
			}
			defer func() { err = errors.Join(err, s.Stop()) }()
			busy, begun := s.Busy(), time.Now()
			h, err := listen(ctx, s.Addr, l.count(partClients), l.span())
			if err != nil {
				return cost{}, 0, err
			}
			late[name] = h.Quantile(0.99)
			resident, err := s.Resident()
			return cost{wall: time.Since(begun), cpu: s.Busy() - busy, peak: resident}, int(h.Count()), err
		}}
	}
	document := func(port string) string {
		return fmt.Sprintf(`
- {kind: listener, name: in, protocol: http, host: 127.0.0.1, port: %s, ports: {out: [{name: routes}]}}
- kind: router
  name: routes
  routes: [{method: GET, path: /ping, port: "out[0]"}, {method: GET, path: /parts, port: "out[1]"}]
  ports: {"out[0]": [{name: pong}], "out[1]": [{name: live}]}
- {kind: snippet, name: pong, language: text, code: pong}
- {kind: subscribe, name: live, topic: times, lifetime: %v, ports: {out: [{name: part}]}}
- {kind: emit, name: part}
- {kind: generate, name: clock, interval: %v, ports: {out: [{name: now}]}}
- {kind: snippet, name: now, language: cel, code: string(self.time), ports: {out: [{name: tell}]}}
- {kind: publish, name: tell, topic: times}
`, port, l.span(), partEvery)
	}
	rounds := []round{parts("uniflow", func(ctx context.Context) (*server.Server, error) {
		return server.Workflow{Name: "parts", Document: document, Program: l.binary, Dir: l.dir}.Serve(ctx)
	})}
	for _, form := range []string{"hub", "ticker"} {
		rounds = append(rounds, parts("handler with a "+form, func(ctx context.Context) (*server.Server, error) {
			addr, err := server.FreeAddr()
			if err != nil {
				return nil, err
			}
			return server.Start(ctx, server.Options{Name: "parts-" + form, Addr: addr, Path: "/ping", Program: l.self, Args: formArgs("parts", form, addr, l.span().String()), Log: l.file("parts.log")})
		}))
	}
	ours, best, err := l.compare(ctx, "S5", rounds...)
	if err != nil {
		return err
	}
	l.rate("S5", ours, best, 0.8)
	l.targets.Add(late[ours.Name] <= 5*time.Millisecond, "S5, how late 99 % of the parts are", "at most 5 ms",
		fmt.Sprintf("%v, of %s %v", late[ours.Name].Round(10*time.Microsecond), best.Name, late[best.Name].Round(10*time.Microsecond)))
	return nil
}

// listen lets clients read parts until the server ends them, and returns how late they were.
func listen(ctx context.Context, addr string, clients int, d time.Duration) (*load.Histogram, error) {
	all := make([]load.Histogram, clients)
	errs := make([]error, clients)
	var readers sync.WaitGroup
	for i := range clients {
		readers.Go(func() { errs[i] = listenOne(ctx, addr, d+20*time.Second, &all[i]) })
	}
	readers.Wait()
	whole := new(load.Histogram)
	for i := range all {
		whole.Merge(&all[i])
	}
	return whole, errors.Join(errs...)
}

func listenOne(ctx context.Context, addr string, limit time.Duration, h *load.Histogram) error {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "GET /parts HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n", addr); err != nil {
		return err
	}
	s := bufio.NewScanner(c)
	for s.Scan() {
		if made, ok := bytes.CutPrefix(s.Bytes(), []byte("data: ")); ok {
			if at, err := time.Parse(time.RFC3339Nano, string(made)); err == nil {
				h.Add(time.Since(at))
			}
		}
	}
	return s.Err()
}

// A partsHub gives each part to all clients.
type partsHub struct {
	sync.Mutex
	clients map[chan string]struct{}
}

// add adds a client, or removes it.
func (h *partsHub) add(c chan string, remove bool) {
	h.Lock()
	defer h.Unlock()
	if delete(h.clients, c); !remove {
		h.clients[c] = struct{}{}
	}
}

// run makes parts until ctx ends. A client that has not taken the 64 before loses one.
func (h *partsHub) run(ctx context.Context) {
	for tick := range ticks(ctx) {
		part := tick.Format(time.RFC3339Nano)
		h.Lock()
		for c := range h.clients {
			select {
			case c <- part:
			default:
			}
		}
		h.Unlock()
	}
}

// ticks returns the times at which parts are made, until ctx ends.
func ticks(ctx context.Context) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(partEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if !yield(time.Now()) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// partsForm is the baseline: form, address, for how long. With a hub, one goroutine makes the
// parts of all clients, as in our document; with a ticker, each handler makes its own.
func partsForm(ctx context.Context, args []string) error {
	lifetime, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	hub := &partsHub{clients: make(map[chan string]struct{})}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { hub.run(ctx) })
	each := func(ctx context.Context, send func(part string) bool) {
		if args[0] == "ticker" {
			for tick := range ticks(ctx) {
				if !send(tick.Format(time.RFC3339Nano)) {
					return
				}
			}
			return
		}
		parts := make(chan string, 64)
		hub.add(parts, false)
		defer hub.add(parts, true)
		for {
			select {
			case part := <-parts:
				if !send(part) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pong") })
	mux.HandleFunc("GET /parts", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flusher := http.NewResponseController(w)
		ctx, cancel := context.WithTimeout(r.Context(), lifetime)
		defer cancel()
		var b []byte
		each(ctx, func(part string) bool {
			b = append(append(append(b[:0], "data: "...), part...), "\n\n"...)
			_, err := w.Write(b)
			return err == nil && flusher.Flush() == nil
		})
		fmt.Fprint(w, "event: end\ndata: end\n\n")
	})
	return serveUntil(ctx, args[1], mux)
}
