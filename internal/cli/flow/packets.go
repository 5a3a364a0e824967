package flow

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

const flagDebugNodes = "debug-nodes"

// everyNode means all nodes in --debug-nodes.
const everyNode = "*"

// Bounds of the log of packets: bytes of a payload, and a rate of records, with a burst.
const (
	maxPayload  = 1000
	packetPace  = 10 * time.Millisecond
	packetBurst = 200
)

// A packetLog logs the packets of some nodes. It hides values that documents get by env,
// and headers with credentials.
type packetLog struct {
	log     *slog.Logger
	names   []string            // of nodes
	secrets redact.Secrets      // of the documents
	redact  func(string) string // hides what the engine knows; set before packets come
	since   time.Time
	next    atomic.Int64 // when the next record is due, since since
	skipped atomic.Uint64
}

func newPacketLog(log *slog.Logger, names []string) *packetLog {
	return &packetLog{log: log, names: names, since: time.Now(), redact: func(text string) string { return text }}
}

// observer returns the observer for an engine; nil if there is nothing to log.
func (p *packetLog) observer() *observe.Observer {
	if len(p.names) == 0 {
		return nil
	}
	return &observe.Observer{
		Filter: func(ref node.Ref) bool {
			return slices.Contains(p.names, everyNode) || slices.Contains(p.names, ref.Name)
		},
		Received: func(pkt observe.Packet) { p.record("received", pkt, pkt.Payload) },
		Sent:     func(pkt observe.Packet) { p.record("sent", pkt, pkt.Payload) },
		Answered: func(a observe.Answer) {
			if a.Response.None {
				p.record("answered with nothing", a.Packet, value.Null())
				return
			}
			p.record("answered", a.Packet, a.Response.Payload)
		},
	}
}

// unknown returns the names without a node.
func (p *packetLog) unknown(nodes []node.Ref) []string {
	var missing []string
	for _, name := range p.names {
		if name != everyNode && !slices.ContainsFunc(nodes, func(ref node.Ref) bool { return ref.Name == name }) {
			missing = append(missing, name)
		}
	}
	return missing
}

func (p *packetLog) record(what string, pkt observe.Packet, payload value.Value) {
	skipped, ok := p.pass()
	if !ok {
		return
	}
	port := strconv.Itoa(pkt.Port)
	switch pkt.Port {
	case observe.ErrorPort:
		port = "error"
	case observe.TriggerPort:
		port = ""
	}
	attrs := []slog.Attr{
		slog.String("node", pkt.Node.String()), slog.String("port", port),
		slog.String("process", pkt.Process.ID()), slog.String("payload", p.redact(p.show(payload))),
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Uint64("skipped", skipped))
	}
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "packet "+what, attrs...)
}

// pass reports whether a record may be logged, and how many were skipped since the last
// (by the generic cell rate algorithm).
func (p *packetLog) pass() (skipped uint64, ok bool) {
	now := int64(time.Since(p.since))
	for {
		next := p.next.Load()
		due := max(next, now) + int64(packetPace)
		if due-now > packetBurst*int64(packetPace) {
			p.skipped.Add(1)
			return 0, false
		}
		if p.next.CompareAndSwap(next, due) {
			return p.skipped.Swap(0), true
		}
	}
}

// learn adds the secrets of documents. Older ones stay, because the previous generation
// still runs for a while.
func (p *packetLog) learn(src *sources) {
	if len(p.names) == 0 || src == nil {
		return
	}
	var all []string
	for _, text := range src.environment {
		all = append(all, text)
	}
	for _, doc := range src.values {
		variables, _ := spec.ParseVariables(doc) // the engine reports the errors
		for _, v := range variables {
			v.Secret = true // a log of payloads shows no variable
		}
		all = append(all, spec.Secrets(variables)...)
	}
	p.secrets.Learn(all)
}

// hide returns the beginning of a text without secrets. It is cut when they are hidden: the
// beginning of a secret would not be found. What the engine knows is hidden before a text is quoted, as
// quotes may be in it already.
func (p *packetLog) hide(text string) string {
	text = p.secrets.Plain(p.redact(text))
	return text[:min(len(text), maxPayload+1)]
}

// show returns the beginning of a payload, similar to JSON, without secrets.
func (p *packetLog) show(v value.Value) string {
	b := p.appendValue(nil, v)
	if len(b) <= maxPayload {
		return string(b)
	}
	b = b[:maxPayload]
	for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return strings.ToValidUTF8(string(b), "") + "…"
}

// hiddenField reports whether a header has credentials.
func hiddenField(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie", "set-cookie":
		return true
	}
	return false
}

// appendValue appends a value, up to about maxPayload bytes.
func (p *packetLog) appendValue(b []byte, v value.Value) []byte {
	switch v.Kind() {
	case value.KindMap:
		b = append(b, '{')
		first := true
		for name, field := range v.Fields() {
			if len(b) > maxPayload {
				return b
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = strconv.AppendQuote(b, p.hide(name))
			b = append(b, ':')
			if hiddenField(name) {
				b = append(b, redact.Hidden...)
				continue
			}
			b = p.appendValue(b, field)
		}
		return append(b, '}')
	case value.KindList:
		b = append(b, '[')
		for i, e := range v.Elems() {
			if len(b) > maxPayload {
				return b
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = p.appendValue(b, e)
		}
		return append(b, ']')
	case value.KindString:
		text, _ := v.AsString()
		return strconv.AppendQuote(b, p.hide(text))
	case value.KindError:
		return strconv.AppendQuote(append(b, "error "...), p.hide(node.Message(v.AsError())))
	case value.KindBinary:
		data, _ := v.AsBinary()
		return strconv.AppendQuote(append(b, "binary "...), p.hide(string(data)))
	}
	return append(b, p.hide(v.String())...)
}
