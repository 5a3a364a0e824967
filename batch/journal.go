package batch

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A journal writes to the log, each message at most once a second: what goes
// wrong with one batch goes wrong with thousands.
type journal struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		last    map[string]time.Time
		skipped map[string]int
	}
}

func newJournal(log *slog.Logger) *journal {
	j := &journal{log: log}
	j.mu.last = make(map[string]time.Time)
	j.mu.skipped = make(map[string]int)
	return j
}

func (j *journal) write(level slog.Level, msg string, args ...any) {
	if skipped, ok := j.turn(msg, time.Now()); ok {
		if skipped > 0 {
			args = append(args, "similar_messages_omitted", skipped)
		}
		j.log.Log(context.Background(), level, msg, args...)
	}
}

func (j *journal) turn(msg string, now time.Time) (skipped int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if last, ok := j.mu.last[msg]; ok && now.Sub(last) < time.Second {
		j.mu.skipped[msg]++
		return 0, false
	}
	skipped = j.mu.skipped[msg]
	j.mu.last[msg] = now
	delete(j.mu.skipped, msg)
	return skipped, true
}
