package compile

import (
	"errors"
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A sub-graph is a vertex between its nodes and the rest of the program. What arrives
// at an in-port leaves at the out-port of the same index: first come the entries, which
// lead from its in-ports to its nodes, then the exits, to which its nodes send, and
// which lead to its out-ports. Most such hops are removed when the links are known; see
// [compiler.shorten].

// entries returns the number of in-ports of a sub-graph; 0 for other nodes.
func (u *unit) entries() int {
	if u.spec.Boundary == nil {
		return 0
	}
	return len(u.spec.Boundary.In)
}

// exits returns the number of out-ports of a sub-graph, with error if its nodes send
// there; 0 for other nodes.
func (u *unit) exits() int {
	if u.spec.Boundary == nil {
		return 0
	}
	return len(u.spec.Boundary.Out)
}

// enter links the in-ports of a sub-graph to its nodes.
func (c *compiler) enter(at int32, b *spec.Boundary) {
	v := &c.prog.Vertices[at]
	for i, port := range b.In {
		first := len(c.prog.Links)
		for _, l := range port.Links {
			if e, ok := c.edge(at, c.units[at].spec, port, l, "inbounds."+port.Name); ok {
				v.Out[i] = append(v.Out[i], e)
			}
		}
		c.leaveFrom(first, i)
	}
}

// exit returns the edge to an out-port of the sub-graph around a node.
func (c *compiler) exit(from int32, port spec.Port, l spec.Link) Edge {
	outer := c.bySpec[c.units[from].spec.Outer]
	u := &c.units[outer]
	index := u.entries() + slices.Index(u.spec.Boundary.Out, l.Port)
	u.in[index]++
	c.prog.Links = append(c.prog.Links, Link{From: from, To: outer, Out: port.Name, In: l.Port, InPort: index, Pos: l.Pos})
	return Edge{outer, int32(index)}
}

// shorten removes hops through sub-graphs that add nothing: no error port handles
// what passes, and exactly one link leads on. A link to an exit that leads nowhere is
// removed if it is the only one of its port, so that the payload is its own response.
func (c *compiler) shorten() {
	if c.opts.Whole {
		return
	}
	follow := func(edges []Edge) []Edge {
		for i := range edges {
			for {
				e := edges[i]
				v := &c.prog.Vertices[e.Node]
				if c.units[e.Node].spec.Boundary == nil || len(v.Err) > 0 || int(e.Port) >= len(v.Out) {
					break
				}
				next := v.Out[e.Port]
				if len(next) == 0 && len(edges) == 1 {
					return nil
				}
				if len(next) != 1 {
					break
				}
				edges[i] = next[0]
			}
		}
		return edges
	}
	for i := range c.prog.Vertices {
		v := &c.prog.Vertices[i]
		for port := range v.Out {
			v.Out[port] = follow(v.Out[port])
		}
		v.Err = follow(v.Err)
	}
}

// A boundary is the node of a sub-graph.
type boundary struct {
	entries int
	toError int          // the exit to the error port; -1 without one
	calls   []*node.Call // by port, if the error port is linked; else nil
}

func newBoundary(u *unit, errLinked bool) *boundary {
	b := &boundary{entries: u.entries(), toError: -1}
	if i := slices.Index(u.spec.Boundary.Out, errorPort); i >= 0 {
		b.toError = b.entries + i
	}
	if !errLinked {
		return b
	}
	enter := node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if !resp.IsError() {
			return node.Respond(resp)
		}
		err := resp.Payload.AsError()
		if passing := b.passing(err); passing != nil {
			return node.Answer(value.Error(passing))
		}
		return node.Fail(err)
	})
	exit := node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Answer(value.Error(&outside{resp.Payload.AsError(), b}))
		}
		return node.Respond(resp)
	})
	for range b.entries {
		b.calls = append(b.calls, enter)
	}
	for range u.exits() {
		b.calls = append(b.calls, exit)
	}
	return b
}

// Receive implements [node.Node].
func (b *boundary) Receive(_ node.Process, pkt node.Packet) node.Result {
	switch {
	case pkt.Port == b.toError:
		err := pkt.Payload.AsError()
		if err == nil {
			err = errors.New(pkt.Payload.String())
		}
		return node.Fail(err)
	case b.calls != nil:
		return b.calls[pkt.Port].Send(pkt.Port, pkt.Payload)
	}
	return node.Send(pkt.Port, pkt.Payload)
}

// An outside error comes from behind a sub-graph. It is not a failure of that, so it
// passes its error port on the way back.
type outside struct {
	err error
	of  *boundary
}

func (e *outside) Error() string { return e.err.Error() }
func (e *outside) Unwrap() error { return e.err }

// passing returns an error from behind the sub-graph as it came; nil if any part of it
// is a failure in the sub-graph.
func (b *boundary) passing(err error) error {
	if from, ok := err.(*outside); ok && from.of == b {
		return from.err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var parts []error
	for _, part := range joined.Unwrap() {
		passing := b.passing(part)
		if passing == nil {
			return nil
		}
		parts = append(parts, passing)
	}
	return errors.Join(parts...)
}
