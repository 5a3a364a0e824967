package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/observe"
)

func same(text string) string { return text }

// counts is an engine whose nodes receive 100 packets a second each, half of them in 2 ms.
type counts struct {
	nodes int
	calls atomic.Int64
}

func (c *counts) metrics() observe.Metrics {
	n := uint64(c.calls.Add(1))
	m := observe.Metrics{Generation: 1, Started: 100 * n}
	for i := range c.nodes {
		row := observe.NodeMetrics{Kind: "nop", Namespace: "default", Name: fmt.Sprint("n", i), Packets: 100 * n, Errors: n, Busy: time.Duration(n) * time.Second / 2}
		row.Latency.Counts[row.Latency.Bucket(2*time.Millisecond)] = 50 * n
		row.Latency.Counts[row.Latency.Bucket(100*time.Millisecond)] = 50 * n
		m.Nodes = append(m.Nodes, row)
	}
	return m
}

// TestSince computes rates by the nodes' names, also if nodes come and go.
func TestSince(t *testing.T) {
	at := time.Unix(1000, 0)
	node := func(name string, packets uint64) observe.NodeMetrics {
		return observe.NodeMetrics{Kind: "nop", Namespace: "default", Name: name, Packets: packets}
	}
	before := sampleOf(at, observe.Metrics{Nodes: []observe.NodeMetrics{node("d", 40), node("a", 10), node("b", 20)}})
	now := sampleOf(at.Add(2*time.Second), observe.Metrics{Nodes: []observe.NodeMetrics{node("b", 26), node("d", 40), node("c", 8)}})
	var rates []float64
	for _, row := range now.since(before).Rows {
		rates = append(rates, row.Rate)
	}
	if got := fmt.Sprint(rates); got != "[3 4 0]" {
		t.Errorf("got %s", got)
	}
}

func pipe(t *testing.T, s *Stream) *http.Client {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _ = http.Serve(&once{conn: far}, s) }() // it ends with the connection
		return near, nil
	}}}
	return client
}

// once is a listener with one connection.
type once struct {
	mu   sync.Mutex
	conn net.Conn
}

func (o *once) Accept() (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn == nil {
		return nil, io.EOF
	}
	conn := o.conn
	o.conn = nil
	return conn, nil
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.UnixAddr{} }

// readEvents reads events until f returns false.
func readEvents(t *testing.T, c *http.Client, f func(name string, m api.Metrics) bool) {
	t.Helper()
	client := api.Client{Address: "pipe", HTTP: c}
	enough := errors.New("enough")
	err := client.Events(t.Context(), func(e api.Event) error {
		var m api.Metrics
		if e.Type == "metrics" {
			if err := json.Unmarshal(e.Data, &m); err != nil {
				return err
			}
		}
		if !f(e.Type, m) {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
	c.CloseIdleConnections()
}

// TestStream tells two readers what changes, and does nothing when they have left.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counts{nodes: 3}
		s := NewStream(c.metrics, same)
		<-time.After(time.Minute)
		if c.calls.Load() != 0 {
			t.Errorf("%d samples while nobody reads", c.calls.Load())
		}
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				var got []string
				readEvents(t, pipe(t, s), func(name string, m api.Metrics) bool {
					got = append(got, fmt.Sprint(name, len(m.Rows)))
					if len(got) < 5 {
						return true
					}
					row := m.Rows[0]
					if row.Rate < 99 || row.Rate > 101 || row.Failing < 0.9 || row.Load < 0.49 || row.P50 < 0.001 || row.P50 > 0.005 || row.P99 < 0.065 || row.P99 > 0.263 {
						t.Errorf("got %+v", row)
					}
					return false
				})
				if text := strings.Join(got, " "); text != "hello0 metrics3 metrics3 metrics3 metrics3" {
					t.Errorf("got %s", text)
				}
			})
		}
		readers.Wait()
		s.Close()
		calls := c.calls.Load()
		<-time.After(time.Minute)
		if c.calls.Load() != calls {
			t.Errorf("%d samples after the last reader left", c.calls.Load()-calls)
		}
		if m := s.Metrics(); len(m.Of) != 3 || len(m.Rows) != 3 || m.Rows[2].Packets == 0 {
			t.Errorf("got %+v", m)
		}
	})
}

// TestSlowReader merges what a reader does not take, and says how much; another reader misses nothing.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counts{nodes: 100}
		s := NewStream(c.metrics, same)
		slow := s.join()
		for range 30 {
			<-time.After(time.Second)
		}
		synctest.Wait()
		hello, m := slow.take()
		if hello == nil || len(hello.Nodes) != 100 || m.Dropped != 30 || len(m.Rows) != 100 || m.Rows[99].Packets != 3100 {
			t.Errorf("got %d dropped, %d rows, hello %v", m.Dropped, len(m.Rows), hello != nil)
		}
		if _, m := slow.take(); len(m.Rows) != 0 || m.Dropped != 0 {
			t.Errorf("got %+v again", m)
		}
		s.leave(slow)
		s.Close()
	})
}

// TestReaders refuses one reader too many.
func TestReaders(t *testing.T) {
	s := NewStream((&counts{nodes: 1}).metrics, same)
	var all []*reader
	for range MaxReaders {
		all = append(all, s.join())
	}
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)); w.Code != 429 {
		t.Errorf("got %d", w.Code)
	}
	for _, r := range all {
		s.leave(r)
	}
	s.Close()
}

// BenchmarkAdvance is what a second of a stream takes for 500 nodes, with what makes the counts: 200 µs.
func BenchmarkAdvance(b *testing.B) {
	c := &counts{nodes: 500}
	m := c.metrics()
	s := NewStream(func() observe.Metrics { return m }, same)
	r := s.join()
	defer s.Close()
	defer s.leave(r)
	for b.Loop() {
		s.mu.Lock()
		s.advance()
		s.mu.Unlock()
	}
}

// TestLogs keeps the last lines with their attributes, without secrets.
func TestLogs(t *testing.T) {
	var logs Logs
	log := slog.New(logs.Handler(slog.NewTextHandler(io.Discard, nil))).With("node", "a").WithGroup("http").With("port", 80)
	log.Debug("not enabled")
	log.Info("came", "token", "letmein", slog.Group("by", "ip", "::1"))
	log.Error("no letmein here")
	hide := func(text string) string { return strings.ReplaceAll(text, "letmein", "[redacted]") }
	lines := logs.Lines(Query{}, hide)
	if got := fmt.Sprintln(lines[0].Level, lines[0].Message, lines[0].Attrs); len(lines) != 2 || got != "INFO came [{node a} {http.port 80} {http.token [redacted]} {http.by.ip ::1}]\n" {
		t.Errorf("got %s of %d", got, len(lines))
	}
	if lines := logs.Lines(Query{Least: slog.LevelError}, hide); len(lines) != 1 || lines[0].Message != "no [redacted] here" {
		t.Errorf("got %+v", lines)
	}
	if lines := logs.Lines(Query{After: 1, Node: "a"}, same); len(lines) != 1 || lines[0].Seq != 2 {
		t.Errorf("got %+v after the first", lines)
	}
	if lines := logs.Lines(Query{Node: "b"}, same); len(lines) != 0 {
		t.Errorf("got %+v of another node", lines)
	}
	for i := range 3 * maxLines {
		log.Info(fmt.Sprint("line ", i))
	}
	if lines := logs.Lines(Query{}, same); len(lines) != maxLines || lines[maxLines-1].Message != fmt.Sprint("line ", 3*maxLines-1) {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1].Message)
	}
	for range 10 {
		log.Info(strings.Repeat("x", maxBytes/4))
	}
	if lines := logs.Lines(Query{}, same); len(lines) != 3 {
		t.Errorf("got %d lines of a quarter of the room", len(lines))
	}
}
