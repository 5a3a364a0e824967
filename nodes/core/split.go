package core

import (
	_ "embed"
	"fmt"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed split.md
var splitPage string

func splitDef() *node.Def {
	return &node.Def{
		Kind:    "split",
		Summary: "Sends each element of a list to an out-port of its own.",
		Page:    node.ReadPage(splitPage),
		In:      in("A list to take apart."),
		Out:     []node.Port{{Name: "out", Doc: "`out[i]` takes element i.", Indexes: node.Linked, Contiguous: true}},
		Recall:  node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			return splitter{len(init.OutLinks)}, nil
		},
	}
}

type splitter struct{ ports int }

func (n splitter) Receive(_ node.Process, pkt node.Packet) node.Result {
	list := pkt.Payload
	count := list.Len()
	switch {
	case list.Kind() != value.KindList:
		if n.ports == 0 {
			return node.Answer(list)
		}
		return node.Send(0, list)
	case count > n.ports:
		return node.Fail(fmt.Errorf("the list has %d elements, but %d out-ports are linked", count, n.ports))
	case count == 0:
		return node.Answer(list)
	case count == 1:
		return node.Send(0, list.At(0))
	}
	packets := make([]node.Out, count)
	for i, e := range list.Elems() {
		packets[i] = node.Out{Port: i, Payload: e}
	}
	return node.SendAll(packets, joined)
}

func joined(_ node.Process, resps []node.Response) node.Result {
	return node.Respond(node.Join(resps))
}
