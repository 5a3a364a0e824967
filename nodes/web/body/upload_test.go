package body

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// A fakeClient is the connection of a client whose bytes come when the test sends them.
type fakeClient struct {
	http.ResponseWriter
	bytes chan string

	mu struct {
		sync.Mutex
		deadline time.Time
		past     chan struct{} // closed when a deadline in the past is set
	}
}

func newFakeClient() *fakeClient {
	c := &fakeClient{bytes: make(chan string)}
	c.mu.past = make(chan struct{})
	return c
}

func (c *fakeClient) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.deadline = t
	select {
	case <-c.mu.past:
	default:
		if !t.IsZero() && !t.After(time.Now()) {
			close(c.mu.past)
		}
	}
	return nil
}

func (c *fakeClient) Read(p []byte) (int, error) {
	select {
	case text, ok := <-c.bytes:
		if !ok {
			return 0, io.EOF
		}
		return copy(p, text), nil
	case <-c.mu.past:
		return 0, os.ErrDeadlineExceeded
	}
}

func (c *fakeClient) Close() error { return nil }

func uploadOf(c *fakeClient, length int64) *Upload {
	return NewUpload(c, &http.Request{Body: c, ContentLength: length, ProtoMajor: 1}, UploadOptions{
		Rate:  &pace.Rate{Grace: 5 * time.Second, Min: 1 << 10, Silence: 10 * time.Second},
		Limit: 1 << 20, Slow: new(atomic.Uint64), Progress: func() {},
	})
}

func statusIn(err error) int {
	var e *node.Error
	errors.As(err, &e)
	if e == nil {
		return 0
	}
	return e.Status
}

// Only the time in which the client is waited for counts.
func TestUploadRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeClient()
		u := uploadOf(c, -1)
		r, err := u.Open(-1)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		go func() {
			for range 5 {
				c.bytes <- strings.Repeat("x", 1024)
			}
		}()
		for range 5 {
			<-time.After(time.Hour) // the target takes its time
			if n, err := r.Read(buf); n != 1024 || err != nil {
				t.Fatalf("got %d bytes, %v", n, err)
			}
		}
		begun := time.Now()
		if _, err := r.Read(buf); statusIn(err) != http.StatusRequestTimeout {
			t.Errorf("got %v, want 408", err)
		}
		if waited := time.Since(begun); waited != 10*time.Second { // 5 s, and a second for each KiB
			t.Errorf("the client had %v", waited)
		}
		if _, err := r.Read(buf); statusIn(err) != http.StatusRequestTimeout {
			t.Errorf("got %v after the failure", err)
		}
		u.End()
	})
}

// A client that has sent much at first must not be silent for longer than others.
func TestUploadWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeClient()
		u := uploadOf(c, -1)
		r, _ := u.Open(-1)
		buf := make([]byte, 1<<19)
		go func() { c.bytes <- strings.Repeat("x", len(buf)) }()
		if n, err := r.Read(buf); n != len(buf) || err != nil {
			t.Fatalf("got %d bytes, %v", n, err)
		}
		begun := time.Now()
		if _, err := r.Read(buf); statusIn(err) != http.StatusRequestTimeout || time.Since(begun) != u.Rate.Silence {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
		u.End()
	})
}

// The end of the exchange makes a Read return, and nothing is read afterwards.
func TestUploadEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeClient()
		u := uploadOf(c, -1)
		r, _ := u.Open(-1)
		done := make(chan error)
		go func() {
			_, err := r.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		if _, err := r.Read(nil); !errors.Is(err, errUploadTaken) {
			t.Errorf("a second Read at the same time: got %v", err)
		}
		ended := make(chan struct{})
		go func() { // waits for the Read, which waits for done below
			defer close(ended)
			u.End()
		}()
		if err := <-done; !errors.Is(err, errUploadEnded) {
			t.Errorf("got %v", err)
		}
		<-ended
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, errUploadEnded) {
			t.Errorf("got %v after the end", err)
		}
		if left := time.Until(c.mu.deadline); left != 5*time.Second {
			t.Errorf("net/http has %v for what is left", left)
		}
		u.End()
	})
}

func TestUploadOpen(t *testing.T) {
	f := func(length, limit int64, want error, status int) {
		t.Helper()
		u := uploadOf(newFakeClient(), length)
		_, err := u.Open(limit)
		if !errors.Is(err, want) && want != nil || statusIn(err) != status || u.IsOpen() != (err == nil) {
			t.Errorf("length %d, limit %d: got %v", length, limit, err)
		}
	}
	f(1<<20, -1, nil, 0)
	f(1<<20+1, -1, nil, 413)
	f(1<<20+1, 1<<30, nil, 0)
	f(1, 0, nil, 413)
	f(-1, 0, nil, 0)
	u := uploadOf(newFakeClient(), 1)
	if _, err := u.Open(-1); err != nil {
		t.Error(err)
	}
	if _, err := u.Open(-1); !errors.Is(err, errUploadTaken) {
		t.Errorf("got %v, want that it can be had once", err)
	}
}

// Reads and the end may meet at any time.
func TestUploadHammer(t *testing.T) {
	for range 200 {
		c := newFakeClient()
		u := uploadOf(c, -1)
		u.Rate.Grace = time.Microsecond
		r, _ := u.Open(-1)
		done := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			defer close(done)
			for buf := make([]byte, 10); ; {
				if _, err := r.Read(buf); err != nil {
					return
				}
			}
		})
		all.Go(func() {
			select {
			case c.bytes <- "some":
			case <-done:
			}
		})
		all.Go(u.End)
		all.Wait()
		u.End()
	}
}
