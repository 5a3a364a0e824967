package otlp_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/otlp"
)

// full returns a timeline that fills a batch, so that it is sent immediately.
func full() *observe.Timeline {
	t := timeline()
	for range 5000 {
		t.Spans = append(t.Spans, t.Spans[1])
	}
	return t
}

// TestText sends texts that are not UTF-8, which the protocol forbids. A client may
// send one in its header or cause one in an error, and the traces of others are in the
// same batch.
func TestText(t *testing.T) {
	r := newReceiver(t, nil)
	e, err := otlp.New(otlp.Options{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	bad := timeline()
	bad.Trace.State, bad.Error = "v=\xff", "bad\xff"
	bad.Trigger.Name, bad.Trigger.Namespace = "a\xff", "b\xff"
	bad.Spans[0].Error = strings.Repeat("é", 1<<20) + "\xff"
	e.Recorder().Ended(bad)
	e.Recorder().Ended(timeline())
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := r.got()
	if len(spans) != 6 {
		t.Fatalf("got %d spans, want 6", len(spans))
	}
	if p := spans[0]; p.TraceState != "" || p.Status.GetMessage() != "bad\uFFFD" || p.Name != "a\uFFFD" {
		t.Errorf("got %v, want no state and what can be read of texts", p)
	}
	if got := len(spans[1].Status.GetMessage()); got != 4<<10 {
		t.Errorf("got an error of %d bytes, want its first 4,096", got)
	}
	if got := spans[3].TraceState; got != "vendor=1" {
		t.Errorf("got state %q of the other one", got)
	}
}

// TestFlags checks that flags say where the parent is, as far as that is known.
func TestFlags(t *testing.T) {
	f := func(kind string, parent [8]byte, want uint32, wantKind tracepb.Span_SpanKind) {
		t.Helper()
		r := newReceiver(t, nil)
		e, err := otlp.New(otlp.Options{URL: r.URL})
		if err != nil {
			t.Fatal(err)
		}
		line := timeline()
		line.Trigger, line.Parent, line.Serves = node.Ref{Kind: kind}, parent, kind == "listener"
		e.Recorder().Ended(line)
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		spans := r.got()
		if spans[0].Flags != want || spans[0].Kind != wantKind || len(spans[0].ParentSpanId) == 8 != (parent != [8]byte{}) {
			t.Errorf("%s under %x: got %v, want flags %#x, kind %v", kind, parent, spans[0], want, wantKind)
		}
		if spans[1].Flags != 0x101 {
			t.Errorf("%s under %x: got flags %#x of a packet, want a local parent", kind, parent, spans[1].Flags)
		}
	}
	f("listener", [8]byte{1}, 0x301, tracepb.Span_SPAN_KIND_SERVER)
	f("listener", [8]byte{}, 0x101, tracepb.Span_SPAN_KIND_SERVER)
	f("scheduler", [8]byte{}, 0x101, tracepb.Span_SPAN_KIND_INTERNAL)
	f("snippet", [8]byte{1}, 0x001, tracepb.Span_SPAN_KIND_INTERNAL) // a child's or a caller's
}

// partialSuccess encodes an ExportTraceServiceResponse, with a field that may be added to
// it one day.
func partialSuccess(rejected int64, message string) []byte {
	var part []byte
	part = protowire.AppendTag(part, 1, protowire.VarintType)
	part = protowire.AppendVarint(part, uint64(rejected))
	part = protowire.AppendTag(part, 2, protowire.BytesType)
	part = protowire.AppendString(part, message)
	var body []byte
	body = protowire.AppendTag(body, 15, protowire.Fixed64Type)
	body = protowire.AppendFixed64(body, 7)
	body = protowire.AppendTag(body, 1, protowire.BytesType)
	return protowire.AppendBytes(body, part)
}

// TestPartial counts only the spans that were rejected, none if the receiver sent only
// a warning.
func TestPartial(t *testing.T) {
	f := func(rejected int64, message string, want otlp.Stats) {
		t.Helper()
		r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) bool {
			body := partialSuccess(rejected, message)
			w.Header().Set("Content-Type", "application/x-protobuf")
			if _, err := w.Write(body); err != nil {
				t.Error(err)
			}
			return true
		})
		var log bytes.Buffer
		e, err := otlp.New(otlp.Options{URL: r.URL, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // two batches
			e.Recorder().Ended(full())
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := e.Stats(); got != want {
			t.Errorf("%d %q: got %+v, want %+v", rejected, message, got, want)
		}
		if got := log.String(); strings.Count(got, "not taken as they are") != 1 || strings.Count(got, "\n") != 1 {
			t.Errorf("%d %q: got log\n%s\nwant one record", rejected, message, got)
		}
	}
	const spans = 2 * 5003
	f(1, "too (old)\nby far", otlp.Stats{Spans: spans - 2, Rejected: 2})
	f(1, "", otlp.Stats{Spans: spans - 2, Rejected: 2})
	f(0, "old version", otlp.Stats{Spans: spans})
	f(1<<40, "", otlp.Stats{Rejected: spans})
	f(-1, "strange", otlp.Stats{Spans: spans})
}

// lines is a writer that passes on the records of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// next returns the next record.
func (l lines) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-l:
		return line
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was logged")
		return ""
	}
}

// listen starts a server at an address that was free a moment ago.
func listen(t *testing.T, address string, h http.Handler) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	done := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { done <- server.Serve(l) })
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
}

// TestAbsent keeps a batch while the receiver does not listen, as during a restart, and
// sends it when the receiver is back: in a later attempt, or when closed.
func TestAbsent(t *testing.T) {
	f := func(closed bool) {
		t.Helper()
		address := freeport.Addr(t)
		log := make(lines, 2)
		e, err := otlp.New(otlp.Options{URL: "http://" + address, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		e.Recorder().Ended(full())
		if got := log.next(t); !strings.Contains(got, "traces not sent") {
			t.Errorf("got log %s", got)
		}
		r := &receiver{}
		listen(t, address, r)
		if closed {
			err = e.Close(t.Context())
		}
		if got := log.next(t); !strings.Contains(got, "sent again") {
			t.Errorf("got log %s", got)
		}
		if !closed {
			err = e.Close(t.Context())
		}
		if got := e.Stats(); err != nil || got != (otlp.Stats{Spans: 5003}) || len(r.got()) != 5003 {
			t.Errorf("closed %v: got %+v, %v, %d spans at the receiver, want all", closed, got, err, len(r.got()))
		}
	}
	f(false)
	f(true)
}

// TestConnection checks that the connection is closed with the exporter.
func TestConnection(t *testing.T) {
	states := make(chan http.ConnState, 8)
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) { states <- s }
	r.Start()
	defer r.Close()
	e, err := otlp.New(otlp.Options{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	e.Recorder().Ended(timeline())
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateClosed} {
		select {
		case got := <-states:
			if got != want {
				t.Errorf("got connection %v, want %v", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("connection is not %v", want)
		}
	}
}

// TestMemory checks that the queue is also bounded by spans, as its 2,048 timelines may
// have 2 million.
func TestMemory(t *testing.T) {
	release := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) bool {
		<-release
		return true
	})
	e, err := otlp.New(otlp.Options{URL: r.URL, Queue: 256})
	if err != nil {
		t.Fatal(err)
	}
	long := timeline()
	for len(long.Spans) < 1000 {
		long.Spans = append(long.Spans, long.Spans[1])
	}
	const ended = 200
	for range ended {
		e.Recorder().Ended(long)
	}
	dropped := e.Stats().Dropped
	close(release)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// 256 times 128 spans wait, and up to a batch is with the receiver.
	if kept := ended - dropped; kept < 33 || kept > 33+5 {
		t.Errorf("got %d timelines of 1,001 spans kept, want 33 to 38", kept)
	}
	if got := e.Stats(); got.Spans != (ended-dropped)*1001 || got.Dropped != dropped {
		t.Errorf("got %+v, want what was not dropped sent", got)
	}
}

// TestBatch checks that no request is larger than the limit of a receiver, which is
// 20 MiB for the collector. In the worst case, 1,000 spans with the longest texts are
// added to a batch that is almost full.
func TestBatch(t *testing.T) {
	var sizes []int
	r := newReceiver(t, nil)
	r.size = func(n int) { sizes = append(sizes, n) }
	e, err := otlp.New(otlp.Options{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	worst := timeline()
	worst.Trace.State = strings.Repeat("s", 8<<10)
	worst.Spans[0].Error = strings.Repeat("e", 8<<10)
	for len(worst.Spans) < 1000 {
		worst.Spans = append(worst.Spans, worst.Spans[0])
	}
	almost := timeline()
	for len(almost.Spans) < 3900 {
		almost.Spans = append(almost.Spans, almost.Spans[0])
	}
	for range 2 {
		e.Recorder().Ended(almost)
		e.Recorder().Ended(worst)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(sizes) != 2 {
		t.Errorf("got requests of %v bytes, want 2", sizes)
	}
	for _, n := range sizes {
		if n < 16<<20 || n > 20<<20 {
			t.Errorf("got a request of %d bytes, want 16 to 20 MiB", n)
		}
	}
}

// TestAllocs checks that handing over does not allocate, as the process waits for it.
func TestAllocs(t *testing.T) {
	if invariant.Race {
		return
	}
	f := func(queue int) {
		t.Helper()
		r := newReceiver(t, nil)
		e, err := otlp.New(otlp.Options{URL: r.URL, Ratio: 0.5, Queue: queue})
		if err != nil {
			t.Fatal(err)
		}
		line, rec := timeline(), e.Recorder()
		line.Spans = nil
		if got := testing.AllocsPerRun(1000, func() {
			rec.Filter(line.Trace)
			rec.Filter(observe.Trace{})
			rec.Ended(line)
		}); got != 0 {
			t.Errorf("queue of %d: got %v allocations, want none", queue, got)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f(2048)
	f(1) // most are dropped
}
