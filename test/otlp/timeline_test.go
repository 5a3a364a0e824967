package otlp

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/otlp"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// timeline returns the timeline of a request whose second node failed.
func timeline() *observe.Timeline {
	return &observe.Timeline{
		Process: "019a0000-0000-7000-8000-000000000000",
		Trace:   observe.Trace{ID: [16]byte{0xa, 15: 1}, Span: [8]byte{0xb, 7: 2}, Sampled: true, State: "vendor=1,other=2"},
		Parent:  [8]byte{0xc, 7: 3},
		Trigger: node.Ref{Kind: "listener", Name: "web", Namespace: "shop"}, Serves: true,
		Start: start, Duration: 20 * time.Millisecond,
		Outcome: observe.Failed, Failed: true, Error: "no tea", Unrecorded: 7,
		Spans: []observe.Span{
			{Node: node.Ref{Kind: "snippet", Name: "price", Namespace: "shop"}, Start: time.Millisecond, Queue: 250 * time.Microsecond, Run: 3 * time.Millisecond, End: 10 * time.Millisecond},
			{Node: node.Ref{Kind: "http", Namespace: "shop"}, Port: 2, Start: 11 * time.Millisecond, Wait: 4 * time.Millisecond, End: 15 * time.Millisecond, Error: "no kettle"},
		},
	}
}

// send makes an exporter for a receiver, hands it the timelines, and closes it.
func send(t *testing.T, url string, lines ...*observe.Timeline) {
	t.Helper()
	exporter, err := otlp.New(otlp.Options{URL: url, Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	want := uint64(0)
	for _, line := range lines {
		exporter.Recorder().Ended(line)
		want += uint64(1 + len(line.Spans))
	}
	if err := exporter.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := exporter.Stats(); got != (otlp.Stats{Spans: want}) {
		t.Errorf("got %+v, want %d spans sent", got, want)
	}
}

// TestTimeline compares each field of a timeline with what the collector reads.
func TestTimeline(t *testing.T) {
	url, sink := collect(t)
	send(t, url, timeline())
	got := spans(t, sink)
	f := func(name string, kind ptrace.SpanKind, from, to time.Duration, message string, attributes map[string]any) {
		t.Helper()
		s, ok := got[name]
		if !ok {
			t.Errorf("got no span %s", name)
			return
		}
		if s.Kind() != kind || s.TraceID() != (pcommon.TraceID{0xa, 15: 1}) || s.TraceState().AsRaw() != "vendor=1,other=2" {
			t.Errorf("%s: got kind %v, trace %s, state %q", name, s.Kind(), s.TraceID(), s.TraceState().AsRaw())
		}
		if got, end := s.StartTimestamp().AsTime(), s.EndTimestamp().AsTime(); !got.Equal(start.Add(from)) || !end.Equal(start.Add(to)) {
			t.Errorf("%s: got %v to %v, want %v to %v after %v", name, got, end, from, to, start)
		}
		wantCode := ptrace.StatusCodeUnset
		if message != "" {
			wantCode = ptrace.StatusCodeError
		}
		if s.Status().Code() != wantCode || s.Status().Message() != message {
			t.Errorf("%s: got status %v %q, want %v %q", name, s.Status().Code(), s.Status().Message(), wantCode, message)
		}
		if got := s.Attributes().AsRaw(); !reflect.DeepEqual(got, attributes) {
			t.Errorf("%s: got attributes\n%v, want\n%v", name, got, attributes)
		}
	}
	f("web", ptrace.SpanKindServer, 0, 20*time.Millisecond, "no tea", map[string]any{
		"uniflow.process": "019a0000-0000-7000-8000-000000000000", "uniflow.namespace": "shop", "uniflow.node": "web",
		"uniflow.kind": "listener", "uniflow.outcome": "failed", "uniflow.unrecorded": int64(7),
	})
	f("price", ptrace.SpanKindInternal, time.Millisecond, 10*time.Millisecond, "", map[string]any{
		"uniflow.namespace": "shop", "uniflow.node": "price", "uniflow.kind": "snippet", "uniflow.port": int64(0),
		"uniflow.queue_ms": 0.25, "uniflow.run_ms": 3.0, "uniflow.wait_ms": 0.0,
	})
	f("http", ptrace.SpanKindInternal, 11*time.Millisecond, 15*time.Millisecond, "no kettle", map[string]any{
		"uniflow.namespace": "shop", "uniflow.node": "", "uniflow.kind": "http", "uniflow.port": int64(2),
		"uniflow.queue_ms": 0.0, "uniflow.run_ms": 0.0, "uniflow.wait_ms": 4.0,
	})
	if len(got) != 3 {
		t.Fatalf("got %d spans, want 3", len(got))
	}
	web, price, failed := got["web"], got["price"], got["http"]
	if web.SpanID() != (pcommon.SpanID{0xb, 7: 2}) || web.ParentSpanID() != (pcommon.SpanID{0xc, 7: 3}) || web.Flags() != 0x301 {
		t.Errorf("got span %s under %s with flags %#x, want the client's under its remote parent", web.SpanID(), web.ParentSpanID(), web.Flags())
	}
	for _, s := range []ptrace.Span{price, failed} {
		if s.ParentSpanID() != web.SpanID() || s.SpanID().IsEmpty() || s.Flags() != 0x101 {
			t.Errorf("%s: got span %s under %s with flags %#x, want it under %s", s.Name(), s.SpanID(), s.ParentSpanID(), s.Flags(), web.SpanID())
		}
	}
	if price.SpanID() == failed.SpanID() {
		t.Errorf("got two spans %s", price.SpanID())
	}
	if price.Events().Len() != 0 || failed.Events().Len() != 1 {
		t.Fatalf("got %d and %d events, want one of what failed", price.Events().Len(), failed.Events().Len())
	}
	event := failed.Events().At(0)
	if got := event.Attributes().AsRaw(); event.Name() != "exception" || !reflect.DeepEqual(got, map[string]any{"exception.message": "no kettle"}) {
		t.Errorf("got event %s %v", event.Name(), got)
	}
	about := sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes()
	if version, _ := about.Get("service.version"); version.Str() != "1.2.3" {
		t.Errorf("got resource %v, want version 1.2.3", about.AsRaw())
	}
}

// TestLimits sends what is at the limits: the longest texts in the longest timeline,
// and a timeline with texts that are not UTF-8 together with others.
func TestLimits(t *testing.T) {
	url, sink := collect(t)
	long, bad := timeline(), timeline()
	long.Trace.State = strings.Repeat("s", 8<<10)
	long.Spans[0].Error = strings.Repeat("e", 8<<10)
	for len(long.Spans) < 1000 {
		long.Spans = append(long.Spans, long.Spans[0])
	}
	bad.Trace.State, bad.Error, bad.Spans[1].Error = "v=\xff", "\xff", "\xff"
	send(t, url, timeline(), bad, long, timeline())
	if got, want := sink.SpanCount(), 3+3+1001+3; got != want {
		t.Errorf("got %d spans, want %d", got, want)
	}
}
