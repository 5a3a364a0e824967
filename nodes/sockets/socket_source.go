package sockets

import (
	"crypto/rand"
	_ "embed"
	"strings"

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
		Summary: "Starts a process for each message from sockets: TCP, UDP, TLS and Unix sockets.",
		Page:    node.ReadPage(socketSourcePage),
		Config: withAddress(
			schema.Enum("mode", "listen", "connect").Default("listen").Doc("Whether the node listens at the address, or connects to it."),
			schema.Bool("reply").Default(false).Doc("Writes the answer of the process back. It needs `order: key` or `total`, so that replies come in the order of the messages; UDP does not need that."),
			schema.Group("limits", schema.Fields(
				schema.Int("connections").Default(1024).Range(1, 1_000_000).Doc("The maximum number of connections. Further ones are closed, and counted in `socket_refused_total`."),
				schema.Bytes("max_message").Default("1MiB").Range(1, 1<<30).Doc("The maximum size of a message."),
			)).Doc("Limits for clients."),
		),
		Traits: stream.Traits{Lanes: true, Overflows: true},
		Holds: func(c schema.Config) []node.Hold {
			network, address := c.String("network"), c.String("address")
			if c.String("mode") != "listen" || strings.HasSuffix(address, ":0") {
				return nil
			}
			if network == "tls" {
				network = "tcp"
			}
			return []node.Hold{{What: "address", Name: network + " " + address, Field: "address", Hint: "give each node an address of its own, or link one node to both targets"}}
		},
		Open: openSource,
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
