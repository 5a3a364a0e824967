package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// In each of these tests some clients exceed a limit, and others must not notice.

// hostile starts a listener with limits in JSON, and with settings that only tests
// can change.
func hostile(t *testing.T, limits string, f flow, change func(*listener)) *site {
	t.Helper()
	w := newWorld(t)
	w.change = change
	return startIn(t, w, `"limits":{`+limits+"}", &source{flow: f})
}

// sized answers with as many bytes as the path says.
func sized(_ context.Context, payload value.Value) node.Response {
	path, _ := payload.Get("path")
	s, _ := path.AsString()
	n := 0
	if _, err := fmt.Sscanf(s, "/%d", &n); err != nil {
		return reply(value.Error(err))
	}
	return reply(value.Binary(make([]byte, n)))
}

// frames is an HTTP/2 client that sends and reads single frames.
type frames struct {
	net.Conn
	*http2.Framer
	head   bytes.Buffer
	enc    *hpack.Encoder
	headed chan struct{} // has a value for each answer whose header has come
	closed chan error    // gets why the server's frames have ended
}

// dialFrames connects with a window of that many bytes for each stream.
func (s *site) dialFrames(window uint32) *frames {
	s.t.Helper()
	c := &frames{Conn: s.dial(), headed: make(chan struct{}, 1000), closed: make(chan error, 1)}
	c.Framer = http2.NewFramer(c.Conn, c.Conn)
	c.enc = hpack.NewEncoder(&c.head)
	if _, err := io.WriteString(c.Conn, http2.ClientPreface); err != nil {
		s.t.Fatal(err)
	}
	if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Conn.Close() })
	return c
}

// read reads frames until there are no more.
func (c *frames) read() {
	for {
		f, err := c.ReadFrame()
		if err != nil {
			c.closed <- err
			return
		}
		if _, ok := f.(*http2.HeadersFrame); ok {
			c.headed <- struct{}{}
		}
	}
}

// get requests a path on a new stream.
func (c *frames) get(stream uint32, path string) error {
	c.head.Reset()
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", path}} {
		if err := c.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.head.Bytes(), EndStream: true, EndHeaders: true})
}

// metric returns the sum of the metrics of a name, with a label if one is given.
func (s *site) metric(name string, label ...string) (sum float64) {
	s.node.Measure(func(m node.Metric) {
		match := len(label) == 0
		for _, l := range m.Labels {
			match = match || l.Value == label[0]
		}
		if m.Name == name && match {
			sum += m.Value
		}
	})
	return sum
}

// TestZeroWindow runs HTTP/2 clients that never open a window, with more streams than
// answers may wait.
func TestZeroWindow(t *testing.T) {
	for _, size := range []int{2, 8 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			const clients, streams = 5, 80
			s := hostile(t, `"header_timeout":"3s"`, sized, func(n *listener) {
				n.settings.rate.Min = 1 << 30
				n.limits.pending.Answers = 300
				n.settings.rate.Late = 0
			})
			var all []*frames
			for range clients {
				c := s.dialFrames(0)
				go c.read()
				for i := range uint32(streams) {
					if err := c.get(2*i+1, fmt.Sprintf("/%d", size)); err != nil {
						t.Fatal(err)
					}
				}
				all = append(all, c)
				var closed error
				for range streams {
					if closed != nil {
						break
					}
					select {
					case <-c.headed:
					case closed = <-c.closed: // to make room for others
						c.closed <- closed
					}
				}
				for range 20 {
					s.do("GET", "/2", "").want(t, 200, "\x00\x00")
				}
			}
			if got := s.metric("http_answers_waiting"); got > 300 {
				t.Errorf("got %v answers waiting, want 300 at most", got)
			}
			for _, c := range all {
				<-c.closed
			}
			if s.metric("http_connections_closed_total", "too many answers") == 0 {
				t.Error("got no connection closed to make room")
			}
			if s.metric("http_connections_closed_total", "slow answer") == 0 {
				t.Error("got no connection closed for being slow")
			}
			s.do("GET", "/2", "").want(t, 200, "\x00\x00")
			if got := strings.Count(s.logs.String(), "connection closed"); got != 1 {
				t.Errorf("got %d records of closed connections within ten seconds, want 1", got)
			}
		})
	}
}

// h2c returns a client with one HTTP/2 connection without TLS.
func (s *site) h2c() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestHonestStreams runs clients that read everything, with more answers on one
// connection than the limits of processes and of pending answers.
func TestHonestStreams(t *testing.T) {
	f := func(limits string, change func(*listener)) {
		t.Helper()
		s := hostile(t, limits, sized, change)
		client := s.h2c()
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range 100 {
					resp, err := client.Get(s.url + "/5000")
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, resp.Body); err != nil {
						t.Error(err)
					}
					resp.Body.Close()
				}
			})
		}
		clients.Wait()
		if got := s.metric("http_connections_closed_total"); got != 0 {
			t.Errorf("got %v connections closed, want none", got)
		}
	}
	f(`"processes":2`, nil)
	f("", func(n *listener) {
		n.limits.pending.Answers = 2
		n.settings.rate.Late = time.Hour
	})
}

// TestStalledStream closes a stream without progress while another stream of the
// connection is in the middle of a long answer.
func TestStalledStream(t *testing.T) {
	s := hostile(t, `"header_timeout":"1s"`, sized, func(n *listener) { n.settings.rate.Min = 1 << 30 })
	c := s.dialFrames(1 << 10)
	for i, path := range []string{"/65536", "/67108864"} {
		if err := c.get(uint32(2*i+1), path); err != nil {
			t.Fatal(err)
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for reset := false; ; {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("the connection did not outlive its stream: %v", err)
		}
		switch f := f.(type) {
		case *http2.RSTStreamFrame:
			reset = reset || f.StreamID == 1
		case *http2.DataFrame:
			if f.StreamID != 3 || len(f.Data()) == 0 {
				continue
			}
			if reset {
				return
			}
			<-tick.C
			for _, stream := range []uint32{0, 3} {
				if err := c.WriteWindowUpdate(stream, 32<<10); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestStreamsOfOneConnection refuses more streams than a connection may have, and
// closes a stream without progress while others make progress.
func TestStreamsOfOneConnection(t *testing.T) {
	s := hostile(t, `"header_timeout":"1s"`, sized, func(n *listener) { n.settings.rate.Min = 1 << 30 })
	c := s.dialFrames(1 << 10)
	if err := c.get(1, "/65536"); err != nil { // more than the window
		t.Fatal(err)
	}
	answered, reset, limit := 0, false, uint32(0)
	next := uint32(3)
	for !reset {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("after %d answers: %v", answered, err)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if v, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
				limit = v
			}
		case *http2.RSTStreamFrame:
			reset = f.StreamID == 1
		}
		if f.Header().StreamID%2 == 1 && f.Header().StreamID != 1 && f.Header().Flags.Has(http2.FlagDataEndStream) || answered == 0 {
			answered++
			if err := c.get(next, "/10"); err != nil {
				t.Fatal(err)
			}
			next += 2
		}
	}
	if limit != maxStreams || answered < 2 {
		t.Errorf("got a limit of %d streams and %d answers, want %d and some", limit, answered, maxStreams)
	}
	if err := c.get(next, "/10"); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("the connection did not outlive its stream: %v", err)
		}
		if f.Header().StreamID == next {
			break
		}
	}
}

// TestUnreadPipelines runs clients that send requests and never read, more of them
// than answers may wait.
func TestUnreadPipelines(t *testing.T) {
	s := hostile(t, `"header_timeout":"2s"`, sized, func(n *listener) {
		n.settings.rate.Min = 1 << 30
		n.limits.pending.Answers = 10
	})
	var clients sync.WaitGroup
	for range 16 {
		c := s.dial()
		defer c.Close()
		clients.Go(func() {
			ask := []byte(strings.Repeat("GET /30000 HTTP/1.1\r\nHost: x\r\n\r\n", 100))
			for { // the server stops reading, and then ends the connection
				if _, err := c.Write(ask); err != nil {
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		clients.Wait()
		close(ended)
	}()
	for asked := 0; ; asked++ {
		s.do("GET", "/2", "").want(t, 200, "\x00\x00")
		select {
		case <-ended:
			if got := s.metric("http_connections_closed_total"); got != 16 {
				t.Errorf("got %v connections closed, want 16 after %d other requests", got, asked)
			}
			return
		default:
		}
	}
}

// TestUnreadEchoes makes answers that the clients do not take hold as many bytes as
// all requests may.
func TestUnreadEchoes(t *testing.T) {
	s := hostile(t, "", echoBody, nil)
	s.node.generation.limits.pending.Bytes = 16 << 20 // no goroutine has read it yet
	const size = 3 << 20
	for range 6 {
		c := s.dial()
		defer c.Close()
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", size)
		if _, err := io.Copy(c, io.LimitReader(endless{}, size)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // it has begun to answer
			t.Fatal(err)
		}
		s.do("POST", "/", strings.Repeat("x", 1<<20), "Content-Type: text/plain").want(t, 200, strings.Repeat("x", 1<<20))
	}
}

// TestSlowReader takes an answer slowly, but fast enough: for longer than header_timeout.
func TestSlowReader(t *testing.T) {
	s := hostile(t, `"header_timeout":"2s"`, sized, func(n *listener) { n.settings.rate.Min = 100 << 10 })
	c := s.dial()
	defer c.Close()
	const size = 4 << 20
	fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", size)
	total := 0
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	buf := make([]byte, 64<<10) // in 50 ms: 13 times the minimum
	for {
		n, err := io.ReadFull(c, buf)
		total += n
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", total, err)
		}
		<-tick.C
	}
	if total < size {
		t.Errorf("got %d bytes, want %d and a header", total, size)
	}
}

// TestSilentBody sends most of a body and then nothing: what was sent does not extend
// the deadline past the window.
func TestSilentBody(t *testing.T) {
	// The deadline of the connection moves by seconds: with a shorter window, all of the body would have to come within header_timeout.
	s := hostile(t, `"header_timeout":"500ms"`, echoBody, func(n *listener) { n.settings.rate.Silence = 2 * time.Second })
	c := s.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 8<<20)
	if _, err := io.Copy(c, io.LimitReader(endless{}, 7<<20)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
		t.Errorf("got %s, close %v, want 408 and the end of the connection", resp.Status, resp.Close)
	}
	if got := s.metric("http_connections_closed_total", "slow body"); got != 1 {
		t.Errorf("got %v slow bodies, want 1", got)
	}
}

// TestLengthAndChunks hides a second request behind the end of the first. A server
// that uses the Content-Length would see it.
func TestLengthAndChunks(t *testing.T) {
	s := start(t, "", always(value.String("pong")))
	f := func(name, head string, answers int) {
		t.Helper()
		c := s.dial()
		defer c.Close()
		version := "1.1"
		if strings.Contains(head, "keep-alive") {
			version = "1.0"
		}
		fmt.Fprintf(c, "POST / HTTP/%s\r\nHost: x\r\n%s\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", version, head)
		data, err := io.ReadAll(c)
		if err != nil && answers > 1 {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Count(string(data), " 200 OK"); got != answers {
			t.Errorf("%s: got %d answers, want %d", name, got, answers)
		}
	}
	f("chunks", "Transfer-Encoding: chunked", 2)
	f("both", "Content-Length: 4\r\nTransfer-Encoding: chunked", 1)
	f("both, small letters", "content-length: 4\r\ntransfer-encoding: chunked", 1)
	f("both, folded", "Content-Length: 4\r\nTransfer-Encoding:\r\n chunked", 1)
	f("length of HTTP/1.0", "Connection: keep-alive\r\nContent-Length: 13", 1)
	f("chunks of HTTP/1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked", 1)
	f("both of HTTP/1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 13", 1)
	f("both, far apart", "Content-Length: 4\r\nX: "+strings.Repeat("x", 8000)+"\r\nTransfer-Encoding: chunked", 1)
}

// TestPipelinedHead sends a request and the beginning of the next in one piece. The
// rest of the next does not show that it has a Content-Length.
func TestPipelinedHead(t *testing.T) {
	s := start(t, "", always(value.String("pong")))
	f := func(name, first, begun string, answers int) {
		t.Helper()
		c := s.dial()
		defer c.Close()
		if _, err := io.WriteString(c, first+begun); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil) // so the rest comes in another piece
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		const rest = "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
		if begun == "" {
			begun = "POST / HTTP/1.1\r\nHost: x\r\n"
			if _, err := io.WriteString(c, begun+rest); err != nil {
				t.Fatal(err)
			}
		} else if _, err := io.WriteString(c, rest); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil && answers > 1 {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Count(string(data), " 200 OK"); got != answers {
			t.Errorf("%s: got %d answers after the first, want %d", name, got, answers)
		}
	}
	const both = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
	for name, first := range map[string]string{
		"GET":    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"body":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"chunks": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		f(name+", both", first, both, 1)
		f(name+", chunks", first, "", 2)
	}
}

// TestQuotes sends malformed bodies, and checks how much of them is in the answer and
// in the log.
func TestQuotes(t *testing.T) {
	long := strings.Repeat("\x01", 1<<20)
	name := strings.Repeat("n", 30<<10)
	f := func(contentType, coding, body string, status int) {
		t.Helper()
		s := start(t, `"access_log":true`, failing(fmt.Errorf("no tea for %s", long)))
		got := s.do("POST", "/", body, "Content-Type: "+contentType, "Content-Encoding: "+coding)
		if got.status != status || len(got.body) > 2*envelope.MaxQuote {
			t.Errorf("%.40s: got %d and %d bytes, want %d and some", contentType, got.status, len(got.body), status)
		}
		if got := len(s.logs.String()); got > 10_000 {
			t.Errorf("%.40s: got %d bytes of log", contentType, got)
		}
	}
	f("multipart/form-data; boundary=b", "", "--b\r\n"+long, 400)
	f("multipart/form-data; boundary=b", "", "--b\r\n"+long+"\r\n", 400)
	f("multipart/form-data; boundary=b", "gzip", compressed(t, "gzip", "--b\r\n"+long+"\r\n"), 400)
	f("multipart/form-data; boundary=b", "", "--b\r\n"+strings.Repeat("a", 1<<20), 400)
	f("multipart/form-data; boundary="+name, "", "--b\r\n", 400)
	f("text/plain; charset="+name, "", "x", 415)
	f("application/json; charset="+name, "", "x", 415)
	f("text/plain", name, "x", 415)
	f("application/json", "", long, 400)
	f("application/x-www-form-urlencoded", "", "%"+long, 400)
	f("text/plain", "", "x", 500)
}

// TestLongTargets logs no more of a path or a method than is useful.
func TestLongTargets(t *testing.T) {
	s := start(t, `"access_log":true`, failing(errTest))
	s.do(strings.Repeat("M", 20<<10), "/"+strings.Repeat("p", 20<<10), "").want(t, 500, "Internal Server Error")
	s.client.CloseIdleConnections()
	if got := len(s.logs.String()); got > 5000 {
		t.Errorf("got %d bytes of log", got)
	}
}

const bombEnv = "UNIFLOW_TEST_BOMB"

// TestBombs sends 64 bodies of some 8,000 bytes, each of which becomes a value of
// 100 MB and more, to a server in a program that may use 1 GiB.
func TestBombs(t *testing.T) {
	if kind := os.Getenv(bombEnv); kind != "" {
		bombs(t, kind)
		return
	}
	if invariant.Race {
		return // the race detector takes more memory than the program may have
	}
	for _, kind := range []string{"zeros", "maps", "fields"} {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", `ulimit -d 1048576 && exec "$0" -test.run='^TestBombs$'`, os.Args[0])
			cmd.Env = append(os.Environ(), bombEnv+"="+kind)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %.2000s", err, out)
			}
		})
	}
}

func bombs(t *testing.T, kind string) {
	contentType, text, n := "application/json", "", 64
	switch kind {
	case "zeros":
		text = "[" + strings.Repeat("0,", 4<<20-10) + "0]"
	case "maps":
		text = "[" + strings.Repeat("{},", (8<<20)/3-10) + "{}]"
	case "fields":
		var b strings.Builder
		for i := 0; b.Len() < 8<<20-100; i++ {
			fmt.Fprintf(&b, "%x&", i)
		}
		contentType, text, n = "application/x-www-form-urlencoded", b.String(), 16 // they take long
	}
	body := compressed(t, "gzip", text)
	w := newWorld(t)
	w.memory = node.NewMemory(512 << 20) // half of what there is, as an engine takes
	s := startIn(t, w, "", &source{flow: always(value.String("pong"))})
	var peak int64
	var clients sync.WaitGroup
	answers := make(chan int, n)
	for range n {
		clients.Go(func() {
			got := s.do("POST", "/", body, "Content-Type: "+contentType, "Content-Encoding: gzip")
			answers <- got.status
		})
	}
	taken := 0
	for range n {
		switch status := <-answers; status {
		case 200:
			taken++
		case 503:
		default:
			t.Errorf("got status %d", status)
		}
		peak = max(peak, s.node.server.held.Held())
	}
	clients.Wait()
	if kind == "zeros" && taken == 0 {
		t.Error("got all of them refused")
	}
	if most := content.MaxHeld(0); peak > most {
		t.Errorf("got %d bytes held, want %d at most", peak, most)
	}
	s.do("POST", "/", "[1]", "Content-Type: application/json").want(t, 200, "pong")
	if got := s.node.server.held.Held(); got != 0 {
		t.Errorf("bytes held at rest: got %d, want 0", got)
	}
}

// TestStopWhileConnecting stops a server while clients connect as fast as they
// can: those that are connected are answered, all others are refused.
func TestStopWhileConnecting(t *testing.T) {
	for range 10 {
		w := newWorld(t)
		n := w.make("web", "{"+loopback+"}")
		w.serve(n, &source{flow: always(value.String("pong"))})
		addr := n.addr()
		var clients sync.WaitGroup
		started := make(chan struct{}, 1000)
		for range 8 {
			clients.Go(func() {
				for {
					c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
					if err != nil {
						return // refused, or not answered because it stops
					}
					fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
					if data, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(data), "pong") {
						t.Errorf("got %q and %v, want an answer", data, err)
					}
					c.Close()
					select {
					case started <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 100 {
			<-started
		}
		w.end(n)
		clients.Wait()
	}
}
