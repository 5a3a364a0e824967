package streams

import (
	_ "embed"
	"errors"
	"fmt"

	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed emit.md
var emitPage string

func emitDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "emit",
		Summary: "Sends a payload as a part of the answer, before its end.",
		Page:    node.ReadPage(emitPage),
		Config: schema.Fields(
			schema.String("event").Doc("The name of the event. It may hold expressions over the payload. Unset, the payload itself is the part."),
			schema.Enum("otherwise", "error", "drop").Default("error").Doc("What happens if the process has no client that takes parts."),
		),
		In:    []node.Port{{Name: "in", Doc: "A part of the answer."}},
		Error: node.OwnFailure,
		Traits: func(c schema.Config) node.Traits {
			t := node.Traits{Is: node.SendsParts | node.Inside}
			if c.String("otherwise") != "drop" {
				t.Needs = []node.Need{{What: node.GivesParts, OfTrigger: true, Idle: true, Hint: "emit behind a trigger with a client: listener, websocket, chat and its like, mcp; or write otherwise: drop"}}
			}
			return t
		},
		Recall: node.Always(node.Reruns),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &emitter{named: c.Has("event"), drop: c.String("otherwise") == "drop"}
			var err error
			n.event, err = template.OfField(c, "event", template.Compiler(o.Languages, o.Language))
			return n, err
		},
	}
}

// An emitter is a node of kind emit.
type emitter struct {
	event template.Template
	named bool
	drop  bool
}

// errNoParts is the failure where no one takes parts.
var errNoParts = node.Unusable("no_parts", errors.New("the trigger of this process takes no parts of its answer"))

// Receive sends a part.
func (n *emitter) Receive(p node.Process, pkt node.Packet) node.Result {
	parts, ok := node.PartsOf(p.Context())
	switch {
	case !ok && n.drop:
		return node.None()
	case !ok:
		return node.Fail(errNoParts)
	}
	part := pkt.Payload
	if n.named {
		event, err := n.event.Text(p.Context(), part)
		if err != nil {
			return node.Fail(fmt.Errorf("event: %w", err))
		}
		part = value.Map(value.Field{Name: "event", Value: value.String(event)}, value.Field{Name: "data", Value: part})
	}
	return node.SendPart(p, parts, part)
}
