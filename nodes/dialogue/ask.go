package dialogue

import (
	_ "embed"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

var (
	//go:embed ask.md
	askPage string

	//go:embed questions.md
	questionsDoc string // of ask and form
)

func askerPage(text string) node.Page {
	return node.ReadPage(strings.Replace(text, "{questions}", strings.TrimSpace(questionsDoc), 1))
}

// askerFields returns the fields that ask and form share.
func askerFields() []*schema.Field {
	return []*schema.Field{
		schema.Duration("timeout").Default(15 * time.Minute).Doc("How long an answer is waited for, each time. Then the payload leaves by the port `timeout`; without a link there, the node fails with the code `timeout`."),
		schema.Int("attempts").Default(3).Range(1, 100).Doc("The most answers to a question, when they do not fit."),
		schema.Expr("key").Doc("An expression over the payload for who is asked. Unset is the conversation of the process."),
	}
}

func askerPorts(of string) (in, out []node.Port) {
	return []node.Port{{Name: "in", Doc: "A payload that needs an answer."}, {Name: "reply", Doc: "A message that may be the answer: see above."}},
		[]node.Port{{Name: "out", Doc: of}, {Name: "timeout", Doc: "The payload, when no answer has come in time."}}
}

func askDef(o stream.Options) *node.Def {
	in, out := askerPorts("`{input, answer, message}`: the payload, the answer, and the whole message that it came with.")
	return &node.Def{
		Kind:    "ask",
		Summary: "Asks a question, and goes on with the next message of the conversation.",
		Page:    askerPage(askPage),
		Config: schema.Fields(append(append(
			[]*schema.Field{schema.String("text").Doc("The question. It may hold expressions over the payload, as in `${self.name}`. Without it nothing is sent: the node only waits for the answer to what the workflow has sent before.")},
			questionFields()...), askerFields()...)...),
		In: in, Out: out,
		Traits: func(c schema.Config) node.Traits {
			return askerTraits(c, c.Has("text") || c.Has("choices") || c.Has("schema"))
		},
		Recall: node.Always(node.Holds),
		New: func(init *node.Init) (node.Node, error) {
			n, err := newAsker(init, o)
			if err != nil {
				return nil, err
			}
			q, err := newQuestion(init.Config, template.Compiler(o.Languages, o.Language), init.Warn)
			n.questions = []question{q}
			return n, err
		},
	}
}

// askerTraits returns the traits of ask and form. They send questions as parts of the answer,
// unless the workflow asks by other means.
func askerTraits(c schema.Config, asks bool) (t node.Traits) {
	t.Is = node.Asks
	if asks {
		t.Is |= node.SendsParts
		t.Needs = append(t.Needs, node.Need{What: node.GivesParts, OfTrigger: true, Hint: "ask behind a trigger with a client: listener, websocket, chat and its like, mcp"})
	}
	if !c.Has("key") {
		t.Needs = append(t.Needs, node.Need{What: node.GivesConversation, OfTrigger: true, Hint: "ask behind chat or its like, or set key"})
	}
	return t
}

func newAsker(init *node.Init, o stream.Options) (n *asker, err error) {
	c := init.Config
	n = &asker{
		waits: init.Waits, signals: init.Signals, namespace: init.Node.Namespace, clock: init.Clock, held: init.Memory.Account(init.Node.Kind), timeout: c.Duration("timeout"), attempts: int(c.Int("attempts")),
		keys: "ask/" + init.Node.Namespace + "/",
		late: init.OutLinks[portTimeout] > 0,
	}
	if n.timeout == 0 {
		return nil, c.Errorf("timeout", diag.CodeBadValue, "is 0").WithHint("want the longest time to wait for an answer, such as 15m")
	}
	n.key, err = o.Expr(c, "key", lang.Options{Warn: init.Warn})
	return n, err
}
