package sockets

import (
	"crypto/rand"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

func source() stream.Source {
	return stream.Source{
		Kind:    "socket_source",
		Summary: "Takes messages from sockets: TCP, UDP, TLS and those of Unix.",
		Doc: `By default, the node listens, and each connection is a lane: with ` + "`order: key`" + ` and no key, its messages run one after the other, next to those of others. With ` + "`mode: connect`" + `, the node connects, and again when the connection has ended.

A connection is slowed when messages find no room: nothing is lost while the program runs. What the program has read and not settled is lost if it ends, as a socket has no way to ask for it again: at most once, unless the other side waits for the reply.
UDP cannot be slowed: a datagram that finds no room is dropped and counted in ` + "`source_dropped_total`" + `; what the system drops, or the network, is not.

With ` + "`reply: true`" + `, the answer of the process is written back, framed likewise: text and binary as they are, other payloads as JSON, nothing for None, and ` + "`{\"error\": \"…\"}`" + ` for an error, whose message is shown only if it is public. A client that does not read its replies is not read from.

A message has ` + "`body`, `time`, `id`, `attempt`, `from`" + ` (the address of the other side) and ` + "`connection`" + `, a number. A message that is longer than ` + "`limits.max_message`" + `, or torn at the end, closes its connection, with a line in the log.

Connections survive a reload with the same settings; with other settings, they are closed.`,
		Example: `- kind: socket_source
  name: lines
  address: 127.0.0.1:5170
  decode: text
  ports:
    out:
      - name: show
        port: in

- kind: snippet
  name: show
  language: cel
  code: '{"line": body, "from": from}'
`,
		Config: withAddress(
			schema.Enum("mode", "listen", "connect").Default("listen").Doc("Whether the node listens at the address, or connects to it."),
			schema.Bool("reply").Default(false).Doc("Writes the answer of the process back. It needs `order: key` or `total`, so that replies come in the order of the messages; UDP does not."),
			schema.Group("limits", schema.Fields(
				schema.Int("connections").Default(1024).Range(1, 1_000_000).Doc("The most connections. Further ones are closed, and counted in `socket_refused_total`."),
				schema.Bytes("max_message").Default("1MiB").Range(1, 1<<30).Doc("The longest message."),
			)).Doc("What clients may use."),
		),
		Traits: stream.Traits{Lanes: true, Overflows: true},
		Open:   openSource,
	}
}

func openSource(init *node.Init) (stream.Reader, error) {
	c := init.Config
	dials := c.String("mode") == "connect"
	s, err := newSettings(c, !dials)
	if err != nil {
		return nil, err
	}
	if dials && s.network == "udp" {
		return nil, c.Errorf("mode", diag.CodeBadValue, "datagrams are received by who listens").WithHint("remove mode")
	}
	r := &reader{
		settings: s, dials: dials, reply: c.Bool("reply"), longest: int(c.Group("limits").Int("max_message")), most: int(c.Group("limits").Int("connections")),
		clock: init.Clock, log: init.Log, run: rand.Text(), held: init.Memory.Account(init.Node.Kind),
	}
	r.inbox = newInbox(stream.InFlight(c), c.Int("bytes"), r.held)
	if r.reply && s.network != "udp" && c.String("order") == "none" {
		return nil, c.Errorf("reply", diag.CodeBadValue, "without an order, replies would not come in the order of the messages").WithHint("add order: key")
	}
	return r, nil
}
