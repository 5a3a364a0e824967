package core

import (
	"context"
	_ "embed"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed sleep.md
var sleepPage string

func sleepDef() *node.Def {
	return &node.Def{
		Kind:    "sleep",
		Summary: "Holds each payload for a time, then sends it.",
		Page:    node.ReadPage(sleepPage),
		Config: schema.Fields(
			schema.Duration("interval").Required().Range(0, maxInterval).Doc("How long to hold a packet."),
		),
		In:  in("A payload to hold."),
		Out: []node.Port{{Name: "out", Doc: "The payload, unchanged."}},
		Recall: func(cfg schema.Config) node.Recall {
			if cfg.Duration("interval") >= time.Second {
				return node.Holds
			}
			return node.Pure
		},
		New: func(init *node.Init) (node.Node, error) {
			interval := init.Config.Duration("interval")
			if interval == 0 {
				return pass{0}, nil
			}
			return &sleep{interval: interval, asleep: local[[]*sleeper]{
				key:   node.NewKey[*kept[[]*sleeper]]("asleep"),
				begin: func() []*sleeper { return nil },
				end:   func(*[]*sleeper) {},
			}}, nil
		},
	}
}

// maxInterval is the longest wait that a field may ask for: a year.
const maxInterval = float64(366 * 24 * time.Hour)

type sleep struct {
	interval time.Duration
	asleep   local[[]*sleeper] // in the order in which they arrived
}

// Concurrency implements [node.Concurrent].
func (*sleep) Concurrency() int { return maxConcurrency }

// A sleeper is a packet. Timers that are due at almost the same time fire in any order,
// so one that is early waits until it is the first.
type sleeper struct {
	*sleep
	payload value.Value
	asleep  *[]*sleeper
	first   func() // is called when it is the first; nil unless it is early
}

func (n *sleep) Receive(p node.Process, pkt node.Packet) node.Result {
	s := &sleeper{sleep: n, payload: pkt.Payload, asleep: n.asleep.of(p)}
	*s.asleep = append(*s.asleep, s)
	return node.Sleep(n.interval, s.awake)
}

func (s *sleeper) awake(_ node.Process, resp node.Response) node.Result {
	if resp.IsError() {
		return node.Fail(resp.Payload.AsError())
	}
	all := *s.asleep
	if all[0] != s {
		return node.Await(func(ctx context.Context, done func(node.Result)) {
			stop := context.AfterFunc(ctx, func() { done(node.Fail(context.Cause(ctx))) })
			s.first = func() {
				if stop() {
					done(node.After(node.None(), s.awake))
				}
			}
		})
	}
	all[0] = nil
	*s.asleep = all[1:]
	if len(all) > 1 && all[1].first != nil {
		all[1].first()
	}
	return node.Send(0, s.payload)
}
