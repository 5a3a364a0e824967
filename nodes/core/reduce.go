package core

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed reduce.md
var reducePage string

func reduceDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "reduce",
		Summary: "Folds a list into one value.",
		Page:    node.ReadPage(reducePage),
		Config: schema.Fields(
			schema.Any("init").Doc("What `acc` is at first; null unless set."),
			schema.Expr("step").Required().Doc("The next `acc`, over `acc`, `item` and `index`."),
			languageField(o),
			schema.Duration("timeout").Default(10*time.Second).Doc("How long one list may take; one that takes longer is stopped, and the node fails. 0 means no limit."),
		),
		In:     in("A list to fold."),
		Out:    []node.Port{{Name: "out", Doc: "The result of the last step."}},
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			step, err := o.compileExpr(init, init.Config, "step", lang.Options{})
			if err != nil {
				return nil, err
			}
			return &fold{
				step: step, init: init.Config.Value("init"),
				clock: init.Clock, timeout: init.Config.Duration("timeout"),
			}, nil
		},
	}
}

type fold struct {
	step    lang.Program
	init    value.Value
	clock   node.Clock
	timeout time.Duration // of a list
}

func (n *fold) Receive(p node.Process, pkt node.Packet) node.Result {
	list := pkt.Payload
	if list.Kind() != value.KindList {
		return node.Fail(fmt.Errorf("want a list, got %s", list.Kind()))
	}
	acc, err := n.fold(p, list)
	if err != nil {
		return node.Fail(thrown(err))
	}
	return node.Send(0, acc)
}

// checkEvery is how many steps there are between two readings of the clock. A step is
// stopped by its own timeout, and each checks the context.
const checkEvery = 256

func (n *fold) fold(p node.Process, list value.Value) (acc value.Value, err error) {
	acc = n.init
	ctx := p.Context()
	var began time.Time
	for i, item := range list.Elems() {
		if i%checkEvery == checkEvery-1 && n.timeout > 0 {
			switch {
			case began.IsZero():
				began = n.clock.Now()
			case n.clock.Now().Sub(began) >= n.timeout:
				return acc, &lang.Timeout{After: n.timeout}
			}
		}
		names := value.UniqueMap([]value.Field{
			{Name: "acc", Value: acc}, {Name: "item", Value: item}, {Name: "index", Value: value.Int(int64(i))},
		})
		if names.IsError() { // too deep
			return acc, fmt.Errorf("element %d: %w", i, names.AsError())
		}
		if acc, err = n.step.Eval(ctx, names); err != nil {
			return acc, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return acc, nil
}
