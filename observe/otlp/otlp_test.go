package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/otlp"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A receiver keeps the spans that it is sent, if answer accepts them.
type receiver struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request) (taken bool) // nil takes all
	size   func(bytes int)                                           // of a request, uncompressed; may be nil

	mu struct {
		sync.Mutex
		spans    []*tracepb.Span
		resource string
		path     string
		header   http.Header
	}
}

func newReceiver(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		zr, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = zr
	}
	data, err := io.ReadAll(body)
	if r.size != nil {
		r.size(len(data))
	}
	var export tracepb.TracesData // of the same form as ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &export)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.answer != nil && !r.answer(w, req) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.path, r.mu.header = req.URL.Path, req.Header
	for _, rs := range export.ResourceSpans {
		r.mu.resource = rs.Resource.String()
		for _, ss := range rs.ScopeSpans {
			r.mu.spans = append(r.mu.spans, ss.Spans...)
		}
	}
}

func (r *receiver) got() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.spans
}

func timeline() *observe.Timeline {
	parent, _ := observe.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1")
	t := &observe.Timeline{
		Process: "0199", Trace: parent, Parent: parent.Span,
		Trigger: node.Ref{Kind: "listener", Name: "web", Namespace: "default"},
		Start:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Duration: 20 * time.Millisecond,
		Outcome: observe.Failed, Serves: true, Failed: true, Error: "no tea",
		Spans: []observe.Span{
			{Node: node.Ref{Kind: "snippet", Name: "price", Namespace: "default"}, Start: time.Millisecond, Queue: 2 * time.Millisecond, Run: 3 * time.Millisecond, Wait: 4 * time.Millisecond, End: 10 * time.Millisecond, Error: "no tea"},
			{Node: node.Ref{Kind: "nop", Namespace: "default"}, Port: 1, Start: 11 * time.Millisecond, End: 12 * time.Millisecond},
		},
	}
	t.Trace.Span = [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
	return t
}

func attributes(s *tracepb.Span) string {
	var b strings.Builder
	for _, kv := range s.Attributes {
		b.WriteString(kv.Key + "=" + strings.Join(strings.Fields(kv.Value.String()), " ") + "; ")
	}
	return b.String()
}

// TestSpans makes a span of the process and one of each packet.
func TestSpans(t *testing.T) {
	r := newReceiver(t, nil)
	e, err := otlp.New(otlp.Options{URL: r.URL, Ratio: 1, Version: "1.2.3", Headers: map[string]string{"X-Key": "k"}})
	if err != nil {
		t.Fatal(err)
	}
	e.Recorder().Ended(timeline())
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := r.got()
	if len(spans) != 3 {
		t.Fatalf("got %d spans, want 3", len(spans))
	}
	want := timeline()
	start := uint64(want.Start.UnixNano())
	p, price, nop := spans[0], spans[1], spans[2]
	if !bytes.Equal(p.TraceId, want.Trace.ID[:]) || !bytes.Equal(p.SpanId, want.Trace.Span[:]) || !bytes.Equal(p.ParentSpanId, want.Parent[:]) || p.TraceState != "vendor=1" {
		t.Errorf("got %v", p)
	}
	if p.Name != "web" || p.Kind != tracepb.Span_SPAN_KIND_SERVER || p.StartTimeUnixNano != start || p.EndTimeUnixNano != start+20e6 {
		t.Errorf("got %v", p)
	}
	if p.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || p.Status.GetMessage() != "no tea" {
		t.Errorf("got status %v", p.Status)
	}
	if got := attributes(p); !strings.Contains(got, `uniflow.process=string_value:"0199"`) || !strings.Contains(got, `uniflow.outcome=string_value:"failed"`) {
		t.Errorf("got attributes %s", got)
	}
	for _, s := range []*tracepb.Span{price, nop} {
		if !bytes.Equal(s.TraceId, p.TraceId) || !bytes.Equal(s.ParentSpanId, p.SpanId) || len(s.SpanId) != 8 || bytes.Equal(s.SpanId, make([]byte, 8)) {
			t.Errorf("got %v, want a child of the process", s)
		}
	}
	if price.Name != "price" || price.StartTimeUnixNano != start+1e6 || price.EndTimeUnixNano != start+10e6 || len(price.Events) != 1 || price.Status.GetMessage() != "no tea" {
		t.Errorf("got %v", price)
	}
	if got := attributes(price); !strings.Contains(got, "uniflow.queue_ms=double_value:2; uniflow.run_ms=double_value:3; uniflow.wait_ms=double_value:4") {
		t.Errorf("got attributes %s", got)
	}
	if nop.Name != "nop" || nop.Status != nil || nop.Events != nil {
		t.Errorf("got %v", nop)
	}
	if r.mu.path != "/v1/traces" || r.mu.header.Get("X-Key") != "k" || !strings.Contains(r.mu.resource, "1.2.3") || !strings.Contains(r.mu.resource, `"uniflow"`) {
		t.Errorf("got path %s, header %v, resource %s", r.mu.path, r.mu.header, r.mu.resource)
	}
	if got := e.Stats(); got != (otlp.Stats{Spans: 3}) {
		t.Errorf("got %+v, want 3 spans", got)
	}
}

// TestRetry retries a batch that the receiver could not take.
func TestRetry(t *testing.T) {
	tries := 0
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if tries++; tries == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return false
		}
		return true
	})
	e, err := otlp.New(otlp.Options{URL: r.URL, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.Recorder().Ended(timeline())
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := e.Stats(); got.Spans != 3 || got.Failed != 0 || tries != 2 || len(r.got()) != 3 {
		t.Errorf("got %+v after %d tries, %d spans at the receiver", got, tries, len(r.got()))
	}
}

// TestDown counts what a receiver does not take, and logs once that it stopped taking
// traces and once that it takes them again.
func TestDown(t *testing.T) {
	refuse := make(chan bool, 3)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if <-refuse {
			w.WriteHeader(http.StatusBadRequest)
			return false
		}
		return true
	})
	var log bytes.Buffer
	send := func(refused ...bool) {
		t.Helper()
		e, err := otlp.New(otlp.Options{URL: r.URL, Ratio: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		many := timeline()
		for range 5000 { // more than a batch holds, so that it is sent immediately
			many.Spans = append(many.Spans, many.Spans[0])
		}
		failed := uint64(0)
		for _, f := range refused {
			refuse <- f
			e.Recorder().Ended(many)
			if f {
				failed++
			}
		}
		// Some may have failed before Close, some within: both are counted.
		err = e.Close(t.Context())
		if got := e.Stats(); got.Failed != failed {
			t.Errorf("got %+v, %v, want %d failed", got, err, failed)
		}
	}
	send(true, true, false)
	if got := log.String(); strings.Count(got, "traces not sent") != 1 || strings.Count(got, "traces are sent again") != 1 {
		t.Errorf("got log\n%s\nwant one record for each change", got)
	}
}

// TestCloseDeadline gives up when its context is done, and reports what was lost.
func TestCloseDeadline(t *testing.T) {
	release := make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) bool {
		select {
		case <-release:
		case <-req.Context().Done():
		}
		return false
	})
	defer close(release)
	e, err := otlp.New(otlp.Options{URL: r.URL, Ratio: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.Recorder().Ended(timeline())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	err = e.Close(ctx)
	if err == nil || !strings.Contains(err.Error(), "traces of 1 processes were not sent") {
		t.Errorf("got %v, want it to say what was lost", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if err := e.Close(ctx); err != nil {
		t.Errorf("second Close: got %v, want nil", err)
	}
}

// TestNoReceiver never blocks, drops what does not fit the queue, and logs how many.
func TestNoReceiver(t *testing.T) {
	r := newReceiver(t, nil)
	r.Close()
	var log bytes.Buffer
	e, err := otlp.New(otlp.Options{URL: r.URL, Ratio: 1, Queue: 2, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	big := timeline()
	for range 5000 {
		big.Spans = append(big.Spans, big.Spans[0])
	}
	for range 1000 {
		e.Recorder().Ended(big)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); err == nil {
		t.Error("got no error for what was queued")
	}
	got := e.Stats()
	if got.Spans != 0 || got.Dropped+got.Failed != 1000 || got.Failed > 4 {
		t.Errorf("got %+v, want 1,000 dropped or failed, few of them queued", got)
	}
	if !strings.Contains(log.String(), "traces dropped") {
		t.Errorf("got log\n%s\nwant it to say that some were dropped", log.String())
	}
}

// TestWants follows the client's decision, or the share if there is none.
func TestWants(t *testing.T) {
	sampled, _ := observe.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "")
	unsampled := sampled
	unsampled.Sampled = false
	f := func(ratio float64, parent observe.Trace, low, high int) {
		t.Helper()
		e, err := otlp.New(otlp.Options{URL: "http://127.0.0.1:1", Ratio: ratio})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range 1000 {
			if e.Recorder().Filter(parent) {
				n++
			}
		}
		if n < low || n > high {
			t.Errorf("ratio %v: got %d of 1,000, want %d to %d", ratio, n, low, high)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f(0, sampled, 1000, 1000)
	f(1, unsampled, 0, 0)
	f(0, observe.Trace{}, 0, 0)
	f(1, observe.Trace{}, 1000, 1000)
	f(0.5, observe.Trace{}, 350, 650)
}

func TestCheckURL(t *testing.T) {
	for _, good := range []string{"http://127.0.0.1:4318", "https://collector/", "http://[::1]:4318/custom/path"} {
		if err := otlp.CheckURL(good); err != nil {
			t.Errorf("%s: got %v", good, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:4318", "localhost", "grpc://127.0.0.1:4317", "http://", "http://u:p@host", "http://host?x=1", "http://host:port:9"} {
		if err := otlp.CheckURL(bad); err == nil {
			t.Errorf("%s: got no error", bad)
		}
		if _, err := otlp.New(otlp.Options{URL: bad}); err == nil {
			t.Errorf("New(%s): got no error", bad)
		}
	}
	if _, err := otlp.New(otlp.Options{URL: "http://127.0.0.1:1", Ratio: 2}); err == nil {
		t.Error("got no error for a share of 2")
	}
}

// BenchmarkEnded measures what a traced process waits for: handing over.
func BenchmarkEnded(b *testing.B) {
	e, err := otlp.New(otlp.Options{URL: "http://127.0.0.1:1", Ratio: 1})
	if err != nil {
		b.Fatal(err)
	}
	t := timeline()
	r := e.Recorder()
	b.ReportAllocs()
	for b.Loop() {
		r.Ended(t)
	}
	b.StopTimer()
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if err := e.Close(ctx); err == nil {
		b.Log("nothing was queued at the end")
	}
}

// BenchmarkSend measures what a traced process costs the program later: two packets
// made spans, encoded, compressed and sent to a server in this program.
func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			b.Error(err)
		}
	}))
	defer server.Close()
	e, err := otlp.New(otlp.Options{URL: server.URL, Queue: b.N})
	if err != nil {
		b.Fatal(err)
	}
	t, r := timeline(), e.Recorder()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		r.Ended(t)
	}
	if err := e.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	if got := e.Stats().Spans; got != uint64(3*b.N) {
		b.Errorf("got %d spans, want %d", got, 3*b.N)
	}
}
