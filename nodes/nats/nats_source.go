package nats

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

func source() stream.Source {
	return stream.Source{
		Kind:    "nats_source",
		Summary: "Takes messages from NATS: from a stream of JetStream, or from subjects.",
		Doc: `With ` + "`stream`" + `, messages come from JetStream, at least once: the answer of the process acknowledges its message.
A message that fails is given back, and comes again after the back-off, also to another program with the same ` + "`durable`" + `. One that ` + "`error`" + ` took is terminated: the server does not send it again.
While messages are in flight, the server is told so at half of ` + "`ack_wait`" + `; after a crash, it sends them again when ` + "`ack_wait`" + ` is over.
The guarantee costs a message to the server for each one that is settled, and one for each batch that is asked for; never more than ` + "`max_in_flight`" + ` are asked for.

The consumer is made if there is none, and goes on where it was otherwise. With ` + "`durable`" + `, it stays when the program ends, and programs with the same name share its messages. Without, it vanishes five minutes after the program.
If the consumer is deleted meanwhile, a new one begins with the oldest message that is not settled; if the stream is, the node waits for one of that name, and begins with its first message.

Without ` + "`stream`" + `, messages come from ` + "`subjects`" + `, at most once: NATS sends what is published while the program is connected, and keeps nothing. It cannot be slowed: what finds no room is dropped and counted in ` + "`source_dropped_total`" + `. What fails is tried again within the program.
The answer of the process goes to the message's reply subject, if it has one: text and binary as they are, other payloads as JSON, no body for None. An error is an empty message with the headers ` + "`Nats-Service-Error` and `Nats-Service-Error-Code`" + `.

A message has ` + "`body`, `header`, `time`, `id`, `attempt`, `subject`" + `, and from JetStream ` + "`stream` and `sequence`" + `; its id is ` + "`stream:sequence`" + `. Without JetStream, the id is the header ` + "`Nats-Msg-Id`" + `, if there is one, and there may be a ` + "`reply`" + `.
Headers that tell a server what to do, such as ` + "`Nats-Expected-Stream`" + `, are left out.

To watch a bucket of ` + "`nats_kv`" + `, read its stream: ` + "`stream: KV_settings`, `subjects: $KV.settings.>`, `start: new`" + `.`,
		Example: `- kind: nats_source
  name: orders
  urls: nats://127.0.0.1:4222
  stream: ORDERS
  subjects: orders.created
  durable: shop
  ports:
    out:
      - name: price
        port: in

- kind: snippet
  name: price
  language: cel
  code: 'body.price * body.count'
`,
		Config: withConnection(
			schema.String("stream").Doc("The stream of JetStream to read. Without it, messages come from the subjects alone."),
			schema.Strings("subjects").Doc("The subjects to read, with `*` and `>`; of a stream, all unless given."),
			schema.String("queue").Doc("Without `stream`: of the programs with the same queue, one gets each message."),
			schema.String("durable").Doc("The name of the consumer, which stays when the program ends."),
			schema.Duration("ack_wait").Default("30s").Range(float64(100*time.Millisecond), float64(24*time.Hour)).Doc("How long the server waits for a sign of life before it sends a message again."),
			schema.Any("start").Default("all").Doc("Where a new consumer begins: `all`, `new`, `last`, a sequence, or a time such as `2026-01-31T12:00:00Z`. One that exists goes on where it is."),
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
			return nil, c.Errorf("subjects", diag.CodeBadValue, "%q is not a subject", subject)
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
		return &coreReader{
			settings: s, subjects: c.Strings("subjects"), queue: c.String("queue"), most: stream.InFlight(c), mostBytes: c.Int("bytes"),
			clock: init.Clock, log: init.Log, run: rand.Text(), wake: make(chan struct{}, 1),
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
