package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
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

// measureParts is S5: server-sent events with the time at which they were made. The rate is the
// same on both sides if they keep up, so what counts is the processor time a part, and how
// late the parts are.
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
	count := int(l.span() / partEvery)
	document := func(port string) string {
		return fmt.Sprintf(`
- {kind: listener, name: in, protocol: http, host: 127.0.0.1, port: %s, ports: {out: [{name: routes}]}}
- kind: router
  name: routes
  routes: [{method: GET, path: /ping, port: "out[0]"}, {method: GET, path: /parts, port: "out[1]"}]
  ports: {"out[0]": [{name: pong}], "out[1]": [{name: list}]}
- {kind: snippet, name: pong, language: text, code: pong}
- {kind: snippet, name: list, language: javascript, code: 'export default () => Array.from({length: %d}, (_, i) => i)', ports: {out: [{name: each}]}}
- {kind: for, name: each, concurrency: 1, ports: {"out[0]": [{name: wait}], "out[1]": [{name: end}]}}
- {kind: sleep, name: wait, interval: 50ms, ports: {out: [{name: now}]}}
- {kind: snippet, name: now, language: javascript, code: 'export default () => Date.now()', ports: {out: [{name: part}]}}
- {kind: emit, name: part}
- {kind: snippet, name: end, language: text, code: end}
`, port, count)
	}
	rounds := []round{parts("uniflow", func(ctx context.Context) (*server.Server, error) {
		return server.Workflow{Name: "parts", Document: document, Program: l.binary, Dir: l.dir}.Serve(ctx)
	})}
	for _, form := range []string{"fprintf", "buffer"} {
		rounds = append(rounds, parts("handler with "+form, func(ctx context.Context) (*server.Server, error) {
			addr, err := server.FreeAddr()
			if err != nil {
				return nil, err
			}
			return server.Start(ctx, server.Options{Name: "parts-" + form, Addr: addr, Path: "/ping", Program: l.self, Args: formArgs("parts", form, addr, strconv.Itoa(count)), Log: l.file("parts.log")})
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
			if ms, err := strconv.ParseInt(string(made), 10, 64); err == nil {
				h.Add(time.Since(time.UnixMilli(ms)))
			}
		}
	}
	return s.Err()
}

// partsForm is the baseline: form, address, how many parts.
func partsForm(ctx context.Context, args []string) error {
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pong") })
	mux.HandleFunc("GET /parts", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flusher := http.NewResponseController(w)
		tick := time.NewTicker(partEvery)
		defer tick.Stop()
		var b []byte
		for range count {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
			now := time.Now().UnixMilli()
			if args[0] == "fprintf" {
				fmt.Fprintf(w, "data: %d\n\n", now)
			} else {
				b = append(strconv.AppendInt(append(b[:0], "data: "...), now, 10), "\n\n"...)
				if _, err := w.Write(b); err != nil {
					return
				}
			}
			if flusher.Flush() != nil {
				return
			}
		}
		fmt.Fprint(w, "event: end\ndata: end\n\n")
	})
	return serveUntil(ctx, args[1], mux)
}
