package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// amqpMessages is how many messages there are at scale 1, of about 300 bytes.
const amqpMessages = 200_000

// measureAMQP is AMQP: from one durable queue of RabbitMQ into another, with confirms.
func measureAMQP(ctx context.Context, l *lab) error {
	server, addr, err := l.broker(ctx, "amqp", "-dir", l.File("amqp"))
	if err != nil {
		return err
	}
	defer server.end()
	conn, ch, err := amqpChannel(addr)
	if err != nil {
		return err
	}
	defer conn.Close() // the server ends after it
	n := l.count(amqpMessages)
	return l.eachShape(func(shape string) error {
		document, err := l.write("amqp.yaml", fmt.Sprintf(`
- {kind: amqp_source, name: in, url: 'amqp://%s', user: ann, password: correct, queue: in, max_in_flight: 4096, ports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%s', ports: {out: [{name: out}]}}
- {kind: amqp_sink, name: out, url: 'amqp://%s', user: ann, password: correct, routing_key: out, max_in_flight: 4096}
`, addr, mapCode(shape), addr))
		if err != nil {
			return err
		}
		move := func(name, program string, args ...string) round {
			return round{name, func(ctx context.Context) (cost, int, error) {
				if err := fillAMQP(ctx, ch, shape, n); err != nil {
					return cost{}, 0, err
				}
				return l.through(ctx, n, func(context.Context) (int, error) {
					q, err := ch.QueueDeclarePassive("out", true, false, false, false, nil)
					return q.Messages, err
				}, program, args...)
			}}
		}
		rounds := []round{move("uniflow, "+shape, l.Binary, "start", document)}
		for _, form := range []string{"acknowledge each", "acknowledge many"} {
			rounds = append(rounds, move(form+", "+shape, l.Self, formArgs("amqp", form, shape, addr)...))
		}
		ours, best, err := l.compare(ctx, "AMQP", rounds...)
		if err != nil {
			return err
		}
		l.rate("AMQP", ours, best, 0.7)
		l.cpu("AMQP", ours, best, 1.5)
		return nil
	})
}

func amqpChannel(addr string) (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.DialConfig("amqp://"+addr, amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "ann", Password: "correct"}}})
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, ch, nil
}

// fillAMQP empties both queues, and fills the first.
func fillAMQP(ctx context.Context, ch *amqp.Channel, shape string, n int) error {
	for _, queue := range []string{"in", "out"} {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			return err
		}
		if _, err := ch.QueuePurge(queue, false); err != nil {
			return err
		}
	}
	confirms := make([]*amqp.DeferredConfirmation, 0, n)
	for i := range n {
		m, _ := appendMessage(nil, shape, i)
		c, err := ch.PublishWithDeferredConfirm("", "in", false, false, amqp.Publishing{Body: m, DeliveryMode: amqp.Persistent})
		if err != nil {
			return err
		}
		confirms = append(confirms, c)
	}
	return amqpConfirmed(ctx, confirms)
}

func amqpConfirmed(ctx context.Context, confirms []*amqp.DeferredConfirmation) error {
	for _, c := range confirms {
		ok, err := c.WaitContext(ctx)
		switch {
		case err != nil:
			return err
		case !ok:
			return errors.New("the broker has refused a message")
		}
	}
	return nil
}

// amqpForm is the baseline: form, shape, server. A message is acknowledged when what was made of
// it is confirmed.
func amqpForm(ctx context.Context, args []string) error {
	m := mappers(args[1])[onDemand]
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait() // until the connections are closed
	defer cancel()
	inConn, in, err := amqpChannel(args[2])
	if err != nil {
		return err
	}
	defer inConn.Close() // the process ends
	outConn, out, err := amqpChannel(args[2])
	if err != nil {
		return err
	}
	defer outConn.Close() // the process ends
	if err := in.Qos(4096, 0, false); err != nil {
		return err
	}
	deliveries, err := in.Consume("in", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	type pair struct {
		in      amqp.Delivery
		confirm *amqp.DeferredConfirmation
	}
	pairs, failed := make(chan pair, 4096), make(chan error, 1)
	work.Go(func() {
		failed <- amqpMap(deliveries, out, m, func(d amqp.Delivery, c *amqp.DeferredConfirmation) {
			select {
			case pairs <- pair{d, c}:
			case <-ctx.Done():
			}
		})
	})
	for {
		select {
		case p := <-pairs:
			ok, err := p.confirm.WaitContext(ctx)
			if err == nil && !ok {
				err = errors.New("the broker has refused a message")
			}
			if err == nil && (args[0] == "acknowledge each" || len(pairs) == 0 || p.in.DeliveryTag%256 == 0) {
				err = p.in.Ack(args[0] == "acknowledge many")
			}
			if err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// amqpMap publishes what deliveries become.
func amqpMap(deliveries <-chan amqp.Delivery, out *amqp.Channel, m mapper, published func(amqp.Delivery, *amqp.DeferredConfirmation)) error {
	for d := range deliveries {
		body, err := m(nil, d.Body)
		if err != nil {
			return err
		}
		c, err := out.PublishWithDeferredConfirm("", "out", true, false, amqp.Publishing{Body: body, DeliveryMode: amqp.Persistent, ContentType: "application/json"})
		if err != nil {
			return err
		}
		published(d, c)
	}
	return errors.New("the connection was lost")
}
