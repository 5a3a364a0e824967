package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
)

// Keys of log records.
const (
	keyLogAddress  = "address"
	keyLogBytes    = "bytes"
	keyLogDuration = "duration"
	keyLogError    = "error"
	keyLogHost     = "host"
	keyLogMethod   = "method"
	keyLogPath     = "path"
	keyLogProcess  = "process"
	keyLogProtocol = "protocol"
	keyLogRemote   = "remote"
	keyLogRequest  = "request_id"
	keyLogRoute    = "route"
	keyLogScheme   = "scheme"
	keyLogStatus   = "status"
	keyLogUser     = "user_agent"
)

// maxLogged is how many bytes a text in a log record may have.
const maxLogged = 1000

// ensureID sets the id of the process, if no one has asked for it yet. A new one is
// as good.
func (x *exchange) ensureID() {
	if x.id == "" {
		x.id = uuid.Must(uuid.NewV7()).String() // fails only without a source of randomness
	}
}

// logFailure logs an answer that reports a failure, or that a handler has made of
// one. It is called before the answer is sent, because the client may leave after it.
func (x *exchange) logFailure(status int) {
	err := x.cause
	if x.refused || err == nil && status < http.StatusInternalServerError {
		return
	}
	x.ensureID()
	level := slog.LevelInfo
	switch {
	case x.ctx.Err() != nil: // most likely the client has gone
		level = slog.LevelDebug
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	case x.badRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed: // a client could flood the log
		level = slog.LevelDebug
	}
	if !x.gen.log.Enabled(x.ctx, level) {
		return
	}
	x.logError(x.ctx, level, "request answered with an error", status)
}

func (x *exchange) logError(ctx context.Context, level slog.Level, msg string, status int) {
	attrs := []slog.Attr{slog.String(keyLogProcess, x.id), slog.Int(keyLogStatus, status),
		slog.String(keyLogMethod, node.Clip(x.r.Method, envelope.MaxQuote)), slog.String(keyLogPath, node.Clip(x.r.URL.Path, envelope.MaxQuote))}
	if x.cause != nil {
		attrs = append(attrs, slog.String(keyLogError, node.Clip(x.cause.Error(), maxLogged)))
	}
	x.gen.log.LogAttrs(ctx, level, msg, attrs...)
}

// answeredID returns the id that the answer has: the id of the request, or of the process if
// the answer reports an error.
func (x *exchange) answeredID() string {
	if x.in.id == "" && x.cause != nil {
		x.ensureID()
		return x.id
	}
	return x.in.id
}

// logAccess logs an answer that was sent.
func (x *exchange) logAccess(status, size int, elapsed time.Duration) {
	route := ""
	if x.route != nil {
		route = x.route.Path
	}
	attrs := []slog.Attr{
		slog.String(keyLogMethod, node.Clip(x.r.Method, envelope.MaxQuote)),
		slog.String(keyLogHost, node.Clip(x.in.from.Host, envelope.MaxQuote)),
		slog.String(keyLogPath, node.Clip(x.r.URL.Path, maxLogged)),
		slog.String(keyLogRoute, route),
		slog.Int(keyLogStatus, status),
		slog.Int(keyLogBytes, size),
		slog.Duration(keyLogDuration, elapsed),
		slog.String(keyLogRemote, x.in.from.Remote),
		slog.String(keyLogProtocol, x.r.Proto),
		slog.String(keyLogUser, node.Clip(x.r.UserAgent(), envelope.MaxQuote)),
		slog.String(keyLogRequest, x.answeredID()),
		slog.String(keyLogProcess, x.id),
	}
	x.gen.log.LogAttrs(x.ctx, slog.LevelInfo, "request", attrs...)
}
