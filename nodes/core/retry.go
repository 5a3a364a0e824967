package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func retryDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "retry",
		Summary: "Sends each payload again when an error comes back.",
		Doc: "It sends up to `threshold` more times, while `when` holds and the process is not cancelled. Then the last error goes to\n" +
			"`error`; without a link there, it is the answer. Any other answer, None as well, is the answer.\n\n" +
			"There is no waiting unless `backoff` is set. With it, the first wait is `initial`, and each later one is `factor` times as\n" +
			"long, up to `max`. `jitter` makes each wait shorter by a random share of itself, up to the one given: 0 is none, 1 is\n" +
			"anything between no wait and the whole. If the error says when to try again, as an answer with `Retry-After` does, a longer\n" +
			"wait is taken from there; if that is longer than `max`, the payload is not sent again.\n\n" +
			"`when` sees the error as `self`, a map with `message`, and where known `code`, `status`, `node`, `public` and `data`. A field\n" +
			"that the error does not have is an error of the expression, so write `has(self.status) && self.status >= 500`. An\n" +
			"expression that fails ends the attempts, and its error is joined to the other one.\n\n" +
			"Attempts have one idempotency key. Other packets at the node do not wait for one that is sent again.",
		Example: "- kind: retry\n  name: again\n  threshold: 5\n  backoff: {initial: 50ms, jitter: 0.5}\n  when: '!has(self.status) || self.status >= 500'\n  ports:\n    out: [{name: flaky, port: in}]\n\n" +
			"- kind: throw\n  name: flaky\n  status: 503\n",
		Config: schema.Fields(
			schema.Int("threshold").Default(3).Range(0, 1_000_000).Doc("How many times to send again, after the first time."),
			field.NewBackoff(field.Backoff{Initial: 100 * time.Millisecond, Factor: 2, Max: 30 * time.Second},
				"How long to wait before sending again. Without it, there is no wait.", "The longest wait; at least `initial` unless set."),
			schema.Expr("when").Doc("Whether to send again, over the error as `self`. Without it, after any error."),
			languageField(o),
			timeoutField(),
		),
		In:     in("What to send."),
		Out:    []node.Port{{Name: "out", Doc: "The payload, once for each attempt."}},
		Traits: node.Fixed(node.Traits{Is: node.OwnStatus}), // that of an error
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			cfg := init.Config
			n := &retry{threshold: int(cfg.Int("threshold"))}
			if cfg.Has("backoff") {
				b := field.BackoffOf(cfg)
				n.backoff = &b
			}
			if !cfg.Has("when") {
				return n, nil
			}
			when, err := o.compileExpr(init, cfg, "when")
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
