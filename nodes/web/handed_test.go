package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/value"
)

// handTo is a flow that lets a handler answer.
func handTo(h http.HandlerFunc) flow {
	return func(ctx context.Context, _ value.Value) node.Response {
		handover.Leave(ctx, h)
		return none
	}
}

// A client that does not take what a handler answers is cut off, and what the handler does
// ends with that. Others on other connections go on.
func TestHandedSlowClient(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	large := make([]byte, 64<<20) // more than the kernel keeps
	if err := os.WriteFile(name, large, 0o600); err != nil {
		t.Fatal(err)
	}
	writes := func(w io.Writer) error {
		_, err := w.Write(large)
		return err
	}
	flushes := func(w io.Writer) error {
		for {
			_, err := w.Write(large[:1<<10])
			if err = errors.Join(err, http.NewResponseController(w.(http.ResponseWriter)).Flush()); err != nil {
				return err
			}
		}
	}
	files := func(w io.Writer) error {
		f, err := os.Open(name)
		if err != nil {
			return nil
		}
		defer f.Close()
		_, err = w.(io.ReaderFrom).ReadFrom(f)
		return err
	}
	for _, c := range []struct {
		name, proto string
		send        func(io.Writer) error
	}{
		{"HTTP/1.1", "1.1", writes}, {"HTTP/1.1, a file", "1.1", files}, {"HTTP/1.1, flushed", "1.1", flushes},
		{"HTTP/2", "2", writes}, {"HTTP/2, a file", "2", files}, {"HTTP/2, flushed", "2", flushes},
		{"HTTP/3", "3", writes}, {"HTTP/3, flushed", "3", flushes},
	} {
		t.Run(c.name, func(t *testing.T) {
			ended := make(chan error, 1)
			w := newWorld(t)
			w.parts = true
			config := `"limits":{"header_timeout":"300ms"}`
			if c.proto == "3" {
				config += "," + http3Config(t)
			}
			s := startIn(t, w, config, &source{flow: handTo(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/quick" {
					fmt.Fprint(w, "quick")
					return
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(large)))
				ended <- c.send(w)
			})})
			s.node.server.settings.rate.Min = 1 << 20
			switch c.proto {
			case "2":
				s.client = s.h2c()
			case "3":
				viaHTTP3(t, s)
			}
			resp, err := s.client.Get(s.url)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			s.do("GET", "/quick", "").want(t, 200, "quick")
			if err := <-ended; err == nil {
				t.Error("the handler has sent everything")
			}
			for s.metric("http_connections_closed_total") == 0 || s.node.server.pendingWrites() != 0 {
				pause(t)
			}
			if n, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Errorf("got %d bytes and the end, want the connection closed", n)
			}
		})
	}
}

// TestHandedBreak counts and logs an answer that its handler breaks off, such as a proxy whose
// server has gone. The client notices.
func TestHandedBreak(t *testing.T) {
	s := startParts(t, `"access_log":true`, handTo(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			fmt.Fprint(w, "half")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}
		panic(http.ErrAbortHandler)
	}))
	resp, err := s.client.Get(s.url + "/begun")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err == nil || string(body) != "half" {
		t.Errorf("got %q and %v, want half of an answer", body, err)
	}
	resp.Body.Close()
	if resp, err := s.client.Get(s.url + "/none"); err == nil {
		resp.Body.Close()
		t.Errorf("got %s, want no answer", resp.Status)
	}
	s.client.CloseIdleConnections()
	if err := s.node.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"path=/begun route=\"\" status=200 bytes=4", "path=/none route=\"\" status=500 bytes=0"} {
		if got := s.logs.String(); !strings.Contains(got, want) {
			t.Errorf("log: got %s, want %s", got, want)
		}
	}
	if n := s.metric("http_answers_total"); n != 2 {
		t.Errorf("got %v answers counted, want 2", n)
	}
}

// TestHandedFile sends files whole, also to a client that reads slowly but fast enough, and
// over connections where the kernel cannot.
func TestHandedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<19)
	if err := os.WriteFile(name, large, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := flowtest.Certificate(t, 1)
	for _, c := range []struct{ proto, config string }{{"1.1", ""}, {"1.1", fmt.Sprintf(`,"tls":{"cert":%q,"key":%q}`, cert, key)}, {"2", ""}} {
		s := startParts(t, `"access_log":true,"limits":{"header_timeout":"2s"}`+c.config, handTo(func(w http.ResponseWriter, r *http.Request) {
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			w.Header().Set("Content-Length", fmt.Sprint(len(large)-10))
			if _, err := io.CopyN(io.Discard, f, 10); err != nil {
				t.Error(err)
			}
			if n, err := io.Copy(w, f); err != nil || n != int64(len(large)-10) {
				t.Errorf("got %d, %v", n, err)
			}
		}))
		switch {
		case c.proto == "2":
			s.client = s.h2c()
		case c.config != "":
			s.client, s.url = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, "https://"+s.node.addr()
		}
		resp, err := s.client.Get(s.url)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
			if _, err := io.CopyN(&got, resp.Body, 256<<10); err != nil {
				break
			}
		}
		resp.Body.Close()
		if !bytes.Equal(got.Bytes(), large[10:]) {
			t.Errorf("HTTP/%s%s: got %d bytes, want %d", c.proto, c.config, got.Len(), len(large)-10)
		}
		s.client.CloseIdleConnections()
		if err := s.node.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if want := fmt.Sprintf("bytes=%d", len(large)-10); !strings.Contains(s.logs.String(), want) {
			t.Errorf("log: got %s, want %s", s.logs.String(), want)
		}
	}
}
