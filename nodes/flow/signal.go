package flow

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed signal.md
var signalPage string

const codeBadNode = diag.CodeBadNode

func signalDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "signal",
		Summary: "Sends a signal to the runs that wait for an event.",
		Page:    node.ReadPage(signalPage),
		Config: schema.Fields(
			schema.String("event").Doc("The event, as the `wait` has it."),
			schema.Expr("key").Doc("An expression over the payload for whose event."),
			schema.Expr("token").Doc("An expression over the payload for the token that a `wait` has sent to its port `ask`. It stands for event and key, and is good once."),
			schema.Expr("payload").Doc("An expression over the payload for what the run gets. Unset is the payload."),
			schema.Expr("event_id").Doc("An expression over the payload for the id of this signal. What is sent again with the same id is sent once. In a durable process it needs none."),
			schema.Duration("keep").Default(24*time.Hour).Range(float64(time.Second), float64(longest)).Doc("How long a signal that no run waits for is kept for the first that does, and its id is known."),
		),
		In:     []node.Port{{Name: "in", Doc: "A payload to make a signal of."}},
		Out:    []node.Port{{Name: "out", Doc: "The payload, once no crash can lose the signal."}},
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &signal{event: c.String("event"), namespace: init.Node.Namespace, keep: c.Duration("keep"), signals: init.Signals}
			var errs [4]error
			n.key, errs[0] = o.Expr(c, "key", lang.Options{Warn: init.Warn})
			n.token, errs[1] = o.Expr(c, "token", lang.Options{Warn: init.Warn})
			n.payload, errs[2] = o.Expr(c, "payload", lang.Options{Warn: init.Warn})
			n.id, errs[3] = o.Expr(c, "event_id", lang.Options{Warn: init.Warn})
			switch {
			case n.token == nil && n.event == "":
				return nil, c.Errorf("event", codeBadNode, "is missing").WithHint("set event and key, as the wait has them, or token")
			case n.token == nil && n.key == nil:
				return nil, c.Errorf("key", codeBadNode, "is missing").WithHint("set the key, as the wait has it: a wait without one has only its token")
			case n.token != nil && (n.event != "" || n.key != nil):
				return nil, c.Errorf("token", codeBadNode, "stands for event and key").WithHint("set either token, or event and key")
			}
			return n, errors.Join(errs[:]...)
		},
	}
}

type signal struct {
	event, namespace        string
	key, token, payload, id lang.Program // nil for none
	keep                    time.Duration
	signals                 node.Signals // nil without a journal
}

var errNoJournal = errors.New("signals take a journal: start with --journal sqlite:FILE")

// Open implements [node.Opener].
func (n *signal) Open(context.Context) error {
	if n.signals == nil {
		return errNoJournal
	}
	return nil
}

func (n *signal) Receive(p node.Process, pkt node.Packet) node.Result {
	s, err := n.signalOf(p, pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	return node.Block(func(ctx context.Context) node.Result {
		if err := n.signals.Signal(ctx, s); err != nil {
			return node.Fail(err)
		}
		return node.Send(0, pkt.Payload)
	})
}

func (n *signal) signalOf(p node.Process, payload value.Value) (s node.Signal, err error) {
	ctx := p.Context()
	s = node.Signal{Namespace: n.namespace, Event: n.event, Payload: payload, Keep: n.keep}
	for _, one := range []struct {
		name string
		code lang.Program
		to   *string
	}{{"key", n.key, &s.Key}, {"token", n.token, &s.Token}, {"event_id", n.id, &s.ID}} {
		if *one.to, err = textOf(ctx, one.name, one.code, payload); err != nil {
			return s, err
		}
	}
	if n.payload != nil {
		if s.Payload, err = n.payload.Eval(ctx, payload); err != nil {
			return s, node.Unusable("payload", fmt.Errorf("payload: %w", err))
		}
	}
	if s.ID == "" {
		if run, ok := node.RunOf(p); ok {
			s.ID = run.Key()
		} else {
			s.ID = uuid.NewString()
		}
	}
	return s, nil
}
