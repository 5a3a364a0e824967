package reference

import (
	"context"
	"fmt"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// Queue is a source of a system that redelivers: each message is acknowledged, or given
// back.
func Queue() stream.Source {
	return stream.Source{
		Kind:    "reference_queue",
		Summary: "Takes messages of the reference server, each of which it acknowledges.",
		Page:    node.Page{Example: "- {kind: reference_queue, name: in, address: '127.0.0.1:7000', ports: {out: [{name: work, port: in}]}}\n- {kind: nop, name: work}\n"},
		Config:  settings(),
		Traits:  stream.Traits{Redelivers: true},
		Open: func(init *node.Init) (stream.Reader, error) {
			return &queue{intake: intake{config: init.Config}}, nil
		},
	}
}

type queue struct {
	intake
}

func (q *queue) Connect(ctx context.Context, _ stream.Host) error { return q.connect(ctx, modeQueue) }

func (q *queue) Settle(_ context.Context, s stream.Settled) error {
	frames := make([]frame, len(s.Outcomes))
	for i, o := range s.Outcomes {
		frames[i] = frame{Op: opAck, Number: o.Message.Token.(int64)}
		if o.Err != nil {
			frames[i].Op, frames[i].Delay = opBack, o.Delay
		}
	}
	return q.client.Load().send(frames...)
}

// Fields adds what only this system has. The id is the same at each delivery.
func (*queue) Fields(m *stream.Message, b *value.MapBuilder) { place(m, b) }

func place(m *stream.Message, b *value.MapBuilder) {
	b.Set("id", value.String(fmt.Sprintf("%d/%d", m.Lane, m.Offset)))
	b.Set("lane", value.Int(int64(m.Lane)))
	b.Set("offset", value.Int(m.Offset))
}
