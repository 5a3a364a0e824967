package sockets

import (
	"crypto/rand"
	_ "embed"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed socket_source.md
var socketSourcePage string

func source() stream.Source {
	return stream.Source{
		Kind:    "socket_source",
		Summary: "Takes messages from sockets: TCP, UDP, TLS and those of Unix.",
		Page:    node.ReadPage(socketSourcePage),
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
