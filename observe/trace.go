package observe

import (
	"context"
	"encoding/hex"
	"strings"
)

// A Trace is a W3C Trace Context: a distributed trace and the current span in it.
// The zero Trace is none.
type Trace struct {
	ID      [16]byte
	Span    [8]byte
	Sampled bool   // the origin of the trace has decided to record it
	State   string // the header tracestate, passed on as it is; may be empty
}

// IsZero reports whether there is no trace.
func (t Trace) IsZero() bool { return t.ID == [16]byte{} }

// String returns the header traceparent, empty if there is no trace.
func (t Trace) String() string {
	if t.IsZero() {
		return ""
	}
	text := make([]byte, 0, traceparentLen)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, t.ID[:])
	text = append(text, '-')
	text = hex.AppendEncode(text, t.Span[:])
	if t.Sampled {
		return string(append(text, "-01"...))
	}
	return string(append(text, "-00"...))
}

const (
	traceparentLen = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-00")

	// maxState is the longest tracestate that is passed on, in bytes; the
	// specification requires at least 512.
	maxState = 8 << 10
)

// ParseTrace reads the headers traceparent and tracestate. As the specification
// requires (section 3.2), a malformed traceparent counts as none: ok is false. A
// tracestate that is not printable or too long is left out.
func ParseTrace(traceparent, tracestate string) (t Trace, ok bool) {
	s := strings.TrimSpace(traceparent)
	if len(s) < traceparentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Trace{}, false
	}
	var version, flags [1]byte
	if !decodeHex(version[:], s[:2]) || !decodeHex(t.ID[:], s[3:35]) || !decodeHex(t.Span[:], s[36:52]) || !decodeHex(flags[:], s[53:55]) {
		return Trace{}, false
	}
	// Later versions may append fields; version 0 has none, and 255 is invalid.
	longer := len(s) > traceparentLen
	if version[0] == 0xff || longer && (version[0] == 0 || s[traceparentLen] != '-') || t.ID == [16]byte{} || t.Span == [8]byte{} {
		return Trace{}, false
	}
	t.Sampled = flags[0]&1 != 0
	if len(tracestate) <= maxState && !strings.ContainsFunc(tracestate, notPrintable) {
		t.State = tracestate
	}
	return t, true
}

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

// decodeHex reads lower-case digits; others are invalid.
func decodeHex(dst []byte, s string) bool {
	if strings.ContainsAny(s, "ABCDEF") {
		return false
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

type traceKey struct{}

// WithTrace returns a context under which processes start as part of a trace. It is
// for triggers whose clients send a trace.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace of a context. In a process that is recorded for a trace,
// its span is the span of the process, and a node passes it on with its requests.
// Otherwise it is the trace that the trigger got, if any.
func TraceOf(ctx context.Context) (t Trace, ok bool) {
	t, ok = ctx.Value(traceKey{}).(Trace)
	return t, ok
}
