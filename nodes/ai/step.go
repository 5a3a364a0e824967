package ai

import (
	"context"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/mcp/client"
	"github.com/uniflow-labs/uniflow/value"
)

// In a durable process a turn is a step: the model is asked, and paid, once, and what it has said is recorded.
// What follows from that runs again after a crash, with the same words and the same calls of tools. Tools
// that are nodes have records of their own; calls of servers are steps, and so is the list of their tools.
//
// What is sent on in pieces could not be taken back. So the port part gets the text of a turn once it is
// recorded, in one piece.

// askOnce sends the conversation to the model, unless the answer is recorded.
func (r *run) askOnce() node.Result {
	return node.Step(r.turn, func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			err := resp.Payload.AsError()
			if node.Describe(err).Code == codeTooLong && r.forget() {
				r.turns--
				return r.ask()
			}
			return node.Fail(err)
		}
		a := new(reply)
		r.used = a.read(resp.Payload)
		if !r.n.parted || a.text.Len() == 0 {
			return r.decide(a)
		}
		return node.SendThen(partPort, value.String(a.text.String()), func(_ node.Process, resp node.Response) node.Result {
			if resp.IsError() {
				return r.fail(resp.Payload.AsError())
			}
			return r.decide(a)
		})
	})
}

// turn asks the model, and returns its answer with all that the run has used.
func (r *run) turn(ctx context.Context) (value.Value, error) {
	body, err := r.request()
	if err != nil {
		return value.Null(), err
	}
	defer r.settle()
	x, piece, err := r.begin(ctx, body)
	if err != nil {
		return value.Null(), r.seen(err)
	}
	r.live = x
	for err == nil && piece != "" {
		piece, err = x.next()
	}
	r.live = nil
	r.finish(x)
	if err != nil {
		r.n.counts.failed(err)
		return value.Null(), r.seen(err)
	}
	return x.reply.write(r.used), nil
}

// write returns an answer as it is recorded, with all that the run has used.
func (a *reply) write(used usage) value.Value {
	calls := make([]value.Value, len(a.calls))
	for i, c := range a.calls {
		calls[i] = object("id", c.id, "name", c.name, "arguments", c.arguments)
	}
	return object("text", a.text.String(), "calls", value.List(calls...), "finish", a.finish, "used", used.value())
}

// read is the reverse of write.
func (a *reply) read(v value.Value) (used usage) {
	a.text.WriteString(text(v, "text"))
	for _, c := range get(v, "calls").Elems() {
		a.calls = append(a.calls, call{id: text(c, "id"), name: text(c, "name"), arguments: text(c, "arguments")})
	}
	a.finish = text(v, "finish")
	used = readUsage(get(v, "used"))
	used.estimated, _ = get(get(v, "used"), "estimated").AsBool()
	return used
}

// gatherOnce is gather in a durable process.
func (r *run) gatherOnce() node.Result {
	return node.Step(func(ctx context.Context) (value.Value, error) {
		lists, err := r.n.lists(ctx)
		all := make([]value.Value, len(lists))
		for i, list := range lists {
			tools := make([]value.Value, len(list))
			for j, t := range list {
				tools[j] = object("name", t.Name, "description", t.Description, "input", t.Input)
			}
			all[i] = value.List(tools...)
		}
		return value.List(all...), err
	}, func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Fail(resp.Payload.AsError())
		}
		lists := make([][]client.Tool, len(r.n.servers))
		for i := range lists {
			for _, t := range resp.Payload.At(i).Elems() {
				lists[i] = append(lists[i], client.Tool{Name: text(t, "name"), Description: text(t, "description"), Input: get(t, "input")})
			}
		}
		set, err := r.n.setOf(lists)
		if err != nil {
			return node.Fail(err)
		}
		r.tools = set
		return r.ask()
	})
}
