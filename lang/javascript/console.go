package javascript

import (
	"context"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja"
)

// Limits of what a run writes with console.
const (
	maxRecords = 100     // of one run; the rest is dropped
	maxRecord  = 4 << 10 // bytes of one record; the rest is cut off
)

// console adds console.log, info, warn, error and debug, which write records to the log of
// the node.
func (e *engine) console() error {
	console := e.vm.NewObject()
	for name, level := range map[string]slog.Level{
		"log": slog.LevelInfo, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "debug": slog.LevelDebug,
	} {
		if err := console.Set(name, func(c call) goja.Value {
			e.write(level, c.Arguments)
			return goja.Undefined()
		}); err != nil {
			return err
		}
	}
	return e.vm.GlobalObject().DefineDataProperty("console", console, goja.FLAG_TRUE, goja.FLAG_FALSE, goja.FLAG_TRUE)
}

func (e *engine) write(level slog.Level, args []goja.Value) {
	if e.log == nil || !e.log.Enabled(context.Background(), level) || e.records > maxRecords {
		return
	}
	if e.records++; e.records > maxRecords {
		e.log.Warn("console: what this run writes beyond this is dropped", "records", maxRecords)
		return
	}
	var b strings.Builder
	for i, arg := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if b.Len() > maxRecord {
			break
		}
		b.WriteString(e.show(arg))
	}
	e.log.Log(context.Background(), level, cut(b.String(), maxRecord), "from", "console")
}

// show returns a value for the log: text as it is, anything else as JSON.
func (e *engine) show(v goja.Value) string {
	switch v := v.(type) {
	case goja.String:
		return v.String()
	case *goja.Symbol:
		return "Symbol(" + v.String() + ")"
	case *goja.Object:
		if v.ClassName() != "Error" {
			break
		}
		return text(v)
	}
	if goja.IsUndefined(v) {
		return "undefined"
	}
	out := output{e: e}
	made, err := out.value(v)
	if err != nil {
		return text(v) // a function, or another value without JSON
	}
	return made.String()
}

// cut shortens a text to at most n bytes, at a character boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
