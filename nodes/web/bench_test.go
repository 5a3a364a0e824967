package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/nodes/web/router"
	"github.com/uniflow-labs/uniflow/value"
)

// These benchmarks measure what a listener and a router add to net/http, with the fake
// engine of the tests between them. The baseline is a mux with one handler.

// pinger is a flow of a router and a constant.
func pinger(t testing.TB) flow {
	n := makeNode(t, router.Def(), `{"routes":[{"method":"GET","path":"/ping","port":"out"}]}`)
	pong := reply(value.String("pong"))
	return func(_ context.Context, payload value.Value) node.Response {
		r := n.Receive(nil, node.Packet{Payload: payload})
		if e := r.Effect(); e.Op != effect.Send {
			return reply(e.Payload)
		}
		return pong
	}
}

func makeNode(t testing.TB, def *node.Def, config string) node.Node {
	t.Helper()
	n, err := def.New(&node.Init{Config: decodeConfig(t, def, flowtest.Parse(t, config))})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func TestRequestAllocs(t *testing.T) {
	if invariant.Race {
		return // allocations are not counted under the race detector
	}
	s := start(t, "", pinger(t))
	r := httptest.NewRequest("GET", "/ping", nil)
	r.Body = http.NoBody
	w := &discard{header: make(http.Header)}
	got := testing.AllocsPerRun(200, func() {
		clear(w.header)
		s.node.server.serveHTTP(r.Context(), w, r, false, false)
	})
	// The request, its map, two for its view of the headers, and the map with
	// params.
	const want = 5
	if got > want {
		t.Errorf("a ping: got %v allocations, want %v", got, want)
	}
}

func BenchmarkHandler(b *testing.B) {
	r := httptest.NewRequest("GET", "/ping", nil)
	r.Body = http.NoBody
	b.Run("listener", func(b *testing.B) {
		s := start(b, "", pinger(b))
		w := &discard{header: make(http.Header)}
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			s.node.server.serveHTTP(r.Context(), w, r, false, false)
		}
	})
	b.Run("created", func(b *testing.B) { // an envelope with a status of its own
		created := reply(value.Map(
			value.Field{Name: "status", Value: value.Int(http.StatusCreated)},
			value.Field{Name: "body", Value: value.Map(value.Field{Name: "item", Value: value.String("tea")})},
		))
		s := start(b, "", func(context.Context, value.Value) node.Response { return created })
		w := &discard{header: make(http.Header)}
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			s.node.server.serveHTTP(r.Context(), w, r, false, false)
		}
	})
	b.Run("mux", func(b *testing.B) {
		mux := pingMux()
		w := &discard{header: make(http.Header)}
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			mux.ServeHTTP(w, r)
		}
	})
}

func pingMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "pong")
	})
	return mux
}

// BenchmarkLoopback sends requests over 8 kept-alive connections, and over a new
// connection for each request.
func BenchmarkLoopback(b *testing.B) {
	run := func(b *testing.B, url string, keepAlive bool) {
		transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableKeepAlives: !keepAlive, DisableCompression: true}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				resp, err := client.Get(url + "/ping")
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					b.Errorf("got %s, %v", resp.Status, err)
				}
				resp.Body.Close()
			}
		})
	}
	for _, keepAlive := range []bool{true, false} {
		b.Run(fmt.Sprintf("listener/keepalive=%v", keepAlive), func(b *testing.B) {
			run(b, start(b, "", pinger(b)).url, keepAlive)
		})
		b.Run(fmt.Sprintf("mux/keepalive=%v", keepAlive), func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			s := httptest.NewUnstartedServer(pingMux())
			s.Listener.Close()
			s.Listener = l
			s.Start()
			defer s.Close()
			run(b, s.URL, keepAlive)
		})
	}
}

func unlimited(int) error { return nil }

// BenchmarkMedia makes values of bodies that have been read, by their media type.
// Each is what a client sends for the same order of three fields and an item.
func BenchmarkMedia(b *testing.B) {
	const parts = "--x\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\nord-173\r\n" +
		"--x\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nleave at the door\r\n" +
		"--x\r\nContent-Disposition: form-data; name=\"item\"\r\nContent-Type: application/json\r\n\r\n{\"sku\":\"a-1\",\"count\":2}\r\n" +
		"--x\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"p.png\"\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n--x--\r\n"
	for _, bench := range []struct{ name, contentType, body string }{
		{"json", "application/json; charset=utf-8", `{"id":"ord-173","note":"leave at the door","item":{"sku":"a-1","count":2}}`},
		{"form", "application/x-www-form-urlencoded", "id=ord-173&note=leave+at+the+door&item=a-1%2C2&item=a-2%2C1"},
		{"multipart", `multipart/form-data; boundary="x"`, parts},
		{"text", "text/plain; charset=iso-8859-1", "leave at the door, s'il vous pla\xeet"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			body := []byte(bench.body) // the values share its bytes, which do not change
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := content.Decode(bench.contentType, body, unlimited); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBodies reads, decodes and answers bodies over one connection that is
// kept: all of the way of a body, except for the flow.
func BenchmarkBodies(b *testing.B) {
	object := func(size int) string {
		const item = `{"sku":"a-173","count":2,"note":"leave at the door"},`
		return "[" + strings.Repeat(item, size/len(item)+1) + "null]"
	}
	part := func(size int) string {
		return "--x\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"p.png\"\r\nContent-Type: image/png\r\n\r\n" +
			strings.Repeat("\x89", size) + "\r\n--x--\r\n"
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KB", 1 << 10}, {"1MB", 1 << 20}} {
		for _, bench := range []struct{ name, contentType, coding, accept, body string }{
			{"read", "application/json", "", "", object(size.bytes)},
			{"multipart", "multipart/form-data; boundary=x", "", "", part(size.bytes)},
			{"gzip", "application/json", "gzip", "", compressed(b, "gzip", object(size.bytes))},
		} {
			b.Run(bench.name+"/"+size.name, func(b *testing.B) {
				s := start(b, "", always(value.Null()))
				benchRequest(b, s, "POST", bench.body, "Content-Type: "+bench.contentType, "Content-Encoding: "+bench.coding)
			})
		}
		for _, coding := range []string{"identity", "gzip", "zstd"} {
			b.Run("answer/"+coding+"/"+size.name, func(b *testing.B) {
				s := start(b, "", always(flowtest.Parse(b, object(size.bytes))))
				benchRequest(b, s, "GET", "", "Accept-Encoding: "+coding)
			})
		}
	}
}

func benchRequest(b *testing.B, s *site, method, body string, headers ...string) {
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if got := s.do(method, "/", body, headers...); got.status != 200 {
			b.Fatalf("got status %d", got.status)
		}
	}
}
