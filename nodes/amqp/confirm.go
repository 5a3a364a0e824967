package amqp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// confirm passes on what the broker says of records, until the connection has ended. The
// broker returns a message before it confirms it, and the library keeps that order.
//
// It waits for the first record, as the library tells of all in their order, too. The channel of the
// library for that would cost a timer for each.
func (o *outgoing) confirm(returns <-chan amqp.Return) {
	for open := true; open; {
		p := o.first()
		if p == nil {
			select {
			case <-o.wake:
			case r, ok := <-returns:
				if open = ok; ok {
					o.refuse(r)
				}
			}
			continue
		}
		ack := p.confirm.Wait()
		for len(returns) > 0 {
			o.refuse(<-returns)
		}
		if open = ack || !o.ch.IsClosed(); open && o.withdraw(p) {
			p.done(p.index, o.writer.receipt(p), o.verdict(p, ack))
		}
	}
	o.end(o.reason())
}

// add lets a record wait, unless the connection has ended.
func (o *outgoing) add(p *published) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.ended == nil {
		o.mu.pending = append(o.mu.pending, p)
	}
	return o.mu.ended
}

// published notes that the library has a record.
func (o *outgoing) published(p *published, confirm *amqp.DeferredConfirmation) {
	o.mu.Lock()
	p.confirm = confirm
	first := len(o.mu.pending) > 0 && o.mu.pending[0] == p
	o.mu.Unlock()
	if first {
		select {
		case o.wake <- struct{}{}:
		default: // it has one
		}
	}
}

// first returns the record that waits longest; nil if the library does not have it yet.
func (o *outgoing) first() *published {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.mu.pending) == 0 || o.mu.pending[0].confirm == nil {
		return nil
	}
	return o.mu.pending[0]
}

// withdraw removes a record, and reports whether it waited.
func (o *outgoing) withdraw(p *published) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.mu.pending, p)
	switch {
	case i < 0:
		return false
	case i == 0:
		o.mu.pending[0] = nil
		o.mu.pending = o.mu.pending[1:]
	default:
		o.mu.pending = slices.Delete(o.mu.pending, i, i+1)
	}
	return true
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
	i := slices.IndexFunc(o.mu.pending, func(p *published) bool {
		return p.returned == nil && p.exchange == r.Exchange && p.routingKey == r.RoutingKey && p.id == r.MessageId && bytes.Equal(p.body, r.Body)
	})
	if i < 0 {
		return // its call has ended
	}
	first := o.mu.pending[i]
	if r.ReplyCode == amqp.NoRoute {
		first.returned = node.Unusable("no_route", fmt.Errorf("no queue gets messages with the routing key %q of the exchange %q", r.RoutingKey, r.Exchange))
	} else {
		first.returned = &node.Error{Err: fmt.Errorf("the broker has returned the message: %s", r.ReplyText), Status: http.StatusServiceUnavailable}
	}
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
	o.mu.pending, o.mu.ended = nil, lost
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
