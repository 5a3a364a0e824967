package amqp

import (
	_ "embed"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed amqp_source.md
var amqpSourcePage string

func source() stream.Source {
	return stream.Source{
		Kind:    "amqp_source",
		Summary: "Starts a process for each message of a queue of RabbitMQ.",
		Page:    node.ReadPage(amqpSourcePage),
		Config: withConnection(
			schema.String("queue").Required().Doc("The queue to read."),
			schema.Group("declare", schema.Fields(
				schema.Enum("type", "classic", "quorum").Default("quorum").Doc("The type of the queue. A `quorum` queue counts deliveries; a `classic` one knows only that there was one."),
				schema.Bool("durable").Default(true).Doc("Whether the queue, and the exchange, are there after a restart of the broker. A quorum queue always is."),
				schema.String("exchange").Doc("An exchange to declare, and to bind the queue to."),
				schema.Enum("exchange_type", "direct", "topic", "fanout", "headers").Default("topic").Doc("The type of the exchange."),
				schema.Strings("bindings").Doc("The routing keys of the messages that the queue gets from the exchange, such as `orders.*`."),
				schema.Any("arguments").Doc("Arguments of the queue, such as `x-dead-letter-exchange` or `x-message-ttl`."),
			)).Doc("Creates the queue if it does not exist. Without it, a queue that is missing is an error."),
		),
		Traits: stream.Traits{Redelivers: true},
		Open:   openSource,
	}
}

func openSource(init *node.Init) (stream.Reader, error) {
	c := init.Config
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	queue := c.String("queue")
	if len(queue) > longestName {
		return nil, c.Errorf("queue", diag.CodeBadValue, "the name of a queue has at most 255 bytes")
	}
	r := &reader{
		settings: s, queue: queue, most: stream.InFlight(c), mostBytes: c.Int("bytes"), wake: make(chan struct{}, 1),
		acks: newAcks(init.Clock, stream.InFlight(c)),
	}
	r.mu.returned = stream.NewReturned[*delivery](init.Clock, r.signal)
	if c.Has("declare") {
		if r.declare, err = newDeclaration(queue, c.Group("declare")); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(queue, "amq.") && r.declare != nil {
		return nil, c.Errorf("queue", diag.CodeBadValue, "names that begin with amq. are those of the broker").WithHint("choose another name, or remove declare")
	}
	return r, nil
}
