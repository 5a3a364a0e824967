package core

import (
	"errors"
	"fmt"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func forDef() *node.Def {
	return &node.Def{
		Kind:    "for",
		Summary: "Sends each element of a list by itself, and makes a list of the answers.",
		Doc: "A list always gives a list, an empty one an empty list. Elements that are answered None have no place in it. Anything else\n" +
			"than a list, also a map, is one element, and its bare answer is the answer. If `out[1]` is linked, the answers go there, and\n" +
			"what it answers is the answer.\n\n" +
			"The elements go through one process together: while one waits, the next ones go on, and each node gets them in\n" +
			"their order. At most 10,000 of them wait at a time. With `concurrency`, each element runs in a child process of its own, at\n" +
			"most that many at a time: so also a node that handles one packet at a time, such as a call, handles several. The answers\n" +
			"are in the order of the elements in both cases.\n\n" +
			"An element that fails fails the whole: elements that have not been sent yet are left out, those under way run to their end,\n" +
			"and the errors, at most ten, go to `error`. Without a link there they are the answer.\n\n" +
			"A process may deliver 10 million packets in all, so a list of 1 million elements has room for nine nodes for each.",
		Example: "- kind: for\n  name: prices\n  ports:\n    out[0]: [{name: price, port: in}]\n    out[1]: [{name: total, port: in}]\n\n" +
			"- kind: snippet\n  name: price\n  language: cel\n  code: self.amount * self.price\n\n" +
			"- kind: reduce\n  name: total\n  init: 0\n  step: acc + item\n",
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
