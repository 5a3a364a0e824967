package durable_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A holder is a debugger that holds each process at each node.
type holder struct {
	held chan *heldAt
	off  atomic.Bool // it holds none any more
}

type heldAt struct {
	*observe.Moment
	goOn func()
}

func (h *holder) attach(w *world, points observe.Points) (release func()) {
	w.t.Helper()
	release, err := w.engine.Debug(&observe.Debugger{
		At:    func(node.Ref) observe.Points { return points },
		Holds: func(*observe.Moment) bool { return !h.off.Load() },
		Hold: func(ctx context.Context, m *observe.Moment, resume func(observe.Move)) {
			var once sync.Once
			goOn := func() {
				once.Do(func() { resume(observe.Move{Payload: m.Payload, Packets: m.Packets, Response: m.Response}) })
			}
			context.AfterFunc(ctx, goOn) // as a debugger should
			h.held <- &heldAt{m, goOn}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return release
}

// walk lets the processes go on from where they are held, one after the other, until a run has ended.
func (h *holder) walk(w *world, ended func() bool) (places string) {
	w.t.Helper()
	for {
		select {
		case at := <-h.held:
			if !at.Durable {
				w.t.Errorf("at %s: the moment is not one of a durable process", at.Node.Name)
			}
			places += at.Node.Name + " "
			at.goOn()
		case <-w.t.Context().Done():
			w.t.Fatal("the test is over")
		case <-time.After(time.Millisecond):
			if ended() {
				return strings.TrimSpace(places)
			}
		}
	}
}

// TestDebugger holds a durable process at each point of each node: in its first run, and while it is resumed
// after a crash and repeats what was recorded. It does the same as without, and nothing twice.
func TestDebugger(t *testing.T) {
	const document = `
- {kind: begin, name: t, ports: {out: [{name: m}]}}
- {kind: make, name: m, ports: {out: [{name: a}]}}
- {kind: act, name: a, ports: {out: [{name: n}]}}
- {kind: make, name: n, ports: {out: [{name: b}]}}
- {kind: act, name: b}
`
	for _, point := range []observe.Points{observe.PointIn, observe.PointOut, observe.PointAnswer} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(point, crash), func(t *testing.T) {
				w := newWorld(t)
				h := &holder{held: make(chan *heldAt, 100)}
				var s *stopper
				if crash {
					s = w.blockAt("b")
				}
				w.start(document)
				release := h.attach(w, point)
				r := w.must(node.Submission{Payload: order(1), Key: []byte("k")})
				over := func() bool {
					run, err := w.store.Get(t.Context(), idOf(r.Run))
					if err != nil {
						t.Fatal(err)
					}
					if run.State > journal.OK {
						t.Fatalf("the run is %s: %s", run.State, run.Error)
					}
					return run.State == journal.OK
				}
				first := "m a n b"
				if point == observe.PointAnswer {
					first = "b n a m"
				}
				if !crash {
					if got := h.walk(w, over); got != first {
						t.Errorf("held at %s, want %s", got, first)
					}
					release()
					if got := w.called(); got != "a b" {
						t.Errorf("called %s", got)
					}
					return
				}
				entered := func() bool {
					select {
					case <-s.entered:
						return true
					default:
						return false
					}
				}
				h.walk(w, entered)
				h.off.Store(true)
				w.crash(s.open)
				h.off.Store(false)
				w.called()
				w.effect = nil
				release()
				w.beforeApply = func() { h.attach(w, point) } // before runs are resumed
				w.start(document)
				if got := h.walk(w, over); got != first {
					t.Errorf("held at %s after the crash, want %s", got, first)
				}
				if got := w.called(); got != "b" {
					t.Errorf("called %s after the crash, want b: a has a record", got)
				}
			})
		}
	}
}

// TestTap marks packets that are repeated from records, for those who watch and in timelines.
func TestTap(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var seen []string
	note := func(what string, p observe.Packet) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(p.Node.Name, " ", what, " ", p.Replayed))
	}
	spans := ""
	watch := func() {
		_, err := w.engine.Watch(&observe.Observer{
			Received: func(p observe.Packet) { note("received", p) },
			Sent:     func(p observe.Packet) { note("sent", p) },
		}, &observe.Recorder{Payloads: true, Ended: func(tl *observe.Timeline) {
			mu.Lock()
			defer mu.Unlock()
			for i := range tl.Spans {
				spans += fmt.Sprint(tl.Spans[i].Node.Name, " ", tl.Spans[i].Replayed, "; ")
			}
		}})
		if err != nil {
			t.Error(err)
		}
	}
	taken := func() string {
		mu.Lock()
		defer mu.Unlock()
		all := strings.Join(seen, "; ")
		seen = nil
		return all
	}
	s := w.blockAt("b")
	w.beforeApply = watch
	w.start(two)
	r := w.must(node.Submission{Payload: value.Int(1), Key: []byte("k")})
	<-s.entered
	if got := taken(); strings.Contains(got, "true") || !strings.Contains(got, "a sent false; b received false") {
		t.Errorf("before the crash: %s", got)
	}
	w.crash(s.open)
	w.effect = nil
	taken()
	mu.Lock()
	spans = ""
	mu.Unlock()
	w.start(two)
	w.stored(r.Run, journal.OK)
	w.stop() // all has been told
	if got, want := taken(), "t sent true; m received true; m sent true; a received true; a sent true; b received true; b sent false"; got != want {
		t.Errorf("after the crash: %s, want %s", got, want)
	}
	if spans != "m true; a true; b true; " {
		t.Errorf("spans %s", spans)
	}
}
