package flow

import (
	"context"
	_ "embed"
	"errors"
	"math"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed queue.md
var queuePage string

// The bounds of what begins at a time.
const (
	maxConcurrency = 10_000
	maxRate        = 100_000
)

func queueDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "queue",
		Summary: "Starts a durable process for each item of a queue, so many at a time, and again if it fails.",
		Page:    node.ReadPage(queuePage),
		Config: schema.Fields(
			schema.Int("concurrency").Default(int64(16)).Range(1, maxConcurrency).Doc("How many items may have begun and not ended, at most. One that waits counts, too."),
			schema.Expr("key").Doc("An expression over the payload of an item for what belongs together, such as `self.customer`. Keys have their turn one after the other, whatever the number of their items."),
			schema.Int("per_key").Range(1, maxConcurrency).Doc("Likewise, of the items with the same key. With 1, those of a key go one after the other, in their order. No limit unless set."),
			schema.Text("rate").Pattern(field.RatePattern).Doc("How many items may begin in a time, such as 5 a second, `100/m` or `5/10s`. The units are s, m, h and d. No limit unless set."),
			schema.Enum("order", "fifo", "priority").Default("fifo").Doc("Which of the items of a key is the next: the one that has waited longest, or, of those with the greatest priority."),
			schema.Int("attempts").Default(int64(5)).Range(1, 1000).Doc("How often an item is tried. Then it is dead."),
			field.NewBackoff(field.Backoff{Initial: time.Second, Factor: 2, Max: 10 * time.Minute, Jitter: 0.25}, "How long to wait before another attempt.", "The longest wait."),
			schema.Duration("ttl").Range(float64(time.Millisecond), float64(longest)).Doc("How long an item waits for its turn. One that is still there then is dead when its turn comes. No limit unless set."),
			schema.Enum("durability", "accept", "checkpoint").Default("checkpoint").Doc("What a crash must not lose: with `accept` the item, which begins again until it has ended; with `checkpoint` the results of its effects, too, so that it goes on."),
		),
		Out: []node.Port{
			{Name: "out", Doc: "The payload of an item. An answer that is an error is a failure."},
			{Name: "dead", Doc: "`{run, input, error}` for an item that is dead: the id of its run, its payload, and why the last attempt has failed, as a text. This is a durable process of its own."},
		},
		Traits: func(c schema.Config) node.Traits {
			t := node.Traits{Is: node.Durable, InFlight: int(c.Int("concurrency")), Queue: true}
			if c.String("durability") == "checkpoint" {
				t.Gives = []string{node.GivesDurability}
			}
			return t
		},
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			backoff, err := field.BackoffOf(c)
			if err != nil {
				return nil, err
			}
			n := &queue{ref: init.Node, queues: init.Queues, opts: node.QueueOptions{
				Level: node.LevelCheckpoint, Concurrency: int(c.Int("concurrency")), PerKey: int(c.Int("per_key")), Prioritized: c.String("order") == "priority",
				TTL: c.Duration("ttl"), Attempts: int(c.Int("attempts")), Backoff: backoff.Wait,
			}}
			if c.String("durability") == "accept" {
				n.opts.Level = node.LevelAccept
			}
			if init.OutLinks[portDead] > 0 {
				n.opts.Dead = portDead
			}
			switch {
			case init.Node.Name == "":
				return nil, c.Errorf("", codeBadNode, "a queue needs a name").WithHint("add one, such as name: mail: enqueue has it in its field queue")
			case c.Has("per_key") && !c.Has("key"):
				return nil, c.Errorf("per_key", codeBadNode, "takes a key").WithHint("add one such as key: self.customer, or write concurrency for all items")
			}
			if err := n.setRate(c); err != nil {
				return nil, err
			}
			key, err := o.Expr(c, "key", lang.Options{Warn: init.Warn})
			if key != nil {
				n.opts.Key = func(ctx context.Context, payload value.Value) (string, error) {
					return textOf(ctx, "key", key, payload)
				}
			}
			return n, err
		},
	}
}

const portDead = 1

// A queue is a node whose processes the engine starts.
type queue struct {
	ref    node.Ref
	opts   node.QueueOptions
	queues node.Queues // nil without a journal
}

// setRate reads how many items may begin in a time.
func (n *queue) setRate(c schema.Config) error {
	if !c.Has("rate") {
		return nil
	}
	count, per, ok := field.ParseRate(c.String("rate"))
	if ok && count < 1 { // one in a longer time
		count, per = 1, time.Duration(float64(per)/count)
	}
	if !ok || count != math.Trunc(count) || count > maxRate {
		return c.Errorf("rate", codeBadNode, "want a rate such as 100/m").
			WithHint("write how many items may begin in a second, such as 5, or in a time such as 100/m or 5/10s: up to %d", maxRate)
	}
	n.opts.Rate, n.opts.Per = int(count), per
	return nil
}

// Queue implements [node.ItemQueue].
func (n *queue) Queue() node.QueueOptions { return n.opts }

func (n *queue) Receive(node.Process, node.Packet) node.Result { return node.None() }

// Serve implements [node.Trigger]. The engine starts the processes.
func (n *queue) Serve(node.Starter) error {
	if n.queues == nil {
		return errors.New("a queue takes a journal: start with --journal sqlite:FILE")
	}
	return nil
}

// Measure implements [node.Measured].
func (n *queue) Measure(report func(node.Metric)) {
	if n.queues == nil {
		return
	}
	f := n.queues.Queue(n.ref.Namespace, n.ref.Name)
	age := 0.0
	if !f.Oldest.IsZero() {
		age = max(0, time.Since(f.Oldest).Seconds())
	}
	report(node.Metric{Name: "queue_depth", Help: "Items that have not begun.", Value: float64(f.Depth)})
	report(node.Metric{Name: "queue_oldest_seconds", Help: "How long the first of the items waits for its turn.", Value: age})
	report(node.Metric{Name: "queue_in_flight", Help: "Items that have begun and not ended.", Value: float64(f.Taken)})
}
