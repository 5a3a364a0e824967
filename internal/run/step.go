package run

import (
	"context"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An errand is something that an activation does outside of the process: see [node.Run.Step].
type errand struct {
	act *activation
	pos uint64
	do  func(context.Context) (value.Value, error)
}

// Step implements [node.Run].
func (a *activation) Step(do func(context.Context) (value.Value, error), then node.Then) node.Result {
	a.steps++
	r := node.Sleep(0, then)
	r.Effect().More.Mark = &errand{act: a, pos: mix(mix(a.pos, uint64(StepRecord)), uint64(a.steps)), do: do}
	return r
}

// result returns a result that does the errand, unless there is a record of it, and goes on with what came of it.
func (e *errand) result(then node.Then) node.Result {
	run := e.act.run
	goOn := func(facade node.Process, rec *Record) node.Result {
		if rec != nil {
			return then(facade, rec.response())
		}
		return run.barrier(func(node.Process) node.Result {
			r := node.Block(func(ctx context.Context) node.Result {
				v, err := e.do(ctx)
				if err != nil {
					v = value.Error(err)
				}
				return node.Answer(v)
			})
			r.Effect().More.Awaited = e.done(then)
			return r
		})
	}
	if run.live.Load() {
		return goOn(nil, nil)
	}
	return run.turn(e.pos, e.act, goOn)
}

// done records what came of the errand.
func (e *errand) done(then node.Then) func(node.Process, node.Result) node.Result {
	return func(facade node.Process, r node.Result) node.Result {
		resp := node.Response{Payload: r.Effect().Payload}
		if owner(facade).aborted == nil {
			e.act.run.add(Record{Pos: e.pos, Node: e.act.ref.ID, Type: StepRecord, Op: effect.Answer, Payload: resp.Payload})
		}
		return then(facade, resp)
	}
}
