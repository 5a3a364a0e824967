package app

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// maxQueued is how much waits at most for whoever reads standard error, in bytes,
// apart from a single record that is larger. A writer that finds no room waits for
// patientWrite; if nothing was read meanwhile, nobody waits until something is.
const (
	maxQueued    = 1 << 20
	patientWrite = 100 * time.Millisecond
)

// A stderr is standard error as commands have it. Calls of Write do not run into
// each other. A program that serves has them queued: what is said is then written
// in the same order by a goroutine, so that nobody waits for a reader that does not
// read. What does not fit is dropped and counted, and the count is written as soon
// as there is a reader again.
type stderr struct {
	w io.Writer

	mu struct {
		sync.Mutex
		queue   []byte        // waits to be written
		dropped uint64        // records, after what is queued
		room    chan struct{} // closed when the queue has been taken
		stalled bool          // nothing was read while a writer waited
	}

	// All below is nil until the queue begins, and immutable then.
	notice func(dropped uint64) []byte
	wake   chan struct{} // has one signal if there may be something to write
	end    chan struct{} // closed when nothing more comes
	ended  chan struct{} // closed when the goroutine has ended
}

// Write writes, or queues.
func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == nil {
		return s.w.Write(p)
	}
	if s.fullLocked(p) && !s.mu.stalled {
		s.waitLocked()
	}
	if s.fullLocked(p) {
		s.mu.dropped++
	} else {
		s.mu.queue = append(s.mu.queue, p...)
	}
	select {
	case s.wake <- struct{}{}:
	default: // it has one
	}
	return len(p), nil
}

// fullLocked reports whether a record is dropped: there is no room, or one before
// it was dropped, so that what is written has no gaps except those it tells of.
func (s *stderr) fullLocked(p []byte) bool {
	return s.mu.dropped > 0 || len(s.mu.queue) > 0 && len(s.mu.queue)+len(p) > maxQueued
}

// waitLocked lets go of the lock until there is room, or for patientWrite.
func (s *stderr) waitLocked() {
	room := s.mu.room
	s.mu.Unlock()
	timer := time.NewTimer(patientWrite)
	defer timer.Stop()
	stalled := false
	select {
	case <-room:
	case <-timer.C:
		stalled = true
	}
	s.mu.Lock()
	s.mu.stalled = stalled && room == s.mu.room
}

// begin has writes queued from now on. Notice returns a record that says how many
// were dropped.
func (s *stderr) begin(notice func(dropped uint64) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		return
	}
	s.notice, s.mu.room = notice, make(chan struct{})
	s.wake, s.end, s.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	var worker sync.WaitGroup // flush waits for it by ended, as that may take for ever
	worker.Go(s.run)
}

func (s *stderr) run() {
	defer close(s.ended)
	for {
		select {
		case <-s.wake:
			s.drain()
		case <-s.end:
			s.drain()
			return
		}
	}
}

// drain writes what is queued. Where nobody reads it does not return.
func (s *stderr) drain() {
	for {
		s.mu.Lock()
		queue, dropped := s.mu.queue, s.mu.dropped
		s.mu.queue, s.mu.dropped, s.mu.stalled = nil, 0, false
		close(s.mu.room)
		s.mu.room = make(chan struct{})
		s.mu.Unlock()
		if len(queue) == 0 && dropped == 0 {
			return
		}
		if dropped > 0 {
			queue = append(queue, s.notice(dropped)...)
		}
		_, _ = s.w.Write(queue) // there is nowhere to report that this failed
	}
}

// flush waits until all is written, for some time at most. Nothing is written
// after it.
func (s *stderr) flush(within time.Duration) {
	s.mu.Lock()
	ended, end := s.ended, s.end
	s.mu.Unlock()
	if end == nil {
		return
	}
	close(end)
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C: // nobody reads
	}
}

// LogFormats are the forms of a log.
func LogFormats() []string { return []string{"text", "json"} }

// Logger returns the log of a program that serves. From now on writers to standard
// error do not wait for its reader.
func (a *App) Logger(debug bool, format string) *slog.Logger {
	opts := &slog.HandlerOptions{}
	if debug {
		opts.Level = slog.LevelDebug
	}
	to := func(w io.Writer) *slog.Logger {
		if format == "json" {
			return slog.New(slog.NewJSONHandler(w, opts))
		}
		return slog.New(slog.NewTextHandler(w, opts))
	}
	a.stderr.begin(func(dropped uint64) []byte {
		var b bytes.Buffer
		to(&b).Warn("records of the log were dropped because nothing read them", "dropped", dropped)
		return b.Bytes()
	})
	return to(a.Stderr)
}
