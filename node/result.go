package node

import (
	"context"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/value"
)

// A Response is what comes back for a packet: a payload, an error (a payload of
// kind error), or None, which means "accepted, no answer" and is not null.
type Response struct {
	Payload value.Value
	None    bool
}

// IsError reports whether the payload is an error.
func (r Response) IsError() bool { return r.Payload.IsError() }

// A Result is what a node does with a packet. The zero Result answers null. The
// functions below make one.
type Result struct{ contents contents }

type contents = effect.Effect[more]

// Effect returns the contents of the result. It is for the engine.
func (r *Result) Effect() *effect.Effect[more] { return &r.contents }

// more is the part of a result that only some operations have.
type more struct {
	Then     Then
	ThenAll  ThenAll
	Packets  []Out
	Children []Result
	Limit    int
	Block    func(context.Context) Result
	Await    func(ctx context.Context, done func(Result))
	Awaited  func(p Process, r Result) Result // of the engine: what it makes of Await's result
	Mark     any                              // of the engine: what an After is about
	Inner    Result
	Delay    time.Duration

	UntilError bool // of Packets and Children
	Queued     bool // of Await
	Step       bool // of Block
}

// Then continues after a response. It obeys the rules of [Node.Receive], and is
// called once unless the process ends before.
type Then func(p Process, resp Response) Result

// ThenAll continues after all responses, which are in the order of the packets
// that were sent. The function owns the slice.
type ThenAll func(p Process, resps []Response) Result

// An Out is a packet to send on an out-port.
type Out struct {
	Port    int
	Payload value.Value
}

// Answer answers the packet with a payload. A payload of kind error makes an
// error response that passes upstream, past the node's error port.
func Answer(v value.Value) Result { return Result{contents{Op: effect.Answer, Payload: v}} }

// None answers the packet without a payload.
func None() Result { return Result{contents{Op: effect.None}} }

// Respond answers the packet with the response to another one.
func Respond(r Response) Result {
	if r.None {
		return None()
	}
	return Answer(r.Payload)
}

// Fail reports a failure of the node itself. It goes to the node's error port, or
// is the answer if that has no link. A nil error is a mistake of the node, and
// fails with F7006.
func Fail(err error) Result {
	if err == nil {
		err = &Error{Err: errors.New("node.Fail was given a nil error"), Code: string(diag.CodeMisuse)}
	}
	return Result{contents{Op: effect.Fail, Payload: value.Error(err)}}
}

// Send sends a payload on an out-port; the response to it is the answer. If the
// port has no link, the payload itself is the answer.
func Send(port int, v value.Value) Result {
	return Result{contents{Op: effect.Send, Port: int32(port), Payload: v}}
}

// A Call sends a payload on an out-port and continues after the response. A node
// makes it once and keeps it in a field, so that waiting allocates nothing.
type Call struct{ more more }

// NewCall returns a call that continues with then.
func NewCall(then Then) *Call { return &Call{more{Then: then}} }

// Send sends a payload on an out-port, and continues with the call's function. If
// the port has no link, the payload is its own response.
func (c *Call) Send(port int, v value.Value) Result {
	return Result{contents{Op: effect.Call, Port: int32(port), Payload: v, More: &c.more}}
}

// SendThen is [Call.Send] with a function made for this packet.
func SendThen(port int, v value.Value, then Then) Result {
	return NewCall(then).Send(port, v)
}

// SendAll sends several packets, in order, and continues when all have been
// answered; without packets it continues immediately. It takes ownership of
// packets.
func SendAll(packets []Out, then ThenAll) Result {
	return Result{contents{Op: effect.Many, More: &more{Packets: packets, ThenAll: then}}}
}

// Spawn applies each result in a child process of its own, as if this node had
// returned it there, and continues when all children have ended. At most limit of
// them run concurrently; a limit below 1 is none. The children see this process's
// storage, and end with it. Spawn takes ownership of the slice.
func Spawn(children []Result, limit int, then ThenAll) Result {
	return Result{contents{Op: effect.Many, More: &more{Children: children, Limit: limit, ThenAll: then}}}
}

// ErrTimeLimit is the cause of the end of a child that has used up its time: see [Within].
var ErrTimeLimit = errors.New("the time limit has passed")

// Within gives a child of a [Spawn] so much time, by the engine's [Clock]. Then its context
// ends with [ErrTimeLimit] as the cause, and so its response is an error that wraps it. 0 is
// as long as it takes. Elsewhere, r stays as it is.
func Within(d time.Duration, r Result) Result {
	if d <= 0 {
		return r
	}
	return Result{contents{Op: effect.Within, Payload: r.contents.Payload, More: &more{Inner: r, Delay: d}}}
}

// UntilError makes a [SendAll] or a [Spawn] end early: once a response is an error,
// the packets that have not been sent, and the children that have not started, are
// left out, and their responses are None. The packets of such a SendAll are sent
// while the process has room for them, so that any number fits into its budget.
// Other results stay as they are.
func UntilError(r Result) Result {
	if r.contents.Op == effect.Many {
		r.contents.More.UntilError = true
	}
	return r
}

// Block runs a function that waits for something outside: a clock, a peer, a
// disk. Other nodes of the process continue meanwhile; packets at the same in-port
// wait. The function gets the process's context and must return soon after that
// is done. A nil function is a mistake of the node, and is answered with F7006.
func Block(f func(ctx context.Context) Result) Result {
	return Result{contents{Op: effect.Block, More: &more{Block: f}}}
}

// Step runs a function as [Block] does, and continues with what it returns: a value, or an error as the
// payload. In a durable process that is recorded. When the process runs again, it continues with what was
// recorded, and do is not called. So several costly steps lead to the answer to one packet, each done once. All
// that was recorded before is durable when do begins.
//
// It is for nodes that say [Reruns]. In a process that is not durable, it is a Block.
func Step(do func(ctx context.Context) (value.Value, error), then Then) Result {
	return Result{contents{Op: effect.Block, More: &more{
		Step: true,
		Then: then,
		Block: func(ctx context.Context) Result {
			v, err := do(ctx)
			if err != nil {
				v = value.Error(err)
			}
			return After(Answer(v), then)
		},
	}}}
}

// Await answers the packet with the result given to done, without a goroutine that waits
// for it. begin starts what the packet waits for: it gets the process's context and must
// not block. done is called once, from any goroutine, by begin itself or later. If ctx
// ends first, call it soon after that; the process waits for it. Do not use ctx after
// done was called: it has ended, or belongs to another process.
//
// done may run the rest of the process before it returns, other nodes included: hold no
// lock when you call it. It does not block. A second call of done is a mistake of the
// node: it is logged with F7006, and does nothing else.
//
// As with [Block], other nodes of the process continue meanwhile, and packets at the
// same in-port wait. A nil function is a mistake of the node, and is answered with F7006.
func Await(begin func(ctx context.Context, done func(Result))) Result {
	return Result{contents{Op: effect.Await, More: &more{Await: begin}}}
}

// Queue is [Await] for a node whose packets take effect in the order in which their begin
// is called, such as records that a sink writes: so the next one may be given to it while
// it has not answered this one. See [Starter.Start].
func Queue(begin func(ctx context.Context, done func(Result))) Result {
	return Result{contents{Op: effect.Await, More: &more{Await: begin, Queued: true}}}
}

// Sleep continues after a time of the engine's [Clock], as a [Block] that waits for
// it would. The response that then gets is None, or the error of the process's
// context if that is done before.
func Sleep(d time.Duration, then Then) Result {
	return Result{contents{Op: effect.Sleep, More: &more{Delay: d, Then: then}}}
}

// Again marks r as one more attempt at what the packet asks for. Everything else
// about the attempts differs, but an idempotency key made for one of them is the
// same for all.
func Again(r Result) Result {
	r.contents.Again = true
	return r
}

// Fork answers None immediately and applies r in a child process that outlives
// this process and its client. Only the end of a shutdown's grace cancels it. If
// it ends with an error, that is logged.
func Fork(r Result) Result { return Result{contents{Op: effect.Fork, More: &more{Inner: r}}} }

// After applies r as if the node had returned it, and continues after the
// response. Use it to see the answer to any result, such as the answer of the
// error port to a [Fail].
func After(r Result, then Then) Result {
	return Result{contents{Op: effect.After, More: &more{Inner: r, Then: then}}}
}

// Join makes one response of several. If any are errors, it is these, joined.
// Otherwise it is the list of their payloads, in order and without those that are
// None; a single payload stands for itself, and no payload is None.
func Join(resps []Response) Response {
	var errs []error
	var left int
	for _, r := range resps {
		switch {
		case r.None:
		case r.IsError():
			errs = append(errs, r.Payload.AsError())
		default:
			left++
		}
	}
	switch {
	case len(errs) == 1:
		return Response{Payload: value.Error(errs[0])}
	case len(errs) > 1:
		return Response{Payload: value.Error(errors.Join(errs...))}
	case left == 0:
		return Response{None: true}
	}
	payloads := make([]value.Value, 0, left)
	for _, r := range resps {
		if !r.None {
			payloads = append(payloads, r.Payload)
		}
	}
	if left == 1 {
		return Response{Payload: payloads[0]}
	}
	return Response{Payload: value.List(payloads...)}
}

// A Func is a node that makes one payload of another. The payload that it returns
// is sent on out-port 0; an error is a failure of the node.
type Func func(p Process, in value.Value) (out value.Value, err error)

// Receive implements [Node].
func (f Func) Receive(p Process, pkt Packet) Result {
	out, err := f(p, pkt.Payload)
	if err != nil {
		return Fail(err)
	}
	return Send(0, out)
}
