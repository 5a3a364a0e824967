// Package amqp has the kinds whose nodes exchange messages with RabbitMQ.
package amqp

import (
	_ "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return nil
}
