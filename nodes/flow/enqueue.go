package flow

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed enqueue.md
var enqueuePage string

// maxPriority is the greatest priority of an item, and its negative the least.
const maxPriority = 100

func enqueueDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "enqueue",
		Summary: "Puts an item into a queue.",
		Page:    node.ReadPage(enqueuePage),
		Config: schema.Fields(
			schema.String("queue").Required().Doc("The name of the node `queue`, in the same namespace."),
			schema.Expr("payload").Doc("An expression over the payload for that of the item. Unset is the payload."),
			schema.Duration("after").Range(0, float64(longest)).Doc("How long the item waits before it may begin."),
			schema.Expr("at").Doc("An expression over the payload for the time at which the item may begin, a time or its text in RFC 3339."),
			schema.Expr("priority").Doc("An expression over the payload for the priority of the item, a number from -100 to 100: the greater is first. It is 0 unless set. The queue must say `order: priority`."),
			schema.Expr("item_id").Doc("An expression over the payload for the id of the item. What is put into the queue again with the same id is put once, as long as the run of the first is kept. In a durable process it needs none."),
			schema.Duration("debounce").Range(float64(time.Millisecond), float64(longest)).Doc("How long the item waits for another one with its `item_id`, which takes its place and waits again: ten times as long at most. Once the item begins, its id is free."),
			schema.Bool("wait").Default(false).Doc("Whether to go on with the answer of the item when it has ended."),
		),
		In:     []node.Port{{Name: "in", Doc: "A payload to make an item of."}},
		Out:    []node.Port{{Name: "out", Doc: "`{run}`, the id of the item's run, once no crash can lose it. With `wait`, the answer of the item."}},
		Recall: node.Always(node.Effects),
		Traits: func(c schema.Config) node.Traits { return node.Traits{Enqueues: c.String("queue")} },
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &enqueue{namespace: init.Node.Namespace, queue: c.String("queue"), after: c.Duration("after"), debounce: c.Duration("debounce"), wait: c.Bool("wait"), queues: init.Queues}
			var errs [4]error
			n.payload, errs[0] = o.Expr(c, "payload", lang.Options{Warn: init.Warn})
			n.at, errs[1] = o.Expr(c, "at", lang.Options{Warn: init.Warn})
			n.priority, errs[2] = o.Expr(c, "priority", lang.Options{Warn: init.Warn})
			n.id, errs[3] = o.Expr(c, "item_id", lang.Options{Warn: init.Warn})
			switch {
			case c.Has("after") && n.at != nil:
				return nil, c.Errorf("at", codeBadNode, "stands for after").WithHint("set either at or after")
			case c.Has("debounce") && n.id == nil:
				return nil, c.Errorf("debounce", codeBadNode, "takes the id of the item").WithHint("add one such as item_id: self.order")
			case c.Has("debounce") && (n.at != nil || c.Has("after")):
				return nil, c.Errorf("debounce", codeBadNode, "says when the item may begin").WithHint("remove at or after")
			}
			return n, errors.Join(errs[:]...)
		},
	}
}

type enqueue struct {
	namespace, queue          string
	payload, at, priority, id lang.Program // nil for none
	after, debounce           time.Duration
	wait                      bool
	queues                    node.Queues // nil without a journal
}

// Open implements [node.Opener].
func (n *enqueue) Open(context.Context) error {
	if n.queues == nil {
		return errors.New("queues take a journal: start with --journal sqlite:FILE")
	}
	return nil
}

func (n *enqueue) Receive(p node.Process, pkt node.Packet) node.Result {
	it, err := n.itemOf(p, pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	return node.Block(func(ctx context.Context) node.Result {
		r, err := n.queues.Enqueue(ctx, it)
		switch {
		case err != nil:
			return node.Fail(err)
		case !n.wait:
			return node.Send(0, value.Map(value.Field{Name: "run", Value: value.String(r.Run)}))
		}
		return await(ctx, r)
	})
}

// await waits for the end of an item.
func await(ctx context.Context, r *node.Receipt) node.Result {
	defer r.Leave()
	var resp node.Response
	select {
	case <-r.Done:
		resp = r.Answer()
	case <-ctx.Done():
		return node.Fail(context.Cause(ctx))
	}
	if errors.Is(resp.Payload.AsError(), node.ErrStopped) { // the item has not ended: it goes on when the program starts again, and so must this
		<-ctx.Done()
		return node.Fail(context.Cause(ctx))
	}
	switch {
	case resp.IsError():
		return node.Fail(resp.Payload.AsError())
	case resp.None:
		return node.Send(0, value.Null())
	}
	return node.Send(0, resp.Payload)
}

func (n *enqueue) itemOf(p node.Process, payload value.Value) (it node.Item, err error) {
	ctx := p.Context()
	it = node.Item{Namespace: n.namespace, Queue: n.queue, Payload: payload, Debounce: n.debounce, Wait: n.wait}
	if n.after > 0 {
		it.At = time.Now().Add(n.after)
	}
	if n.payload != nil {
		if it.Payload, err = n.payload.Eval(ctx, payload); err != nil {
			return it, node.Unusable("payload", fmt.Errorf("payload: %w", err))
		}
	}
	if it.At, err = n.timeOf(ctx, payload, it.At); err != nil {
		return it, node.Unusable("at", fmt.Errorf("at: %w", err))
	}
	if it.Priority, err = n.priorityOf(ctx, payload); err != nil {
		return it, node.Unusable("priority", fmt.Errorf("priority: %w", err))
	}
	if it.ID, err = textOf(ctx, "item_id", n.id, payload); err != nil {
		return it, err
	}
	if it.ID == "" {
		if run, ok := node.RunOf(p); ok {
			it.ID = run.Key()
		}
	}
	return it, nil
}

// timeOf returns the time of the field at; without one what is given.
func (n *enqueue) timeOf(ctx context.Context, payload value.Value, without time.Time) (time.Time, error) {
	if n.at == nil {
		return without, nil
	}
	v, err := n.at.Eval(ctx, payload)
	if err != nil {
		return without, err
	}
	if at, ok := v.AsTime(); ok {
		return at, nil
	}
	text, ok := v.AsString()
	if !ok {
		return without, fmt.Errorf("want a time, got %s", v.Kind())
	}
	return time.Parse(time.RFC3339, text)
}

func (n *enqueue) priorityOf(ctx context.Context, payload value.Value) (int, error) {
	if n.priority == nil {
		return 0, nil
	}
	v, err := n.priority.Eval(ctx, payload)
	if err != nil {
		return 0, err
	}
	i, ok := v.AsInt()
	if !ok || i < -maxPriority || i > maxPriority {
		return 0, fmt.Errorf("want a whole number from %d to %d, got %s", -maxPriority, maxPriority, node.Clip(v.String(), 60))
	}
	return int(i), nil
}
