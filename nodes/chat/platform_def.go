package chat

import (
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// A platform is what differs between the kinds that talk to people elsewhere.
type platform struct {
	kind, summary, address string
	page                   string // its Markdown file
	longest                int    // UTF-16 units of a message
	sends                  bool   // it has an in-port for messages that do not answer
	raw                    bool   // it checks signatures
	fields                 []*schema.Field

	// hook makes what reads and writes for a node. The api is its own.
	hook func(init *node.Init, a *api) (webhook, error)
}

// The in-ports and out-ports of all platforms; some have no second in-port.
var (
	platformIn  = []node.Port{{Name: "in", Doc: "The request of a listener."}, {Name: "send", Doc: "A message to send: `conversation`, and what an answer has."}}
	platformOut = []node.Port{{Name: "out", Doc: "A message."}}
)

func (p *platform) def() *node.Def {
	in := platformIn[:1]
	if p.sends {
		in = platformIn
	}
	traits := node.Traits{Gives: []string{node.GivesParts, node.GivesConversation}}
	if p.raw {
		traits.Is = node.NeedsRaw
	}
	return &node.Def{
		Kind: p.kind, Summary: p.summary, Page: readPage(p.page),
		Config: schema.Fields(append(p.fields,
			schema.String("api").Default(p.address).Doc("Where the platform's API is."),
			failureField(),
		)...),
		In: in, Out: platformOut,
		Role:   node.Begins | node.HasClient | node.Connects,
		Traits: node.Fixed(traits),
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			a, err := newAPI(init.Config)
			if err != nil {
				return nil, err
			}
			hook, err := p.hook(init, a)
			if err != nil {
				return nil, err
			}
			return &platformNode{platform: p, init: init, hook: hook}, nil
		},
	}
}

// checkToken refuses what cannot be in a header.
func checkToken(c schema.Config, field, prefix, where string) error {
	token := c.String(field)
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return c.Errorf(field, diag.CodeBadValue, "is not a token").WithHint("it begins with %s, and is in the app's settings, %s", prefix, where).AsPlain()
	}
	return nil
}
