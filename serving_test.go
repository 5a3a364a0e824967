package uniflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// A hold is a kind whose nodes keep every packet until they are let go.
type hold struct {
	inside atomic.Int64
	full   chan struct{} // closed when want packets are inside
	want   int64
	letGo  chan struct{}
}

func newHold(want int64) *hold {
	return &hold{want: want, full: make(chan struct{}), letGo: make(chan struct{})}
}

func (h *hold) def() *node.Def {
	return &node.Def{
		Kind: "hold", Summary: "Keeps packets.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) { return h, nil },
	}
}

func (h *hold) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(ctx context.Context) node.Result {
		if h.inside.Add(1) == h.want {
			close(h.full)
		}
		select {
		case <-h.letGo:
			return node.Answer(value.String("let go"))
		case <-ctx.Done():
			return node.Fail(ctx.Err())
		}
	})
}

// TestManyProcesses runs 10,000 concurrent processes.
func TestManyProcesses(t *testing.T) {
	const n = 10_000
	h := newHold(n)
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{h.def()}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := engine.Apply(t.Context(), source("- {kind: hold, name: a}"))
	if err = errors.Join(list.Err(), err); err != nil {
		t.Fatal(err)
	}
	var runs sync.WaitGroup
	for range n {
		runs.Go(func() { wantRun(t, engine, "let go") })
	}
	<-h.full
	if got := engine.Status().InFlight; got != n {
		t.Errorf("got %d processes in flight, want %d", got, n)
	}
	close(h.letGo)
	runs.Wait()
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTooManyRequests answers requests past a listener's limit with 503, and those
// that it took when the engine shuts down.
func TestTooManyRequests(t *testing.T) {
	const limit, clients = 50, 500
	h := newHold(limit)
	f := flowtest.New(t, append(std.Defs(""), h.def())...)
	f.Serve(fmt.Sprintf(`
- {kind: listener, name: web, protocol: http, host: 127.0.0.1, port: 0, limits: {processes: %d}, ports: {out: [{name: hold}]}}
- {kind: hold, name: hold}
`, limit))
	url, client := "http://"+f.Address(), f.Client()
	get := func() (reply flowtest.Reply) {
		resp, err := client.Get(url)
		if err == nil {
			reply, err = flowtest.ReadReply(resp)
		}
		if err != nil {
			t.Error(err)
		}
		return reply
	}
	var taken sync.WaitGroup
	for range limit {
		taken.Go(func() {
			if got := get(); got.Status != 200 || got.Body != "let go" {
				t.Errorf("got %d %q, want 200 \"let go\"", got.Status, got.Body)
			}
		})
	}
	<-h.full
	var refused sync.WaitGroup
	for range clients {
		refused.Go(func() {
			if got := get(); got.Status != 503 || got.Header.Get("Retry-After") == "" {
				t.Errorf("got %d, Retry-After %q, want 503 with one", got.Status, got.Header.Get("Retry-After"))
			}
		})
	}
	refused.Wait()
	down := make(chan error, 1)
	go func() { down <- f.Engine().Shutdown(context.Background()) }()
	close(h.letGo)
	taken.Wait()
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// A syncWriter is a log that is read while it is written.
type syncWriter struct {
	mu   sync.Mutex
	buf  strings.Builder
	more chan struct{} // closed at the next write; nil if no goroutine waits
}

func (w *syncWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
	return w.buf.Write(p)
}

// await waits until the log has a text.
func (w *syncWriter) await(t *testing.T, text string) {
	t.Helper()
	for {
		w.mu.Lock()
		if strings.Contains(w.buf.String(), text) {
			w.mu.Unlock()
			return
		}
		if w.more == nil {
			w.more = make(chan struct{})
		}
		more := w.more
		w.mu.Unlock()
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatalf("no %q in the log", text)
		}
	}
}

func (w *syncWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}
