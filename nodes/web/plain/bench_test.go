package plain

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

func pong(_ context.Context, w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	w.Write([]byte("pong"))
}

// exchange sends a request and reads an answer of some length, without allocations.
func exchange(t testing.TB, c net.Conn, request, answer []byte) {
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	for n := 0; !bytes.HasSuffix(answer[:n], []byte("pong")); {
		m, err := c.Read(answer[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
}

// browser is what a browser sends.
const browser = "GET /ping HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Connection: keep-alive\r\nCookie: session=3f8a7c; theme=dark\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\n\r\n"

// BenchmarkServe is a request and its answer over a socket, with both ends, next to net/http.
func BenchmarkServe(b *testing.B) {
	for name, text := range map[string]string{"short": get, "browser": browser} {
		for _, by := range []string{"plain", "nethttp"} {
			b.Run(name+"/"+by, func(b *testing.B) {
				s := serve(b, slow, 0, pong)
				c, request, answer := s.connect(), []byte(text), make([]byte, 4<<10)
				if by == "nethttp" { // a connection that was declined stays with it
					c.send("GET /net HTTP/1.1\r\nHost: a\r\n\r\n")
					if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
						b.Fatal(err)
					}
					exchange(b, c, nil, answer)
				}
				b.ReportAllocs()
				for b.Loop() {
					exchange(b, c.Conn, request, answer)
				}
			})
		}
	}
}

// TestAllocs: the text of the head, the map of the header (two), its values, and the context.
func TestAllocs(t *testing.T) {
	s := serve(t, slow, 0, pong)
	c, request, answer := s.connect(), []byte(get), make([]byte, 4<<10)
	exchange(t, c.Conn, request, answer)
	if n := testing.AllocsPerRun(1000, func() { exchange(t, c.Conn, request, answer) }); n > 10 { // 7, and more under the race detector, as pools forget some of what they are given
		t.Errorf("%v allocations for a request", n)
	}
}
