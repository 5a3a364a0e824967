package pace

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A stream is what a stream of HTTP/2 is to a Writer: it takes what the test lets it take.
type stream struct {
	http.ResponseWriter
	room chan int // bytes that the client takes with one write

	mu struct {
		sync.Mutex
		deadline time.Time
		timer    *time.Timer
	}
	past    chan struct{} // closed when a deadline has passed
	expire  func()
	flushed int
}

func newStream() *stream {
	s := &stream{room: make(chan int), past: make(chan struct{})}
	s.expire = sync.OnceFunc(func() { close(s.past) })
	return s
}

func (s *stream) Write(p []byte) (int, error) {
	select {
	case n := <-s.room:
		return min(n, len(p)), nil
	case <-s.past:
		return 0, os.ErrDeadlineExceeded
	}
}

func (s *stream) FlushError() error {
	s.flushed++
	return nil
}

func (s *stream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.timer != nil {
		s.mu.timer.Stop()
	}
	s.mu.deadline = t
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		go s.expire()
	default:
		s.mu.timer = time.AfterFunc(left, s.expire)
	}
	return nil
}

// writerTo returns a Writer to a stream of HTTP/2, and what its answers count as pending on.
func writerTo(s *stream) (*Writer, *Pending, *peer) {
	p := newTestPending(Limits{Answers: 10, Bytes: 1 << 30})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.ProtoMajor = 2
	r = r.WithContext(With(r.Context(), closable{}))
	return p.Writer(s, r, p.limits()), p, peerOf(r.Context())
}

// TestSendInPieces gives each piece a deadline of its own once the client takes its time, and
// counts as pending what is left.
func TestSendInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		w, p, peer := writerTo(s)
		begun := time.Now()
		sent := make(chan error, 1)
		go func() {
			_, err := w.Send(t.Context(), make([]byte, 2*PieceBytes+1), true)
			sent <- err
		}()
		if n, _ := p.Totals(); n != 0 {
			t.Errorf("%d answers are pending immediately", n)
		}
		<-time.After(50 * time.Second)
		if n, bytes := p.Totals(); n != 1 || bytes != 2*PieceBytes+1 {
			t.Errorf("got %d answers of %d bytes pending, want the whole", n, bytes)
		}
		s.room <- PieceBytes
		synctest.Wait()
		if want := begun.Add(50*time.Second + p.rate.Grace + p.rate.transfer(PieceBytes)); !s.mu.deadline.Equal(want) {
			t.Errorf("got the deadline %v for the second piece, want %v", s.mu.deadline, want)
		}
		if n, bytes := p.Totals(); n != 1 || bytes != PieceBytes+1 {
			t.Errorf("got %d answers of %d bytes pending, want what is left", n, bytes)
		}
		s.room <- PieceBytes
		s.room <- 1
		if err := <-sent; err != nil || s.flushed != 1 || !s.mu.deadline.IsZero() {
			t.Errorf("got %v, %d flushes and the deadline %v, want one flush and no deadline", err, s.flushed, s.mu.deadline)
		}
		if n, bytes := p.Totals(); n != 0 || bytes != 0 || peer.ended.Load() {
			t.Errorf("got %d answers of %d bytes pending, and the client closed: %v", n, bytes, peer.ended.Load())
		}
	})
}

// TestSendTooSlow closes a client that does not take a piece in its time, unless it takes
// something else.
func TestSendTooSlow(t *testing.T) {
	f := func(takesElse, closed bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newStream()
			w, p, peer := writerTo(s)
			if takesElse {
				time.AfterFunc(time.Second, func() { peer.piecesTaken.Add(1) })
			}
			begun := time.Now()
			_, err := w.Send(t.Context(), make([]byte, 1<<10), false)
			if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took != p.rate.Late+p.rate.Grace+time.Second {
				t.Errorf("got %v after %v, want the deadline", err, took)
			}
			if n, _ := p.Totals(); n != 0 || peer.ended.Load() != closed || p.limits().Slow.Load() != 1 {
				t.Errorf("got %d pending, the client closed: %v, counted: %d", n, peer.ended.Load(), p.limits().Slow.Load())
			}
		})
	}
	f(false, true)
	f(true, false)
}

// TestSendInterrupted ends the waiting with its context, also when that has ended before the
// client is late.
func TestSendInterrupted(t *testing.T) {
	f := func(after time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newStream()
			w, _, peer := writerTo(s)
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			begun := time.Now()
			_, err := w.Send(ctx, []byte("x"), false)
			if took := time.Since(begun); err == nil || took > max(after, w.pending.rate.Late) || peer.ended.Load() {
				t.Errorf("got %v after %v, and the client closed: %v", err, took, peer.ended.Load())
			}
		})
	}
	f(500 * time.Millisecond)
	f(time.Millisecond)
}

// A headStream is the answer to a HEAD request.
type headStream struct{ *stream }

func (headStream) Write([]byte) (int, error) { return 0, http.ErrBodyNotAllowed }

// TestSendHead sends the header of an answer that may have no body.
func TestSendHead(t *testing.T) {
	s := newStream()
	w, _, _ := writerTo(s)
	w.to = headStream{s}
	if _, err := w.Send(t.Context(), []byte("x"), true); err != nil || s.flushed != 1 {
		t.Errorf("got %v and %d flushes", err, s.flushed)
	}
}
