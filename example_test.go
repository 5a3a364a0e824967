package uniflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A program that serves a workflow, with a kind of its own in addition to the standard ones.
func Example() {
	engine, err := uniflow.New(uniflow.Options{Kinds: append(std.Defs(""), double())})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	document := "{kind: double, name: first, ports: {out: [{name: second, port: in}]}}"
	document += "\n---\n{kind: snippet, name: second, language: cel, code: self + 1}"
	findings, err := engine.Apply(ctx, uniflow.Source{
		Documents: []spec.Document{{File: "flow.yaml", Data: []byte(document)}},
	})
	if err = errors.Join(findings.Err(), err); err != nil {
		log.Fatal(err)
	}
	answer, _, err := engine.Run(ctx, "first", value.Int(20))
	fmt.Println(answer, err)

	// A document with an error changes nothing, and says what is wrong with it.
	findings, _ = engine.Apply(ctx, uniflow.Source{
		Documents: []spec.Document{{File: "flow.yaml", Data: []byte("{kind: duoble, name: first}")}},
	})
	fmt.Println(findings)
	if err := engine.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 41 <nil>
	// flow.yaml:1:8: node "first": kind: unknown kind "duoble" [F2006]
}

func double() *node.Def {
	return &node.Def{
		Kind: "double", Summary: "Doubles a number.",
		In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.Func(func(_ node.Process, in value.Value) (value.Value, error) {
				n, ok := in.AsInt()
				if !ok {
					return value.Value{}, fmt.Errorf("want an integer, got %s", in.Kind())
				}
				return value.Int(2 * n), nil
			}), nil
		},
	}
}

// A kind with an expression: New compiles it, so that a mistake in it is found when
// the document is checked, at its place.
func Example_expression() {
	languages := builtin.Languages() // one for all kinds
	keep := &node.Def{
		Kind: "keep", Summary: "Passes on what a condition holds for.",
		Config: schema.Fields(
			schema.Expr("when").Required().Doc("The condition, in CEL."),
			schema.Duration("timeout").Doc("How long one evaluation may take."),
		),
		In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(init *node.Init) (node.Node, error) {
			when, err := languages.Compile("cel", init.Config.Text("when"), lang.Options{
				Mode: lang.ModeExpression, Timeout: init.Config.Duration("timeout"),
			})
			if err != nil {
				return nil, err
			}
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
				holds, err := when.Eval(p.Context(), pkt.Payload)
				switch {
				case err != nil:
					return node.Fail(err)
				case !holds.Truth():
					return node.None()
				}
				return node.Send(0, pkt.Payload)
			}), nil
		},
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{keep}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	show := func(when string) {
		findings, err := engine.Apply(ctx, uniflow.Source{
			Documents: []spec.Document{{File: "flow.yaml", Data: []byte("kind: keep\nname: big\nwhen: " + when + "\n")}},
		})
		if err != nil {
			log.Fatal(err)
		}
		if findings.HasErrors() {
			fmt.Println("line", findings[0].Pos.Line, findings[0].Code)
			return
		}
		for _, n := range []int64{5, 50} {
			answer, ok, err := engine.Run(ctx, "big", value.Int(n))
			fmt.Println(answer, ok, err)
		}
	}
	show("self > 10")
	show("self >")
	if err := engine.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// null false <nil>
	// 50 true <nil>
	// line 3 F4001
}

// A node that needs a connection: Open acquires it and Close releases it. The pool
// keeps it open through a reload that does not change where it leads to.
func ExampleEngine_Apply_resource() {
	query := &node.Def{
		Kind: "query", Summary: "Asks a database.",
		Config: schema.Fields(schema.String("db").Required(), schema.String("prefix")),
		In:     []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(init *node.Init) (node.Node, error) {
			return &queryNode{db: init.Config.String("db"), prefix: init.Config.String("prefix"), pool: init.Pool}, nil
		},
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{query}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for _, document := range []string{"{kind: query, name: q, db: users}", "{kind: query, name: q, db: users, prefix: 'no. '}"} {
		findings, err := engine.Apply(ctx, uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(document)}}})
		if err = errors.Join(findings.Err(), err); err != nil {
			log.Fatal(err)
		}
		answer, _, err := engine.Run(ctx, "q", value.Int(7))
		fmt.Println(answer, err)
	}
	if err := engine.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// connect to users
	// 7 of users <nil>
	// no. 7 of users <nil>
	// disconnect from users
}

type queryNode struct {
	db, prefix string
	pool       *node.Pool

	conn    *connection  // from Open on
	release func() error // from Open on
}

func (n *queryNode) Open(context.Context) (err error) {
	n.conn, n.release, err = node.Acquire(n.pool, "query "+n.db, func() (*connection, error) {
		fmt.Println("connect to", n.db)
		return &connection{n.db}, nil
	})
	return err
}

// Close is called if Open went well, and only then.
func (n *queryNode) Close() error { return n.release() }

// Receive lets Block wait for the database.
func (n *queryNode) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(context.Context) node.Result {
		return node.Send(0, value.String(n.prefix+pkt.Payload.String()+" of "+n.conn.db))
	})
}

type connection struct{ db string }

func (c *connection) Close() error { fmt.Println("disconnect from", c.db); return nil }

// A trigger starts processes itself: Serve gets the Starter, Stop ends that and
// waits for the processes in progress.
func ExampleEngine_Apply_trigger() {
	lines, feed := io.Pipe()
	reader := &node.Def{
		Kind: "lines", Summary: "Starts a process for each line.",
		Out: []node.Port{{Name: "out", Doc: "The line."}},
		New: func(*node.Init) (node.Node, error) {
			return &linesNode{from: lines, call: node.NewCall(func(_ node.Process, resp node.Response) node.Result {
				return node.Respond(resp) // what the workflow has answered
			})}, nil
		},
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: append(std.Defs(""), reader)})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	findings, err := engine.Apply(ctx, uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(`
- {kind: lines, ports: {out: [{name: greet, port: in}]}}
- {kind: snippet, name: greet, language: cel, code: '"hello " + self'}
`)}}})
	if err = errors.Join(findings.Err(), err); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(feed, "ada")
	fmt.Fprintln(feed, "bob")
	if err := engine.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// hello ada
	// hello bob
}

type linesNode struct {
	from    *io.PipeReader
	call    *node.Call
	reading sync.WaitGroup
}

// Receive is for kinds with in-ports.
func (n *linesNode) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (n *linesNode) Serve(src node.Starter) error {
	n.reading.Go(func() {
		var line string
		for {
			if _, err := fmt.Fscanln(n.from, &line); err != nil {
				return
			}
			resp := src.Run(context.Background(), n.call.Send(0, value.String(line)))
			if text, ok := resp.Payload.AsString(); ok {
				fmt.Println(text)
			}
		}
	})
	return nil
}

func (n *linesNode) Stop(context.Context) error {
	err := n.from.Close()
	n.reading.Wait()
	return err
}
