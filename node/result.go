package node

import (
	"context"
	"errors"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// A Response is what comes back for a packet: a payload, an error (a payload of
// kind error), or None, which says "accepted, nothing to say" and is not null.
type Response struct {
	Payload value.Value
	None    bool
}

// IsError reports whether the response is an error.
func (r Response) IsError() bool { return r.Payload.IsError() }

// Op is what a Result asks the engine to do.
type Op uint8

// The operations. Node authors use the constructors of the same names.
const (
	OpAnswer Op = iota // answer the packet with Payload
	OpNone             // answer the packet with None
	OpFail             // send Payload to the error port
	OpSend             // send Payload on out-port Port; its response is the answer
	OpCall             // send Payload on out-port Port, go on with Then
	OpMany             // send or run Many, go on with Many.Then
	OpBlock            // run Block outside the process's turn, do what it returns
	OpFork             // do Inner in a detached child process; answer None
	OpAfter            // do Inner, go on with Then when its response has come
)

// A Result is what a node does with a packet. The zero Result answers null. It
// is made by the functions below; its fields are for the engine.
type Result struct {
	Payload value.Value
	Op      Op
	Port    int32
	More    *More // nil for OpAnswer, OpNone, OpFail and OpSend
}

// More is the part of a Result that only some operations have.
type More struct {
	Then     Then
	ThenAll  ThenAll
	Packets  []Out
	Children []Result
	Limit    int
	Block    func(context.Context) Result
	Inner    Result
}

// Then goes on when a response has come. It obeys the rules of [Node.Receive],
// and is called once unless the process ends before.
type Then func(p Process, resp Response) Result

// ThenAll goes on when all responses have come; they are in the order in which
// the packets were sent. The slice is the callee's.
type ThenAll func(p Process, resps []Response) Result

// An Out is one packet to be sent on an out-port.
type Out struct {
	Port    int
	Payload value.Value
}

// Answer answers the packet with a payload. A payload of kind error makes an
// error response that passes upstream, past the node's error port.
func Answer(v value.Value) Result { return Result{Op: OpAnswer, Payload: v} }

// None answers the packet: accepted, nothing to say.
func None() Result { return Result{Op: OpNone} }

// Respond answers the packet with a response as it came from elsewhere.
func Respond(r Response) Result {
	if r.None {
		return None()
	}
	return Answer(r.Payload)
}

// Fail reports the node's own failure. It goes to the node's error port; if that
// has no link, it is the answer. A nil error is a mistake of the node, and fails
// with F7006.
func Fail(err error) Result {
	if err == nil {
		err = &Error{Err: errors.New("node.Fail was given a nil error"), Code: string(diag.CodeMisuse)}
	}
	return Result{Op: OpFail, Payload: value.Error(err)}
}

// Divert is Fail with a payload that is no error: something that is out of the
// way but has an answer of its own, which is the answer where the error port has
// no link.
func Divert(v value.Value) Result { return Result{Op: OpFail, Payload: v} }

// Send sends a payload on an out-port, and the response answers the packet. On a
// port without a link the payload itself is the answer.
func Send(port int, v value.Value) Result {
	return Result{Op: OpSend, Port: int32(port), Payload: v}
}

// A Call sends a payload on an out-port and waits. A node keeps one as a field,
// made once, so that waiting for a response allocates nothing.
type Call struct{ more More }

// NewCall returns a call that goes on with then.
func NewCall(then Then) *Call { return &Call{More{Then: then}} }

// Send sends a payload on an out-port; when the response has come, the call's
// function says how to go on. On a port without a link the payload is its own
// response.
func (c *Call) Send(port int, v value.Value) Result {
	return Result{Op: OpCall, Port: int32(port), Payload: v, More: &c.more}
}

// SendThen is [Call.Send] with a function made for this packet.
func SendThen(port int, v value.Value, then Then) Result {
	return NewCall(then).Send(port, v)
}

// SendAll sends several packets, in order, and goes on when all have been
// answered. With no packets it goes on at once. It takes ownership of packets.
func SendAll(packets []Out, then ThenAll) Result {
	return Result{Op: OpMany, More: &More{Packets: packets, ThenAll: then}}
}

// Spawn does each of the results in a child process of its own, as if this node
// had returned it there, at most limit at a time (all at once if limit < 1), and
// goes on when all have ended. The children see this process's storage, and end
// with it. It takes ownership of children.
func Spawn(children []Result, limit int, then ThenAll) Result {
	return Result{Op: OpMany, More: &More{Children: children, Limit: limit, ThenAll: then}}
}

// Block runs a function that waits for something outside: a clock, a peer, a
// disk. Meanwhile other nodes of the process go on; packets at the same in-port
// wait. The function gets the process's context and must return soon after that
// is done. A nil function is a mistake of the node, and is answered with F7006.
func Block(f func(ctx context.Context) Result) Result {
	return Result{Op: OpBlock, More: &More{Block: f}}
}

// Fork answers None at once and does r in a child process that goes on by
// itself: after this process has ended, and after its client has left. Only the
// shutdown's grace ends it. An error that it ends with is logged.
func Fork(r Result) Result { return Result{Op: OpFork, More: &More{Inner: r}} }

// After does r as if the node had returned it, and goes on when the response of
// that has come. It is how to look at the answer of any result, such as that of
// the error port to a [Fail].
func After(r Result, then Then) Result {
	return Result{Op: OpAfter, More: &More{Inner: r, Then: then}}
}

// Join makes one response of several, in order: any error wins, and several are
// joined; None is skipped; nothing left is None; one left is that payload; more
// are a list.
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

// A Func is a node that makes one payload of another. What it returns is sent
// on out-port 0; an error is the node's own failure.
type Func func(p Process, in value.Value) (out value.Value, err error)

// Receive calls f and sends on what it returns.
func (f Func) Receive(p Process, pkt Packet) Result {
	out, err := f(p, pkt.Payload)
	if err != nil {
		return Fail(err)
	}
	return Send(0, out)
}
