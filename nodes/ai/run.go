package ai

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/value"
)

// A run is what happens with one packet. One goroutine at a time uses it.
type run struct {
	n        *llm
	session  *session.Session // nil without history
	asked    []value.Value    // what this packet adds to the conversation
	messages []value.Value    // the conversation, with what the model and its tools have said
	first    int              // where in it the history begins, and
	past     int              // how many messages that has
	tools    *toolset
	account  account
	held     int64     // of the account's budget, by the turn under way
	owed     int64     // tokens that were used, and are not in the account yet
	live     *exchange // nil between turns
	sent     int       // bytes of the conversation, as they count
	used     usage
	turns    int
	repaired bool
	durable  bool
}

// Receive makes the conversation of a packet, and asks the model.
func (n *llm) Receive(p node.Process, pkt node.Packet) node.Result {
	r := &run{n: n}
	_, r.durable = node.RunOf(p)
	ctx := p.Context()
	if n.history > 0 {
		s, ok := session.Of(p)
		if !ok {
			return node.Fail(node.Unusable("no_session", errors.New("history needs a session: put a node of kind session upstream")))
		}
		r.session = s
	}
	system, err := n.system.Text(ctx, pkt.Payload)
	if err != nil {
		return node.Fail(fmt.Errorf("system: %w", err))
	}
	if system != "" {
		r.messages = append(r.messages, object("role", "system", "content", system))
	}
	if r.asked, err = n.ask(ctx, pkt.Payload); err != nil {
		return node.Fail(node.Unusable("prompt", err))
	}
	earlier := r.earlier()
	r.first, r.past = len(r.messages), len(earlier)
	r.messages = append(append(r.messages, earlier...), r.asked...)
	if n.ledger != nil {
		if r.account, err = n.budget.keyOf(ctx, pkt.Payload); err != nil {
			return node.Fail(err)
		}
	}
	if n.ledger != nil || n.parted { // the process may end while a piece is on its way
		p.Defer(func() {
			if r.live != nil {
				r.finish(r.live)
			}
			r.settle()
		})
	}
	r.tools = &n.tools
	switch {
	case len(n.servers) == 0:
		return r.ask()
	case r.durable:
		return r.gatherOnce()
	}
	return node.Block(func(ctx context.Context) node.Result {
		if r.tools, err = n.gather(ctx); err != nil {
			return node.Fail(err)
		}
		return r.ask()
	})
}

// ask sends the conversation to the model.
func (r *run) ask() node.Result {
	n := r.n
	if r.turns == n.maxTurns {
		return r.fail(&failure{code: "turns", text: fmt.Sprintf("the model has not come to an end in %d turns", n.maxTurns)})
	}
	r.turns++
	r.sent = r.tools.bytes
	for _, m := range r.messages {
		r.sent += sizeOf(m)
	}
	if r.durable {
		return r.askOnce()
	}
	body, err := r.request()
	if err != nil {
		return node.Fail(err)
	}
	return node.Block(func(ctx context.Context) node.Result {
		x, piece, err := r.begin(ctx, body)
		if err != nil {
			r.settle()
			if f := (*failure)(nil); errors.As(err, &f) && f.code == codeTooLong && r.forget() {
				r.turns--
				return r.ask()
			}
			return r.fail(err)
		}
		r.live = x
		return r.pass(ctx, x, piece, func(err error) node.Result {
			r.live = nil
			r.finish(x)
			r.settle()
			if err != nil {
				n.counts.failed(err)
				return r.fail(err)
			}
			return r.decide(&x.reply)
		})
	})
}

// request reserves tokens for a turn, and returns what is sent.
func (r *run) request() ([]byte, error) {
	most, err := r.reserve(r.sent)
	if err != nil {
		return nil, err
	}
	body, err := r.body(most)
	if err != nil {
		return nil, node.Unusable("prompt", fmt.Errorf("the conversation cannot be written as JSON: %w", err))
	}
	return body, nil
}

// pass passes the pieces of an answer on, and calls end when there are no more.
func (r *run) pass(ctx context.Context, x *exchange, piece string, end func(error) node.Result) node.Result {
	if r.n.parted {
		return r.sendPart(x, piece, end)
	}
	parts, ok := node.PartsOf(ctx)
	ok = ok && r.n.streams
	var err error
	for err == nil && piece != "" {
		if ok {
			if err := parts.Part(ctx, value.String(piece)); err != nil {
				return end(err)
			}
		}
		piece, err = x.next()
	}
	return end(err)
}

// sendPart sends one piece on the port part, and continues when it was answered.
func (r *run) sendPart(x *exchange, piece string, end func(error) node.Result) node.Result {
	if piece == "" {
		return end(nil)
	}
	return node.SendThen(partPort, value.String(piece), func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return end(resp.Payload.AsError())
		}
		return node.Block(func(context.Context) node.Result {
			piece, err := x.next()
			if err != nil {
				return end(err)
			}
			return r.sendPart(x, piece, end)
		})
	})
}

// decide goes on with a complete answer.
func (r *run) decide(a *reply) node.Result {
	n := r.n
	if len(a.calls) > 0 && len(r.tools.tools) > 0 {
		return r.callTools(a)
	}
	said := a.text.String()
	data := value.Null()
	if n.schema != nil {
		var problem string
		var err error
		if data, err = parse(said); err != nil {
			problem = "it is not JSON: " + err.Error()
		} else {
			problem = n.schema.Explain(data, maxProblems, "\n")
		}
		if problem != "" {
			return r.repair(a, problem)
		}
	}
	if r.session != nil {
		all := make([]value.Value, 0, len(r.asked)+1)
		for _, m := range append(r.asked[:len(r.asked):len(r.asked)], object("role", "assistant", "content", said)) {
			all = append(all, m.Clone()) // it stays
		}
		r.session.Append(list, n.history, all...)
	}
	return node.Send(outPort, object("text", said, "data", data, "usage", r.used.value(), "finish", a.finish, "turns", r.turns))
}

// repair sends an answer back to the model with what is wrong with it, once.
func (r *run) repair(a *reply, problem string) node.Result {
	switch {
	case a.finish == "refusal":
		return r.fail(&failure{code: "refusal", text: "the model refuses to answer"})
	case a.finish == "length":
		return r.fail(&failure{code: "schema", text: "the answer is cut off at max_tokens, so that it does not fit the schema"})
	case r.repaired:
		where, _, _ := strings.Cut(problem, "\n")
		if strings.HasPrefix(where, "it is not JSON") {
			where = "it is not JSON"
		}
		return r.fail(&failure{code: "schema", text: "the answer does not fit the schema, also after it was sent back: " + node.Clip(where, maxQuote)})
	}
	r.repaired = true
	r.n.counts.do(func(t *tally) { t.repairs++ })
	r.messages = append(r.messages, a.message(), object("role", "user", "content",
		"This answer does not fit:\n"+problem+"\nAnswer again, with JSON and nothing else, that fits this JSON Schema:\n"+r.n.schemaText))
	return r.ask()
}

// fail reports why the packet has no answer.
func (r *run) fail(err error) node.Result { return node.Fail(r.seen(err)) }

// seen returns an error as workflows see it.
func (r *run) seen(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f.node(r.n.label)
	}
	return err
}
