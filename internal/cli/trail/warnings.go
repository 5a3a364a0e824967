package trail

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// A warningHandler writes what a store has to say of itself as the rest of a command's talk:
// a line for each warning. Until the store is open the lines are held back, as an
// error of opening it says the same. Many goroutines may use it.
type warningHandler struct {
	to    *talk
	attrs []slog.Attr
}

// talk is what all talkers of a store share.
type talk struct {
	say func(format string, args ...any)
	mu  struct {
		sync.Mutex
		opened bool
		held   []string
		said   []string // each line is said once
	}
}

func newWarningHandler(say func(format string, args ...any)) *warningHandler {
	return &warningHandler{to: &talk{say: say}}
}

// open says what was held back, and from now on everything at once.
func (t *warningHandler) open() {
	t.to.mu.Lock()
	held := t.to.mu.held
	t.to.mu.opened, t.to.mu.held = true, nil
	t.to.mu.Unlock()
	for _, line := range held {
		t.to.say("%s", line)
	}
}

// Enabled passes warnings and worse.
func (t *warningHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle says a record, unless it was said before.
func (t *warningHandler) Handle(_ context.Context, r slog.Record) error {
	var parts []string
	add := func(a slog.Attr) bool {
		parts = append(parts, fmt.Sprintf("%s %v", a.Key, a.Value.Resolve()))
		return true
	}
	for _, a := range t.attrs {
		add(a)
	}
	r.Attrs(add)
	text := strings.TrimPrefix(r.Message, "trail: ")
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	line := "warning: " + show.Printable(text) + "\n"
	t.to.mu.Lock()
	known := slices.Contains(t.to.mu.said, line)
	opened := t.to.mu.opened
	if !known && len(t.to.mu.said) < 100 {
		t.to.mu.said = append(t.to.mu.said, line)
	}
	if !known && !opened {
		t.to.mu.held = append(t.to.mu.held, line)
	}
	t.to.mu.Unlock()
	if opened && !known {
		t.to.say("%s", line)
	}
	return nil
}

// WithAttrs returns a warningHandler that says the attributes, too.
func (t *warningHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &warningHandler{t.to, append(slices.Clip(t.attrs), attrs...)}
}

// WithGroup returns the warningHandler: groups are nothing to people.
func (t *warningHandler) WithGroup(string) slog.Handler { return t }
