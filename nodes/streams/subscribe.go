package streams

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed subscribe.md
var subscribePage string

func subscribeDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "subscribe",
		Summary: "Sends on all payloads that are published on a topic, and keeps its process open meanwhile.",
		Page:    node.ReadPage(subscribePage),
		Config: schema.Fields(
			schema.String("topic").Required().Doc("The topic. It may hold expressions over the packet that subscribes."),
			schema.Int("buffer").Default(64).Range(1, 65_536).Doc("How many payloads wait while `out` is busy."),
			schema.Duration("lifetime").Default("0s").Doc("How long a subscription lasts until it is answered None; 0 means no limit."),
			schema.Enum("full", "drop_oldest", "close").Default("drop_oldest").Doc("What happens to a payload when the buffer is full."),
			storeField("subscribes to what this program publishes"),
		),
		In:     []node.Port{{Name: "in", Doc: "A packet that subscribes."}},
		Out:    []node.Port{{Name: "out", Doc: "Each payload that is published."}},
		Recall: node.Always(node.Attached),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &subscriber{
				buffer: int(c.Int("buffer")), drop: c.String("full") == "drop_oldest",
				lifetime: c.Duration("lifetime"), init: init, clock: init.Clock, subscriptions: make(map[*subscription]struct{}),
			}
			var err error
			n.outages = keep.NewOutages(init, c.Group("store"))
			if n.place, err = keep.New(init, c.Group("store"), "payloads"); err != nil {
				return nil, err
			}
			n.topic, err = template.OfField(c, "topic", template.Compiler(o.Languages, o.Language))
			return n, err
		},
	}
}

// A subscriber is a node of kind subscribe.
type subscriber struct {
	topic    template.Template
	buffer   int
	drop     bool
	lifetime time.Duration // 0 is for ever
	init     *node.Init
	clock    node.Clock
	place    *keep.Place
	outages  *keep.Outages

	topics  *topics
	release func() error

	mu            sync.Mutex
	subscriptions map[*subscription]struct{}
	drained       bool
}

// Concurrency lets one process have several subscriptions.
func (n *subscriber) Concurrency() int { return 1024 }

// Open finds the topics.
func (n *subscriber) Open(ctx context.Context) (err error) {
	n.topics, n.release, err = acquireTopics(ctx, n.init, n.place)
	return err
}

// Close lets the topics go.
func (n *subscriber) Close() error { return n.release() }

// Ready implements [node.Readier].
func (n *subscriber) Ready() error { return n.topics.ready(n.outages) }

// Receive subscribes.
func (n *subscriber) Receive(p node.Process, pkt node.Packet) node.Result {
	topic, err := n.topic.Text(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	if err := n.topics.away(n.outages); err != nil {
		return node.Fail(err)
	}
	s, ok := n.enter(topic)
	if !ok {
		return node.Fail(errReplaced)
	}
	stop := func() bool { return false }
	if n.lifetime > 0 {
		stop = n.clock.AfterFunc(n.lifetime, func(context.Context) { s.close(node.None()) })
	}
	p.Defer(func() {
		stop()
		n.leave(s)
	})
	return node.Await(s.resume)
}

// enter makes a subscription, unless the node is drained.
func (n *subscriber) enter(topic string) (s *subscription, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drained {
		return nil, false
	}
	s = newSubscription(n.topics, topic, n.buffer, n.drop)
	n.subscriptions[s] = struct{}{}
	return s, true
}

func (n *subscriber) leave(s *subscription) {
	s.close(node.None())
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.subscriptions, s)
}

// errReplaced ends a subscription without an event at the end of its answer, so that an
// EventSource connects again, to the workflow that serves then.
var errReplaced = &node.Error{Err: errors.New("the workflow is replaced or ends"), Status: http.StatusServiceUnavailable, Code: string(diag.CodeCancelled)}

// Drain ends all subscriptions. What they have taken is sent before.
func (n *subscriber) Drain() {
	n.mu.Lock()
	n.drained = true
	all := make([]*subscription, 0, len(n.subscriptions))
	for s := range n.subscriptions {
		all = append(all, s)
	}
	n.mu.Unlock()
	for _, s := range all {
		s.drain(node.Fail(errReplaced))
	}
}

// Measure reports what the topics of the namespace have carried.
func (n *subscriber) Measure(report func(node.Metric)) {
	n.mu.Lock()
	held := len(n.subscriptions)
	n.mu.Unlock()
	n.topics.Lock()
	published, delivered, dropped := n.topics.published, n.topics.delivered, n.topics.dropped
	n.topics.Unlock()
	if n.topics.hub != nil {
		n.outages.Measure("subscribe", report)
	}
	report(node.Metric{Name: "subscribe_subscriptions", Help: "Processes that are subscribed.", Value: float64(held)})
	report(node.Metric{Name: "topics_published_total", Help: "Payloads that were published on the topics of the namespace.", Type: node.MetricCounter, Value: float64(published)})
	report(node.Metric{Name: "topics_delivered_total", Help: "Payloads that subscriptions took.", Type: node.MetricCounter, Value: float64(delivered)})
	report(node.Metric{Name: "topics_dropped_total", Help: "Payloads that found a buffer full.", Type: node.MetricCounter, Value: float64(dropped)})
}
