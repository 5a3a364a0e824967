package flowtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An outside is what kinds change.
type outside struct {
	changes atomic.Int64
	keys    sync.Map
}

func (o *outside) change() int64 { return o.changes.Add(1) }

func (o *outside) count() int { return int(o.changes.Load()) }

// blocks changes what is outside, and goes on with a result.
func (o *outside) blocks(then func() node.Result) node.Result {
	return node.Block(func(context.Context) node.Result {
		o.change()
		return then()
	})
}

// enlist changes what is outside when a process has ended well: for a key once.
func (o *outside) enlist(p node.Process, key string) {
	p.Enlist(node.PhaseMark, func(_ context.Context, failure error) (kept bool, err error) {
		if failure != nil {
			return false, nil
		}
		if _, known := o.keys.LoadOrStore(key, true); key == "" || !known {
			o.change()
		}
		return true, nil
	})
}

// TestDurableFinds has a kind for each lie about how it takes part in durable processes, and next to it the honest one.
func TestDurableFinds(t *testing.T) {
	f := func(name string, recall node.Recall, make func(*outside, *node.Init) node.Node, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			o := new(outside)
			d := kind(nil)
			d.Recall = node.Always(recall)
			d.New = func(init *node.Init) (node.Node, error) { return make(o, init), nil }
			c := caseOf(d)
			c.Prepare, c.Changes, c.Unseen = nil, o.count, ""
			if recall == node.Pure || recall == node.Reads || recall == node.Attached || strings.HasSuffix(name, "changes nothing") {
				c.Changes, c.Unseen = nil, "there is nothing to see"
			}
			if strings.HasSuffix(name, "no one counts") {
				c.Changes = nil
			}
			if strings.HasSuffix(name, "changes something") {
				c.Changes = o.count
			}
			part := &witness{TB: t}
			part.watch(newConformance(t, c).checkDurable)
			got := strings.Join(part.failures, "\n")
			if want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	receive := func(do func(o *outside, p node.Process, pkt node.Packet) node.Result) func(*outside, *node.Init) node.Node {
		return func(o *outside, _ *node.Init) node.Node {
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result { return do(o, p, pkt) })
		}
	}
	answers := receive(func(o *outside, _ node.Process, pkt node.Packet) node.Result {
		return o.blocks(func() node.Result { return node.Answer(pkt.Payload) })
	})
	sends := receive(func(o *outside, _ node.Process, pkt node.Packet) node.Result {
		return o.blocks(func() node.Result { return node.Send(0, pkt.Payload) })
	})
	passes := receive(func(_ *outside, p node.Process, pkt node.Packet) node.Result { return pass(p, pkt) })
	chance := receive(func(o *outside, _ node.Process, pkt node.Packet) node.Result {
		return node.Send(0, value.Int(o.change()))
	})

	f("pure", node.Pure, passes, "")
	f("pure, by chance", node.Pure, chance, "it is pure, so the same packet has the same answer")
	f("pure, with a state of its own", node.Pure, func(*outside, *node.Init) node.Node {
		var own outside
		return node.ReceiverFunc(func(node.Process, node.Packet) node.Result { return node.Answer(value.Int(own.change())) })
	}, "it is pure, so the same packet has the same answer")
	f("pure, by the clock", node.Pure, func(_ *outside, init *node.Init) node.Node {
		return node.ReceiverFunc(func(node.Process, node.Packet) node.Result { return node.Send(0, value.Time(init.Clock.Now())) })
	}, "it is pure, so the same packet has the same answer")
	f("pure, and changes something", node.Pure, sends, "it says pure, but it has changed something outside, 1 times")
	f("reads", node.Reads, chance, "")
	f("reads, and changes something", node.Reads, answers, "it says reads, but it has changed something outside, 1 times")

	f("effects", node.Effects, answers, "")
	f("effects that send", node.Effects, sends, "")
	f("effects, with another answer each time", node.Effects, receive(func(o *outside, _ node.Process, _ node.Packet) node.Result { return node.Answer(value.Int(o.change())) }), "")
	f("effects, but it changes nothing", node.Effects, passes, "")
	f("effects, of which the case counts none", node.Effects, passes, "Changes of the case has counted none")
	f("effects, and no one counts", node.Effects, passes, "or say in Unseen why that cannot be done")
	f("effects, and goes on after an answer", node.Effects, receive(func(o *outside, _ node.Process, pkt node.Packet) node.Result {
		o.change()
		return node.SendThen(0, pkt.Payload, func(_ node.Process, r node.Response) node.Result { return node.Respond(r) })
	}), "its result is recorded, so it cannot continue after responses")
	f("effects with steps", node.Effects, receive(func(o *outside, _ node.Process, pkt node.Packet) node.Result {
		return node.Step(func(context.Context) (value.Value, error) { o.change(); return pkt.Payload, nil }, func(_ node.Process, r node.Response) node.Result { return node.Respond(r) })
	}), "a node with steps says node.Reruns")
	f("effects at the end, which a crash loses", node.Effects, receive(func(o *outside, p node.Process, pkt node.Packet) node.Result {
		o.enlist(p, "")
		return node.Answer(pkt.Payload)
	}), "although all was recorded: want 1 in all")
	f("forks", node.Pure, receive(func(_ *outside, _ node.Process, pkt node.Packet) node.Result {
		return node.Fork(node.Send(0, pkt.Payload))
	}), "a durable process cannot fork yet")

	f("effects that only read, and changes something", node.Effects, func(o *outside, i *node.Init) node.Node { return reader{answers(o, i)} },
		"it says reads, but it has changed something outside")

	f("reruns with steps", node.Reruns, receive(func(o *outside, _ node.Process, pkt node.Packet) node.Result {
		return node.Step(func(context.Context) (value.Value, error) { return value.Int(o.change()), nil },
			func(_ node.Process, r node.Response) node.Result { return node.Send(0, r.Payload) })
	}), "")
	f("reruns, and notes what it decides, and changes nothing", node.Reruns, receive(func(o *outside, p node.Process, pkt node.Packet) node.Result {
		decided := value.Int(o.change())
		if r, ok := node.RunOf(p); ok {
			decided = r.Note(func() value.Value { return decided })
		}
		return node.Send(0, decided)
	}), "")
	f("reruns, and decides by chance, and changes nothing", node.Reruns, chance, "the run is diverged")
	f("reruns, and answers by chance, and changes nothing", node.Reruns,
		receive(func(o *outside, _ node.Process, _ node.Packet) node.Result { return node.Answer(value.Int(o.change())) }), "the run is diverged")
	f("reruns, and changes without a step", node.Reruns, sends, "before what led to it was durable")
	f("reruns, and changes beside its step", node.Reruns, receive(func(o *outside, _ node.Process, pkt node.Packet) node.Result {
		return node.Step(func(context.Context) (value.Value, error) { return pkt.Payload, nil },
			func(_ node.Process, r node.Response) node.Result {
				return o.blocks(func() node.Result { return node.Send(0, r.Payload) })
			})
	}), "although all was recorded: want 1 in all")
	f("reruns, and changes at the end, once for a key", node.Reruns, receive(func(o *outside, p node.Process, pkt node.Packet) node.Result {
		if r, ok := node.RunOf(p); ok {
			o.enlist(p, r.Key())
		}
		return node.Send(0, pkt.Payload)
	}), "")
	f("reruns, and changes at the end", node.Reruns, receive(func(o *outside, p node.Process, pkt node.Packet) node.Result {
		o.enlist(p, "")
		return node.Send(0, pkt.Payload)
	}), "although all was recorded: want 1 in all")
	f("holds, and changes nothing", node.Holds, receive(func(_ *outside, p node.Process, pkt node.Packet) node.Result {
		r, ok := node.RunOf(p)
		if !ok {
			return node.Answer(pkt.Payload)
		}
		return r.Wait(node.Wait{Timeout: time.Hour}).Await(func(node.Process, node.Response) node.Result { return node.Send(0, pkt.Payload) })
	}), "")
	waits := func(i *node.Init, pkt node.Packet) node.Result { // in memory alone
		return node.Block(func(ctx context.Context) node.Result {
			if err := i.Clock.Sleep(ctx, time.Minute); err != nil {
				return node.Fail(err)
			}
			return node.Send(0, pkt.Payload)
		})
	}
	f("holds, but waits in memory, and changes nothing", node.Holds, func(_ *outside, i *node.Init) node.Node {
		return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result { return waits(i, pkt) })
	}, "has waited for 1m0s without a record")
	f("holds, and waits again in memory, and changes nothing", node.Holds, func(_ *outside, i *node.Init) node.Node {
		return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
			return node.Sleep(time.Hour, func(node.Process, node.Response) node.Result { return waits(i, pkt) })
		})
	}, "it has waited for 1m0s although its time was over")
	f("attached", node.Attached, passes, "")
}

// A reader says that it only reads.
type reader struct{ node.Node }

func (reader) Reads(node.Packet) bool { return true }

// TestDurableFails has a kind that fails: that is an answer like others.
func TestDurableFails(t *testing.T) {
	d := kind(func(node.Process, node.Packet) node.Result { return node.Fail(errors.New("it is closed")) })
	d.Recall = node.Always(node.Effects)
	part := &witness{TB: t}
	c := caseOf(d)
	c.Unseen = "it does nothing"
	part.watch(newConformance(t, c).checkDurable)
	if len(part.failures) > 0 {
		t.Errorf("got %q", part.failures)
	}
}
