package events_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

// A crashing store of a journal commits so many records, and then nothing.
type crashing struct {
	*memory.Store
	left atomic.Int64
}

func (s *crashing) Commit(ctx context.Context, b *journal.Batch) error {
	if s.left.Add(-int64(len(b.Records)+len(b.Ends))) < 0 {
		s.left.Store(-1 << 40)
		return errors.New("the program has crashed")
	}
	return s.Store.Commit(ctx, b)
}

// Close leaves the journal to the next program.
func (s *crashing) Close() error { return nil }

// TestRuns crashes a durable process after each of its records. A store has each event once, although it has
// neither an id nor a time; a receiver may get an event again, with the id that it had.
func TestRuns(t *testing.T) {
	repeated := 0
	for at := range int64(6) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			r, dir := newReceiver(t), t.TempDir()
			store := &crashing{Store: memory.New()}
			begin := func(left int64) *flowtest.Flow {
				store.left.Store(left)
				f := flowtest.New(t, std.Defs("cel")...)
				f.Options.Clock, f.Options.Journal = node.SystemClock{}, store
				f.Serve(fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, durability: {level: checkpoint, key: '"k"'}, ports: {out: [{name: events}]}}
- {kind: snippet, name: events, language: cel, code: body, ports: {out: [{name: both}]}}
- {kind: pipe, name: both, ports: {"out[0]": [{name: keep}], "out[1]": [{name: send}]}}
- {kind: snippet, name: send, language: cel, code: '[{"user": "a", "event": "x"}, {"user": "b", "event": "x", "id": "own"}]', ports: {out: [{name: ship}]}}
- {kind: trail_append, name: keep, db: %s}
- {kind: batch, name: ship, url: '%s', ack: delivered, linger: 1ms, event_id: id}
`, dir, r.URL))
				return f
			}
			post := func(f *flowtest.Flow) string {
				reply := f.Request("POST", "/", `[{"user": "a", "event": "x"}, {"user": "a", "event": "x"}, {"user": "b", "event": "x"}]`, "Content-Type", "application/json")
				return fmt.Sprint(reply.Status)
			}
			f := begin(at)
			crashed := post(f)
			f.Close()
			f = begin(1 << 40)
			if got := post(f); !strings.HasPrefix(got, "20") {
				t.Errorf("got %s; at the crash %s", got, crashed)
			}
			f.Close()
			if got := count(t, dir, `{"segment": {"event": "x"}}`); got != "3" {
				t.Errorf("the store has %s", got)
			}
			sent := make(map[string]int)
			for _, e := range r.events {
				sent[e]++
			}
			if len(sent) != 2 {
				t.Errorf("the receiver got %q", r.events)
			}
			for e, n := range sent {
				if !strings.Contains(e, `"id":"`) || n > 2 {
					t.Errorf("the receiver got %s %d times", e, n)
				}
				repeated += n - 1
			}
		})
	}
	if repeated == 0 {
		t.Error("no crash fell between the delivery and its record")
	}
}
