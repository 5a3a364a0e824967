package core

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed assert.md
var assertPage string

func assertDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "assert",
		Summary: "Judges what a test has done.",
		Page:    node.ReadPage(assertPage),
		Config: schema.Fields(
			schema.Expr("expect").Required().Doc("The condition, over the payload as `self` and its keys."),
			languageField(o),
			schema.Group("target", schema.Fields(
				schema.String("name").Doc("The name of a node; `outer/inner` for one in a sub-graph."),
				schema.String("id").Doc("The id of a node, in place of its name."),
				schema.String("port").Default("in").Doc("An in-port, an out-port such as `out[1]`, or `error`."),
			)).Doc("Where to look for the payload to judge."),
			schema.Duration("timeout").Default(time.Second).Doc("How long to wait for a packet at the target, by the clock of the test."),
		),
		Role: node.Judges,
		Traits: node.Fixed(node.Traits{Needs: []node.Need{{
			What: givesTest, OfTrigger: true, Idle: true, Hint: "an assert judges [payload, index] of a test: elsewhere use an if, a validate or a throw",
		}}}),
		Recall: node.Always(node.Pure),
		In:     in("`[payload, index]`: what to judge, or the index after which to look."),
		Out:    []node.Port{{Name: "out", Doc: "`[payload, index]` of what was judged."}},
		New: func(init *node.Init) (node.Node, error) {
			cfg := init.Config
			expect, err := o.compile(init, cfg.Text("expect"), lang.Options{Mode: lang.ModeExpression, Condition: true, Timeout: 10 * time.Second})
			if err != nil {
				return nil, err
			}
			n := &assert{expect: expect, code: cfg.Text("expect").Code, pos: cfg.Pos("expect"), timeout: cfg.Duration("timeout"), clock: init.Clock}
			if cfg.Has("target") {
				at, err := target(init, cfg.Group("target"))
				if err != nil {
					return nil, err
				}
				n.at, n.port = &at, cfg.Group("target").String("port")
			}
			return n, nil
		},
	}
}

// target finds the place that an assert checks.
func target(init *node.Init, cfg schema.Config) (node.Place, error) {
	if (cfg.String("name") == "") == (cfg.String("id") == "") {
		return node.Place{}, cfg.Errorf("", diag.CodeUnknownTarget, "a target has a name, or else an id")
	}
	at, err := init.Place(cfg.String("name"), cfg.String("id"), cfg.String("port"))
	var d *diag.Diagnostic
	if errors.As(err, &d) {
		field := "name"
		switch {
		case d.Code != diag.CodeUnknownTarget:
			field = "port"
		case cfg.Has("id"):
			field = "id"
		}
		return at, d.At(cfg.Pos(field), cfg.Path(field))
	}
	return at, err
}

type assert struct {
	expect  lang.Program
	code    string
	pos     diag.Pos
	at      *node.Place // nil without a target
	port    string      // its name
	timeout time.Duration
	clock   node.Clock
}

// errNoTest is the answer to what does not come from a test.
var errNoTest = errors.New("an assert takes [payload, index]: link it to out[1] of a test, or to out of another assert")

func (n *assert) Receive(p node.Process, pkt node.Packet) node.Result {
	index, ok := pkt.Payload.At(1).AsInt()
	if pkt.Payload.Kind() != value.KindList || pkt.Payload.Len() != 2 || !ok || index < -1 {
		return node.Fail(errNoTest)
	}
	if n.at == nil {
		if err := n.judge(p.Context(), pkt.Payload.At(0)); err != nil {
			return node.Fail(err)
		}
		return node.Send(0, pkt.Payload)
	}
	frames, ok := node.FramesKey.Load(p)
	if !ok {
		return node.Fail(errors.New("an assert with a target works only in a test that uniflow test runs"))
	}
	f, at, changed := frames.Next(int(index)+1, *n.at)
	if changed == nil {
		return n.found(p.Context(), f, at)
	}
	return node.Block(func(ctx context.Context) node.Result { return n.wait(ctx, frames, int(index)+1) })
}

// wait judges the first frame at the target from an index on, once there is one.
func (n *assert) wait(ctx context.Context, frames node.Frames, from int) node.Result {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer n.clock.AfterFunc(n.timeout, func(context.Context) { cancel() })()
	for {
		f, at, changed := frames.Next(from, *n.at)
		if changed == nil {
			return n.found(ctx, f, at)
		}
		if within.Err() == nil {
			_ = n.clock.Wait(within, changed) // looks once more in any case
			continue
		}
		if ctx.Err() != nil {
			return node.Fail(context.Cause(ctx))
		}
		did := "received"
		if n.at.Out {
			did = "sent"
		}
		why := fmt.Sprintf("%q has %s nothing at %s", n.at.Node, did, n.port)
		if from > 0 {
			why += fmt.Sprintf(" after packet %d", from-1)
		}
		return node.Fail(n.failed(why, value.UniqueMap([]value.Field{{Name: "expect", Value: value.String(n.code)}})))
	}
}

// found judges a frame at the target.
func (n *assert) found(ctx context.Context, f node.Frame, index int) node.Result {
	if err := n.judge(ctx, f.Payload); err != nil {
		return node.Fail(err)
	}
	return node.Send(0, value.List(f.Payload, value.Int(int64(index))))
}

// judge returns why a payload is not as expected.
func (n *assert) judge(ctx context.Context, payload value.Value) error {
	v, err := n.expect.Eval(ctx, payload)
	switch {
	case err == nil && v.Truth():
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	fields := []value.Field{{Name: "expect", Value: value.String(n.code)}, {Name: "payload", Value: value.ErrorMap(payload)}}
	if err != nil {
		return n.failed(err.Error(), value.UniqueMap(fields))
	}
	if e, ok := n.expect.(lang.Explainer); ok {
		if c, ok := e.Explain(ctx, payload); ok {
			fields = append(fields,
				value.Field{Name: "comparison", Value: value.String(c.Code)}, value.Field{Name: "operator", Value: value.String(c.Operator)},
				value.Field{Name: "left", Value: value.ErrorMap(c.Left)}, value.Field{Name: "right", Value: value.ErrorMap(c.Right)})
		}
	}
	return n.failed(n.code+" is false", value.UniqueMap(fields))
}

func (n *assert) failed(why string, data value.Value) error {
	return &node.Error{Err: &failure{"assert failed: " + why, n.pos}, Code: string(diag.CodeAssert), Data: data}
}

// A failure is an error with the place of the expression.
type failure struct {
	text string
	pos  diag.Pos
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Place() diag.Pos { return f.pos }
