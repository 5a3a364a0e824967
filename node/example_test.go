package node_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

var (
	in  = []node.Port{{Name: "in"}}
	out = []node.Port{{Name: "out"}}
)

// A one-to-one node is a function.
func ExampleFunc() {
	upper := &node.Def{
		Kind:    "upper",
		Summary: "Turns text into capitals.",
		In:      in,
		Out:     out,
		New: func(*node.Init) (node.Node, error) {
			return node.Func(func(_ node.Process, in value.Value) (value.Value, error) {
				text, ok := in.AsString()
				if !ok {
					return value.Value{}, fmt.Errorf("want text, got %s", in.Kind())
				}
				return value.String(strings.ToUpper(text)), nil
			}), nil
		},
	}
	show("- {kind: upper, name: first}", value.String("hello"), upper)
	show("- {kind: upper, name: first}", value.Int(1), upper)
	// Output:
	// HELLO
	// error: node "first" (example.yaml:1:3): want text, got integer
}

// A split by size: the config is described once, and checked before New.
func ExampleDef() {
	size := &node.Def{
		Kind:    "size",
		Summary: "Sends short text one way, long text another.",
		Config:  schema.Fields(schema.Int("limit").Required().Range(1, 1000).Doc("The longest that counts as short.")),
		In:      in,
		Out:     []node.Port{{Name: "out", Indexes: node.Exactly(2)}},
		New: func(init *node.Init) (node.Node, error) {
			limit := int(init.Config.Int("limit"))
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				if pkt.Payload.Len() <= limit {
					return node.Send(0, pkt.Payload)
				}
				return node.Send(1, pkt.Payload)
			}), nil
		},
	}
	show(`
- {kind: size, name: first, limit: 3, ports: {"out[0]": [{name: short, port: in}], "out[1]": [{name: long, port: in}]}}
- {kind: snippet, name: short, language: text, code: short}
- {kind: snippet, name: long, language: text, code: long}
`, value.String("hello"), size)
	show("- {kind: size, name: first, limmit: 3}", value.Null(), size)
	// Output:
	// long
	// example.yaml:1:3: node "first": limit: missing [F2002]
	// example.yaml:1:29: node "first": limmit: unknown field [F2001]
}

// Waiting for a response: the call is made once, so that it allocates nothing.
func ExampleNewCall() {
	timed := &node.Def{
		Kind: "either", Summary: "Answers with a default where there is none.", In: in, Out: out,
		New: func(*node.Init) (node.Node, error) {
			call := node.NewCall(func(_ node.Process, resp node.Response) node.Result {
				if resp.None {
					return node.Answer(value.String("nothing came back"))
				}
				return node.Respond(resp)
			})
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result { return call.Send(0, pkt.Payload) }), nil
		},
	}
	show("- {kind: either, name: first, ports: {out: [{name: quiet}]}}\n- {kind: nop, name: quiet}", value.Null(), timed)
	// Output: nothing came back
}

// Several packets, and all their responses in order.
func ExampleSendAll() {
	words := &node.Def{
		Kind: "words", Summary: "Sends each word by itself.", In: in, Out: out,
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				text, _ := pkt.Payload.AsString()
				var packets []node.Out
				for word := range strings.FieldsSeq(text) {
					packets = append(packets, node.Out{Port: 0, Payload: value.String(word)})
				}
				return node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result {
					return node.Respond(node.Join(resps))
				})
			}), nil
		},
	}
	show("- {kind: words, name: first, ports: {out: [{name: length}]}}\n- {kind: snippet, name: length, language: cel, code: size(self)}",
		value.String("one three eleven"), words)
	// Output: [3,5,6]
}

// Waiting for something outside, here a clock. The context ends with the process.
func ExampleBlock() {
	hold := &node.Def{
		Kind: "hold", Summary: "Holds each packet for a moment.", In: in, Out: out,
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(ctx context.Context) node.Result {
					select {
					case <-time.After(time.Millisecond):
						return node.Send(0, pkt.Payload)
					case <-ctx.Done():
						return node.Fail(ctx.Err())
					}
				})
			}), nil
		},
	}
	show("- {kind: hold, name: first}", value.String("later"), hold)
	// Output: later
}

// Children run by themselves, here two at a time, and see what their parent has
// stored.
func ExampleSpawn() {
	prefix := node.NewKey[string]("prefix")
	each := &node.Def{
		Kind: "each", Summary: "Runs each element in a child process.", In: in, Out: out,
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
				prefix.Store(p, "element ")
				var children []node.Result
				for _, e := range pkt.Payload.Elems() {
					children = append(children, node.SendThen(0, e, func(p node.Process, resp node.Response) node.Result {
						stored, _ := prefix.Load(p)
						return node.Answer(value.String(stored + resp.Payload.String()))
					}))
				}
				return node.Spawn(children, 2, func(_ node.Process, resps []node.Response) node.Result {
					return node.Respond(node.Join(resps))
				})
			}), nil
		},
	}
	show("- {kind: each, name: first}", value.List(value.Int(1), value.Int(2), value.Int(3)), each)
	// Output: ["element 1","element 2","element 3"]
}

// A child that goes on by itself after its parent has answered.
func ExampleFork() {
	done := make(chan string, 1)
	later := &node.Def{
		Kind: "later", Summary: "Answers immediately and continues.", In: in, Out: out,
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Fork(node.Block(func(context.Context) node.Result {
					done <- "done: " + pkt.Payload.String()
					return node.None()
				}))
			}), nil
		},
	}
	show("- {kind: later, name: first}", value.String("report"), later)
	fmt.Println(<-done)
	// Output:
	// none
	// done: report
}

// What must happen before the answer is out takes part in the end of the process; its
// error becomes the answer.
func ExampleProcess() {
	commit := &node.Def{
		Kind: "commit", Summary: "Commits at the end of the process.", In: in, Out: out,
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
				p.Root().Enlist(node.PhaseDatabase, func(_ context.Context, failure error) (kept bool, err error) {
					if failure != nil {
						fmt.Println("roll back")
						return false, nil
					}
					return false, errors.New("the disk is full")
				})
				return node.Send(0, pkt.Payload)
			}), nil
		},
	}
	show("- {kind: commit, name: first}", value.String("saved"), commit)
	show("- {kind: commit, name: first, ports: {out: [{name: no}]}}\n- {kind: throw, name: no}", value.String("denied"), commit)
	// Output:
	// error: the disk is full
	// roll back
	// error: node "no" (example.yaml:2:3): denied
}

// A node that has figures of its own for /metrics.
func ExampleMeasured() {
	buffer := &node.Def{
		Kind: "buffer", Summary: "Keeps what it gets.", In: in,
		New: func(*node.Init) (node.Node, error) { return &bufferNode{}, nil },
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{buffer}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	_, err = engine.Apply(ctx, uniflow.Source{
		Documents: []spec.Document{{File: "example.yaml", Data: []byte("- {kind: buffer, name: first}")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if _, _, err := engine.Run(ctx, "first", value.Null()); err != nil {
			log.Fatal(err)
		}
	}
	for _, f := range engine.Metrics().Figures { // what /metrics shows
		fmt.Println("uniflow_"+f.Metric.Name, f.Node, f.Metric.Value)
	}
	if err := engine.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: uniflow_buffer_length first 3
}

type bufferNode struct{ length atomic.Int64 }

func (n *bufferNode) Receive(node.Process, node.Packet) node.Result {
	n.length.Add(1)
	return node.None()
}

// Measure is called for each scrape, while processes run.
func (n *bufferNode) Measure(report func(node.Metric)) {
	report(node.Metric{Name: "buffer_length", Help: "Payloads that are kept.", Value: float64(n.length.Load())})
}

// show sends a payload to the node called first, and prints the answer.
func show(document string, payload value.Value, def *node.Def) {
	engine, err := uniflow.New(uniflow.Options{Kinds: append(kinds(), def)})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	list, err := engine.Apply(ctx, uniflow.Source{
		Documents: []spec.Document{{File: "example.yaml", Data: []byte(document)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if list.HasErrors() {
		fmt.Println(list)
		return
	}
	switch answer, ok, err := engine.Run(ctx, "first", payload); {
	case err != nil:
		fmt.Println("error:", err)
	case !ok:
		fmt.Println("none")
	default:
		fmt.Println(answer)
	}
	if err := engine.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
