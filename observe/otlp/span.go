package otlp

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/uniflow-labs/uniflow/observe"
)

// A resource describes the program that sends the traces.
type resource struct{ pb *resourcepb.Resource }

// newResource describes this program. Values of the environment take precedence.
func newResource(service, version string) (*resource, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("attribute host.name of traces: %w", err)
	}
	attributes := map[string]string{"host.name": host, "service.name": service}
	if version != "" {
		attributes["service.version"] = version
	}
	const list = "OTEL_RESOURCE_ATTRIBUTES"
	if err := pairs(list, os.Getenv(list), func(key, value string) bool {
		attributes[key] = value
		return true
	}); err != nil {
		return nil, err
	}
	if name := strings.TrimSpace(os.Getenv("OTEL_SERVICE_NAME")); name != "" {
		attributes["service.name"] = name
	}
	pb := &resourcepb.Resource{}
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		pb.Attributes = append(pb.Attributes, text(valid(key), attributes[key]))
	}
	return &resource{pb}, nil
}

// wrap returns spans in the form of the protocol.
func (r *resource) wrap(spans []*tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{
		Resource: r.pb,
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "github.com/uniflow-labs/uniflow"},
			Spans: spans,
		}},
	}}
}

// Flags of spans by where their parent is. All of them were sampled.
const (
	anywhere = uint32(1)
	local    = anywhere | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	remote   = local | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
)

// Sizes for the estimate of a batch.
const (
	spanBytes = 512     // of a span without its longest texts; 275 with short names
	maxError  = 4 << 10 // of the text of an error
)

// estimate returns the approximate size of a timeline's spans in bytes.
func estimate(t *observe.Timeline) int {
	n := (1+len(t.Spans))*(spanBytes+len(t.Trace.State)) + min(len(t.Error), maxError)
	for i := range t.Spans {
		n += 2 * min(len(t.Spans[i].Error), maxError) // in the status and in the event
	}
	for _, a := range t.Attributes {
		n += 16 + len(a.Key) + len(a.Text)
	}
	return n
}

// appendSpans appends the span of a process and the spans of its packets.
func appendSpans(spans []*tracepb.Span, t *observe.Timeline) []*tracepb.Span {
	kind := tracepb.Span_SPAN_KIND_INTERNAL
	flags := local
	if t.Parent != [8]byte{} {
		flags = anywhere // a child's parent is in this program, a caller's may be anywhere
	}
	if t.Serves {
		kind = tracepb.Span_SPAN_KIND_SERVER
		if t.Parent != [8]byte{} {
			flags = remote
		}
	}
	state := t.Trace.State
	if !utf8.ValidString(state) {
		state = "" // malformed
	}
	process := &tracepb.Span{
		TraceId: t.Trace.ID[:], SpanId: t.Trace.Span[:], TraceState: state, Flags: flags,
		Name: name(cmp.Or(t.Name, t.Trigger.Name), t.Trigger.Kind), Kind: kind,
		StartTimeUnixNano: at(t, 0), EndTimeUnixNano: at(t, t.Duration),
		Attributes: []*commonpb.KeyValue{
			text("uniflow.process", t.Process), text("uniflow.namespace", t.Trigger.Namespace),
			text("uniflow.node", t.Trigger.Name), text("uniflow.kind", t.Trigger.Kind), text("uniflow.outcome", t.Outcome.String()),
		},
	}
	if t.Parent != [8]byte{} {
		process.ParentSpanId = t.Parent[:]
	}
	for _, a := range t.Attributes {
		if a.Text != "" {
			process.Attributes = append(process.Attributes, text(a.Key, a.Text))
		} else {
			process.Attributes = append(process.Attributes, number(a.Key, a.Number))
		}
	}
	if t.Failed {
		process.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: clip(t.Error)}
	}
	if t.Unrecorded > 0 {
		process.Attributes = append(process.Attributes, number("uniflow.unrecorded", int64(t.Unrecorded)))
	}
	spans = append(spans, process)
	for i := range t.Spans {
		spans = append(spans, packet(t, &t.Spans[i], state))
	}
	return spans
}

// packet returns the span of a packet at a node.
func packet(t *observe.Timeline, s *observe.Span, state string) *tracepb.Span {
	id := make([]byte, 8)
	binary.LittleEndian.PutUint64(id, rand.Uint64()|1)
	span := &tracepb.Span{
		TraceId: t.Trace.ID[:], SpanId: id, ParentSpanId: t.Trace.Span[:], TraceState: state, Flags: local,
		Name: name(s.Node.Name, s.Node.Kind), Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: at(t, s.Start), EndTimeUnixNano: at(t, max(s.Start, s.End)),
		Attributes: []*commonpb.KeyValue{
			text("uniflow.namespace", s.Node.Namespace), text("uniflow.node", s.Node.Name), text("uniflow.kind", s.Node.Kind),
			number("uniflow.port", int64(s.Port)), ms("uniflow.queue_ms", s.Queue), ms("uniflow.run_ms", s.Run), ms("uniflow.wait_ms", s.Wait),
		},
	}
	if s.Error != "" {
		message := clip(s.Error)
		span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: message}
		span.Events = []*tracepb.Span_Event{{
			Name: "exception", TimeUnixNano: span.EndTimeUnixNano, Attributes: []*commonpb.KeyValue{text("exception.message", message)},
		}}
	}
	return span
}

func name(name, kind string) string {
	if name == "" {
		name = kind
	}
	return valid(name)
}

// valid makes a text valid UTF-8. One invalid text would make a whole batch
// unsendable, and texts of errors may come from clients.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// clip shortens the text of an error to what is sent.
func clip(s string) string { return valid(s[:min(len(s), maxError)]) }

func at(t *observe.Timeline, d time.Duration) uint64 { return uint64(t.Start.Add(d).UnixNano()) }

func text(key, v string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid(v)}}}
}

func number(key string, v int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}}
}

func ms(key string, d time.Duration) *commonpb.KeyValue {
	v := float64(d.Nanoseconds()) / 1e6
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}}
}
