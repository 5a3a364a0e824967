package core

import (
	"context"
	_ "embed"
	"errors"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed snippet.md
var snippetPage string

func snippetDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "snippet",
		Summary: "Evaluates code on each payload and sends the result.",
		Page:    node.ReadPage(snippetPage),
		Config: schema.Fields(
			field.Options(o).NewLanguage("The language of the code.").Default("text"),
			schema.Text("code").Required().Doc("The code."),
			timeoutField(),
			schema.Bool("isolate").Default(false).Doc("Runs a script in a process of its own."),
		),
		In:      in("A payload to evaluate the code on."),
		Out:     []node.Port{{Name: "out", Doc: "The result of the code."}},
		Lint:    lintSnippets,
		OpenAPI: o.describeAnswers,
		Traits: func(c schema.Config) node.Traits {
			t := node.Traits{
				FixedText: func() (string, bool) { return o.fixedText(c) },
				Shape:     func(_ int, in func() *schema.Shape) *schema.Shape { return o.resultShape(c, in) },
			}
			if c.String("language") == "text" {
				t.Is = node.OwnStatus
			}
			return t
		},
		Recall: func(c schema.Config) node.Recall {
			if isFixed(c.String("language")) {
				return node.Pure
			}
			return node.Reads // a script may ask for the time, or for chance
		},
		New: func(init *node.Init) (node.Node, error) {
			cfg := init.Config
			if cfg.Bool("isolate") {
				program, err := o.isolate(init, cfg.Text("code"), lang.Options{Timeout: cfg.Duration("timeout")})
				if err != nil {
					return nil, err
				}
				return isolated{program}, nil
			}
			program, err := o.compile(init, cfg.Text("code"), lang.Options{Timeout: cfg.Duration("timeout"), Shape: shape(init)})
			if err != nil {
				return nil, err
			}
			if c, ok := program.(lang.Constant); ok {
				return constant{node.Send(0, c.Constant())}, nil
			}
			return snippet{program}, nil
		},
	}
}

// isFixed reports whether the result of code in a language depends on the payload alone.
func isFixed(language string) bool {
	return slices.Contains([]string{"text", "json", "yaml", "cel"}, language)
}

// describeAnswers returns the answers of a snippet as far as its code says them: with the body if
// the result does not depend on the payload, and else with the status. Without what a template has
// put into it.
func (o Options) describeAnswers(c schema.Config) value.Value {
	language := c.String("language")
	if c.Hidden("code") || c.Bool("isolate") || !isFixed(language) || !o.Languages.Has(language) {
		return openapi.Sent(lang.Outcome{})
	}
	program, err := o.Languages.Compile(language, c.Text("code"), lang.Options{})
	if err != nil {
		return value.Null() // New reports it
	}
	switch p := program.(type) {
	case lang.Constant:
		return openapi.SentValue(p.Constant())
	case lang.Branched:
		return openapi.Sent(p.Outcomes()...)
	}
	return openapi.Sent(lang.Outcome{})
}

// fixedText returns the text that a snippet sends, or that its lists begin with.
func (o Options) fixedText(c schema.Config) (text string, ok bool) {
	language := c.String("language")
	if c.Bool("isolate") || !slices.Contains([]string{"text", "json", "yaml", "cel"}, language) || !o.Languages.Has(language) {
		return "", false
	}
	program, err := o.Languages.Compile(language, c.Text("code"), lang.Options{})
	if err != nil {
		return "", false // New reports it
	}
	switch p := program.(type) {
	case lang.Constant:
		v := p.Constant()
		if v.Kind() == value.KindList {
			v = v.At(0)
		}
		return v.AsString()
	case lang.Leading:
		return p.Leads()
	}
	return "", false
}

// resultShape returns what is known of the results of a snippet.
func (o Options) resultShape(c schema.Config, in func() *schema.Shape) *schema.Shape {
	language := c.String("language")
	if c.Bool("isolate") || language != "cel" || !o.Languages.Has(language) {
		return nil
	}
	program, err := o.Languages.Compile(language, c.Text("code"), lang.Options{Shape: in()})
	if err != nil {
		return nil // New reports it
	}
	return snippet{program}.OutShape(0)
}

// lintSnippets warns of snippets that do not say what they are written in.
func lintSnippets(specs []node.WrittenSpec) (list diag.List) {
	for _, s := range specs {
		if s.Config.Field("language") == nil {
			list.Add(s.Finding(s.Pos, "language", diag.Warningf(diag.CodeNoLanguage, "no language, so the code is plain text").
				WithHint("add language: text, or the language that is meant")))
		}
	}
	return list
}

// A constant is a snippet whose result does not depend on the payload.
type constant struct{ result node.Result }

func (c constant) Receive(node.Process, node.Packet) node.Result { return c.result }

type snippet struct{ program lang.Program }

// OutShape implements [node.Shaped].
func (s snippet) OutShape(int) *schema.Shape {
	if shaped, ok := s.program.(lang.Shaped); ok {
		return shaped.ResultShape()
	}
	return nil
}

func (s snippet) Receive(p node.Process, pkt node.Packet) node.Result {
	return evaluate(p.Context(), s.program, pkt.Payload)
}

func evaluate(ctx context.Context, program lang.Program, payload value.Value) node.Result {
	out, err := program.Eval(ctx, payload)
	if err != nil {
		return node.Fail(thrown(err))
	}
	return node.Send(0, out)
}

// An isolated is a snippet that runs in processes of its own.
type isolated struct{ program lang.Isolated }

func (s isolated) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(ctx context.Context) node.Result { return evaluate(ctx, s.program, pkt.Payload) })
}

func (s isolated) Close() error { return s.program.Close() }

// thrown returns an error with the status and the code that a script has set on it.
func thrown(err error) error {
	var t *lang.Thrown
	if !errors.As(err, &t) {
		return err
	}
	return &node.Error{Err: err, Status: t.Status, Code: t.Code, Public: t.Public}
}

func holds(p node.Process, condition lang.Program, payload value.Value) (bool, error) {
	v, err := condition.Eval(p.Context(), payload)
	if err != nil {
		return false, thrown(err)
	}
	return v.Truth(), nil
}
