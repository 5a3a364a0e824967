package reference

import (
	"context"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// Log is a source of a system with positions: each lane is committed up to an offset, and
// read from there again.
func Log() stream.Source {
	return stream.Source{
		Kind:    "reference_log",
		Summary: "Takes messages of the reference server, and commits a position for each lane.",
		Page:    node.Page{Example: "- {kind: reference_log, name: in, address: '127.0.0.1:7000', ports: {out: [{name: work, port: in}]}}\n- {kind: nop, name: work}\n"},
		Config:  settings(),
		Traits:  stream.Traits{Lanes: true, Positions: true, Order: stream.OrderKey},
		Open: func(init *node.Init) (stream.Reader, error) {
			return &log{intake: intake{config: init.Config}}, nil
		},
	}
}

type log struct {
	intake
}

func (l *log) Connect(ctx context.Context, _ stream.Host) error { return l.connect(ctx, modeLog) }

func (l *log) Settle(_ context.Context, s stream.Settled) error {
	frames := make([]frame, len(s.Marks))
	for i, m := range s.Marks {
		frames[i] = frame{Op: opCommit, Lane: m.Lane, Offset: m.Offset}
	}
	return l.client.Load().send(frames...)
}

func (*log) Fields(m *stream.Message, b *value.MapBuilder) { place(m, b) }
