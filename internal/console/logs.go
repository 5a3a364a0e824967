package console

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// Bounds of what is kept of the log.
const (
	maxLines = 2000
	maxBytes = 1 << 20
)

// Logs keeps the last lines of a log, up to 2000 and 1 MiB. Any goroutine may use it.
type Logs struct {
	mu    sync.Mutex
	lines []line
	first int    // index of the oldest
	seq   uint64 // of the latest
	bytes int
}

// A Query says which lines are asked for.
type Query struct {
	Least slog.Level
	Node  string // the value of the attribute node; empty for all
	After uint64 // lines up to this one are known already
}

func (q *Query) takes(l *line) bool {
	return l.level >= q.Least && l.Seq > q.After &&
		(q.Node == "" || slices.Contains(l.Attrs, api.Attr{Key: "node", Value: q.Node}))
}

type line struct {
	level slog.Level
	api.LogLine
}

func (l *line) size() int {
	n := len(l.Message) + 64
	for _, a := range l.Attrs {
		n += len(a.Key) + len(a.Value)
	}
	return n
}

// Handler returns a handler that passes records on, and keeps them.
func (l *Logs) Handler(next slog.Handler) slog.Handler { return &keeper{Handler: next, logs: l} }

// Lines returns what is asked for of what is kept, the oldest first, with secrets hidden by redact.
func (l *Logs) Lines(q Query, redact func(string) string) []api.LogLine {
	l.mu.Lock()
	kept := slices.Clone(l.lines[l.first:])
	l.mu.Unlock()
	lines := []api.LogLine{}
	for _, k := range kept {
		if !q.takes(&k) {
			continue
		}
		k.Message = redact(k.Message)
		k.Attrs = slices.Clone(k.Attrs)
		for i, a := range k.Attrs {
			k.Attrs[i].Value = redact(a.Value)
		}
		lines = append(lines, k.LogLine)
	}
	return lines
}

func (l *Logs) add(n line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	n.Seq = l.seq
	l.lines = append(l.lines, n)
	for l.bytes += n.size(); len(l.lines)-l.first > maxLines || l.bytes > maxBytes && len(l.lines)-l.first > 1; l.first++ {
		l.bytes -= l.lines[l.first].size()
		l.lines[l.first] = line{}
	}
	if l.first > maxLines {
		l.lines, l.first = slices.Delete(l.lines, 0, l.first), 0
	}
}

// A keeper keeps records that it passes on.
type keeper struct {
	slog.Handler
	logs  *Logs
	attrs []api.Attr
	group string
}

func (k *keeper) Handle(ctx context.Context, r slog.Record) error {
	n := line{r.Level, api.LogLine{Time: r.Time.UTC(), Level: r.Level.String(), Message: r.Message, Attrs: slices.Clone(k.attrs)}}
	r.Attrs(func(a slog.Attr) bool {
		n.Attrs = k.append(n.Attrs, k.group, a)
		return true
	})
	k.logs.add(n)
	return k.Handler.Handle(ctx, r)
}

func (k *keeper) append(attrs []api.Attr, group string, a slog.Attr) []api.Attr {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		for _, below := range value.Group() {
			attrs = k.append(attrs, group+a.Key+".", below)
		}
		return attrs
	}
	return append(attrs, api.Attr{Key: group + a.Key, Value: value.String()})
}

func (k *keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *k
	with.Handler, with.attrs = k.Handler.WithAttrs(attrs), slices.Clone(k.attrs)
	for _, a := range attrs {
		with.attrs = k.append(with.attrs, k.group, a)
	}
	return &with
}

func (k *keeper) WithGroup(name string) slog.Handler {
	with := *k
	with.Handler = k.Handler.WithGroup(name)
	if name != "" {
		with.group += name + "."
	}
	return &with
}
