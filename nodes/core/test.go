package core

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed test.md
var testPage string

// givesTest is what a test gives to its process: see [node.Traits].
const givesTest = "test"

func testDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "test",
		Summary: "Tests the workflow when uniflow test runs it.",
		Page:    node.ReadPage(testPage),
		Config: schema.Fields(
			schema.Duration("timeout").Doc("How long the test may take, in real time; `--timeout` of the command unless set."),
			schema.Enum("durability", "none", "checkpoint").Default("none").Doc("With `checkpoint`, what `out[0]` leads to is a durable process, with a journal in memory. It has a conversation, in which no one reads what it says."),
			schema.Enum("crash", "each", "none").Doc("With `each`, the test runs whole, and then once for each step of its journal: there the program is gone, and a new one goes on. It is `each` with `durability: checkpoint`, and `none` without."),
			schema.Enum("clock", "real", "fake").Default("real").Doc("With `fake`, time stands still while something is done, and jumps ahead when everything waits."),
			schema.Any(node.FieldValues).Doc("What `env` gets in this test, by name: data of variables, and of the environment as `-e` gives it. A flag of the command line comes before it."),
			schema.List("mocks", schema.Fields(
				schema.String("node").Required().Doc("The name of the node, or of a sub-graph."),
				schema.String("file").Doc("The file with the code, relative to the document, as `--mock` takes it."),
				field.Options(o).NewLanguage("The language of `code`."),
				schema.Text("code").Doc("The code, in place of a file."),
			)).Doc("Nodes that code replaces in this test. `--mock` for the same node comes before it."),
		),
		Role: node.Tests,
		Traits: func(c schema.Config) node.Traits {
			t := node.Traits{Gives: []string{givesTest}}
			if isDurable(c) {
				t.Is, t.Gives = node.Durable, append(t.Gives, node.GivesDurability, node.GivesParts, node.GivesConversation)
			}
			return t
		},
		Recall: node.Always(node.Effects),
		Out:    []node.Port{{Name: "out", Doc: "`out[0]` takes null, and starts what is tested. `out[1]` takes the answer and -1, to judge it.", Indexes: node.Exactly(2)}},
		New: func(init *node.Init) (node.Node, error) {
			if init.Node.Name == "" {
				return nil, diag.Errorf(diag.CodeBadNode, "a test needs a name").WithHint("the name says what it tests, and uniflow test selects it by that")
			}
			t := &test{settings: node.TestSettings{Timeout: init.Config.Duration("timeout"), FakeClock: init.Config.String("clock") == "fake"}}
			var values, mocks error
			t.settings.Values, values = node.TestValues(init.Config.Raw(node.FieldValues))
			t.settings.Mocks, mocks = o.testMocks(init.Config)
			if err := errors.Join(values, mocks); err != nil {
				return nil, err
			}
			t.judge = node.NewCall(passed)
			t.act = node.NewCall(func(_ node.Process, resp node.Response) node.Result { return t.answered(resp) })
			crash := init.Config.String("crash")
			switch {
			case isDurable(init.Config):
				return &durableTest{test: t, key: []byte(init.Node.ID), clock: init.Clock, crashes: crash != "none"}, nil
			case crash == "each":
				return nil, init.Config.Errorf("crash", diag.CodeBadValue, "only a durable process goes on after a crash").WithHint("add durability: checkpoint")
			}
			return t, nil
		},
	}
}

func isDurable(c schema.Config) bool { return c.String("durability") == "checkpoint" }

// testMocks reads what a test replaces.
func (o Options) testMocks(c schema.Config) (mocks []node.TestMock, err error) {
	for _, m := range c.List("mocks") {
		mock := node.TestMock{Node: m.String("node"), File: m.String("file"), Pos: m.Pos("node")}
		switch {
		case m.Has("file") == m.Has("code"):
			err = errors.Join(err, m.Errorf("node", diag.CodeBadValue, "a mock has either a file or code").
				WithHint("write {node: %s, file: FILE}, or {node: %s, language: json, code: 'null'}", mock.Node, mock.Node))
		case m.Has("code") && !m.Has("language"):
			err = errors.Join(err, m.Errorf("code", diag.CodeBadValue, "the code of a mock needs a language").
				WithHint("add language: json, or the language that is meant"))
		case m.Has("code"):
			var wrong error
			mock.Language, wrong = field.Options(o).LanguageOf(m)
			mock.Code, err = m.Text("code"), errors.Join(err, wrong)
		}
		mocks = append(mocks, mock)
	}
	return mocks, err
}

type test struct {
	settings   node.TestSettings
	act, judge *node.Call
}

// Test implements [node.Tester].
func (t *test) Test() node.TestSettings { return t.settings }

func (t *test) Receive(node.Process, node.Packet) node.Result { return t.act.Send(0, value.Null()) }

// answered judges the answer of what is tested.
func (t *test) answered(resp node.Response) node.Result {
	if resp.IsError() {
		return node.Fail(resp.Payload.AsError())
	}
	return t.judge.Send(1, value.List(resp.Payload, value.Int(-1)))
}

// A durableTest starts a durable process at out[0], and judges its answer in the process of the test. Its key is the
// same in every program, so after a crash it gets the answer of the process that goes on.
type durableTest struct {
	*test
	key     []byte
	clock   node.Clock
	crashes bool
	starter node.Starter // from Serve on
}

// Crashes reports whether the test is repeated with crashes: see [uniflow.Test].
func (t *durableTest) Crashes() bool { return t.crashes }

// Visit implements [node.Host]: what asks a person can be tested.
func (t *durableTest) Visit(value.Value) *node.Visit {
	return &node.Visit{Context: func(ctx context.Context) context.Context {
		return node.WithParts(node.WithConversation(ctx, "test/"+string(t.key)), unread{})
	}}
}

// unread takes parts that no one reads.
type unread struct{}

// Part implements [node.Parts].
func (unread) Part(context.Context, value.Value) error { return nil }

// Serve implements [node.Trigger].
func (t *durableTest) Serve(src node.Starter) error {
	t.starter = src
	return nil
}

func (t *durableTest) Receive(node.Process, node.Packet) node.Result {
	s, ok := t.starter.(node.DurableStarter)
	if !ok || !s.Durable() {
		return node.Fail(errors.New("durability of a test takes a journal, which uniflow test gives it"))
	}
	return node.Block(func(ctx context.Context) node.Result {
		r, err := s.Submit(ctx, node.Submission{Level: node.LevelCheckpoint, Key: t.key, KeyTTL: 24 * time.Hour})
		if err != nil {
			return node.Fail(err)
		}
		defer r.Leave()
		if err := t.clock.Wait(ctx, r.Done); err != nil {
			return node.Fail(err)
		}
		return t.answered(r.Answer())
	})
}

// passed answers a test whose answer has been judged.
func passed(_ node.Process, resp node.Response) node.Result {
	if resp.IsError() {
		return node.Fail(resp.Payload.AsError())
	}
	return node.None()
}
