package dialogue

import (
	_ "embed"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed recall.md
var recallPage string

// recalled is what recall sends.
var recalled = value.NewShape("input", "session")

func recallDef() *node.Def {
	return &node.Def{
		Kind:    "recall",
		Summary: "Adds what the session has to the payload.",
		Page:    node.ReadPage(recallPage),
		In:      in("A payload."),
		Out:     out("`{input, session}`."),
		Recall:  node.Always(node.Pure),
		Traits:  node.Fixed(node.Traits{Needs: []node.Need{session.Needed("")}}),
		New: func(*node.Init) (node.Node, error) {
			return node.Func(func(p node.Process, in value.Value) (value.Value, error) {
				s, ok := session.Of(p)
				if !ok {
					return in, errNoSession
				}
				values, _ := s.Values()
				return recalled.Map(in, values), nil
			}), nil
		},
	}
}
