package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
)

// headerRequestID is the header that an id of a request comes in, and leaves in.
const headerRequestID = "X-Request-Id"

// maxRequestID is the longest id of a request that is taken over, in bytes.
const maxRequestID = 128

// requestID returns the id of a request: that of the client, if it can be shown in logs and
// headers as it is, else a new one, or none.
func (g *generation) requestID(r *http.Request) string {
	if list := r.Header[headerRequestID]; len(list) == 1 && validRequestID(list[0]) {
		return list[0]
	}
	if g.alwaysID {
		return uuid.Must(uuid.NewV7()).String() // fails only without a source of randomness
	}
	return ""
}

// validRequestID reports whether an id is 1 to 128 visible characters of ASCII.
func validRequestID(s string) bool {
	if s == "" || len(s) > maxRequestID {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// answeredID returns the id that the answer has: that of the request, or of the process if
// the answer reports an error.
func (x *exchange) answeredID() string {
	if x.requestID == "" && x.cause != nil {
		x.ensureID()
		return x.id
	}
	return x.requestID
}

// logAccess logs an answer that was sent.
func (x *exchange) logAccess(status, size int, elapsed time.Duration) {
	route := ""
	if x.route != nil {
		route = x.route.Path
	}
	attrs := []slog.Attr{
		slog.String(keyLogMethod, node.Clip(x.r.Method, envelope.MaxQuote)),
		slog.String(keyLogHost, node.Clip(x.from.Host, envelope.MaxQuote)),
		slog.String(keyLogPath, node.Clip(x.r.URL.Path, MaxLogged)),
		slog.String(keyLogRoute, route),
		slog.Int(keyLogStatus, status),
		slog.Int(keyLogBytes, size),
		slog.Duration(keyLogDuration, elapsed),
		slog.String(keyLogRemote, x.from.Remote),
		slog.String(keyLogProtocol, x.r.Proto),
		slog.String(keyLogUser, node.Clip(x.r.UserAgent(), envelope.MaxQuote)),
		slog.String(keyLogRequest, x.answeredID()),
		slog.String(keyLogProcess, x.id),
	}
	x.gen.log.LogAttrs(x.r.Context(), slog.LevelInfo, "request", attrs...)
}
