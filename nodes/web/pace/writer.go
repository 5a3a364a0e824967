package pace

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// A Writer sends one answer. Over HTTP/1, the [Conn] limits how long the client may take. Over
// HTTP/2 and HTTP/3, the Writer does: what is not taken soon counts as pending, and each piece
// of it has a deadline. One goroutine at a time uses a Writer.
type Writer struct {
	to      http.ResponseWriter
	r       *http.Request
	rc      http.ResponseController
	flush   func() error
	pending *Pending
	limits  *Limits
	peer    *peer // nil over HTTP/1, and in tests
	conn    *Conn // from Interruptible on, over HTTP/1

	// slow is about what is being sent, for the goroutine of its timer.
	slow struct {
		sync.Mutex
		timer   *time.Timer // calls late; nil over HTTP/1, and before the first Send
		ctx     context.Context
		sending bool
		left    int           // bytes of what is being sent, with the piece
		piece   int           // bytes
		taken   int64         // peer.piecesTaken before the piece
		late    bool          // what is being sent takes its time
		until   time.Time     // the deadline of the piece, from late on
		write   *pendingWrite // from late on
		forget  func()        // undoes what late has asked of ctx
	}
}

// Writer returns what sends the answer to a request. The limits are of the generation that
// answers.
func (p *Pending) Writer(to http.ResponseWriter, r *http.Request, limits *Limits) *Writer {
	w := &Writer{to: to, r: r, rc: *http.NewResponseController(to), pending: p, limits: limits}
	if f, ok := to.(interface{ FlushError() error }); ok { // the same without a search
		w.flush = f.FlushError
	} else {
		w.flush = w.rc.Flush
	}
	if r.ProtoMajor > 1 {
		w.peer = peerOf(r.Context())
	}
	return w
}

// Finish sends all of an answer, or the end of one, whose client may take it after the process.
func (p *Pending) Finish(to http.ResponseWriter, r *http.Request, limits *Limits, body []byte) (n int, err error) {
	if r.ProtoMajor == 2 && 0 < len(body) && len(body) <= TailBytes {
		p.leaveLast(to, r, limits, len(body)) // without a Writer
	} else if r.ProtoMajor > 1 {
		return p.Writer(to, r, limits).Finish(body)
	}
	return to.Write(body)
}

// Finish is [Pending.Finish]. Nothing can be sent afterwards.
func (w *Writer) Finish(body []byte) (n int, err error) {
	if w.peer == nil || len(body) == 0 {
		return w.to.Write(body)
	}
	end := len(body)
	if w.r.ProtoMajor == 2 {
		end -= min(end, TailBytes)
	}
	if end > 0 {
		if n, err = w.Send(context.Background(), body[:end], w.r.ProtoMajor > 2); err != nil || n == len(body) {
			return n, err
		}
	}
	w.pending.leaveLast(w.to, w.r, w.limits, len(body)-end)
	m, err := w.to.Write(body[end:])
	return n + m, err
}

// Send sends data, and returns when it was taken by the connection, and by the window of the
// stream. When ctx ends, so does the waiting. Without data, that is the header. With flush, what
// net/http has kept is sent, too.
func (w *Writer) Send(ctx context.Context, data []byte, flush bool) (n int, err error) {
	w.begin(ctx, len(data))
	for more := true; more && err == nil; more = n < len(data) {
		piece, m := data[n:], 0
		if w.r.ProtoMajor > 1 {
			piece = piece[:min(PieceBytes, len(piece))]
		}
		w.next(len(piece))
		if m, err = w.to.Write(piece); flush && n+len(piece) == len(data) && (err == nil || errors.Is(err, http.ErrBodyNotAllowed)) {
			m, err = len(piece), w.flush()
		}
		n += m
		if err == nil {
			w.progress(len(piece))
		}
	}
	w.end(err)
	return n, err
}

// Interruptible makes the end of a context that Send has got end its waiting over HTTP/1, too,
// until Close. It reports whether [Writer.Try] can be called.
func (w *Writer) Interruptible() (canTry bool) {
	if c, ok := connOf(w.r.Context()); ok && w.r.ProtoMajor < 2 {
		w.conn = c
		c.answer.Store(w)
		return c.canTry()
	}
	return false
}

// Close undoes Interruptible.
func (w *Writer) Close() {
	if w.conn != nil {
		w.conn.answer.CompareAndSwap(w, nil)
	}
}

// Try sends data that is small, and waits for nothing. It reports whether something is left that
// the kernel has not taken, for [Writer.Rest] or the next Send.
func (w *Writer) Try(data []byte) (left bool, err error) {
	w.conn.tryOnly(true)
	if _, err = w.to.Write(data); err == nil {
		err = w.flush()
	}
	return w.conn.tryOnly(false), err
}

// Rest sends what Try has left, which is at most that many bytes.
func (w *Writer) Rest(ctx context.Context, bytes int) error {
	w.begin(ctx, bytes)
	err := w.conn.writeRest()
	w.end(err)
	return err
}

func (w *Writer) begin(ctx context.Context, bytes int) {
	w.slow.Lock()
	defer w.slow.Unlock()
	s := &w.slow
	s.ctx, s.sending, s.left = ctx, true, bytes
	switch {
	case w.r.ProtoMajor < 2:
	case s.timer == nil:
		s.timer = time.AfterFunc(w.pending.rate.Late, w.late)
	default:
		s.timer.Reset(w.pending.rate.Late)
	}
}

// next begins a piece.
func (w *Writer) next(bytes int) {
	w.slow.Lock()
	defer w.slow.Unlock()
	w.slow.piece = bytes
	if w.peer == nil {
		return
	}
	w.slow.taken = w.peer.piecesTaken.Load()
	if w.slow.write != nil {
		w.setDeadlineLocked()
	}
}

// progress ends a piece that was taken.
func (w *Writer) progress(bytes int) {
	if w.peer == nil {
		return
	}
	w.slow.Lock()
	defer w.slow.Unlock()
	w.peer.piecesTaken.Add(1)
	w.slow.left -= bytes
	if w.slow.write != nil {
		w.pending.progress(w.slow.write, bytes)
	}
}

// late is called when a client takes its time: over HTTP/1 by the Conn. From now on the end of
// the context ends the waiting; over HTTP/2 and HTTP/3, what is left counts as pending, and has
// deadlines. A call that comes too late is for what is sent next, which is then late early.
func (w *Writer) late() {
	w.slow.Lock()
	defer w.slow.Unlock()
	s := &w.slow
	if !s.sending || s.late {
		return
	}
	s.late = true
	s.forget = w.interrupt(s.ctx)
	if w.peer != nil {
		s.write = w.pending.add(w.peer, s.left)
		w.setDeadlineLocked()
	}
}

func (w *Writer) setDeadlineLocked() {
	if w.slow.until = w.pending.deadline(w.slow.piece); w.slow.until.IsZero() {
		return
	}
	w.setDeadline(w.slow.until)
	if w.slow.ctx.Err() != nil { // the deadline would undo the interruption
		w.interruptNow()
	}
}

// interrupt makes a write fail when ctx ends. After forget, it does so no more.
func (w *Writer) interrupt(ctx context.Context) (forget func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		w.interruptNow()
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

func (w *Writer) interruptNow() {
	_ = w.rc.SetWriteDeadline(time.Now().Add(-time.Second)) // fails if the connection has: so does the write
}

// end ends what begin has begun. If a client has not taken a piece in its time, its connection
// is closed, over HTTP/2 only if it takes nothing else.
func (w *Writer) end(err error) {
	w.slow.Lock()
	defer w.slow.Unlock()
	s := &w.slow
	s.sending = false
	if s.timer != nil {
		s.timer.Stop()
	}
	if !s.late {
		return
	}
	s.late = false
	s.forget()
	if err == nil {
		w.setDeadline(time.Time{})
	}
	if s.write == nil {
		return
	}
	w.pending.remove(s.write)
	s.write = nil
	if err != nil {
		w.pending.notTaken(w.peer, s.until, s.taken, w.limits)
	}
}

func (w *Writer) setDeadline(t time.Time) {
	SetDeadline(w.rc.SetWriteDeadline, t, w.r, w.limits.Log)
}

// SetDeadline sets a deadline, if the connection of a request has deadlines. If that fails, the
// connection has failed, and the next read or write returns the error.
func SetDeadline(set func(time.Time) error, t time.Time, r *http.Request, log *slog.Logger) {
	if err := set(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		log.Debug("deadline not set", "remote", r.RemoteAddr, "error", err)
	}
}

// Leave prepares for the end of an answer that is left to net/http, which sends it when the
// handler has returned, over HTTP/2 and HTTP/3: it has the deadline of any piece. Over HTTP/2,
// the end of a long answer counts as pending; for a short one, that took some 4 µs of CPU.
func (w *Writer) Leave(long bool) {
	if long && w.r.ProtoMajor == 2 {
		w.pending.leaveLast(w.to, w.r, w.limits, TailBytes)
	} else if until := w.pending.deadline(PieceBytes); w.r.ProtoMajor > 1 && !until.IsZero() {
		w.setDeadline(until)
	}
}

// leaveLast prepares for what net/http sends over HTTP/2 when the handler has returned: it has
// the deadline of any piece, and counts as pending.
func (p *Pending) leaveLast(to http.ResponseWriter, r *http.Request, limits *Limits, bytes int) {
	peer := peerOf(r.Context())
	//lint:ignore SA1019 the request's context ends with the handler, and nothing else says when the stream does
	notifier, ok := to.(http.CloseNotifier)
	if peer == nil || !ok {
		return // of a test: the writers of net/http do
	}
	last := &lastPiece{pending: p, write: pendingWrite{peer: peer, bytes: bytes}, limits: limits, taken: peer.piecesTaken.Load(), closed: notifier.CloseNotify()}
	if last.until = p.deadline(bytes); !last.until.IsZero() {
		SetDeadline(http.NewResponseController(to).SetWriteDeadline, last.until, r, limits.Log)
	}
	time.AfterFunc(p.rate.Late, last.late)
}

// A lastPiece is the end of an answer over HTTP/2, which net/http sends when the handler has
// returned.
type lastPiece struct {
	pending *Pending
	write   pendingWrite
	limits  *Limits
	closed  <-chan bool // has a value when the stream has ended
	until   time.Time   // the deadline; zero for none
	taken   int64       // piecesTaken of the peer before the piece
}

// late is called some time after the piece was written. If the stream has not ended, it counts
// as pending until then, which is at the deadline at the latest.
func (l *lastPiece) late() {
	select {
	case <-l.closed:
	default:
		l.pending.admit(&l.write)
		<-l.closed
		l.pending.remove(&l.write)
		l.pending.notTaken(l.write.peer, l.until, l.taken, l.limits)
	}
	l.write.peer.piecesTaken.Add(1)
}
