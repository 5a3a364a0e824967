package ai

import (
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// setExpressions compiles what is made of the payload, and checks what does not go together.
func (n *llm) setExpressions(init *node.Init, o stream.Options) (err error) {
	c := init.Config
	if o.Language, err = o.LanguageOf(c); err != nil {
		return err
	}
	if c.Has("prompt") && c.Has("messages") {
		return c.Errorf("messages", diag.CodeBadValue, "both prompt and messages").WithHint("remove one of them")
	}
	if n.streams && c.Has("schema") {
		return c.Errorf("stream", diag.CodeBadValue, "an answer that has a schema is checked before any of it goes out").WithHint("remove stream or schema")
	}
	if n.parted && !n.streams {
		return c.Errorf("stream", diag.CodeBadValue, "the port part has a link, but nothing is streamed").WithHint("write stream: true, or remove the link")
	}
	if n.system, err = template.OfField(c, "system", template.Compiler(o.Languages, o.Language)); err != nil {
		return err
	}
	compile := func(c schema.Config, field string) (p lang.Program) {
		if err == nil {
			p, err = o.Expr(c, field, lang.Options{Timeout: 10 * time.Second, Warn: init.Warn})
		}
		return p
	}
	n.prompt, n.messages = compile(c, "prompt"), compile(c, "messages")
	budget := c.Group("budget")
	n.budget.read(budget)
	n.budget.by = compile(budget, "by")
	if err == nil && n.budget.key == 0 && (budget.Has("by") || budget.Has("window")) {
		return budget.Errorf("", diag.CodeBadValue, "by and window are of the budget of a key").WithHint("add one such as key: 100000, or remove them")
	}
	return err
}
