package batch

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A throttledLogger logs each message at most once a second: what goes wrong with one
// batch goes wrong with thousands.
type throttledLogger struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		last    map[string]time.Time
		skipped map[string]int
	}
}

// newThrottledLogger makes one that writes to log; nil is slog.Default.
func newThrottledLogger(log *slog.Logger) *throttledLogger {
	if log == nil {
		log = slog.Default()
	}
	t := &throttledLogger{log: log}
	t.mu.last = make(map[string]time.Time)
	t.mu.skipped = make(map[string]int)
	return t
}

func (t *throttledLogger) write(level slog.Level, msg string, args ...any) {
	if skipped, ok := t.allow(msg, time.Now()); ok {
		if skipped > 0 {
			args = append(args, "similar_messages_omitted", skipped)
		}
		t.log.Log(context.Background(), level, msg, args...)
	}
}

func (t *throttledLogger) allow(msg string, now time.Time) (skipped int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.mu.last[msg]; ok && now.Sub(last) < time.Second {
		t.mu.skipped[msg]++
		return 0, false
	}
	skipped = t.mu.skipped[msg]
	t.mu.last[msg] = now
	delete(t.mu.skipped, msg)
	return skipped, true
}
