package core

import (
	_ "embed"
	"errors"
	"fmt"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed for.md
var forPage string

func forDef() *node.Def {
	return &node.Def{
		Kind:    "for",
		Summary: "Sends each element of a list by itself, and makes a list of the answers.",
		Page:    node.ReadPage(forPage),
		Config: schema.Fields(
			schema.Int("concurrency").Range(1, maxConcurrency).Doc("How many elements run at a time, each in a child process of its own. Without it, all run in one process."),
		),
		In: in("A list, or one element."),
		Out: []node.Port{{Name: "out", Indexes: node.Exactly(2),
			Doc: "`out[0]` takes each element, `out[1]` the list of the answers."}},
		Traits: node.Fixed(node.Traits{Is: node.InTurn}),
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			n := &loop{single: node.NewCall(answered)}
			if init.Config.Has("concurrency") {
				n.concurrency = int(init.Config.Int("concurrency"))
			}
			return n, nil
		},
	}
}

// maxConcurrency is how many packets or children of one process a node may keep waiting
// at a time. Each has a goroutine.
const maxConcurrency = 10_000

type loop struct {
	concurrency int // 0: all elements in the process itself
	single      *node.Call
}

func (n *loop) Receive(_ node.Process, pkt node.Packet) node.Result {
	list := pkt.Payload
	switch {
	case list.Kind() != value.KindList:
		return n.single.Send(0, list)
	case n.concurrency > 0:
		children := make([]node.Result, list.Len())
		for i, e := range list.Elems() {
			children[i] = node.Send(0, e)
		}
		return node.UntilError(node.Spawn(children, n.concurrency, allAnswered))
	}
	packets := make([]node.Out, list.Len())
	for i, e := range list.Elems() {
		packets[i].Payload = e
	}
	return node.UntilError(node.SendAll(packets, allAnswered))
}

// answered sends the answer of what was not a list.
func answered(_ node.Process, resp node.Response) node.Result {
	switch {
	case resp.IsError():
		return node.Fail(resp.Payload.AsError())
	case resp.None:
		return node.None()
	}
	return node.Send(1, resp.Payload)
}

func allAnswered(_ node.Process, resps []node.Response) node.Result {
	answers := make([]value.Value, 0, len(resps))
	for i := range resps {
		if resps[i].IsError() {
			return node.Fail(failures(resps[i:]))
		}
		if !resps[i].None {
			answers = append(answers, resps[i].Payload)
		}
	}
	return node.Send(1, value.List(answers...))
}

// maxFailures is how many errors of elements one error shows.
const maxFailures = 10

// failures joins the errors among responses.
func failures(resps []node.Response) error {
	var errs []error
	more := 0
	for i := range resps {
		switch {
		case !resps[i].IsError():
		case len(errs) < maxFailures:
			errs = append(errs, resps[i].Payload.AsError())
		default:
			more++
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %d elements more have failed", more))
	}
	return errors.Join(errs...)
}
