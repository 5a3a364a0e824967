package flow

import (
	_ "embed"
	"errors"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed wait.md
var waitPage string

// longest is the longest wait that a field may ask for: a year.
const longest = 366 * 24 * time.Hour

func waitDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "wait",
		Summary: "Waits for a signal, for days if need be, over restarts of the program.",
		Page:    node.ReadPage(waitPage),
		Config: schema.Fields(
			schema.String("event").Doc("The event to wait for. Unset is the name of the node."),
			schema.Expr("key").Doc("An expression over the payload for whose event, such as `self.body.order`. Unset, the wait has only its token: link the port `ask`."),
			schema.Duration("timeout").Default(72*time.Hour).Range(0, float64(longest)).Doc("How long to wait. Then the payload leaves by the port `timeout`; without a link there, the node fails with the status 408. 0 is for ever."),
		),
		In: []node.Port{{Name: "in", Doc: "A payload that waits."}},
		Out: []node.Port{
			{Name: "out", Doc: "`{input, signal}`: the payload, and that of the signal."},
			{Name: "ask", Doc: "`{input, token, key, until}`, before it waits: for a message that asks a person for the signal. Its answer is not used. An error of it is a failure of the node."},
			{Name: "timeout", Doc: "The payload, when no signal has come in time."},
		},
		Traits: func(schema.Config) node.Traits {
			return node.Traits{Needs: []node.Need{{What: node.GivesDurability, OfTrigger: true, Hint: "set durability: checkpoint at the trigger, and start with --journal"}}}
		},
		Recall: node.Always(node.Holds),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &wait{event: c.String("event"), timeout: c.Duration("timeout"), asks: init.OutLinks[portAsk] > 0, late: init.OutLinks[portTimeout] > 0}
			if n.event == "" {
				n.event = init.Node.Name
			}
			if !c.Has("key") && !n.asks {
				return nil, c.Errorf("key", codeBadNode, "is missing, and the port ask has no link: nothing could end the wait").WithHint("set key, or link the port ask, whose packet has a token")
			}
			var err error
			n.key, err = o.Expr(c, "key", lang.Options{Warn: init.Warn})
			return n, err
		},
	}
}

// The out-ports of wait.
const (
	portOut = iota
	portAsk
	portTimeout
)

type wait struct {
	event   string
	key     lang.Program // nil without
	timeout time.Duration
	asks    bool // the port ask is linked
	late    bool // likewise timeout
}

var (
	errNotDurable = node.Unusable("not_durable", errors.New("only a durable process can wait: set durability: checkpoint at its trigger"))
	errTimeout    = &node.Error{Err: errors.New("no signal has come in time"), Code: "timeout", Status: http.StatusRequestTimeout}
)

func (n *wait) Receive(p node.Process, pkt node.Packet) node.Result {
	run, ok := node.RunOf(p)
	if !ok {
		return node.Fail(errNotDurable)
	}
	key, err := textOf(p.Context(), "key", n.key, pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	w := run.Wait(node.Wait{Event: n.event, Key: key, Timeout: n.timeout, Token: n.asks})
	wait := func(node.Process, node.Response) node.Result {
		return w.Await(func(_ node.Process, resp node.Response) node.Result { return n.over(pkt.Payload, resp) })
	}
	if !n.asks {
		return wait(p, node.Response{})
	}
	until := value.Null()
	if !w.Until().IsZero() {
		until = value.Time(w.Until())
	}
	asked := value.Map(
		value.Field{Name: "input", Value: pkt.Payload},
		value.Field{Name: "token", Value: value.String(w.Token())},
		value.Field{Name: "key", Value: value.String(key)},
		value.Field{Name: "until", Value: until},
	)
	return node.SendThen(portAsk, asked, func(p node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			w.Cancel()
			return node.Fail(resp.Payload.AsError())
		}
		return wait(p, resp)
	})
}

// over goes on with what has ended the wait.
func (n *wait) over(input value.Value, resp node.Response) node.Result {
	switch {
	case resp.IsError():
		return node.Fail(resp.Payload.AsError())
	case !resp.None:
		return node.Send(portOut, value.Map(value.Field{Name: "input", Value: input}, value.Field{Name: "signal", Value: resp.Payload}))
	case n.late:
		return node.Send(portTimeout, input)
	}
	return node.Fail(errTimeout)
}
