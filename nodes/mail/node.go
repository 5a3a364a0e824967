package mail

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed mail.md
var mailPage string

func mailDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "mail",
		Summary: "Sends a mail.",
		Page:    node.ReadPage(mailPage),
		Config:  schema.Fields(append(settingsFields(), messageFields()...)...),
		In:      []node.Port{{Name: "in", Doc: "A text, or a map with parts of the message."}},
		Out:     []node.Port{{Name: "out", Doc: "What the server has taken: `{id, to}`. Without a link it is the answer."}},
		Recall:  node.Always(node.Effects),
		New:     func(init *node.Init) (node.Node, error) { return newSender(o, init) },
	}
}

// A sender is a node of the kind mail.
type sender struct {
	settings
	parts
	config schema.Config
	clock  node.Clock
	free   chan struct{} // has a place for each connection
	trust  *tls.Config   // while the node is open
}

func newSender(o stream.Options, init *node.Init) (node.Node, error) {
	s, err := newSettings(init.Config)
	if err != nil {
		return nil, err
	}
	p, err := newParts(init.Config, template.Compiler(o.Languages, o.Language))
	if err != nil {
		return nil, err
	}
	return &sender{settings: s, parts: p, config: init.Config, clock: init.Clock, free: make(chan struct{}, init.Config.Int("connections"))}, nil
}

func badHeader(c schema.Config) error {
	return c.Errorf("header", diag.CodeBadValue, "must be a map of texts, without the headers that other fields set").WithHint("write one such as {X-Campaign: spring}")
}

// Open implements [node.Opener]. It connects to nothing.
func (n *sender) Open(context.Context) (err error) {
	n.trust, err = n.settings.trust()
	return field.Place(err, n.config)
}

// Close has nothing to release: each mail has a connection of its own.
func (n *sender) Close() error { return nil }

// Receive implements [node.Node].
func (n *sender) Receive(p node.Process, pkt node.Packet) node.Result {
	m, err := n.message(p.Context(), pkt.Payload, n.id(p), n.clock.Now())
	if err != nil {
		return node.Fail(node.Unusable("mail", err))
	}
	return node.Block(func(ctx context.Context) node.Result {
		select {
		case n.free <- struct{}{}:
		case <-ctx.Done():
			return node.Fail(context.Cause(ctx))
		}
		defer func() { <-n.free }()
		if err := n.send(ctx, m); err != nil {
			return node.Fail(err)
		}
		var to []value.Value
		for _, address := range slices.Concat(m.GetTo(), m.GetCc(), m.GetBcc()) {
			to = append(to, value.String(address.Address))
		}
		return node.Send(0, receipt.Map(value.String(strings.Trim(m.GetMessageID(), "<>")), value.List(to...)))
	})
}

var receipt = value.NewShape("id", "to")

// id is the Message-ID. In a durable run it is the same after a crash, so that a mail which
// comes twice can be seen to be one.
func (n *sender) id(p node.Process) string {
	text := rand.Text()
	if run, ok := node.RunOf(p); ok {
		sum := sha256.Sum256([]byte(run.Key()))
		text = hex.EncodeToString(sum[:16])
	}
	host := n.hello
	if host == "" {
		host = "uniflow.invalid"
	}
	return text + "@" + host
}

// send hands a message over.
func (n *sender) send(ctx context.Context, m *mail.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	// The library does not know the context after it has connected, and leaves connections open
	// whose greeting fails.
	closeConn := func() {}
	defer func() { closeConn() }()
	dial := func(dialing context.Context, network, address string) (c net.Conn, err error) {
		if c, err = new(net.Dialer).DialContext(dialing, network, address); err != nil {
			return nil, err
		}
		closed := func() { _ = c.Close() } // whatever waits fails, and says so
		stop := context.AfterFunc(ctx, closed)
		closeConn = func() {
			stop()
			closed()
		}
		if n.encryption == fromTLS {
			return tls.Client(c, n.trust), nil
		}
		return c, nil
	}
	client, err := mail.NewClient(n.host, append(n.options(n.trust), mail.WithDialContextFunc(dial))...)
	if err != nil {
		return n.explain(ctx, err, true)
	}
	err = client.DialWithContext(ctx)
	connected := err == nil
	if connected {
		if err = client.Send(m); err == nil {
			_ = client.Close() // the server has the mail
		}
	}
	return n.explain(ctx, err, !connected)
}

// explain says what has gone wrong, without the password. A server that is away, or that asks to
// come again, is an outage, unless it is about who gets this mail.
func (n *sender) explain(ctx context.Context, err error, connecting bool) error {
	if err == nil {
		return nil
	}
	e := &node.Error{Code: "mail", Status: http.StatusBadGateway}
	text := err.Error()
	if n.password != "" {
		text = strings.ReplaceAll(text, n.password, "[redacted]")
	}
	var refused *mail.SendError
	var network net.Error
	switch {
	case field.IsTLSError(err):
		e.Code = "tls"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Code, e.Status, text, e.Outage = "timeout", http.StatusGatewayTimeout, fmt.Sprintf("the mail was not taken within %v", n.timeout), true
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused):
		code := refused.ErrorCode()
		e.Permanent = code >= 500
		e.Outage = code == 421 || code == 0 && !connecting
	case connecting && codeOf(text) >= 500: // such as 535 for a wrong password: it must be put right first
	case connecting || errors.As(err, &network):
		e.Code, e.Outage = "connect", true
	}
	e.Err = fmt.Errorf("%s: %s", net.JoinHostPort(n.host, strconv.Itoa(n.port)), node.Clip(text, 500))
	return e
}

// codeOf is the first status of SMTP in a text, as the library has put the server's words there.
func codeOf(text string) int {
	for word := range strings.FieldsSeq(text) {
		if code, err := strconv.Atoi(word); err == nil && len(word) == 3 {
			return code
		}
	}
	return 0
}
