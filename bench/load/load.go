// Package load is a load generator: it sends HTTP/1.1 requests over many
// connections and counts the answers.
//
// [Run] is a closed loop: each connection sends its next request when the answer
// to the last has come. [Hold] opens connections and leaves them idle. It does not
// use net/http, so that it takes little of the processors that it shares with the
// server. Answers must have a Content-Length, except for 304; others count as failed.
package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// Options are what to send, and how much. Addr and Path are required, and one of
// Duration and Requests.
type Options struct {
	Addr   string // host:port
	Path   string // of the request line, such as /ping
	JSON   string // a body to POST; empty for GET
	Header string // more lines of the header, each with its line break; may be empty
	Unique string // the name of a header that has another value in each request; may be empty

	ContentType string // of the body; application/json if empty

	Conns     int  // at the same time; 1
	KeepAlive bool // false: a connection for every request
	Duration  time.Duration
	Requests  int64         // in all; 0 means until Duration has passed
	Timeout   time.Duration // of a connection's silence after the end; 10 s

	// Accept judges an answer; nil accepts status 200. Many goroutines call it.
	// It must not keep the body.
	Accept func(status int, body []byte) bool
}

// A Result is the outcome of a run.
type Result struct {
	Requests int64 // answered and accepted
	Failed   int64 // all others
	Elapsed  time.Duration
	Errors   []error // the first of the failures, at most one a connection
	Latency  Histogram
}

// Rate returns the accepted answers per second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Elapsed.Seconds()
}

// keepErrors is how many errors a result has at most.
const keepErrors = 8

// Run sends requests until there have been enough, the time has passed, or the
// context is done, which is not an error. It returns an error only for wrong
// options; failed requests are in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Duration <= 0 && o.Requests <= 0 {
		return nil, errors.New("load: a duration or a number of requests is required")
	}
	o.Conns = max(o.Conns, 1)
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Accept == nil {
		o.Accept = func(status int, _ []byte) bool { return status == 200 }
	}
	shared := &run{Options: o, request: request(&o)}
	shared.numbers.Store(uint64(time.Now().UnixNano()))
	shared.left.Store(o.Requests)
	start := time.Now()
	if o.Duration > 0 {
		shared.end = start.Add(o.Duration)
	}
	workers := make([]worker, o.Conns)
	var all sync.WaitGroup
	for i := range workers {
		w := &workers[i]
		w.run, w.request = shared, shared.request
		if o.Unique != "" {
			w.request = bytes.Clone(shared.request)
			w.number = w.request[bytes.Index(w.request, []byte(unique)):][:len(unique)]
		}
		all.Go(func() { w.loop(ctx) })
	}
	all.Wait()
	res := &Result{Elapsed: time.Since(start)}
	for i := range workers {
		w := &workers[i]
		res.Requests += w.done
		res.Failed += w.failed
		res.Latency.Merge(&w.latency)
		if w.err != nil && len(res.Errors) < keepErrors {
			res.Errors = append(res.Errors, w.err)
		}
	}
	return res, nil
}

// unique is where each request has a number of its own.
const unique = "0000000000000000"

func request(o *Options) []byte {
	method := "GET"
	if o.JSON != "" {
		method = "POST"
	}
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\n", method, o.Path)
	if o.Unique != "" {
		b = fmt.Appendf(b, "%s: %s\r\n", o.Unique, unique)
	}
	b = fmt.Appendf(b, "Host: %s\r\n%s", o.Addr, o.Header)
	if !o.KeepAlive {
		b = append(b, "Connection: close\r\n"...)
	}
	if o.JSON != "" {
		b = fmt.Appendf(b, "Content-Type: %s\r\nContent-Length: %d\r\n", cmp.Or(o.ContentType, "application/json"), len(o.JSON))
	}
	return append(append(b, "\r\n"...), o.JSON...)
}

// A run is what the workers share.
type run struct {
	Options
	request []byte
	end     time.Time // zero without a Duration
	left    atomic.Int64
	numbers atomic.Uint64 // of requests; the first is the time
}

func (r *run) more(ctx context.Context, now time.Time) bool {
	if ctx.Err() != nil || !r.end.IsZero() && !now.Before(r.end) {
		return false
	}
	return r.Requests <= 0 || r.left.Add(-1) >= 0
}

// A worker is one connection at a time.
type worker struct {
	*run
	request []byte
	number  []byte   // where it is in the request; nil for none
	conn    net.Conn // nil when there is none
	in      *bufio.Reader
	body    []byte
	done    int64
	failed  int64
	err     error // the first
	latency Histogram
}

func (w *worker) loop(ctx context.Context) {
	defer w.hangUp()
	for now := time.Now(); w.more(ctx, now); {
		start := now
		err := w.exchange(ctx)
		now = time.Now()
		if err == nil {
			w.done++
			w.latency.Add(now.Sub(start))
			continue
		}
		w.failed++
		if w.err == nil {
			w.err = err
		}
		w.hangUp()
		if program.Wait(ctx, 10*time.Millisecond) != nil { // do not flood a server that is down
			return
		}
		now = time.Now()
	}
}

func (w *worker) hangUp() {
	if w.conn != nil {
		w.conn.Close() //nolint:errcheck // the answer has been read, or has failed already
		w.conn = nil
	}
}

// dial connects. The connection has one deadline, the end of the run, since a deadline
// for each request costs a timer.
func (w *worker) dial(ctx context.Context) error {
	d := net.Dialer{Timeout: w.Timeout, KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", w.Addr)
	if err != nil {
		return err
	}
	limit := time.Now().Add(w.Timeout)
	if !w.end.IsZero() && w.KeepAlive {
		limit = w.end.Add(w.Timeout)
	}
	if w.end.IsZero() && w.KeepAlive {
		limit = time.Time{} // the run ends by its number of requests
	}
	if err := conn.SetDeadline(limit); err != nil {
		return errors.Join(err, conn.Close())
	}
	w.conn = conn
	if w.in == nil {
		w.in = bufio.NewReaderSize(conn, 4096)
	} else {
		w.in.Reset(conn)
	}
	return nil
}

// exchange sends one request and judges its answer.
func (w *worker) exchange(ctx context.Context) error {
	if w.conn == nil {
		if err := w.dial(ctx); err != nil {
			return err
		}
	}
	if w.number != nil {
		copy(w.number, fmt.Sprintf("%016x", w.numbers.Add(1)))
	}
	if _, err := w.conn.Write(w.request); err != nil {
		return err
	}
	a, err := readAnswer(w.in, w.body)
	if err != nil {
		return err
	}
	w.body = a.body
	if !w.Accept(a.status, a.body) {
		return fmt.Errorf("status %d, body %.80q", a.status, a.body)
	}
	if a.close || !w.KeepAlive {
		w.hangUp()
	}
	return nil
}

// An answer is the part of an HTTP answer that is evaluated.
type answer struct {
	status int
	close  bool // the server will close the connection
	body   []byte
}

const maxBody = 1 << 20

var (
	errStatusLine = errors.New("malformed status line")
	errLength     = errors.New("an answer without a content length")
)

// readAnswer reads one answer; its body is in buf when that is large enough.
func readAnswer(in *bufio.Reader, buf []byte) (answer, error) {
	var a answer
	line, err := in.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	if len(line) < len("HTTP/1.1 200\r\n") || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return a, errStatusLine
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return a, errStatusLine
		}
		a.status = a.status*10 + int(c-'0')
	}
	a.close = line[7] == '0'
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		switch name, value, _ := bytes.Cut(line, []byte(":")); {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 || length > maxBody {
				return a, fmt.Errorf("content length %q", value)
			}
		case len(name) == len("Connection") && bytes.EqualFold(name, []byte("Connection")):
			a.close = a.close || bytes.EqualFold(bytes.TrimSpace(value), []byte("close"))
		}
	}
	if a.status == 304 { // never has a body
		length = 0
	}
	if length < 0 {
		return a, errLength
	}
	if cap(buf) < length {
		buf = make([]byte, length)
	}
	a.body = buf[:length]
	for read := 0; read < length; {
		n, err := in.Read(a.body[read:])
		if err != nil {
			return a, err
		}
		read += n
	}
	return a, nil
}
