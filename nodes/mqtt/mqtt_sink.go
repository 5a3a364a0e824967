package mqtt

import (
	_ "embed"
	"math"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed mqtt_sink.md
var mqttSinkPage string

func sink() stream.Sink {
	return stream.Sink{
		Kind:    "mqtt_sink",
		Summary: "Publishes messages to topics of MQTT, and answers when the broker has acknowledged them.",
		Page:    node.ReadPage(mqttSinkPage),
		Config: withConnection(
			schema.String("topic").Required().Doc("The topic, such as `sensors/${self.body.room}/state`."),
			schema.String("client_id").Doc("The name that the broker knows the client by. Without it, the broker chooses one."),
			schema.Int("qos").Default(1).Range(0, 2).Doc("The quality of service: with 1 and 2 the broker acknowledges a message; with 0 it does not."),
			schema.Bool("retain").Default(false).Doc("Whether the broker keeps the last message of the topic for those who subscribe later."),
			schema.Duration("expiry").Range(float64(time.Second), float64(math.MaxUint32)*float64(time.Second)).Doc("With `version: 5`: how long the broker keeps the message for subscribers."),
		),
		Texts: []string{"topic"},
		Keys:  []string{"topic", "qos", "retain"},
		Open:  openSink,
	}
}

func openSink(init *node.Init) (stream.Writer, error) {
	c := init.Config
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	if err := checkClientID(c); err != nil {
		return nil, err
	}
	if c.Has("expiry") && !s.five {
		return nil, c.Errorf("expiry", diag.CodeBadValue, "MQTT 3.1.1 has no expiry").WithHint("remove it, or version")
	}
	topic := c.String("topic")
	constant := !strings.Contains(topic, "${")
	if constant && !c.Hidden("topic") {
		if err := checkTopic(topic); err != nil {
			return nil, c.Errorf("topic", diag.CodeBadValue, "%v", err).WithHint("write one such as sensors/hall/state")
		}
	}
	w := &writer{settings: s, clientID: c.String("client_id"), qos: byte(c.Int("qos")), retain: c.Bool("retain"), most: int(c.Int("max_in_flight")), constant: constant}
	if c.Has("expiry") {
		w.expiry = uint32(c.Duration("expiry") / time.Second)
	}
	if c.String("encode") == "json" {
		w.contentType = "application/json"
	}
	return w, nil
}
