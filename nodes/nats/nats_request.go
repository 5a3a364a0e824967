package nats

import (
	"context"
	_ "embed"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed nats_request.md
var natsRequestPage string

func requestDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "nats_request",
		Summary: "Sends a request over NATS, and passes the answer on.",
		Page:    node.ReadPage(natsRequestPage),
		Config: withClient(append([]*schema.Field{
			schema.String("subject").Required().Doc("The subject. It may have expressions over the payload in it: `prices.${self.country}`."),
		}, bodyFields()...)...),
		In:     []node.Port{{Name: "in", Doc: "The body of a request, or a message."}},
		Out:    []node.Port{{Name: "out", Doc: "The answer."}},
		Recall: node.Always(node.Effects),
		New:    func(init *node.Init) (node.Node, error) { return newRequester(o, init) },
	}
}

// A requester is a node of the kind nats_request.
type requester struct {
	*client
	bodies
	subject template.Template
}

func newRequester(o stream.Options, init *node.Init) (node.Node, error) {
	c, err := newClient(init)
	if err != nil {
		return nil, err
	}
	n := &requester{client: c, bodies: newBodies(init.Config)}
	if n.subject, err = template.OfField(init.Config, "subject", template.Compiler(o.Languages, o.Language)); err != nil {
		return nil, err
	}
	return n, nil
}

// Receive implements [node.Node].
func (n *requester) Receive(p node.Process, pkt node.Packet) node.Result {
	m, err := n.message(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) { n.send(ctx, m, done) })
}

// message makes the request of a payload.
func (n *requester) message(ctx context.Context, payload value.Value) (*nats.Msg, error) {
	subject, err := n.subject.Text(ctx, payload)
	if err != nil {
		return nil, err
	}
	if err := checkSubject(subject); err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: subject}
	body := payload
	if isMessage(payload) {
		body, _ = payload.Get("body")
		header, _ := payload.Get("header")
		if m.Header, err = headerOf(header, 0); err != nil {
			return nil, err
		}
	}
	m.Data, err = n.bytes(body)
	return m, err
}

// isMessage reports whether a payload is a message, and not a body.
func isMessage(payload value.Value) (ok bool) {
	if payload.Kind() != value.KindMap {
		return false
	}
	for name := range payload.Fields() {
		switch name {
		case "body":
			ok = true
		case "header", "key", "time", "id":
		default:
			return false
		}
	}
	return ok
}

// send sends a request; done gets what its answer makes of the packet.
func (n *requester) send(ctx context.Context, m *nats.Msg, done func(node.Result)) {
	number := n.conn.number()
	var w state.Wait
	w.Begin(ctx, done, func(error) { n.conn.take(number) })
	w.Limit(node.SystemClock{}, n.timeout, func() node.Result {
		n.conn.take(number)
		return node.Fail(n.failure(nats.ErrTimeout, m.Subject))
	})
	err := n.conn.request(number, m, n.timeout, func(answer *nats.Msg, err error) { w.Answer(n.result(answer, err, m.Subject)) })
	if err != nil {
		w.Answer(node.Fail(n.failure(err, m.Subject)))
	}
}

// result is what becomes of a packet.
func (n *requester) result(answer *nats.Msg, err error, subject string) node.Result {
	if err != nil {
		return node.Fail(n.failure(err, subject))
	}
	if text := answer.Header.Get(errorHeader); text != "" {
		status, err := strconv.Atoi(answer.Header.Get(statusHeader))
		if err != nil || status < 400 || status > 599 {
			status = 502
		}
		return node.Fail(&node.Error{Err: errors.New(text), Status: status, Code: "service"})
	}
	body, err := n.value(answer.Data)
	if err != nil {
		return node.Fail(err)
	}
	return node.Send(0, answerShape.Map(body, headerValue(answer.Header), value.String(subject)))
}

var answerShape = value.NewShape("body", "header", "subject")
