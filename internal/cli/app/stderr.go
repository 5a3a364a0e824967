package app

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// maxQueued bounds the queue for standard error, in bytes; a single larger record is
// accepted. A writer that finds no room waits for patientWrite. If nothing was read
// meanwhile, writers no longer wait until something is.
const (
	maxQueued    = 1 << 20
	patientWrite = 100 * time.Millisecond
)

// A stderr is standard error for commands. Goroutines may share it. In a program that
// serves, writes go to a queue, and a goroutine writes them in the same order, so that
// no other goroutine waits for a reader that does not read. Records that do not fit are
// dropped and counted, and the count is written as soon as something reads again.
type stderr struct {
	w io.Writer

	mu struct {
		sync.Mutex
		queue   []byte        // not written yet
		dropped uint64        // records, later than the ones in queue
		room    chan struct{} // closed when the queue has been taken
		stalled bool          // nothing was read while a writer waited
	}

	// These are nil until the queue starts, and immutable then.
	notice func(dropped uint64) []byte
	wake   chan struct{} // buffer of one: there may be something to write
	end    chan struct{} // closed when nothing more comes
	ended  chan struct{} // closed when the goroutine has ended
}

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

// fullLocked reports whether a record is dropped: there is no room, or an earlier one
// was dropped and the count of these is not written yet.
func (s *stderr) fullLocked(p []byte) bool {
	return s.mu.dropped > 0 || len(s.mu.queue) > 0 && len(s.mu.queue)+len(p) > maxQueued
}

// waitLocked releases the lock until there is room, or for patientWrite.
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

// begin starts the queue. Notice returns a record with the number of dropped ones.
func (s *stderr) begin(notice func(dropped uint64) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		return
	}
	s.notice, s.mu.room = notice, make(chan struct{})
	s.wake, s.end, s.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	var worker sync.WaitGroup // flush waits for ended, with a time limit
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

// drain writes what is queued. It does not return while nothing reads.
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

// flush waits until everything is written, within a time limit. Call nothing after it.
func (s *stderr) flush(limit time.Duration) {
	s.mu.Lock()
	ended, end := s.ended, s.end
	s.mu.Unlock()
	if end == nil {
		return
	}
	close(end)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C: // nothing reads
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
