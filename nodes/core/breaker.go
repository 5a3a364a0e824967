package core

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed breaker.md
var breakerPage string

func breakerDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "breaker",
		Summary: "Stops sending payloads on when too many come back with an error, and tries again step by step.",
		Page:    node.ReadPage(breakerPage),
		Config: schema.Fields(
			schema.Int("threshold").Default(5).Range(1, 1_000_000).Doc("How many failures within `window` open the breaker, unless `rate` is set."),
			schema.Float("rate").Range(0.001, 1).Doc("The share of failures within `window` that opens it, such as 0.5."),
			schema.Int("minimum").Default(20).Range(1, 1_000_000).Doc("With `rate`, how many answers there are at least before it counts."),
			schema.Duration("window").Default("10s").Range(float64(10*time.Millisecond), float64(24*time.Hour)).Doc("How long failures count."),
			field.NewBackoff(field.Backoff{Initial: time.Second, Factor: 2, Max: time.Minute, Jitter: 0.1},
				"How long the breaker stays open before it tries again.", "The longest time; at least `initial` unless set."),
			schema.Int("probes").Default(4).Range(1, 10_000).Doc("How many payloads are sent together in the last step before it closes. The steps are 1, 2, 4 and so on."),
			schema.Enum("mode", "refuse", "park").Default("refuse").Doc("What becomes of payloads meanwhile: they are refused, or wait until they can be sent."),
			schema.Int("max").Default(1000).Range(1, 1_000_000).Doc("With `mode: park`, how many may wait. Further ones are refused."),
			schema.Expr("when").Doc("Which errors are failures, over the error as `self`. Without it, those that may pass: with a status of 500 and more, or none, except for permanent ones."),
			languageField(o),
			timeoutField(),
		),
		In:  in("What to send."),
		Out: []node.Port{{Name: "out", Doc: "A payload, to what may fail."}},
		OpenAPI: func(schema.Config) value.Value {
			return value.Map(value.Field{Name: "responses", Value: openapi.Failure(http.StatusServiceUnavailable, "The service behind is away; Retry-After says when to try again.", "Retry-After")})
		},
		Error:  "A payload that is refused: status 503, code `open`.",
		Traits: node.Fixed(node.Traits{Is: node.Inside | node.OwnStatus, Shape: node.Passes}),
		Recall: node.Always(node.Reruns),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			backoff, err := field.BackoffOf(c)
			if err != nil {
				return nil, err
			}
			n := &breaker{
				rules: circuitRules{
					threshold: int(c.Int("threshold")), minimum: int(c.Int("minimum")), window: c.Duration("window"), probes: int(c.Int("probes")), backoff: backoff,
				},
				clock: init.Clock, pool: init.Pool,
			}
			switch {
			case c.Has("rate"):
				if n.rules.rate = c.Float("rate"); c.Has("threshold") {
					return nil, c.Errorf("threshold", diag.CodeBadValue, "rate is set, too").WithHint("remove one of them")
				}
			case c.Has("minimum"):
				return nil, c.Errorf("minimum", diag.CodeBadValue, "minimum is used with rate only").WithHint("add one such as rate: 0.5, or remove it")
			}
			if n.most = int(c.Int("max")); c.String("mode") != "park" {
				if n.most = 0; c.Has("max") {
					return nil, c.Errorf("max", diag.CodeBadValue, "nothing waits unless payloads are parked").WithHint("add mode: park, or remove it")
				}
			}
			n.shared = fmt.Sprintf("breaker %q %q %+v %q %q", init.Node.Namespace, init.Node.String(), n.rules, c.Text("when").Code, c.String("language"))
			if !c.Has("when") {
				return n, nil
			}
			n.when, err = o.compileExpr(init, c, "when", lang.Options{Condition: true})
			return n, err
		},
	}
}

// A breaker is a node of that kind. It shares its circuit with the same node of earlier and
// later generations.
type breaker struct {
	rules  circuitRules
	when   lang.Program // nil: those that another attempt may not have
	most   int          // that may wait
	clock  node.Clock
	pool   *node.Pool
	shared string

	circuit *circuit // from Open on
	release func() error
	drained bool // guarded by the circuit
}

// Open finds the circuit of the generation before, or makes one.
func (n *breaker) Open(context.Context) (err error) {
	n.circuit, n.release, err = node.Acquire(n.pool, n.shared, func() (*circuit, error) { return newCircuit(n.rules, n.clock), nil })
	return err
}

func (n *breaker) Close() error { return n.release() }

// Receive sends a payload, or refuses it, or makes it wait.
func (n *breaker) Receive(p node.Process, pkt node.Packet) node.Result {
	if r, durable := node.RunOf(p); durable {
		return n.once(r, p, pkt.Payload)
	}
	t, err := n.circuit.pass(n, p)
	switch {
	case t != nil:
		return t.Send(pkt.Payload)
	case n.most == 0:
		return node.Fail(err)
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		w := &waiter{owner: n, process: p, payload: pkt.Payload}
		w.Begin(ctx, done, func(error) { n.circuit.leave(w) })
		n.circuit.park(w)
	})
}

// once lets a packet of a durable process pass, or refuses it: it does not wait in the memory of the
// program. One that runs again does what it did the first time, and counts for nothing.
func (n *breaker) once(r node.Run, p node.Process, payload value.Value) node.Result {
	var t *state.Ticket[permit]
	var err error
	refused := r.Note(func() value.Value {
		if t, err = n.circuit.pass(n, p); err != nil {
			return value.Error(err)
		}
		return value.Null()
	})
	switch {
	case err != nil:
		return node.Fail(err)
	case refused.IsError():
		return node.Fail(refused.AsError())
	case t != nil:
		return t.Send(payload)
	}
	return node.Send(0, payload)
}

// failed reports whether an answer is a failure, and counts false for one that says nothing.
func (n *breaker) failed(p node.Process, resp node.Response) (failed, counts bool) {
	if !resp.IsError() {
		return false, true
	}
	err := resp.Payload.AsError()
	if errors.Is(err, context.Canceled) || errors.Is(err, node.ErrStopped) {
		return false, false // the client has left, or the program ends
	}
	if n.when == nil {
		return node.Describe(err).Retryable(), true
	}
	yes, wrong := holds(p, n.when, resp.Payload)
	return yes || wrong != nil, true
}

// Drain refuses what waits, so that it comes to the next generation.
func (n *breaker) Drain() { n.circuit.drain(n) }

// Measure implements [node.Measured].
func (n *breaker) Measure(report func(node.Metric)) {
	c := n.circuit
	c.Lock()
	at, opened, refused, failures, parked := c.state, c.opened, c.refused, c.failures, c.queue.Len()
	c.Unlock()
	report(node.Metric{Name: "breaker_state", Help: "0 is closed, 1 half-open, 2 open.", Value: float64(at)})
	report(node.Metric{Name: "breaker_parked", Help: "Payloads that wait until the breaker sends them.", Value: float64(parked)})
	for name, m := range map[string]struct {
		help string
		n    uint64
	}{
		"opened": {"How often the breaker has opened.", opened}, "refused": {"Payloads that were refused.", refused}, "failures": {"Answers that were failures.", failures},
	} {
		report(node.Metric{Name: "breaker_" + name + "_total", Help: m.help, Type: node.MetricCounter, Value: float64(m.n)})
	}
}
