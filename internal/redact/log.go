package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a handler that hides secrets in the messages and attributes of records
// before it passes these on.
func (s *Secrets) Handler(next slog.Handler) slog.Handler { return &handler{s, next} }

type handler struct {
	secrets *Secrets
	next    slog.Handler
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.secrets.known.Load() == nil {
		return h.next.Handle(ctx, r)
	}
	safe := slog.NewRecord(r.Time, r.Level, h.secrets.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		safe.AddAttrs(h.secrets.attr(a))
		return true
	})
	return h.next.Handle(ctx, safe)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	safe := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		safe[i] = h.secrets.attr(a)
	}
	return &handler{h.secrets, h.next.WithAttrs(safe)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.secrets, h.next.WithGroup(h.secrets.key(name))}
}

func (s *Secrets) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		group := v.Group()
		safe := make([]slog.Attr, len(group))
		for i, inner := range group {
			safe[i] = s.attr(inner)
		}
		v = slog.GroupValue(safe...)
	case slog.KindString:
		if messages[a.Key] {
			v = slog.StringValue(s.Text(v.String()))
		} else {
			v = slog.StringValue(s.Plain(v.String()))
		}
	case slog.KindAny:
		v = s.any(v)
	default: // numbers and times
		if text := v.String(); len(text) >= LeastInText && s.Plain(text) != text {
			v = slog.StringValue(Hidden)
		}
	}
	return slog.Attr{Key: s.key(a.Key), Value: v}
}

// key returns the key of an attribute, or the name of a group, without secrets. One that is a word is the
// program's.
func (s *Secrets) key(key string) string {
	if IsFixed(key) || isWord(key) && len(key) < LeastInText {
		return key
	}
	return s.Text(key)
}

// messages are the keys of attributes whose texts are messages, by convention. All others are values.
var messages = map[string]bool{"error": true, "err": true, "reason": true, "msg": true, "hint": true}

// any hides secrets in a value that a handler writes by its methods: as text or JSON.
func (s *Secrets) any(v slog.Value) slog.Value {
	if s.known.Load() == nil {
		return v
	}
	if err, ok := v.Any().(error); ok {
		if safe := s.Error(err); safe != err {
			return slog.StringValue(safe.Error())
		}
	}
	text := fmt.Sprintf("%+v", v.Any())
	hide := s.Plain
	if _, ok := v.Any().(error); ok {
		hide = s.Text
	}
	if safe := hide(text); safe != text {
		return slog.StringValue(safe)
	}
	data, err := json.Marshal(v.Any())
	if safe := hide(string(data)); err == nil && safe != string(data) {
		return slog.StringValue(safe)
	}
	return v
}
