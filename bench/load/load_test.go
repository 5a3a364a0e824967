package load

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func serve(t *testing.T, h http.HandlerFunc) (addr string, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), conns
}

func pong(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pong") }

func TestRunCounts(t *testing.T) {
	for _, tt := range []struct {
		name      string
		keepAlive bool
		conns     int64
	}{
		{"keep-alive", true, 4},
		{"a connection each", false, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var served atomic.Int64
			addr, conns := serve(t, func(w http.ResponseWriter, r *http.Request) {
				served.Add(1)
				pong(w, r)
			})
			res, err := Run(t.Context(), Options{Addr: addr, Path: "/ping", Conns: 4, KeepAlive: tt.keepAlive, Requests: 200})
			if err != nil {
				t.Fatal(err)
			}
			if res.Requests != 200 || res.Failed != 0 || served.Load() != 200 {
				t.Errorf("got %d answered, %d failed, %d served, want 200, 0, 200: %v", res.Requests, res.Failed, served.Load(), res.Errors)
			}
			if got := conns.Load(); got > tt.conns || !tt.keepAlive && got != tt.conns {
				t.Errorf("got %d connections, want %d, or fewer that are kept", got, tt.conns)
			}
			if got := res.Latency.Count(); got != 200 {
				t.Errorf("got %d latencies, want 200", got)
			}
			if p50, p99 := res.Latency.Quantile(0.5), res.Latency.Quantile(0.99); p50 <= 0 || p99 < p50 {
				t.Errorf("got p50 %v, p99 %v", p50, p99)
			}
			if res.Rate() <= 0 {
				t.Errorf("got rate %v", res.Rate())
			}
		})
	}
}

func TestRunUnique(t *testing.T) {
	var keys sync.Map
	var twice atomic.Int64
	addr, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, seen := keys.LoadOrStore(r.Header.Get("Key"), true); seen || r.Host == "" {
			twice.Add(1)
		}
		pong(w, r)
	})
	res, err := Run(t.Context(), Options{Addr: addr, Path: "/ping", Unique: "Key", Conns: 4, KeepAlive: true, Requests: 200})
	if err != nil || res.Requests != 200 {
		t.Fatal(res, err)
	}
	if twice.Load() != 0 {
		t.Errorf("got %d values twice, want none", twice.Load())
	}
}

func TestRunCountsFailures(t *testing.T) {
	for _, tt := range []struct {
		name string
		h    http.HandlerFunc
		want string // in the error
	}{
		{"status", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) }, "418"},
		{"body", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ping") }, "ping"},
		{"hang up", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"chunked", func(w http.ResponseWriter, r *http.Request) { http.NewResponseController(w).Flush(); pong(w, r) }, "content length"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, _ := serve(t, tt.h)
			res, err := Run(t.Context(), Options{
				Addr: addr, Path: "/", Conns: 2, KeepAlive: true, Requests: 10,
				Accept: func(status int, body []byte) bool { return status == 200 && string(body) == "pong" },
			})
			if err != nil {
				t.Fatal(err)
			}
			if res.Requests != 0 || res.Failed != 10 {
				t.Errorf("got %d answered, %d failed, want 0, 10", res.Requests, res.Failed)
			}
			if len(res.Errors) == 0 || !strings.Contains(res.Errors[0].Error(), tt.want) {
				t.Errorf("got errors %v, want one with %q", res.Errors, tt.want)
			}
		})
	}
}

func TestRunNobodyListens(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(pong))
	addr := strings.TrimPrefix(s.URL, "http://")
	s.Close()
	res, err := Run(t.Context(), Options{Addr: addr, Path: "/", Requests: 3})
	if err != nil {
		t.Fatal(err)
	}
	if res.Failed != 3 {
		t.Errorf("got %d failed, want 3", res.Failed)
	}
}

func TestRunEnds(t *testing.T) {
	addr, _ := serve(t, pong)
	t.Run("after its duration", func(t *testing.T) {
		res, err := Run(t.Context(), Options{Addr: addr, Path: "/", KeepAlive: true, Duration: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if res.Requests == 0 || res.Failed != 0 || res.Elapsed < 50*time.Millisecond {
			t.Errorf("got %d answered, %d failed in %v: %v", res.Requests, res.Failed, res.Elapsed, res.Errors)
		}
	})
	t.Run("with its context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		res, err := Run(ctx, Options{Addr: addr, Path: "/", KeepAlive: true, Duration: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if res.Requests == 0 || res.Elapsed > time.Minute {
			t.Errorf("got %d answered in %v", res.Requests, res.Elapsed)
		}
	})
	t.Run("never", func(t *testing.T) {
		if _, err := Run(t.Context(), Options{Addr: addr}); err == nil {
			t.Error("got no error, want one: nothing says when to end")
		}
	})
}

func TestHold(t *testing.T) {
	addr, conns := serve(t, pong)
	h, err := Hold(t.Context(), addr, "/", 100)
	if err != nil {
		t.Fatal(err)
	}
	if got := conns.Load(); got != 100 {
		t.Errorf("got %d connections, want 100", got)
	}
	if got := h.Alive(); got != 100 {
		t.Errorf("got %d alive, want 100", got)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if got := h.Alive(); got != 0 {
		t.Errorf("got %d alive after Close, want 0", got)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("empty: got %v, want 0", got)
	}
	for i := range 1000 {
		h.Add(time.Duration(i+1) * time.Microsecond)
	}
	var sum Histogram
	sum.Merge(&h)
	sum.Merge(&h)
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Microsecond}, {0.5, 500 * time.Microsecond}, {0.99, 990 * time.Microsecond}, {1, time.Millisecond}} {
		for _, h := range []*Histogram{&h, &sum} {
			if got := h.Quantile(tt.q); got > tt.want+tt.want/fine || got < tt.want-tt.want/fine {
				t.Errorf("q %v: got %v, want about %v", tt.q, got, tt.want)
			}
		}
	}
	for _, n := range []uint64{0, 1, fine - 1, fine, fine + 1, 1000, 1<<40 + 12345, 1<<63 - 1, 1<<64 - 1} {
		b := bucketOf(n)
		if b >= buckets || lowest(b) > n || b+1 < buckets && lowest(b+1) <= n && lowest(b+1) != 0 {
			t.Errorf("%d: got bucket %d, from %d to %d", n, b, lowest(b), lowest(b+1))
		}
	}
}
