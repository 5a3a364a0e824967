package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// partClients is how many clients S5 has; each has one of partTopics, and gets a part every
// partEvery.
const (
	partClients = 1000
	partTopics  = 20
	partEvery   = 50 * time.Millisecond
)

// measureParts is S5: server-sent events with the time at which they were made, once for all
// clients of a topic. The rate is the same on both sides if they keep up, so what counts is the
// processor time a part, and how late the parts are.
func measureParts(ctx context.Context, l *lab) error {
	late := make(map[string]time.Duration)
	parts := func(ctx context.Context, name string, s *server.Server) (cost, int, error) {
		busy, begun := s.Busy(), time.Now()
		path := func(i int) string { return fmt.Sprintf("/parts/%d", i%partTopics) }
		g, err := listen(ctx, s.Addr, l.count(partClients), l.span(), path, partMade)
		if err != nil {
			return cost{}, 0, err
		}
		late[name] = g.late.Quantile(0.99)
		l.Progress("%s: half of the parts within %v, 99 %% within %v", name, g.late.Quantile(0.5), late[name])
		resident, err := s.Resident()
		return cost{wall: time.Since(begun), cpu: s.Busy() - busy, peak: resident}, int(g.parts.Load()), err
	}
	document := func(port string) string {
		return fmt.Sprintf(`
- {kind: listener, name: in, protocol: http, host: 127.0.0.1, port: %s, ports: {out: [{name: routes}]}}
- kind: router
  name: routes
  routes: [{method: GET, path: /ping, port: "out[0]"}, {method: GET, path: /parts/:topic, port: "out[1]"}]
  ports: {"out[0]": [{name: pong}], "out[1]": [{name: live}]}
- {kind: snippet, name: pong, language: text, code: pong}
- {kind: subscribe, name: live, topic: "${params.topic}", lifetime: %v, ports: {out: [{name: part}]}}
- {kind: emit, name: part}
- {kind: generate, name: clock, rate: %v, ports: {out: [{name: now}]}}
- {kind: snippet, name: now, language: cel, code: '{"id": string(self.n %% %d), "data": string(self.time)}', ports: {out: [{name: tell}]}}
- {kind: publish, name: tell, topic: "${self.id}"}
`, port, l.span(), partTopics/partEvery.Seconds(), partTopics)
	}
	ours, best, err := l.compare(ctx, "S5", l.servers("parts", document, []string{"a hub", "a ticker"}, parts)...)
	if err != nil {
		return err
	}
	l.rate("S5", ours, best, 0.8)
	l.targets.Add(late[ours.Name] <= 5*time.Millisecond, "S5, how late 99 % of the parts are", "at most 5 ms",
		fmt.Sprintf("%v, of %s %v", late[ours.Name].Round(10*time.Microsecond), best.Name, late[best.Name].Round(10*time.Microsecond)))
	return nil
}

// A listening is the clients, and what they have got. How late parts are counts from when
// all have got one: before, clients connect as fast as they can.
type listening struct {
	parts    atomic.Int64
	silent   atomic.Int64 // clients that have got no part yet
	complete atomic.Int64 // when there were none, in Unix nanoseconds
	late     load.Histogram
}

// partMade returns when the part of a line was made.
func partMade(line []byte) (at time.Time, ok bool) {
	made, ok := bytes.CutPrefix(line, []byte("data: "))
	if !ok {
		return at, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(made))
	return at, err == nil
}

// listen lets clients read parts until the server ends them. path returns the path that client i reads.
func listen(ctx context.Context, addr string, clients int, d time.Duration, path func(i int) string, made func(line []byte) (time.Time, bool)) (*listening, error) {
	g := new(listening)
	g.silent.Store(int64(clients))
	all := make([]load.Histogram, clients)
	errs := make([]error, clients)
	var readers sync.WaitGroup
	for i := range clients {
		readers.Go(func() { errs[i] = g.one(ctx, addr, path(i), d+20*time.Second, made, &all[i]) })
	}
	readers.Wait()
	for i := range all {
		g.late.Merge(&all[i])
	}
	return g, errors.Join(errs...)
}

// got counts a part.
func (g *listening) got(made time.Time, first bool, h *load.Histogram) {
	g.parts.Add(1)
	if first && g.silent.Add(-1) == 0 {
		g.complete.Store(time.Now().UnixNano())
	}
	if complete := g.complete.Load(); complete != 0 && made.UnixNano() > complete {
		h.Add(time.Since(made))
	}
}

func (g *listening) one(ctx context.Context, addr, path string, limit time.Duration, made func([]byte) (time.Time, bool), h *load.Histogram) error {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n", path, addr); err != nil {
		return err
	}
	s := bufio.NewScanner(c)
	for first := true; s.Scan(); {
		if at, ok := made(s.Bytes()); ok {
			g.got(at, first, h)
			first = false
		}
	}
	return s.Err()
}

// A partsHub gives each part to all clients of its topic.
type partsHub struct {
	sync.Mutex
	clients [partTopics]map[chan string]struct{}
}

func (h *partsHub) add(topic int, c chan string) {
	h.Lock()
	defer h.Unlock()
	if h.clients[topic] == nil {
		h.clients[topic] = make(map[chan string]struct{})
	}
	h.clients[topic][c] = struct{}{}
}

func (h *partsHub) remove(topic int, c chan string) {
	h.Lock()
	defer h.Unlock()
	delete(h.clients[topic], c)
}

// run makes parts until ctx ends. A client that has not taken the 64 before loses one.
func (h *partsHub) run(ctx context.Context) {
	topic := 0
	for made := range ticks(ctx, partEvery/partTopics) {
		part := part(topic, made)
		h.Lock()
		for c := range h.clients[topic] {
			select {
			case c <- part:
			default:
			}
		}
		h.Unlock()
		topic = (topic + 1) % partTopics
	}
}

func part(topic int, made time.Time) string {
	return fmt.Sprintf("id: %d\ndata: %s\n\n", topic, made.Format(time.RFC3339Nano))
}

// ticks returns the times at which parts are made, until ctx ends.
func ticks(ctx context.Context, every time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(every)
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
	hub := new(partsHub)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { hub.run(ctx) })
	each := func(ctx context.Context, topic int, send func(part string) bool) {
		if args[0] == "ticker" {
			for made := range ticks(ctx, partEvery) {
				if !send(part(topic, made)) {
					return
				}
			}
			return
		}
		parts := make(chan string, 64)
		hub.add(topic, parts)
		defer hub.remove(topic, parts)
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
	mux.HandleFunc("GET /parts/{topic}", func(w http.ResponseWriter, r *http.Request) {
		topic, err := strconv.Atoi(r.PathValue("topic"))
		if err != nil || topic < 0 || topic >= partTopics {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flusher := http.NewResponseController(w)
		ctx, cancel := context.WithTimeout(r.Context(), lifetime)
		defer cancel()
		each(ctx, topic, func(part string) bool {
			_, err := io.WriteString(w, part)
			return err == nil && flusher.Flush() == nil
		})
		fmt.Fprint(w, "event: end\ndata: end\n\n")
	})
	return server.Listen(ctx, args[1], mux)
}
