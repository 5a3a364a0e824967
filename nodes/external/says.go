package external

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Limits of what a program may say in the log.
const (
	saidLine  = 1 << 10 // bytes of a line
	saidBurst = 100     // lines
	saidEach  = 50 * time.Millisecond
	saidAgain = 20 // lines that go together after some were left out, so that the warning comes once a second
)

// says logs what a process writes to its standard error, line by line. What is too much is read and counted, so
// the process never waits, and nothing is kept of it but the last line.
type says struct {
	log  *slog.Logger
	done chan struct{} // closed when all is read

	mu struct {
		sync.Mutex
		last    string
		left    int // lines that may be logged now
		filled  time.Time
		skipped int
	}
}

func newSays(log *slog.Logger, pid int) *says {
	s := &says{log: log.With("pid", pid), done: make(chan struct{})}
	s.mu.left, s.mu.filled = saidBurst, time.Now()
	return s
}

// read reads until the end, and closes r.
func (s *says) read(r io.ReadCloser) {
	defer close(s.done)
	lines := bufio.NewReaderSize(r, saidLine)
	rest := false // of a line that was too long
	for {
		line, err := lines.ReadSlice('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 && !rest {
			s.say(string(text))
		}
		rest = err == bufio.ErrBufferFull
		if err != nil && !rest {
			break
		}
	}
	s.skip()
	_ = r.Close() // all is read
}

func (s *says) say(line string) {
	s.mu.Lock()
	s.mu.last = line
	ok, skipped := s.allowedLocked()
	s.mu.Unlock()
	if skipped > 0 {
		s.log.Warn("a program says too much: lines were left out", "lines", skipped)
	}
	if ok {
		s.log.Info("the program says", "line", line)
	}
}

// complain logs a mistake of the program within the same limits.
func (s *says) complain(message string, args ...any) {
	s.mu.Lock()
	ok, skipped := s.allowedLocked()
	s.mu.Unlock()
	if skipped > 0 {
		s.log.Warn("a program says too much: lines were left out", "lines", skipped)
	}
	if ok {
		s.log.Error(message, args...)
	}
}

// allowedLocked reports whether a line may be logged, and how many were not before.
func (s *says) allowedLocked() (ok bool, skipped int) {
	if n := int(time.Since(s.mu.filled) / saidEach); n > 0 {
		s.mu.left, s.mu.filled = min(saidBurst, s.mu.left+n), time.Now()
	}
	if s.mu.left == 0 || s.mu.skipped > 0 && s.mu.left < saidAgain {
		s.mu.skipped++
		return false, 0
	}
	s.mu.left--
	skipped, s.mu.skipped = s.mu.skipped, 0
	return true, skipped
}

// skip logs how many lines were left out in the end.
func (s *says) skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.skipped > 0 {
		s.log.Warn("a program says too much: lines were left out", "lines", s.mu.skipped)
	}
}

// last returns the last line.
func (s *says) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.last
}
