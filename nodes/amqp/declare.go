package amqp

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A declaration is a queue that is made unless it exists, and how it gets its messages.
type declaration struct {
	queue                  string
	durable                bool
	exchange, exchangeType string
	bindings               []string
	arguments              amqp.Table
}

// newDeclaration reads the field declare.
func newDeclaration(queue string, c schema.Config) (*declaration, error) {
	d := &declaration{
		queue: queue, durable: c.Bool("durable"), exchange: c.String("exchange"), exchangeType: c.String("exchange_type"), bindings: c.Strings("bindings"),
	}
	arguments := c.Value("arguments")
	if c.Has("arguments") && arguments.Kind() != value.KindMap {
		return nil, c.Errorf("arguments", diag.CodeBadValue, "want a map, got %s", arguments.Kind()).WithHint("write one such as {x-message-ttl: 60000}")
	}
	if d.arguments = tableOf(arguments); d.arguments == nil {
		d.arguments = make(amqp.Table)
	}
	if _, ok := d.arguments["x-queue-type"]; ok {
		return nil, c.Errorf("arguments", diag.CodeBadValue, "the type of a queue is the field type").WithHint("remove x-queue-type")
	}
	kind := c.String("type")
	d.arguments["x-queue-type"] = kind
	switch {
	case kind == "quorum" && !d.durable:
		return nil, c.Errorf("durable", diag.CodeBadValue, "a quorum queue is durable").WithHint("remove durable, or set type: classic")
	case d.exchange == "" && len(d.bindings) > 0:
		return nil, c.Errorf("bindings", diag.CodeBadValue, "there is no exchange to bind the queue to").WithHint("add exchange")
	case d.exchange != "" && len(d.bindings) == 0:
		if d.exchangeType != "fanout" && d.exchangeType != "headers" {
			return nil, c.Errorf("exchange", diag.CodeBadValue, "without bindings, the queue gets nothing from the exchange").WithHint("add bindings, such as [orders.*]")
		}
		d.bindings = []string{""}
	}
	return d, nil
}

// make declares the queue and what is bound to it.
func (d *declaration) make(ch *amqp.Channel) error {
	if _, err := ch.QueueDeclare(d.queue, d.durable, false, false, false, d.arguments); err != nil {
		return err
	}
	if d.exchange == "" {
		return nil
	}
	if err := ch.ExchangeDeclare(d.exchange, d.exchangeType, d.durable, false, false, false, nil); err != nil {
		return err
	}
	for _, key := range d.bindings {
		if err := ch.QueueBind(d.queue, key, d.exchange, false, nil); err != nil {
			return err
		}
	}
	return nil
}
