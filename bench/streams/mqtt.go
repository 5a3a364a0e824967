package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/eclipse/paho.golang/paho"
)

// mqttMessages is how many messages there are at scale 1, of about 300 bytes.
const mqttMessages = 200_000

// measureMQTT is MQTT: from one topic of mosquitto to another, with a qos of 1.
func measureMQTT(ctx context.Context, l *lab) error {
	server, addr, err := l.broker(ctx, "mqtt", "-dir", l.File("mqtt"))
	if err != nil {
		return err
	}
	defer server.end()
	var arrived atomic.Int64
	reader, err := mqttClient(ctx, addr, "reader", func(*paho.Client, *paho.Publish) { arrived.Add(1) })
	if err == nil {
		_, err = reader.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "out"}}})
	}
	if err != nil {
		return err
	}
	defer reader.Disconnect(new(paho.Disconnect)) // the server ends after it
	n := l.count(mqttMessages)
	return l.eachShape(func(shape string) error {
		document, err := l.write("mqtt.yaml", fmt.Sprintf(`
- {kind: mqtt_source, name: in, url: 'mqtt://%s', user: ann, password: correct, client_id: in, topics: in, max_in_flight: 4096, ports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%s', ports: {out: [{name: out}]}}
- {kind: mqtt_sink, name: out, url: 'mqtt://%s', user: ann, password: correct, topic: out, max_in_flight: 4096}
`, addr, mapCode(shape), addr))
		if err != nil {
			return err
		}
		move := func(name, program string, args ...string) round {
			return round{name, func(ctx context.Context) (cost, int, error) {
				if err := fillMQTT(ctx, addr, shape, n); err != nil {
					return cost{}, 0, err
				}
				arrived.Store(0)
				return l.through(ctx, n, func(context.Context) (int, error) { return int(arrived.Load()), nil }, program, args...)
			}}
		}
		rounds := []round{move("uniflow, "+shape, l.Binary, "start", document)}
		for _, workers := range []string{"64", "1024"} {
			rounds = append(rounds, move(workers+" workers, "+shape, l.Self, formArgs("mqtt", workers, shape, addr)...))
		}
		ours, best, err := l.compare(ctx, "MQTT", rounds...)
		if err != nil {
			return err
		}
		l.rate("MQTT", ours, best, 0.7)
		l.cpu("MQTT", ours, best, 1.5)
		return nil
	})
}

// mqttClient connects with a session that stays. got acknowledges what comes.
func mqttClient(ctx context.Context, addr, id string, got func(*paho.Client, *paho.Publish)) (*paho.Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := paho.NewClient(paho.ClientConfig{Conn: conn, EnableManualAcknowledgment: true})
	c.AddOnPublishReceived(func(p paho.PublishReceived) (bool, error) {
		got(c, p.Packet)
		return true, nil
	})
	expiry, most := uint32(3600), uint16(4096)
	ack, err := c.Connect(ctx, &paho.Connect{
		ClientID: id, KeepAlive: 30, UsernameFlag: true, Username: "ann", PasswordFlag: true, Password: []byte("correct"),
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &expiry, ReceiveMaximum: &most},
	})
	if err == nil && ack.ReasonCode != 0 {
		err = fmt.Errorf("the broker refuses the connection: %#x", ack.ReasonCode)
	}
	return c, err
}

// fillMQTT makes the session of the measured program, and fills it.
func fillMQTT(ctx context.Context, addr, shape string, n int) error {
	session, err := mqttClient(ctx, addr, "in", func(*paho.Client, *paho.Publish) {})
	if err != nil {
		return err
	}
	if _, err := session.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "in", QoS: 1}}}); err != nil {
		return err
	}
	if err := session.Disconnect(new(paho.Disconnect)); err != nil {
		return err
	}
	c, err := mqttClient(ctx, addr, "fill", func(*paho.Client, *paho.Publish) {})
	if err != nil {
		return err
	}
	var next atomic.Int64
	err = together(256, func() error {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			m, _ := appendMessage(nil, shape, i)
			if _, err := c.Publish(ctx, &paho.Publish{Topic: "in", QoS: 1, Payload: m}); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, c.Disconnect(new(paho.Disconnect)))
}

// together calls f several times at a time, and returns the errors.
func together(n int, f func() error) error {
	errs := make([]error, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { errs[i] = f() })
	}
	work.Wait()
	return errors.Join(errs...)
}

// mqttForm is the baseline: workers, shape, server. A message is acknowledged when what was made
// of it is.
func mqttForm(ctx context.Context, args []string) error {
	workers, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	m := mappers(args[1])[onDemand]
	out, err := mqttClient(ctx, args[2], "theirs", func(*paho.Client, *paho.Publish) {})
	if err != nil {
		return err
	}
	messages := make(chan *paho.Publish, 4096)
	in, err := mqttClient(ctx, args[2], "in", func(_ *paho.Client, p *paho.Publish) { messages <- p })
	if err != nil {
		return err
	}
	return together(workers, func() error {
		for {
			select {
			case p := <-messages:
				body, err := m(nil, p.Payload)
				if err == nil {
					_, err = out.Publish(ctx, &paho.Publish{Topic: "out", QoS: 1, Payload: body})
				}
				if err == nil {
					err = in.Ack(p)
				}
				if err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
}
