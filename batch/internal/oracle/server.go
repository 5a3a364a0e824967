package oracle

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
)

var errTooLarge = errors.New("the body is too large")

// A Server puts a Store behind HTTP. It does what its Script says with each
// request, and remembers when each came. It ends with the test.
type Server struct {
	// Store is what the server takes batches into.
	Store *Store
	// URL is where batches are posted to.
	URL string
	// Addr is the host and port of URL.
	Addr string

	http    http.Server
	work    sync.WaitGroup
	quit    chan struct{}
	closing sync.Once
	mu      struct {
		sync.Mutex
		script Script
		seen   int
		visits []Visit
		held   map[net.Conn]struct{} // connections taken from the HTTP server
	}
}

// A Script says what to do with a request after its head has been read. Calls do
// not overlap.
type Script func(*Request) Act

// A Request is what a Script sees of a request.
type Request struct {
	N      int           // from 1, counted per server
	At     time.Time     // when the head had been read
	Since  time.Duration // after the first request
	Key    string        // the header Idempotency-Key
	Length int64         // of the body, -1 if unknown
	Header http.Header
}

// A Visit is a request and what the server did with it.
type Visit struct {
	Request
	Events int  // in the body; 0 if it was not read
	Bytes  int  // of the body as sent
	Took   bool // the store took it, now or before
	Status int  // of the answer, 0 for none
}

// A Stage is a point in the life of a request.
type Stage uint8

const (
	// AtHead is before the first byte of the body is read.
	AtHead Stage = iota + 1
	// AtBody is after Act.Bytes of the body were read.
	AtBody
	// BeforeTake is when the body has been read, and the store has not got the batch.
	BeforeTake
	// AfterTake is when the store has taken the batch, but no byte of the
	// answer is sent.
	AfterTake
)

// A Fault is what a Script makes a server do.
type Fault uint8

const (
	// Deny answers Act.Status. If the body has not been read, it stays unread, and
	// the connection ends.
	Deny Fault = iota + 1
	// Reset breaks the connection off with a RST.
	Reset
	// Cut closes the connection in an orderly way, without an answer.
	Cut
	// Hang never answers. The connection stays open until the server ends.
	Hang
	// Tear sends an answer's head and half of its body, then resets.
	Tear
)

// An Act is what a Server does with a request. The zero value is correct: it reads
// the request, gives it to the store, and answers what the store says.
type Act struct {
	// At is when the fault happens; 0 means never.
	At Stage
	// Do is the fault.
	Do Fault
	// Bytes is how many bytes of the body are read before AtBody.
	Bytes int64
	// Status is what Deny answers; 0 means 503.
	Status int
	// RetryAfter is the header of that name, of any answer; empty for none.
	RetryAfter string
	// Body replaces the body of any answer; nil leaves it.
	Body []byte
	// Rate is how many bytes of the body are read in a second; 0 means no limit.
	Rate int
	// Wait delays the answer until it is closed or receives; nil does not.
	Wait <-chan struct{}
	// Delay is how long an answer is held back.
	Delay time.Duration
}

// Healthy is the script of a server without faults.
func Healthy(*Request) Act { return Act{} }

// NewServer starts a server on the loopback device. A nil script is Healthy.
func NewServer(t testing.TB, store *Store, script Script) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := &Server{Store: store, Addr: l.Addr().String(), quit: make(chan struct{})}
	s.URL = "http://" + s.Addr + "/batch"
	s.mu.held = make(map[net.Conn]struct{})
	s.Set(script)
	s.http.Handler = s
	s.http.ErrorLog = log.New(io.Discard, "", 0) // errors are expected
	s.work.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			store.problem("serve: %v", err)
		}
	})
	t.Cleanup(s.Close)
	return s
}

// Close breaks off all connections, and returns when all goroutines of the server
// have ended.
func (s *Server) Close() {
	s.closing.Do(func() {
		close(s.quit)
		if err := s.http.Close(); err != nil {
			s.Store.problem("close: %v", err)
		}
		s.mu.Lock()
		held := s.mu.held
		s.mu.held = nil
		s.mu.Unlock()
		for c := range held {
			_ = c.Close() // the other side may have done so
		}
	})
	s.work.Wait()
}

// Set changes the script for requests that come from now on. Nil is Healthy.
func (s *Server) Set(script Script) {
	if script == nil {
		script = Healthy
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.script = script
}

// Visits returns the requests so far, in the order they came.
func (s *Server) Visits() []Visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Visit(nil), s.mu.visits...)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	visit, act, ok := s.meet(r)
	if !ok {
		abort()
	}
	defer s.work.Done()
	set := func(f func(*Visit)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f(&s.mu.visits[visit])
	}
	if act.At == AtHead {
		s.do(w, act, set)
		return
	}
	body, err := s.read(r, act)
	if act.At == AtBody && (err == nil || errors.Is(err, errStop)) {
		s.do(w, act, set)
		return
	}
	if err != nil {
		abort() // the client went away
	}
	set(func(v *Visit) { v.Bytes = len(body) })
	if r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
		s.Store.problem("request %d: %d bytes, the length said %d", visit+1, len(body), r.ContentLength)
	}
	if act.At == BeforeTake {
		s.do(w, act, set)
		return
	}
	answer, status := s.take(r, body, set)
	if act.At == AfterTake {
		s.do(w, act, set)
		return
	}
	if !s.pause(act) {
		abort()
	}
	if act.RetryAfter != "" {
		w.Header().Set("Retry-After", act.RetryAfter)
	}
	out := act.Body
	if out == nil && status == http.StatusOK {
		w.Header().Set("Content-Type", "application/json")
		if out, err = json.Marshal(answer); err != nil {
			s.Store.problem("answer: %v", err)
		}
	}
	set(func(v *Visit) { v.Status = status })
	w.WriteHeader(status)
	_, _ = w.Write(out) // the client may be gone
}

// abort ends a request without an answer. Returning would answer 200: all taken.
func abort() { panic(http.ErrAbortHandler) }

// meet counts the request and runs the script, unless the server has ended.
func (s *Server) meet(r *http.Request) (visit int, act Act, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.held == nil {
		return 0, Act{}, false
	}
	s.work.Add(1)
	s.mu.seen++
	q := Request{
		N: s.mu.seen, At: time.Now(), Key: r.Header.Get("Idempotency-Key"),
		Length: r.ContentLength, Header: r.Header.Clone(),
	}
	if len(s.mu.visits) > 0 {
		q.Since = q.At.Sub(s.mu.visits[0].At)
	}
	s.mu.visits = append(s.mu.visits, Visit{Request: q})
	return len(s.mu.visits) - 1, s.mu.script(&q), true
}

var errStop = errors.New("read as far as the script says")

// read reads the body: slowly, or not all of it, if act says so.
func (s *Server) read(r *http.Request, act Act) ([]byte, error) {
	body := make([]byte, 0, max(512, min(r.ContentLength, 4<<20)))
	for {
		if act.At == AtBody && int64(len(body)) >= act.Bytes {
			return body, errStop
		}
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		room := body[len(body):cap(body)]
		if act.Rate > 0 {
			room = room[:min(len(room), max(1, act.Rate/10))]
			if !waited(time.Duration(len(room))*time.Second/time.Duration(act.Rate), s.quit) {
				return body, net.ErrClosed
			}
		}
		if act.At == AtBody {
			room = room[:min(int64(len(room)), act.Bytes-int64(len(body)))]
		}
		n, err := r.Body.Read(room)
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return body, err
		}
	}
}

func (s *Server) take(r *http.Request, body []byte, set func(func(*Visit))) (Answer, int) {
	if limit := s.Store.rules.MaxBytes; limit > 0 && int64(len(body)) > limit {
		return Answer{}, http.StatusRequestEntityTooLarge
	}
	plain, err := Inflate(body, r.Header.Get("Content-Encoding"), s.Store.rules.MaxBytes)
	if errors.Is(err, errTooLarge) {
		return Answer{}, http.StatusRequestEntityTooLarge
	}
	var raws [][]byte
	if err == nil {
		raws, err = Split(plain, r.Header.Get("Content-Type"))
	}
	if err != nil {
		s.Store.problem("batch %q: %v", r.Header.Get("Idempotency-Key"), err)
		return Answer{}, http.StatusBadRequest
	}
	answer, status := s.Store.Take(r.Header.Get("Idempotency-Key"), raws)
	set(func(v *Visit) { v.Events, v.Took = len(raws), status == http.StatusOK })
	return answer, status
}

// pause waits as act says. It returns false if the server ends.
func (s *Server) pause(act Act) bool {
	if act.Wait != nil {
		select {
		case <-act.Wait:
		case <-s.quit:
			return false
		}
	}
	return waited(act.Delay, s.quit)
}

// do does what act says in place of an answer.
func (s *Server) do(w http.ResponseWriter, act Act, set func(func(*Visit))) {
	status := act.Status
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	if act.Do == Hang {
		<-s.quit
		abort()
	}
	if !s.pause(act) {
		abort()
	}
	if act.Do == Deny && act.At >= BeforeTake {
		if act.RetryAfter != "" {
			w.Header().Set("Retry-After", act.RetryAfter)
		}
		set(func(v *Visit) { v.Status = status })
		w.WriteHeader(status)
		_, _ = w.Write(act.Body) // the client may be gone
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.Store.problem("hijack: %v", err)
		return
	}
	switch act.Do {
	case Reset:
		faultproxy.Reset(conn)
	case Cut:
		_ = conn.Close() // the client may have done so
	case Tear:
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n{\"accepted\":")
		faultproxy.Reset(conn)
	case Deny:
		head := "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\nConnection: close\r\n"
		if act.RetryAfter != "" {
			head += "Retry-After: " + act.RetryAfter + "\r\n"
		}
		head += "Content-Length: " + strconv.Itoa(len(act.Body)) + "\r\n\r\n" + string(act.Body)
		set(func(v *Visit) { v.Status = status })
		_, _ = io.WriteString(conn, head) // the client may be gone
		s.hold(conn)
	}
}

// hold keeps a connection open, without reading it, until the server ends. Closing
// it with unread bytes would reset it, and the client could lose the answer.
func (s *Server) hold(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.held == nil {
		_ = c.Close() // the server has ended
		return
	}
	s.mu.held[c] = struct{}{}
}

// waited waits, and reports whether quit is still open.
func waited(d time.Duration, quit <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-quit:
		return false
	}
}
