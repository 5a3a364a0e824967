package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/journal"
	journalmemory "github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// A lameStore is a journal that is away, or whose disk is full, as long as the test says.
type lameStore struct {
	*journalmemory.Store
	full atomic.Bool
}

func (s *lameStore) Commit(ctx context.Context, b *journal.Batch) error {
	if s.full.Load() {
		return journal.ErrFull
	}
	return s.Store.Commit(ctx, b)
}

// startDurable is start with a journal.
func startDurable(t *testing.T, s *broker, store journal.Store, document string, handle func(ctx context.Context, port string, v value.Value) error) *run {
	t.Helper()
	r := &run{broker: s, t: t}
	take := &node.Def{
		Kind: "take", Summary: "Takes.", Page: node.Page{Example: "kind: take\n"},
		In: []node.Port{{Name: "in", Doc: "A message."}, {Name: "dead", Doc: "A dead letter."}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(ctx context.Context) node.Result {
					port := []string{"in", "dead"}[pkt.Port]
					r.note(port, pkt.Payload)
					if handle != nil {
						if err := handle(ctx, port, pkt.Payload); err != nil {
							return node.Fail(err)
						}
					}
					return node.None()
				})
			}), nil
		},
	}
	var err error
	r.engine, err = uniflow.New(uniflow.Options{
		Kinds: append(std.Defs(""), s.source(stream.Options{Languages: builtin.Languages(), Language: "cel"}), take),
		Log:   slog.New(slog.NewTextHandler(&r.log, nil)), Grace: 5 * time.Second, Journal: store,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.load(document)
	t.Cleanup(func() { r.shutdown(5 * time.Second) })
	return r
}

// runs serves a durable source with more fields.
func runs(fields string) string {
	return "- {kind: mem, name: s, retry: {threshold: 2, backoff: {initial: 1ms, max: 2ms}}, " + fields + ", ports: {out: [{name: t}], error: [{name: t, port: dead}]}}\n- {kind: take, name: t}\n"
}

// TestRunsAreBounded checks that a run under way counts as a message in flight, in its order, although its message
// is acknowledged.
func TestRunsAreBounded(t *testing.T) {
	f := func(fields string, most int) {
		t.Helper()
		s := newBroker(systems["queue"])
		for i := range 12 {
			s.add(0, "", fmt.Sprint(i))
		}
		gate := make(chan struct{})
		r := startDurable(t, s, journalmemory.New(), runs("durability: accept, "+fields), func(ctx context.Context, _ string, _ value.Value) error {
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		r.until("as many runs as may be", func() bool { return len(r.got()) == most })
		acknowledged := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			done := 0
			for _, rec := range s.mu.lanes[0] {
				if rec.done {
					done++
				}
			}
			return done == most
		}
		r.until("their messages are acknowledged", acknowledged)
		select {
		case <-time.After(30 * time.Millisecond):
		case <-t.Context().Done():
		}
		if got := len(r.got()); got != most {
			t.Errorf("%s: %d are under way, want %d", fields, got, most)
		}
		close(gate)
		r.until("all", func() bool { return len(r.got()) == 12 && s.settledAll() })
	}
	f("max_in_flight: 3", 3)
	f("order: total", 1)
}

// TestRunsThatWait checks that a run that only waits, and has left memory, makes room.
func TestRunsThatWait(t *testing.T) {
	s := newBroker(systems["queue"])
	s.add(0, "", "1", "2", "3")
	store := journalmemory.New()
	r := startDurable(t, s, store, `
- {kind: mem, name: s, order: total, durability: checkpoint, ports: {out: [{name: w}]}}
- {kind: wait, name: w, event: come, key: '"x"', timeout: 1h, ports: {out: [{name: t}]}}
- {kind: take, name: t}
`, nil)
	r.until("all wait", func() bool {
		waiting, err := store.List(t.Context(), journal.Filter{States: []journal.State{journal.Waiting}})
		return err == nil && len(waiting) == 3 && s.settledAll()
	})
}

// TestJournalIsAway checks that messages are held while the journal takes no runs: no attempt is used up.
func TestJournalIsAway(t *testing.T) {
	s := newBroker(systems["queue"])
	store := &lameStore{Store: journalmemory.New()}
	store.full.Store(true)
	r := startDurable(t, s, store, runs("durability: checkpoint"), nil)
	s.add(0, "", "1")
	r.until("the disk is full", func() bool { return strings.Contains(r.log.String(), "the journal cannot be written") })
	s.add(0, "", "2", "3", "4", "5")
	r.until("messages are held", func() bool { return strings.Contains(r.log.String(), "messages are held until an outage is over") })
	if s.settledAll() || len(r.got()) > 0 {
		t.Errorf("got %q while the disk is full", r.got())
	}
	store.full.Store(false)
	r.until("all", func() bool { return len(r.got()) == 5 && s.settledAll() })
	got := r.got()
	slices.Sort(got)
	if fmt.Sprint(got) != "[in 1 in 2 in 3 in 4 in 5]" {
		t.Errorf("got %q", got)
	}
}

// TestRunKeys checks that messages with one key are one run if their bodies are equal, and that another body is a
// dead letter; and what when and failures do.
func TestRunKeys(t *testing.T) {
	s := newBroker(systems["queue"])
	s.add(0, "", `{"k":"a","n":1}`)
	r := startDurable(t, s, journalmemory.New(), runs("order: total, durability: {level: checkpoint, key: self.body.k, when: self.body.n < 5}"), func(_ context.Context, _ string, v value.Value) error {
		body, _ := v.Get("body")
		if n, _ := body.Get("n"); n.String() == "4" {
			return errors.New("refused")
		}
		return nil
	})
	r.until("the first", func() bool { return len(r.got()) == 1 && s.settledAll() })
	s.add(0, "", `{"k":"a","n":1}`, `{"k":"a","n":2}`, `{"k":"b","n":4}`, `{"k":"b","n":5}`)
	r.until("all", func() bool { return len(r.got()) == 4 && s.settledAll() })
	r.want(`in {"k":"a","n":1}`, `dead {"k":"a","n":2} the idempotency key was used for another request`, `in {"k":"b","n":4}`, `in {"k":"b","n":5}`)
}

// TestRunIsTheReply checks that a sender who waits for an answer gets the id of the run.
func TestRunIsTheReply(t *testing.T) {
	s := newBroker(systems["socket"])
	s.asked = true
	r := startDurable(t, s, journalmemory.New(), runs("durability: checkpoint"), nil)
	s.add(0, "ask", "1")
	r.until("it is answered", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.mu.answers) == 1 && strings.Contains(s.mu.answers[0], `"status":202`) && strings.Contains(s.mu.answers[0], `"run":"`)
	})
}

// TestNoBatchOfRuns checks what is refused.
func TestNoBatchOfRuns(t *testing.T) {
	r := start(t, newBroker(systems["queue"]), plain, nil)
	list, err := r.apply(runs("durability: checkpoint, batch: {count: 2}"))
	if text := fmt.Sprint(list, err); !strings.Contains(text, "a run of its own") {
		t.Errorf("got %s", text)
	}
	list, err = r.apply(runs("durability: checkpoint"))
	if text := fmt.Sprint(list, err); !strings.Contains(text, "--journal") {
		t.Errorf("got %s", text)
	}
}
