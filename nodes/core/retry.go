package core

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed retry.md
var retryPage string

func retryDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "retry",
		Summary: "Sends each payload again when an error comes back.",
		Page:    node.ReadPage(retryPage),
		Config: schema.Fields(
			schema.Int("threshold").Default(3).Range(0, 1_000_000).Doc("How many times to send again, after the first time."),
			field.NewBackoff(field.Backoff{Initial: 100 * time.Millisecond, Factor: 2, Max: 30 * time.Second},
				"How long to wait before sending again. Without it, there is no wait.", "The longest wait; at least `initial` unless set."),
			schema.Expr("when").Doc("Whether to send again, over the error as `self`. Without it, after any error that is not permanent."),
			languageField(o),
			timeoutField(),
		),
		In:     in("What to send."),
		Out:    []node.Port{{Name: "out", Doc: "The payload, once for each attempt."}},
		Traits: node.Fixed(node.Traits{Is: node.OwnStatus, Shape: node.Passes}), // the status of an error
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			cfg := init.Config
			n := &retry{threshold: int(cfg.Int("threshold"))}
			if cfg.Has("backoff") {
				b, err := field.BackoffOf(cfg)
				if err != nil {
					return nil, err
				}
				n.backoff = &b
			}
			if !cfg.Has("when") {
				return n, nil
			}
			when, err := o.compileExpr(init, cfg, "when", lang.Options{Condition: true})
			n.when = when
			return n, err
		},
	}
}

type retry struct {
	threshold int
	when      lang.Program   // nil: always
	backoff   *field.Backoff // nil: no wait
}

func (n *retry) Receive(_ node.Process, pkt node.Packet) node.Result {
	a := &attempts{retry: n, payload: pkt.Payload}
	a.call = node.NewCall(a.ended)
	return a.call.Send(0, pkt.Payload)
}

// attempts are what is done about one packet.
type attempts struct {
	*retry
	payload value.Value
	call    *node.Call
	again   int // times that the packet was sent after the first
}

func (a *attempts) ended(p node.Process, resp node.Response) node.Result {
	if !resp.IsError() {
		return node.Respond(resp)
	}
	err := resp.Payload.AsError()
	if a.again == a.threshold || p.Context().Err() != nil {
		return node.Fail(err)
	}
	if a.when == nil && node.Describe(err).IsPermanent() {
		return node.Fail(err)
	}
	if a.when != nil {
		yes, failed := holds(p, a.when, resp.Payload)
		if failed != nil {
			located := *node.Describe(failed)
			located.Err = fmt.Errorf("when: %w", failed)
			return node.Fail(errors.Join(err, &located))
		}
		if !yes {
			return node.Fail(err)
		}
	}
	wait := time.Duration(0)
	if a.backoff != nil {
		var ok bool
		if wait, ok = a.backoff.After(a.again+1, node.Describe(err).RetryAfter); !ok {
			return node.Fail(err)
		}
	}
	a.again++
	if wait == 0 {
		return a.send()
	}
	return node.Sleep(wait, func(_ node.Process, slept node.Response) node.Result {
		if slept.IsError() {
			return node.Fail(slept.Payload.AsError())
		}
		return a.send()
	})
}

func (a *attempts) send() node.Result { return node.Again(a.call.Send(0, a.payload)) }
