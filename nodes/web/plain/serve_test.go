package plain

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// A site is a Server and net/http behind it, as a listener has them.
type site struct {
	*Server
	t        testing.TB
	address  string
	pending  *pace.Pending
	declined atomic.Int64 // requests that net/http has answered
	open     atomic.Int64 // connections
	answer   func(context.Context, http.ResponseWriter, *http.Request)
}

// through says in an answer who has served the request.
const through = "Through"

func serve(t testing.TB, rate pace.Rate, idle time.Duration, answer func(context.Context, http.ResponseWriter, *http.Request)) *site {
	s := &site{t: t, answer: answer}
	s.Server = NewServer(&Options{
		HeaderBytes: 4 << 10, Rate: &rate, IdleTimeout: idle,
		Takes:  func(r *http.Request) bool { return r.URL.Path != "/net" },
		Answer: func(ctx context.Context, w *Writer, r *http.Request) { s.answer(ctx, w, r) },
		Opened: func(*pace.Conn) { s.open.Add(1) }, Closed: func(*pace.Conn) { s.open.Add(-1) },
	})
	behind := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.declined.Add(1)
		w.Header().Set(through, "net/http")
		s.answer(r.Context(), w, r)
	})}
	limits := &pace.Limits{Answers: 10, Bytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Slow: new(atomic.Uint64), Excess: new(atomic.Uint64)}
	s.pending = pace.NewPending(&rate, (*node.Memory)(nil).Account("test"), func() *pace.Limits { return limits })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	ended := make(chan error, 2)
	go func() { ended <- s.Serve(paced{l, s.pending}) }()
	go func() { ended <- behind.Serve(s.Declined()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(l.Close(), s.Shutdown(ctx), behind.Shutdown(ctx)); err != nil {
			t.Error(err)
		}
		<-ended
		<-ended
	})
	return s
}

type paced struct {
	net.Listener
	pending *pace.Pending
}

func (p paced) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return pace.NewConn(c.(*net.TCPConn), p.pending), nil
}

// A client is a connection to a site.
type client struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
}

func (s *site) connect() *client {
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return &client{c, s.t, bufio.NewReader(c)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the body of the next answer, and who has served it.
func (c *client) read(method string) (resp *http.Response, body string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(text)
}

func (c *client) expect(body, by string) {
	c.t.Helper()
	resp, got := c.read("GET")
	if got != body || resp.Header.Get(through) != by {
		c.t.Errorf("got %q by %q, want %q by %q", got, resp.Header.Get(through), body, by)
	}
}

// ends waits for the end of the connection.
func (c *client) ends() {
	c.t.Helper()
	if text, err := io.ReadAll(c.in); len(text) > 0 || err != nil {
		c.t.Errorf("got %q and %v, want the end", text, err)
	}
}

// echo answers with the method, the target and the body.
func echo(_ context.Context, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
}

const get, post = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"

var slow = pace.Rate{Grace: time.Minute, Min: 1 << 10}

func TestServe(t *testing.T) {
	s := serve(t, slow, 0, echo)
	c := s.connect()
	for range 3 {
		c.send(get)
		c.expect("GET /a ", "")
		c.send(post + get + post) // pipelined
		c.expect("POST /b hello", "")
		c.expect("GET /a ", "")
		c.expect("POST /b hello", "")
	}
	long := strings.Repeat("x", maxBody)
	c.send(strings.Replace(post, "5\r\n\r\nhello", fmt.Sprint(maxBody)+"\r\n\r\n"+long, 1) + get)
	c.expect("POST /b "+long, "")
	c.expect("GET /a ", "")
	if n := s.declined.Load(); n != 0 {
		t.Errorf("net/http has answered %d requests", n)
	}
	c.send("GET /net HTTP/1.1\r\nHost: a\r\n\r\n" + get)
	c.expect("GET /net ", "net/http")
	c.expect("GET /a ", "net/http") // once declined, a connection stays there
	c.send("GET /z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	c.expect("GET /z ", "net/http")
	c.ends()
}

// TestSplit sends requests in two pieces.
func TestSplit(t *testing.T) {
	s := serve(t, slow, 0, echo)
	f := func(text, by string, bodies ...string) {
		t.Helper()
		for i := 1; i < len(text); i++ {
			c := s.connect()
			c.send(text[:i])
			c.send(text[i:])
			for _, body := range bodies {
				c.expect(body, by)
			}
			c.Close()
		}
	}
	f(post+get, "", "POST /b hello", "GET /a ")
	f("POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "net/http", "POST /b hi")
	c := s.connect() // a first line without an end, and then it ends
	c.send("GET /")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if resp, _ := c.read("GET"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d, want what net/http answers", resp.StatusCode)
	}
}

func TestClose(t *testing.T) {
	s := serve(t, slow, 0, func(_ context.Context, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/unread":
			w.Header().Set("Connection", "close")
		}
		io.WriteString(w, "ok")
	})
	c := s.connect()
	c.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if resp, _ := c.read("GET"); !resp.Close {
		t.Error("the answer does not say that the connection ends")
	}
	c.ends()
	c = s.connect()
	c.send("GET /abort HTTP/1.1\r\nHost: a\r\n\r\n")
	c.ends()
	c = s.connect() // the body is read, as the connection goes on
	c.send(post + get)
	c.expect("ok", "")
	c.expect("ok", "")
	c = s.connect() // the body comes after the answer
	head, body, _ := strings.Cut(strings.Replace(post, "/b", "/unread", 1), "hello")
	c.send(head)
	c.expect("ok", "")
	c.send("hello" + body)
	c.ends()
	c.Close()
}

// TestLinger has clients whose bodies are not read, and which go slowly, so that the memory of their
// requests is used by others meanwhile.
func TestLinger(t *testing.T) {
	s := serve(t, slow, 0, func(_ context.Context, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.Header().Set("Path", r.URL.Path)
		io.WriteString(w, r.URL.Path)
	})
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			for j := range 50 {
				path := fmt.Sprintf("/%d/%d", i, j)
				c := s.connect()
				c.send("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
				if resp, body := c.read("POST"); body != path || resp.Header.Get("Path") != path {
					t.Errorf("%s: got %q and header %q", path, body, resp.Header.Get("Path"))
				}
				c.send("the body.")
				c.Close()
			}
		})
	}
	clients.Wait()
}

// TestTimeouts has a client that sends a part of a head, one that sends nothing, and one that is idle.
func TestTimeouts(t *testing.T) {
	s := serve(t, pace.Rate{Grace: 50 * time.Millisecond, Min: 1 << 10}, 400*time.Millisecond, echo)
	nothing, part, idle, parked := s.connect(), s.connect(), s.connect(), s.connect()
	part.send("GET / HTTP")
	idle.send(get)
	idle.expect("GET /a ", "")
	nothing.ends()
	part.ends()
	parked.Close()
	begun := time.Now()
	idle.ends()
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("an idle connection was closed after %v", took)
	}
}

// TestLate sends a request that the server looks for only when its deadline has passed.
func TestLate(t *testing.T) {
	s := serve(t, pace.Rate{Grace: time.Nanosecond, Min: 1 << 10}, 0, echo)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &client{conn, t, bufio.NewReader(conn)}
	c.send(post)
	accepted, err := paced{l, s.pending}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s.accept(accepted.(*pace.Conn))
	c.expect("POST /b hello", "")
}

// TestParked is served by a new goroutine after it was idle, and while it was not.
func TestParked(t *testing.T) {
	s := serve(t, slow, 0, echo)
	c := s.connect()
	for range 2 {
		for begun := time.Now(); time.Since(begun) < 2*parkAfter; {
			c.send(get)
			c.expect("GET /a ", "")
		}
		<-time.After(2 * parkAfter)
	}
	c.send(post)
	c.expect("POST /b hello", "")
}

func TestClientGoes(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error)
	s := serve(t, slow, 0, func(ctx context.Context, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			ctx, cancel := context.WithCancel(ctx) // finds the context with a channel
			defer cancel()
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
		}
		io.WriteString(w, "ok")
	})
	wait := strings.Replace(get, "/a", "/wait", 1)
	c := s.connect()
	c.send(wait)
	<-started
	c.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestWatched answers after the client was watched, and reads on.
func TestWatched(t *testing.T) {
	s := serve(t, slow, 0, func(ctx context.Context, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/b" {
			select {
			case <-ctx.Done():
				t.Error("the context has ended")
			case <-time.After(3 * watchAfter):
			}
		}
		echo(ctx, w, r)
	})
	c := s.connect()
	for i := range 4 {
		text := post
		if i%2 == 0 { // the body comes while the connection is watched
			c.send(strings.TrimSuffix(post, "hello"))
			text = "hello"
		}
		c.send(text)
		c.expect("POST /b hello", "")
		c.send(post + get)
		c.expect("POST /b hello", "")
		c.expect("GET /a ", "")
	}
}

func TestShutdown(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, slow, 0, func(ctx context.Context, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			started <- struct{}{}
			<-finish
		}
		io.WriteString(w, "ok")
	})
	busy, idle, part := s.connect(), s.connect(), s.connect()
	idle.send(get)
	idle.expect("ok", "")
	part.send(get + "GET / ") // the answer shows that both were read: a connection that is closed with unread bytes is reset
	part.expect("ok", "")
	busy.send(post)
	<-started
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(short); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v while a request is answered", err)
	}
	idle.ends()
	part.ends()
	close(finish)
	busy.expect("ok", "")
	busy.ends()
	if err := s.Shutdown(t.Context()); err != nil || s.open.Load() != 0 {
		t.Errorf("got %v and %d connections", err, s.open.Load())
	}
}

func TestAbort(t *testing.T) {
	started := make(chan struct{})
	s := serve(t, slow, 0, func(ctx context.Context, w http.ResponseWriter, r *http.Request) {
		done := ctx.Done()
		started <- struct{}{}
		<-done
	})
	c := s.connect()
	c.send(get)
	<-started
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, _ = io.ReadAll(c.in) // a reset, or the end
}

// TestAnswers compares random answers with those of net/http.
func TestAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var status int
	var header http.Header
	var body string
	s := serve(t, slow, 0, func(_ context.Context, w http.ResponseWriter, r *http.Request) {
		for name, list := range header {
			w.Header()[name] = list
		}
		if hasBody := isFramed(status) && r.Method != http.MethodHead; !hasBody {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.WriteHeader(status)
		} else {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	})
	statuses := []int{200, 200, 201, 204, 205, 304, 404, 503, 299, 799}
	values := []string{"text/plain", " a\r\nb ", "close", "", "é\xff", "br"}
	names := []string{"Content-Type", "X-A", "Content-Encoding", "Vary", "Date"}
	for range 300 {
		status, header, body = statuses[random.IntN(len(statuses))], make(http.Header), strings.Repeat("<p>x", random.IntN(3)*random.IntN(40000))
		for range random.IntN(4) {
			name := names[random.IntN(len(names))]
			header[name] = append(header[name], values[random.IntN(len(values))])
		}
		method := []string{"GET", "HEAD", "POST"}[random.IntN(3)]
		var got [2]*http.Response
		var bodies [2]string
		for i, path := range []string{"/a", "/net"} {
			c := s.connect()
			c.send(method + " " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
			got[i], bodies[i] = c.read(method)
			c.Close()
			got[i].Header.Del(through)
			if len(header["Date"]) == 0 {
				got[i].Header.Del("Date")
			}
			got[i].Body, got[i].Request, got[i].TransferEncoding = nil, nil, nil
			if i == 1 && isFramed(status) && method != http.MethodHead { // net/http sends long answers in chunks
				got[i].ContentLength = int64(len(bodies[i]))
				got[i].Header.Set("Content-Length", fmt.Sprint(len(bodies[i])))
			}
		}
		if !reflect.DeepEqual(got[0], got[1]) || bodies[0] != bodies[1] {
			t.Fatalf("%s, %d %v and %d bytes:\ngot  %+v\nwant %+v", method, status, header, len(body), got[0], got[1])
		}
	}
}
