package core

import (
	_ "embed"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed test.md
var testPage string

func testDef() *node.Def {
	return &node.Def{
		Kind:    "test",
		Summary: "Tests the workflow when uniflow test runs it.",
		Page:    node.ReadPage(testPage),
		Config: schema.Fields(
			schema.Duration("timeout").Doc("How long the test may take, in real time; `--timeout` of the command unless set."),
			schema.Enum("clock", "real", "fake").Default("real").Doc("With `fake`, time stands still while something is done, and jumps ahead when everything waits."),
		),
		Role:   node.Tests,
		Recall: node.Always(node.Effects),
		Out:    []node.Port{{Name: "out", Doc: "`out[0]` takes null, and starts what is tested. `out[1]` takes the answer and -1, to judge it.", Indexes: node.Exactly(2)}},
		New: func(init *node.Init) (node.Node, error) {
			if init.Node.Name == "" {
				return nil, diag.Errorf(diag.CodeBadNode, "a test needs a name").WithHint("the name says what it tests, and uniflow test selects it by that")
			}
			t := &test{settings: node.TestSettings{Timeout: init.Config.Duration("timeout"), FakeClock: init.Config.String("clock") == "fake"}}
			t.judge = node.NewCall(passed)
			t.act = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
				if resp.IsError() {
					return node.Fail(resp.Payload.AsError())
				}
				return t.judge.Send(1, value.List(resp.Payload, value.Int(-1)))
			})
			return t, nil
		},
	}
}

type test struct {
	settings   node.TestSettings
	act, judge *node.Call
}

// Test implements [node.Tester].
func (t *test) Test() node.TestSettings { return t.settings }

func (t *test) Receive(node.Process, node.Packet) node.Result { return t.act.Send(0, value.Null()) }

// passed answers a test whose answer has been judged.
func passed(_ node.Process, resp node.Response) node.Result {
	if resp.IsError() {
		return node.Fail(resp.Payload.AsError())
	}
	return node.None()
}
