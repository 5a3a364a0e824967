package streamtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A feed is a source in memory that delivers each message once.
type feed struct {
	messages chan stream.Message
	mu       struct {
		sync.Mutex
		settled map[int]bool
		dead    int
	}
}

func newFeed() *feed {
	f := &feed{messages: make(chan stream.Message, 1000)}
	f.mu.settled = make(map[int]bool)
	return f
}

func (f *feed) def() *node.Def {
	return stream.Source{
		Kind: "streamtest_feed", Summary: "Starts a process for each message of a row.",
		Open: func(*node.Init) (stream.Reader, error) { return f, nil },
	}.Def(stream.Options{})
}

func (f *feed) Connect(context.Context, stream.Host) error { return nil }
func (f *feed) Close(context.Context) error                { return nil }

func (f *feed) Read(ctx context.Context, _ stream.Room) ([]stream.Message, error) {
	select {
	case m := <-f.messages:
		return []stream.Message{m}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (f *feed) Settle(_ context.Context, s stream.Settled) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range s.Outcomes {
		switch {
		case o.DeadLetter:
			f.mu.dead++
		case o.Err == nil:
			f.mu.settled[o.Message.Token.(int)] = true
		}
	}
	return nil
}

func (f *feed) Fields(m *stream.Message, b *value.MapBuilder) {
	b.Set("id", value.String(fmt.Sprint("m", m.Token)))
}

// add gives the feed messages.
func (f *feed) add(r *rig, n int) {
	for range n {
		b := r.next("k", 50)
		f.messages <- stream.Message{Raw: encode(b), Key: b.Key, Token: b.ID}
	}
}

// ended returns how many messages the sink has taken, and how many the port error.
func (f *feed) ended() (settled, dead int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.settled), f.mu.dead
}

// sinkOutage: while the system is away for far longer than a message may take, and has no
// other attempt, its source holds the messages, and says so. None is a dead letter.
func sinkOutage(r *rig) {
	const n, timeout = 20, 100 * time.Millisecond
	f := r.ledger.feed
	sink := r.system.Sink(r.addr)
	sink["name"], sink["timeout"] = "sink", timeout.String()
	r.load(document(
		fields{
			"kind": "streamtest_feed", "name": "feed",
			"retry": fields{"threshold": 0, "backoff": fields{"initial": "1ms", "max": "20ms"}},
			"ports": fields{"out": []fields{{"name": "sink"}}, "error": []fields{{"name": "dead"}}},
		},
		sink, fields{"kind": "streamtest_dead", "name": "dead"},
	))
	taken := func() bool {
		settled, dead := f.ended()
		return settled+dead == r.made()
	}
	f.add(r, n)
	r.until("messages are taken", patience, taken)
	for _, trouble := range []faultproxy.Trouble{{Hole: true}, {Refuse: true}} {
		if r.proxy.Disturb(trouble); trouble.Refuse {
			r.proxy.Break()
		}
		f.add(r, n)
		r.until("the source is not ready because of an outage", patience, func() bool {
			return strings.Contains(fmt.Sprint(r.engine.Ready()), "outage")
		})
		r.pause(10 * timeout)
		r.proxy.Heal()
		r.until("the messages are taken after the outage", resume(), taken)
		r.until("the source is ready again", resume(), func() bool { return len(r.engine.Ready()) == 0 })
	}
	if _, dead := f.ended(); dead > 0 {
		r.Errorf("%d messages are dead letters because of an outage", dead)
	}
	r.holds(f.mu.settled)
}
