package amqp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// confirm passes on what the broker says of records, until the connection has ended. The
// broker returns a message before it confirms it, and the library keeps that order.
func (o *outgoing) confirm(confirms <-chan amqp.Confirmation, returns <-chan amqp.Return) {
	for c := range confirms {
		for len(returns) > 0 {
			o.refuse(<-returns)
		}
		if p := o.take(c.DeliveryTag); p != nil {
			p.done(p.index, o.writer.receipt(p), o.verdict(p, c.Ack))
		}
	}
	o.end(o.reason())
}

var receiptShape = value.NewShape("exchange", "routing_key")

func (w *writer) receipt(p *published) value.Value {
	if !w.receipts {
		return value.Null()
	}
	return receiptShape.Map(value.String(p.exchange), value.String(p.routingKey))
}

func (o *outgoing) verdict(p *published, ack bool) error {
	switch {
	case p.returned != nil:
		return p.returned
	case !ack:
		err := errors.New("the broker does not take the message: a queue that would get it is full, or has failed")
		return &node.Error{Err: err, Status: http.StatusServiceUnavailable, Code: "nack", Outage: o.writer.constant}
	}
	return nil
}

// refuse notes the record of a message that the broker has returned. Nothing in it says which
// one that was. Of several that are equal, all are returned.
func (o *outgoing) refuse(r amqp.Return) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var first *published
	for _, p := range o.mu.pending {
		if p.returned == nil && p.exchange == r.Exchange && p.routingKey == r.RoutingKey && p.id == r.MessageId && (first == nil || p.tag < first.tag) && bytes.Equal(p.body, r.Body) {
			first = p
		}
	}
	if first == nil {
		return // its call has ended
	}
	if r.ReplyCode == amqp.NoRoute {
		first.returned = node.Unusable("no_route", fmt.Errorf("no queue gets messages with the routing key %q of the exchange %q", r.RoutingKey, r.Exchange))
	} else {
		first.returned = &node.Error{Err: fmt.Errorf("the broker has returned the message: %s", r.ReplyText), Status: http.StatusServiceUnavailable}
	}
}

// take removes a record that waits; nil if it does not any more.
func (o *outgoing) take(tag uint64) *published {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.mu.pending[tag]
	delete(o.mu.pending, tag)
	return p
}

// waiting returns how many records are not confirmed.
func (o *outgoing) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.mu.pending)
}

// end fails what was not confirmed. If the broker has ended the channel because of some of the
// records, those get that as their own error.
func (o *outgoing) end(reason error) {
	lost := o.writer.settings.lostError(reason)
	o.mu.Lock()
	pending := o.mu.pending
	o.mu.pending, o.mu.err = nil, lost
	o.mu.Unlock()
	largest := 0
	for _, p := range pending {
		largest = max(largest, len(p.body))
	}
	var answer *amqp.Error
	errors.As(reason, &answer)
	for _, p := range pending {
		if err := p.blame(answer, largest); err != nil {
			p.done(p.index, value.Null(), err)
		} else {
			p.done(p.index, value.Null(), lost)
		}
	}
}

// blame returns the error of a record that the broker has ended the channel for; nil if it was
// another one, as far as is known.
func (p *published) blame(answer *amqp.Error, largest int) error {
	switch {
	case answer == nil:
	case answer.Code == amqp.PreconditionFailed && strings.Contains(answer.Reason, "message size") && len(p.body) == largest,
		(answer.Code == amqp.NotFound || answer.Code == amqp.AccessRefused) && strings.Contains(answer.Reason, "exchange '"+p.exchange+"'"):
		return node.Unusable("", errors.New(answer.Reason))
	}
	return nil
}
