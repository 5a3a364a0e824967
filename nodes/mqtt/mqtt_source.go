package mqtt

import (
	_ "embed"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed mqtt_source.md
var mqttSourcePage string

func source() stream.Source {
	return stream.Source{
		Kind:    "mqtt_source",
		Summary: "Starts a process for each message of topics of MQTT.",
		Page:    node.ReadPage(mqttSourcePage),
		Config: withConnection(
			schema.Strings("topics").Required().Doc("The filters of the topics, such as `sensors/+/state`, `sensors/#`, or `$share/shop/sensors/#`, whose messages all clients of the group `shop` share."),
			schema.String("client_id").Required().Doc("The name that the broker knows the session by. Each program that runs needs its own."),
			schema.Int("qos").Default(1).Range(0, 2).Doc("The quality of service: with 1 and 2 the broker keeps a message until it is acknowledged; with 0 it does not."),
			schema.Duration("session_expiry").Default(24*time.Hour).Range(0, float64(math.MaxUint32)*float64(time.Second)).Doc("With `version: 5`: how long the broker keeps the session, and messages for it, without a connection. With 3.1.1, the broker decides."),
			schema.Bool("clean_start").Default(false).Doc("Forgets the session, and the messages in it, when the node starts."),
		),
		Traits: stream.Traits{Redelivers: true, Overflows: true},
		Open:   openSource,
	}
}

func openSource(init *node.Init) (stream.Reader, error) {
	c := init.Config
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	if err := checkClientID(c); err != nil {
		return nil, err
	}
	topics := c.Strings("topics")
	for _, filter := range topics {
		if problem := checkFilter(filter); problem != "" {
			return nil, c.Errorf("topics", diag.CodeBadValue, "%q: %s", filter, problem).WithHint("write one such as sensors/+/state, or sensors/# for all below")
		}
	}
	if c.Has("session_expiry") && !s.five {
		return nil, c.Errorf("session_expiry", diag.CodeBadValue, "MQTT 3.1.1 has no session_expiry").WithHint("remove it, or version")
	}
	r := &reader{
		settings: s, clientID: c.String("client_id"), topics: topics, qos: byte(c.Int("qos")), clean: c.Bool("clean_start"),
		expiry: c.Duration("session_expiry"), most: stream.InFlight(c), mostBytes: c.Int("bytes"), clock: init.Clock, wake: make(chan struct{}, 1),
	}
	r.begin()
	return r, nil
}

// checkFilter returns what is wrong with the filter of a topic.
func checkFilter(filter string) string {
	if filter == "" || len(filter) > longest || !utf8.ValidString(filter) || strings.ContainsRune(filter, 0) {
		return "not a topic"
	}
	levels := strings.Split(filter, "/")
	if levels[0] == "$share" {
		if len(levels) < 3 || levels[1] == "" || levels[2] == "" || strings.ContainsAny(levels[1], "+#") {
			return "a shared subscription is $share/GROUP/FILTER"
		}
		levels = levels[2:]
	}
	for i, level := range levels {
		switch {
		case level == "#" && i < len(levels)-1:
			return "# is the last level"
		case len(level) > 1 && strings.ContainsAny(level, "+#"):
			return "+ and # are levels of their own"
		}
	}
	return ""
}
