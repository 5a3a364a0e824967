package certs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/uniflow-labs/uniflow/node"
)

// maxLogged is how many bytes a text in a log record may have.
const maxLogged = 1000

// newZap returns a logger for certmagic. What it says of the usual course is for debugging.
func newZap(log *slog.Logger) *zap.Logger { return zap.New(zapToSlog{log: log}) }

// zapToSlog is a zapcore.Core that writes to another log.
type zapToSlog struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func (z zapToSlog) level(l zapcore.Level) slog.Level {
	if l >= zapcore.ErrorLevel {
		return slog.LevelWarn // that an order has failed is logged as an error of its own
	}
	return slog.LevelDebug
}

func (z zapToSlog) Enabled(l zapcore.Level) bool {
	return z.log.Enabled(context.Background(), z.level(l))
}

func (z zapToSlog) With(fields []zapcore.Field) zapcore.Core {
	return zapToSlog{z.log, slices.Concat(z.fields, fields)}
}

func (z zapToSlog) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if z.Enabled(e.Level) {
		return c.AddCore(e, z)
	}
	return c
}

func (z zapToSlog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(z.fields, fields) {
		f.AddTo(m)
	}
	var attrs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		attrs = append(attrs, slog.String(name, node.Clip(fmt.Sprint(m.Fields[name]), maxLogged)))
	}
	z.log.LogAttrs(context.Background(), z.level(e.Level), "certificates: "+e.Message, attrs...)
	return nil
}

func (zapToSlog) Sync() error { return nil }
