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

// A warningHandler writes each warning that a store logs as a line on standard error,
// once. Lines wait until the store is open, because an error of opening it says the
// same. Goroutines may share it.
type warningHandler struct {
	to    *warnings
	attrs []slog.Attr
}

// warnings are what the handlers of a store share.
type warnings struct {
	print func(format string, args ...any)
	mu    struct {
		sync.Mutex
		opened  bool
		waiting []string
		printed []string
	}
}

func newWarningHandler(print func(format string, args ...any)) *warningHandler {
	return &warningHandler{to: &warnings{print: print}}
}

// open prints the lines that wait; later ones are printed immediately.
func (t *warningHandler) open() {
	t.to.mu.Lock()
	waiting := t.to.mu.waiting
	t.to.mu.opened, t.to.mu.waiting = true, nil
	t.to.mu.Unlock()
	for _, line := range waiting {
		t.to.print("%s", line)
	}
}

func (t *warningHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

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
	known := slices.Contains(t.to.mu.printed, line)
	opened := t.to.mu.opened
	if !known && len(t.to.mu.printed) < 100 {
		t.to.mu.printed = append(t.to.mu.printed, line)
	}
	if !known && !opened {
		t.to.mu.waiting = append(t.to.mu.waiting, line)
	}
	t.to.mu.Unlock()
	if opened && !known {
		t.to.print("%s", line)
	}
	return nil
}

func (t *warningHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &warningHandler{t.to, append(slices.Clip(t.attrs), attrs...)}
}

func (t *warningHandler) WithGroup(string) slog.Handler { return t }
