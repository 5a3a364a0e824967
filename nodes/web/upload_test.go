package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/value"
)

// takesBody is a flow that reads the body by itself, and answers with what has come of it.
func takesBody(ctx context.Context, payload value.Value) node.Response {
	if body, _ := payload.Get("body"); !body.IsNull() {
		return reply(value.Error(errors.New("the listener has read the body")))
	}
	r, ok, err := handover.Body(ctx, 1<<30)
	if !ok || err != nil {
		return reply(value.String(fmt.Sprint("no body: ", err)))
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil {
		return reply(value.Error(err))
	}
	return reply(value.String(fmt.Sprint(n, " bytes")))
}

// Each protocol can read a body late, and answer before the body has ended.
func TestUploadProtocols(t *testing.T) {
	config := `"limits":{"header_timeout":"200ms","body_bytes":"1KiB"}`
	f := func(name string, s *site) {
		t.Helper()
		s.do("POST", "/", strings.Repeat("x", 3<<20)).want(t, 200, "3145728 bytes")
		if got := s.do("GET", "/", "").body; got != "no body: <nil>" && got != "0 bytes" { // HTTP/3 cannot tell
			t.Errorf("%s: GET: got %q", name, got)
		}
		body, feed := io.Pipe()
		defer feed.CloseWithError(io.ErrClosedPipe) //nolint:errcheck // it never fails
		r, err := http.NewRequest("POST", s.url, body)
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(feed, "some") //nolint:errcheck // and no more
		resp, err := s.client.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%s: got %d, want 408", name, resp.StatusCode)
		}
		s.do("POST", "/", "again").want(t, 200, "5 bytes")
	}
	begin := func(config string) *site {
		w := newWorld(t)
		w.parts, w.raw, w.unread = true, true, &selection{}
		return startIn(t, w, config, &source{flow: takesBody})
	}
	f("HTTP/1.1", begin(config))
	s := begin(config)
	s.client = s.h2c()
	f("HTTP/2", s)
	f("HTTP/3", viaHTTP3(t, begin(http3Config(t)+","+config)))
}

// A body that was read to its end stays at its end while a handler answers. A client of net/http
// reads once more when it has sent a Content-Length; an error then cuts the answer that comes.
func TestUploadEndAgain(t *testing.T) {
	flow := func(ctx context.Context, _ value.Value) node.Response {
		r, ok, err := handover.Body(ctx, -1)
		if !ok || err != nil {
			return reply(value.String(fmt.Sprint("no body: ", err)))
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return reply(value.Error(err))
		}
		return handTo(func(w http.ResponseWriter, _ *http.Request) {
			_, err := r.Read(make([]byte, 1))
			fmt.Fprint(w, "then ", err)
		})(ctx, value.Null())
	}
	begin := func(config string) *site {
		w := newWorld(t)
		w.parts, w.raw, w.unread = true, true, &selection{}
		return startIn(t, w, config, &source{flow: flow})
	}
	h1, h2 := begin(""), begin("")
	h2.client = h2.h2c()
	for _, s := range []*site{h1, h2, viaHTTP3(t, begin(http3Config(t)))} {
		s.do("POST", "/", strings.Repeat("x", 80_000)).want(t, 200, "then EOF")
	}
}
