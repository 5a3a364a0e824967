package core

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func testDef() *node.Def {
	return &node.Def{
		Kind:    "test",
		Summary: "Tests the workflow when uniflow test runs it.",
		Doc: "It sends null on `out[0]`. An error that comes back fails the test. Otherwise `[answer, -1]` goes to `out[1]`, usually to an\n" +
			"[assert](#assert), and an error from there fails it, too. An answer of nothing counts as null. Errors go to the port `error`\n" +
			"if that is linked; its answer then decides.\n\n" +
			"Each test has nodes, caches and connections of its own, so tests run concurrently. Triggers start nothing meanwhile, except\n" +
			"for `schedule` with `clock: fake`. When the test ends, what it has forked is cancelled.\n\n" +
			"`uniflow start` never starts a test. See [Tests](../testing.md).",
		Example: "- kind: test\n  name: adds\n  ports:\n    out[0]:\n      - name: sum\n    out[1]:\n      - name: is_three\n\n" +
			"- kind: snippet\n  name: sum\n  language: cel\n  code: 1 + 2\n\n- kind: assert\n  name: is_three\n  expect: self == 3\n",
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
