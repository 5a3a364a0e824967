package dialogue

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/value"
)

// recalled is what recall sends.
var recalled = value.NewShape("input", "session")

func recallDef() *node.Def {
	return &node.Def{
		Kind:    "recall",
		Summary: "Adds what the session has to the payload.",
		Doc:     "Sends `{input, session}`: the payload, and the values of the session as they are now, with what nodes before this one have changed. Without a `session` before it, it fails with the code `no_session`.",
		Example: "- kind: session\n  name: memory\n  key: self.user\n  ports:\n    out: [{name: load, port: in}]\n\n- kind: recall\n  name: load\n",
		In:      in("A payload."),
		Out:     out("`{input, session}`."),
		Recall:  node.Always(node.Reads),
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
