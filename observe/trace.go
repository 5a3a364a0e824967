package observe

import (
	"context"
	"encoding/hex"
	"strings"
)

// A Trace is a place in a distributed trace, as W3C Trace Context has it: the
// trace and the span under which something happens. The zero Trace is none.
type Trace struct {
	ID      [16]byte
	Span    [8]byte
	Sampled bool   // whoever began the trace wants it recorded
	State   string // the header tracestate, passed on as it is; may be empty
}

// IsZero reports whether there is no trace.
func (t Trace) IsZero() bool { return t.ID == [16]byte{} }

// String returns the trace as the header traceparent; empty if there is none.
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

	// maxState is how much of a tracestate is passed on; the specification asks
	// for 512 bytes at least.
	maxState = 8 << 10
)

// ParseTrace reads the headers traceparent and tracestate. A traceparent that
// is malformed is as good as none, as the specification has it (section 3.2):
// then ok is false. So is a tracestate that is not printable or too long.
func ParseTrace(traceparent, tracestate string) (t Trace, ok bool) {
	s := strings.TrimSpace(traceparent)
	if len(s) < traceparentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Trace{}, false
	}
	var version, flags [1]byte
	if !decodeHex(version[:], s[:2]) || !decodeHex(t.ID[:], s[3:35]) || !decodeHex(t.Span[:], s[36:52]) || !decodeHex(flags[:], s[53:55]) {
		return Trace{}, false
	}
	// Later versions may append fields; the first has none, and the last is not
	// to be used.
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

// notPrintable reports whether a tracestate may not have the character.
func notPrintable(r rune) bool { return r < ' ' || r > '~' }

// decodeHex reads lower-case digits, as other ones are not allowed.
func decodeHex(dst []byte, s string) bool {
	if strings.ContainsAny(s, "ABCDEF") {
		return false
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

type traceKey struct{}

// WithTrace returns a context under which processes start as part of a trace. A
// trigger that has been told a trace by its client uses it.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace of a context. In a process that is recorded for a
// trace, that is the process's own span, which a node hands on to those it asks
// for something; otherwise it is the trace that the trigger was told, if any.
func TraceOf(ctx context.Context) (t Trace, ok bool) {
	t, ok = ctx.Value(traceKey{}).(Trace)
	return t, ok
}
