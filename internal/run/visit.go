package run

import (
	"context"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
)

// enter returns the result that the process of a run begins with, once its trigger lets it.
func (run *durable) enter(p *process, start func() node.Result) node.Result {
	begin := run.visit.Begin
	if begin == nil {
		return start()
	}
	run.begin() // no turn is given before
	r := node.Await(func(ctx context.Context, done func(node.Result)) {
		var once sync.Once
		goOn := func() {
			once.Do(func() {
				done(node.None())
				run.end()
			})
		}
		stop := context.AfterFunc((*lazyContext)(p).made(), goOn)
		begin(func() {
			stop()
			goOn()
		})
	})
	r.Effect().More.Awaited = func(node.Process, node.Result) node.Result { return start() }
	return r
}

// answer gives the answer of a run to its trigger.
func (run *durable) answer(resp node.Response, done func(error)) {
	if run.visit.Answer == nil {
		done(nil)
		return
	}
	run.visit.Answer(resp, func(err error) { run.gen.goroutine(func() { done(err) }) })
}
