package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/value"
)

// startParts is start for a flow that may send parts.
func startParts(t testing.TB, config string, f flow) *site {
	t.Helper()
	w := newWorld(t)
	w.parts = true
	return startIn(t, w, config, &source{flow: f})
}

// emit sends parts and answers with the last value; None if that is a nil Response.
func emit(end node.Response, list ...value.Value) flow {
	return func(ctx context.Context, _ value.Value) node.Response {
		p, ok := node.PartsOf(ctx)
		if !ok {
			return reply(value.Error(errors.New("no parts")))
		}
		for _, v := range list {
			if err := sendPart(ctx, p, v); err != nil {
				return reply(value.Error(err))
			}
		}
		return end
	}
}

// sendPart sends a part as [node.SendPart] does.
func sendPart(ctx context.Context, p node.Parts, v value.Value) error {
	rest, err := p.(node.TryParts).TryPart(ctx, v)
	if err != nil || rest == nil {
		return err
	}
	return rest(ctx)
}

var none = node.Response{None: true}

func TestPartsForms(t *testing.T) {
	str := value.String
	obj := flowtest.Parse(t, `{"n":1}`)
	list := []value.Value{str("a\nb"), obj}
	for _, c := range []struct {
		name, accept string
		parts        []value.Value
		end          node.Response
		contentType  string
		want         string
		cut          bool
	}{
		{"text", "", list, none, envelope.TypeText, "a\nb{\"n\":1}\n", false},
		{"any", "*/*", list, reply(str("!")), envelope.TypeText, "a\nb{\"n\":1}\n!", false},
		{"value first", "", []value.Value{obj, obj}, none, "application/x-ndjson", "{\"n\":1}\n{\"n\":1}\n", false},
		{"binary", "", []value.Value{value.Binary([]byte{0, 1})}, none, envelope.TypeOctets, "\x00\x01", false},
		{"lines", "application/x-ndjson", list, reply(obj), "application/x-ndjson", "\"a\\nb\"\n{\"n\":1}\n{\"n\":1}\n", false},
		{"events", "text/event-stream", list, reply(obj), "text/event-stream", "retry: 1000\n\ndata: a\ndata: b\n\ndata: {\"n\":1}\n\nevent: end\ndata: {\"n\":1}\n\n", false},
		{"end without data", "text/event-stream", list[:1], none, "text/event-stream", "retry: 1000\n\ndata: a\ndata: b\n\nevent: end\ndata: \n\n", false},
		{"an event", "text/event-stream, */*;q=0.1", []value.Value{flowtest.Parse(t, `{"event":"tick","id":7,"data":{"x":1},"retry":50}`), flowtest.Parse(t, `{"event":"bare"}`), flowtest.Parse(t, `{"id":"8"}`)}, none, "text/event-stream",
			"retry: 1000\n\nid: 7\nretry: 50\nevent: tick\ndata: {\"x\":1}\n\nevent: bare\ndata: \n\nid: 8\n\nevent: end\ndata: \n\n", false},
		{"lines of any kind", "text/event-stream", []value.Value{str("a\rb\r\nc\n")}, none, "text/event-stream", "retry: 1000\n\ndata: a\ndata: b\ndata: c\ndata: \n\nevent: end\ndata: \n\n", false},
		{"prefers lines", "text/event-stream" + ";q=0.5," + "application/x-ndjson", list[1:], none, "application/x-ndjson", "{\"n\":1}\n", false},
		{"header", "", []value.Value{flowtest.Parse(t, `{"status":201,"header":{"content-type":"text/csv","x-a":"1"},"body":"a,b\n"}`), flowtest.Parse(t, `{"status":500,"body":"1,2\n"}`)}, none, "text/csv", "a,b\n1,2\n", false},
		{"header alone", "", []value.Value{flowtest.Parse(t, `{"header":{"content-type":"text/event-stream"}}`), obj}, none, "text/event-stream", "retry: 1000\n\ndata: {\"n\":1}\n\nevent: end\ndata: \n\n", false},
		{"error in chunks", "", list[:1], reply(value.Error(errTest)), envelope.TypeText, "a\nb", true},
		{"error in lines", "application/x-ndjson", list[1:], reply(value.Error(errTest)), "application/x-ndjson", "{\"n\":1}\n{\"error\":{\"status\":500}}\n", true},
		{"error in events", "text/event-stream", list[1:], reply(value.Error(&node.Error{Err: errTest, Status: 429, Public: true})), "text/event-stream",
			"retry: 1000\n\ndata: {\"n\":1}\n\nevent: error\ndata: {\"status\":429,\"message\":\"the till is on fire\"}\n\n", false},
		{"stopped", "text/event-stream", list[1:], reply(value.Error(&node.Error{Err: errTest, Code: string(diag.CodeCancelled)})), "text/event-stream",
			"retry: 1000\n\ndata: {\"n\":1}\n\n", false},
		{"lines, stopped", "application/x-ndjson", list[1:], reply(value.Error(&node.Error{Err: errTest, Code: string(diag.CodeCancelled)})), "application/x-ndjson", "{\"n\":1}\n", true},
	} {
		s := startParts(t, "", emit(c.end, c.parts...))
		for _, proto := range []string{"1.1", "2"} {
			client := s.client
			if proto == "2" {
				client = s.h2c()
			}
			r, _ := http.NewRequest("GET", s.url+"/", nil)
			r.Header.Set("Accept", c.accept)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(data) != c.want || resp.Header.Get("Content-Type") != c.contentType || (err != nil) != c.cut {
				t.Errorf("%s over HTTP/%s: got %s %q, error %v; want %s %q, cut %v", c.name, proto, resp.Header.Get("Content-Type"), data, err, c.contentType, c.want, c.cut)
			}
			if got := resp.Header.Get("Cache-Control"); got != "no-store" || resp.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s: got Cache-Control %q, Content-Encoding %q", c.name, got, resp.Header.Get("Content-Encoding"))
			}
		}
	}
}

// What cannot be a part is an error of the node that sends it, and the answer can still
// have any status.
func TestPartsRefused(t *testing.T) {
	for _, bad := range []string{`{"event":"a\nb"}`, `{"id":"a\u0000"}`, `{"retry":-1}`, `{"retry":"soon"}`, `{"status":204}`, `{"status":99,"body":1}`, `{"header":{"a b":"c"},"body":1}`, `{"event":{}}`} {
		s := startParts(t, "", emit(none, flowtest.Parse(t, bad)))
		got := s.do("GET", "/", "", "Accept: "+"text/event-stream")
		got.want(t, 500, "Internal Server Error", "Cache-Control: ")
	}
	s := startParts(t, "", always(value.String("whole")))
	s.do("GET", "/", "", "Accept: "+"text/event-stream").want(t, 200, "whole", "Cache-Control: ")
}

// TestPartsRefusedFirst leaves nothing of a first part that cannot be sent.
func TestPartsRefusedFirst(t *testing.T) {
	s := startParts(t, `"cors":{"origins":["https://shop.example"]}`, func(ctx context.Context, _ value.Value) node.Response {
		handover.SetHeader(ctx, "Set-Cookie", "a=1")
		p, _ := node.PartsOf(ctx)
		if err := sendPart(ctx, p, value.List(value.Float(math.NaN()))); err == nil {
			t.Error("a number that JSON does not have was sent")
		}
		return reply(flowtest.Parse(t, `{"header":{"Cache-Control":"max-age=5"},"body":"tea"}`))
	})
	s.do("GET", "/", "").want(t, 200, "tea", "Cache-Control: max-age=5", "Set-Cookie: a=1", "Vary: Accept | Origin", "Content-Type: "+envelope.TypeText)
}

func TestPartsOfHead(t *testing.T) {
	cancelled := make(chan error, 1)
	s := startParts(t, "", func(ctx context.Context, _ value.Value) node.Response {
		p, _ := node.PartsOf(ctx)
		err := sendPart(ctx, p, value.String("x"))
		<-ctx.Done()
		cancelled <- err
		return reply(value.Error(context.Cause(ctx)))
	})
	s.do("HEAD", "/", "").want(t, 200, "", "Content-Type: "+envelope.TypeText)
	if err := <-cancelled; err == nil || err.Error() != "the client has asked for the header only" {
		t.Errorf("got %v", err)
	}
	s.do("HEAD", "/", "").want(t, 200, "") // the connection still serves
}

// openStream begins a request and returns the reader of its answer.
func openStream(t testing.TB, s *site, accept string) (*http.Response, *bufio.Reader) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+"/", nil)
	r.Header.Set("Accept", accept)
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp, bufio.NewReader(resp.Body)
}

// A part arrives when it is sent, not when the answer ends.
func TestPartsArrive(t *testing.T) {
	next := make(chan string, 1)
	s := startParts(t, "", func(ctx context.Context, _ value.Value) node.Response {
		p, _ := node.PartsOf(ctx)
		for text := range next {
			if err := sendPart(ctx, p, value.String(text)); err != nil {
				return reply(value.Error(err))
			}
		}
		return none
	})
	next <- "one\n"
	_, r := openStream(t, s, "")
	for i, want := range []string{"one\n", "two\n", "three\n"} {
		if i > 0 {
			next <- want
		}
		if got, err := r.ReadString('\n'); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	close(next)
}

func TestPartsOfClientThatLeaves(t *testing.T) {
	for _, proto := range []string{"1.1", "2"} {
		ended := make(chan error, 1)
		s := startParts(t, "", func(ctx context.Context, _ value.Value) node.Response {
			p, _ := node.PartsOf(ctx)
			if err := sendPart(ctx, p, value.String("x")); err != nil {
				ended <- fmt.Errorf("first part: %w", err)
				return none
			}
			<-ctx.Done()
			ended <- sendPart(ctx, p, value.String("y"))
			return reply(value.Error(context.Cause(ctx)))
		})
		if proto == "2" {
			s.client = s.h2c()
		}
		resp, _ := openStream(t, s, "")
		resp.Body.Close()
		if err := <-ended; err == nil {
			t.Errorf("HTTP/%s: a part to a client that has left is not an error", proto)
		}
	}
}

// longestTried is the longest part, in bytes, that is sent without waiting.
const longestTried = 16 << 10

// A client that does not read slows its own process, and is cut off as one that does not
// take an answer; others go on meanwhile.
func TestPartsOfSlowClient(t *testing.T) {
	for _, proto := range []string{"1.1", "1.1 tried", "2"} {
		const grace = 300 * time.Millisecond
		piece := value.String(strings.Repeat("x", 1<<20))
		if proto == "1.1 tried" {
			piece = value.String(strings.Repeat("x", longestTried))
		}
		ended := make(chan error, 1)
		s := startParts(t, fmt.Sprintf(`"limits":{"header_timeout":"%s"}`, grace), func(ctx context.Context, in value.Value) node.Response {
			p, _ := node.PartsOf(ctx)
			if path, _ := in.Get("path"); path.Equal(value.String("/quick")) {
				return emit(none, value.String("quick"))(ctx, in)
			}
			for {
				if err := sendPart(ctx, p, piece); err != nil {
					ended <- err
					return reply(value.Error(err))
				}
			}
		})
		s.node.server.settings.rate.Min = 1 << 20
		if proto == "2" {
			s.client = s.h2c()
		}
		openStream(t, s, "")
		s.do("GET", "/quick", "").want(t, 200, "quick")
		if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "the client has left") {
			t.Errorf("HTTP/%s: got %v", proto, err)
		}
		writes, bytes := s.node.server.pending.Totals()
		if writes != 0 || bytes != 0 {
			t.Errorf("HTTP/%s: %d answers of %d bytes are still pending", proto, writes, bytes)
		}
	}
}

// Parts that are tried arrive whole and in order, also if the client does not read for a
// time: what the kernel does not take is sent with the next part, or at the end.
func TestPartsTried(t *testing.T) {
	cert, key := flowtest.Certificate(t, 1)
	for _, c := range []struct{ name, config, proto, end string }{
		{"plain", "", "1.1", ""}, {"with an end", "", "1.1", "end"}, {"HTTP/1.0", "", "1.0", ""},
		{"TLS", fmt.Sprintf(`"tls":{"cert":%q,"key":%q}`, cert, key), "1.1", "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const size = 4000
			full := make(chan int, 1)
			s := startParts(t, c.config, func(ctx context.Context, _ value.Value) node.Response {
				p, _ := node.PartsOf(ctx)
				number, waits := 0, 0
				for ; waits < 3; number++ {
					rest, err := p.(node.TryParts).TryPart(ctx, value.String(fmt.Sprintf("%*d\n", size-1, number)))
					switch {
					case err != nil:
						return reply(value.Error(err))
					case rest == nil:
					case number == 0:
						if err := rest(ctx); err != nil {
							return reply(value.Error(err))
						}
					default:
						waits++ // rest is not called: as of a process that another node has ended
					}
				}
				full <- number
				if c.end != "" {
					return reply(value.String(c.end))
				}
				return none
			})
			conn, err := net.Dial("tcp", s.node.addr())
			if err != nil {
				t.Fatal(err)
			}
			if c.config != "" {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			defer conn.Close()
			fmt.Fprintf(conn, "GET / HTTP/%s\r\nHost: x\r\nConnection: close\r\n\r\n", c.proto)
			number := <-full
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			for i := range number {
				if got, err := lines.ReadString('\n'); err != nil || got != fmt.Sprintf("%*d\n", size-1, i) {
					t.Fatalf("part %d of %d: got %.40q, %v", i, number, strings.TrimSpace(got), err)
				}
			}
			if end, err := io.ReadAll(lines); err != nil || string(end) != c.end {
				t.Errorf("the end: got %q, %v, want %q", end, err, c.end)
			}
		})
	}
}

// A process that ends while its client does not read does not wait for that client.
func TestPartsInterrupted(t *testing.T) {
	for _, proto := range []string{"1.1", "1.1 tried", "2"} {
		kill := make(chan context.CancelFunc, 1)
		ended := make(chan error, 1)
		s := startParts(t, `"limits":{"header_timeout":"0s"}`, func(ctx context.Context, _ value.Value) node.Response {
			p, _ := node.PartsOf(ctx)
			ctx, cancel := context.WithCancel(ctx)
			kill <- cancel
			piece := value.String(strings.Repeat("x", 1<<20))
			if proto == "1.1 tried" {
				piece = value.String(strings.Repeat("x", longestTried))
			}
			for {
				if err := sendPart(ctx, p, piece); err != nil {
					ended <- err
					return reply(value.Error(err))
				}
			}
		})
		if proto == "2" {
			s.client = s.h2c()
		}
		openStream(t, s, "")
		cancel := <-kill
		for s.node.server.pendingWrites() == 0 { // until the client's buffers are full
			pause(t)
		}
		cancel()
		<-ended
	}
}

func (s *server) pendingWrites() int {
	n, _ := s.pending.Totals()
	return n
}

// pause lets other goroutines go on, for a moment.
func pause(t testing.TB) {
	select {
	case <-time.After(time.Millisecond):
	case <-t.Context().Done():
		t.Fatal("the test has ended")
	}
}

// request_timeout is for the first part, and for the time from one part to the next.
func TestPartsAndRequestTimeout(t *testing.T) {
	const steps = 45 // of 50 ms each: together more than the timeout, which a busy machine does not reach in one
	s := startParts(t, `"limits":{"request_timeout":"2s"}`, func(ctx context.Context, in value.Value) node.Response {
		p, _ := node.PartsOf(ctx)
		path, _ := in.Get("path")
		if path.Equal(value.String("/never")) {
			<-ctx.Done()
			return reply(value.Error(context.Cause(ctx)))
		}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range steps {
			if err := sendPart(ctx, p, value.String("x")); err != nil {
				return reply(value.Error(err))
			}
			if path.Equal(value.String("/once")) {
				<-ctx.Done()
				return reply(value.Error(context.Cause(ctx)))
			}
			<-tick.C
		}
		return none
	})
	var clients sync.WaitGroup
	f := func(path string, parts int, end string) {
		clients.Go(func() {
			got := s.do("GET", path, "", "Accept: "+"text/event-stream")
			if n := strings.Count(got.body, "data: x\n"); n != parts || !strings.HasSuffix(got.body, end) {
				t.Errorf("%s: got %d parts, %.300q", path, n, got.body)
			}
		})
	}
	f("/", steps, "event: end\ndata: \n\n")
	f("/once", 1, "event: error\ndata: {\"status\":503}\n\n")
	s.do("GET", "/never", "").want(t, 503, "Service Unavailable")
	clients.Wait()
}

// A forked process may outlive its request; what it sends must not reach the next one.
func TestPartsAfterTheEnd(t *testing.T) {
	var late context.Context
	s := startParts(t, "", func(ctx context.Context, _ value.Value) node.Response {
		late = ctx
		return reply(value.String("done"))
	})
	s.do("GET", "/", "").want(t, 200, "done")
	p, _ := node.PartsOf(late)
	if err := p.Part(context.WithoutCancel(late), value.String("x")); err == nil || err.Error() != "the answer has ended" {
		t.Errorf("got %v", err)
	}
	if handover.Leave(late, http.NotFoundHandler()) {
		t.Error("a handler was taken after the answer")
	}
}

// Without node.SendsParts downstream a process has neither parts nor room for a handler.
func TestPartsNotOffered(t *testing.T) {
	s := start(t, "", func(ctx context.Context, _ value.Value) node.Response {
		_, ok := node.PartsOf(ctx)
		return reply(value.Bool(ok || handover.Leave(ctx, http.NotFoundHandler())))
	})
	s.do("GET", "/", "").want(t, 200, "false")
}

func TestHandover(t *testing.T) {
	teapot := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "short and stout")
	})
	s := startParts(t, "", func(ctx context.Context, in value.Value) node.Response {
		if !handover.Leave(ctx, teapot) || handover.Leave(ctx, teapot) {
			return reply(value.Error(errors.New("want one handler")))
		}
		switch path, _ := in.Get("path"); path.String() {
		case "/error":
			return reply(value.Error(errTest))
		case "/part/":
			return emit(none, value.String("x"))(ctx, in)
		}
		return reply(value.String("not sent"))
	})
	s.do("GET", "/tea", "").want(t, 418, "short and stout", "X-Path: /tea")
	s.do("POST", "/tea", strings.Repeat("x", 100000)).want(t, 418, "short and stout")
	s.do("GET", "/error", "").want(t, 500, "Internal Server Error", "X-Path: ")
	resp, r := openStream(t, &site{t: t, client: s.client, url: s.url + "/part"}, "")
	if data, err := io.ReadAll(r); string(data) != "x" || err == nil || resp.StatusCode != 200 {
		t.Errorf("a handler after a part: got %q, %v, want a cut answer", data, err)
	}
	if n := s.node.server.inFlight.Load(); n != 0 {
		t.Errorf("%d processes are in flight", n)
	}
}

// A handler may take the connection, over TLS as well.
func TestHandoverHijack(t *testing.T) {
	cert, key := flowtest.Certificate(t, 1)
	s := startParts(t, fmt.Sprintf(`"tls":{"cert":%q,"key":%q}`, cert, key), func(ctx context.Context, _ value.Value) node.Response {
		handover.Leave(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 299 Mine\r\nContent-Length: 0\r\n\r\n")
		}))
		return none
	})
	c, err := tls.Dial("tcp", s.node.addr(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || line != "HTTP/1.1 299 Mine\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
}
