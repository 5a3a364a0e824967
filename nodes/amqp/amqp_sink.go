package amqp

import (
	_ "embed"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed amqp_sink.md
var amqpSinkPage string

// The fields of the sink that may hold expressions, in the order of [stream.Record.Texts].
const (
	textExchange = iota
	textRoutingKey
	textCorrelationID
	textReplyTo
	textType
)

func sink() stream.Sink {
	return stream.Sink{
		Kind:    "amqp_sink",
		Summary: "Publishes messages to RabbitMQ, and answers when the broker has confirmed them.",
		Page:    node.ReadPage(amqpSinkPage),
		Config: withConnection(
			schema.String("exchange").Doc("The exchange, such as `orders`. Without it, the default exchange, whose routing keys are the names of queues."),
			schema.String("routing_key").Doc("The routing key, such as `orders.${self.body.country}`."),
			schema.Bool("mandatory").Default(true).Doc("Whether a message that no queue gets is an error. Otherwise it is lost."),
			schema.Bool("persistent").Default(true).Doc("Whether a durable queue keeps the message on its disk."),
			schema.Duration("expiration").Range(float64(time.Millisecond), float64(365*24*time.Hour)).Doc("How long a message may wait in a queue. After that, the broker drops it, or sends it to the dead-letter exchange of the queue."),
			schema.Int("priority").Range(0, 255).Doc("The priority of the message in a queue with priorities."),
			schema.String("content_type").Doc("The type of the body. Without it, `application/json` with `encode: json`."),
			schema.String("correlation_id").Doc("The property that links a message to another one, such as `${self.correlation_id}`."),
			schema.String("reply_to").Doc("The queue for the answer."),
			schema.String("type").Doc("The property `type`, such as `order.created`."),
		),
		Texts: []string{"exchange", "routing_key", "correlation_id", "reply_to", "type"},
		Keys:  []string{"exchange", "routing_key", "correlation_id", "reply_to", "type", "content_type"},
		Open:  openSink,
	}
}

func openSink(init *node.Init) (stream.Writer, error) {
	c := init.Config
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	w := &writer{
		settings: s, mandatory: c.Bool("mandatory"), contentType: c.String("content_type"), priority: uint8(c.Int("priority")),
		deliveryMode: 1, exchange: c.String("exchange"), most: int(c.Int("max_in_flight")), receipts: c.String("answer") == "receipt",
		constant: !strings.Contains(c.String("exchange")+c.String("routing_key"), "${"),
	}
	if c.Bool("persistent") {
		w.deliveryMode = 2
	}
	if c.Has("expiration") {
		w.expiration = c.Duration("expiration")
	}
	if w.contentType == "" && c.String("encode") == "json" {
		w.contentType = "application/json"
	}
	return w, nil
}
