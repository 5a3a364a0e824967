package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// This file has what windows hold, and what is sent of them.

// add puts an event into windows: all of them, or none.
func (n *windower) add(ctx context.Context, targets []*window, e *event, item *parked) error {
	if !n.early {
		for _, w := range targets {
			n.put(&w.bundle, item)
		}
		return nil
	}
	more := make([]int64, len(targets))
	accs := make([]value.Value, len(targets))
	sum := int64(0)
	for i, w := range targets {
		more[i] = int64(e.payload.Size())
		if n.step != nil {
			var err error
			if accs[i], err = n.fold(ctx, w.acc, e.payload); err != nil {
				n.abandon(targets)
				return err
			}
			more[i] = int64(accs[i].Size()) - int64(w.acc.Size())
		}
		if w.size == 0 {
			more[i] += windowSize + int64(e.name.Size())
		}
		sum += more[i]
	}
	if sum > 0 && !n.account.Take(sum) {
		n.abandon(targets)
		return errFull
	}
	if sum < 0 {
		n.account.Free(-sum)
	}
	for i, w := range targets {
		w.size += more[i]
		if n.step != nil {
			w.acc = accs[i]
			continue
		}
		w.values = append(w.values, e.payload)
		n.values++
	}
	return nil
}

// windowSize is about what a window takes by itself, in bytes, without its key.
const windowSize = 1024

// abandon forgets windows that were made for an event that they do not get.
func (n *windower) abandon(targets []*window) {
	for _, w := range targets {
		if w.size == 0 && w.fault == nil {
			w.taken, w.partial = true, false
			n.close(w)
		}
	}
}

// fold is one step.
func (n *windower) fold(ctx context.Context, acc, item value.Value) (value.Value, error) {
	names := value.UniqueMap([]value.Field{{Name: "acc", Value: acc}, {Name: "item", Value: item}})
	next, err := names, names.AsError()
	if err == nil {
		next, err = n.step.Eval(ctx, names)
	}
	if err != nil {
		return next, unusable("step", fmt.Errorf("step: %w", err), item)
	}
	return next, nil
}

// show returns what is sent of a window.
func (w *window) show(folded bool, content value.Value) value.Value {
	name := "items"
	if folded {
		name = "value"
	}
	return value.UniqueMap([]value.Field{
		{Name: "key", Value: w.name}, {Name: "start", Value: value.Time(time.Unix(0, w.start).UTC())}, {Name: "end", Value: value.Time(time.Unix(0, w.end).UTC())},
		{Name: name, Value: content}, {Name: "partial", Value: value.Bool(w.partial)},
	})
}

// ended notes how the process of a window has ended, before its packets are answered: if it has failed, its
// messages come again, although the window is over.
func (n *windower) ended(w *window, resp node.Response) {
	if !n.early {
		n.events.settle(w, resp.IsError(), n.max)
		return
	}
	n.account.Free(w.size)
	if !resp.IsError() {
		return
	}
	err := *node.Describe(resp.Payload.AsError())
	err.Data = w.payload()
	n.clock.AfterFunc(0, func(ctx context.Context) {
		n.source.Start(ctx, nil, node.Fail(&err), func(resp node.Response) {
			if resp.IsError() {
				n.log.Error("a window is lost: its process has failed, and its payloads are answered already", "start", time.Unix(0, w.start).UTC(), "error", resp.Payload.AsError())
			}
		})
	})
}
