package streams

import (
	"context"
	_ "embed"

	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
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
		),
		In:     []node.Port{{Name: "in", Doc: "What to publish."}},
		Error:  node.OwnFailure,
		Traits: node.Fixed(node.Traits{Is: node.Inside}),
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			n := &publisher{init: init}
			var err error
			n.topic, err = template.OfField(init.Config, "topic", template.Compiler(o.Languages, o.Language))
			return n, err
		},
	}
}

// A publisher is a node of kind publish.
type publisher struct {
	topic template.Template
	init  *node.Init

	topics  *topics
	release func() error
}

// Open finds the topics.
func (n *publisher) Open(context.Context) (err error) {
	n.topics, n.release, err = acquireTopics(n.init)
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
	took := n.topics.publish(topic, pkt.Payload)
	return node.Answer(value.Map(value.Field{Name: "subscriptions", Value: value.Int(int64(took))}))
}
