// Package effect is what a result of a node contains, as the engine reads it.
// Authors of nodes make results with the functions of package node instead.
//
// The package must not know nodes or processes.
package effect

import "github.com/uniflow-labs/uniflow/value"

// An Op is what the engine does about a packet.
type Op uint8

// The operations, called after the functions of package node that make them.
const (
	Answer Op = iota // answer the packet with Payload
	None             // answer the packet with None
	Fail             // send Payload to the error port
	Send             // send Payload on out-port Port; its response is the answer
	Call             // send Payload on out-port Port, continue with More.Then
	Many             // send More.Packets or run More.Children, continue with More.ThenAll
	Block            // run More.Block without the process's token, apply its result
	Await            // call More.Await, apply the result that it is given later
	Fork             // apply More.Inner in a detached child process; answer None
	After            // apply More.Inner, continue with More.Then when its response has come
	Sleep            // continue with More.Then after More.Delay
	Within           // apply More.Inner; a child process that it starts with ends after More.Delay
)

// An Effect is an operation with its operands. More is a type of package node,
// which holds the operands that only some operations have; it is nil for Answer,
// None, Fail and Send.
type Effect[More any] struct {
	Payload value.Value
	Op      Op
	Again   bool // one more attempt at what the packet asks for
	Port    int32
	More    *More
}
