package streams

import (
	"context"
	_ "embed"

	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed publish.md
var publishPage string

func publishDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "publish",
		Summary: "Sends a payload to all subscribers of a topic.",
		Page:    node.ReadPage(publishPage),
		Config: schema.Fields(
			schema.String("topic").Required().Doc("The topic. It may hold expressions over the payload, such as `room.${self.room}`."),
			storeField("goes to the subscribers of this program only"),
		),
		In:    []node.Port{{Name: "in", Doc: "What to publish."}},
		Error: node.OwnFailure,
		Traits: func(c schema.Config) (t node.Traits) {
			if c.Group("store").String("driver") == keep.InMemory {
				t.Is = node.Inside
			}
			return t
		},
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			n := &publisher{init: init, outages: keep.NewOutages(init, init.Config.Group("store"))}
			var err error
			if n.place, err = keep.New(init, init.Config.Group("store"), "payloads"); err != nil {
				return nil, err
			}
			n.topic, err = template.OfField(init.Config, "topic", template.Compiler(o.Languages, o.Language))
			return n, err
		},
	}
}

// A publisher is a node of kind publish.
type publisher struct {
	topic   template.Template
	init    *node.Init
	place   *keep.Place
	outages *keep.Outages

	topics  *topics
	release func() error
}

// Open finds the topics.
func (n *publisher) Open(ctx context.Context) (err error) {
	n.topics, n.release, err = acquireTopics(ctx, n.init, n.place)
	return err
}

// Close lets the topics go.
func (n *publisher) Close() error { return n.release() }

// Receive publishes a payload.
func (n *publisher) Receive(p node.Process, pkt node.Packet) node.Result {
	topic, err := n.topic.Text(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	if n.topics.hub == nil {
		return n.publish(topic, pkt.Payload)
	}
	return node.Block(func(ctx context.Context) node.Result {
		if err := n.topics.hub.Publish(ctx, message(topic, pkt.Payload)); !n.outages.Pass(err) && err != nil {
			return node.Fail(err)
		}
		return n.publish(topic, pkt.Payload)
	})
}

// publish gives a payload to the subscriptions of this program.
func (n *publisher) publish(topic string, payload value.Value) node.Result {
	took := n.topics.publish(topic, payload)
	return node.Answer(value.Map(value.Field{Name: "subscriptions", Value: value.Int(int64(took))}))
}

// Ready implements [node.Readier].
func (n *publisher) Ready() error { return n.topics.ready(n.outages) }

// Measure reports what went on without the store.
func (n *publisher) Measure(report func(node.Metric)) {
	if n.topics.hub != nil {
		n.outages.Measure("publish", report)
	}
}
