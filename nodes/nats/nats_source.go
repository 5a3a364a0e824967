package nats

import (
	"crypto/rand"
	_ "embed"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed nats_source.md
var natsSourcePage string

func source() stream.Source {
	return stream.Source{
		Kind:    "nats_source",
		Summary: "Starts a process for each message of NATS: of a JetStream stream, or of subjects.",
		Page:    node.ReadPage(natsSourcePage),
		Config: withConnection(
			schema.String("stream").Doc("The JetStream stream to read. Without it, messages come from the subjects directly."),
			schema.Strings("subjects").Doc("The subjects to read, with `*` and `>`; unset, all subjects of the stream."),
			schema.String("queue").Doc("Without `stream`: each message goes to one of the programs with the same queue."),
			schema.String("durable").Doc("The name of the consumer, which stays when the program ends."),
			schema.Duration("ack_wait").Default("30s").Range(float64(100*time.Millisecond), float64(24*time.Hour)).Doc("How long the server waits for a sign of life before it sends a message again."),
			schema.Any("start").Default("all").Doc("Where a new consumer begins: `all`, `new`, `last`, a sequence, or a time such as `2026-01-31T12:00:00Z`. An existing consumer continues where it is."),
		),
		Traits: stream.Traits{Redelivers: true, Lanes: true, Overflows: true},
		Open:   openSource,
	}
}

func openSource(init *node.Init) (stream.Reader, error) {
	c := init.Config
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	for _, subject := range c.Strings("subjects") {
		if subject == "" || strings.ContainsAny(subject, " \t\r\n") {
			return nil, c.Errorf("subjects", diag.CodeBadValue, "%q is not a subject", subject).WithHint("write one such as orders.new, or orders.* for all of one name behind the dot")
		}
		if !c.Hidden("subjects") && slices.ContainsFunc(strings.Split(subject, "."), func(token string) bool { return len(token) > 1 && strings.ContainsAny(token, "*>") }) {
			init.AddWarning(c.Errorf("subjects", diag.CodeNoEffect, "* and > are wildcards only between dots, so %q is a subject with such a character", subject).WithHint("write one such as orders.*, or orders.> for all below"))
		}
	}
	if !c.Has("stream") {
		for _, name := range []string{"durable", "ack_wait", "start"} {
			if c.Has(name) {
				return nil, c.Errorf(name, diag.CodeBadValue, "%s belongs to JetStream", name).WithHint("add stream, or remove %s", name)
			}
		}
		if !c.Has("subjects") {
			return nil, c.Errorf("", diag.CodeBadValue, "neither a stream nor subjects to read").WithHint("add stream for JetStream, or subjects")
		}
		most, bytes := stream.InFlight(c), c.Int("bytes")
		return &coreReader{
			settings: s, subjects: c.Strings("subjects"), queue: c.String("queue"), most: most, mostBytes: bytes,
			inbox: stream.NewInbox[*nats.Msg](init.Clock, most, bytes), log: init.Log, run: rand.Text(),
		}, nil
	}
	if c.Has("queue") {
		return nil, c.Errorf("queue", diag.CodeBadValue, "a stream has no queue").WithHint("programs with the same durable share the messages of a stream")
	}
	for _, name := range []string{"stream", "durable"} {
		if text := c.String(name); c.Has(name) && (text == "" || strings.ContainsAny(text, " \t\r\n.*>/\\")) {
			return nil, c.Errorf(name, diag.CodeBadValue, "%q cannot be the name of one", text).WithHint("names have no space, no dot, no slash and no wildcard")
		}
	}
	spec, err := newConsumerSpec(c)
	if err != nil {
		return nil, err
	}
	return &jetStreamReader{settings: s, spec: spec, clock: init.Clock}, nil
}
