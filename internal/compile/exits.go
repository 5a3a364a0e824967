package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// unlinked reports out-ports that fields of a config send to and that have no entry
// in ports: a payload sent there is the response, so a wrong index would return a
// client's own request. It only warns if the field has its default, or if no field
// names a port and none of several ports is linked. Of a source it reports a port out
// without an entry: its messages would be gone; and of another trigger. A source also needs
// a place for messages that fail.
func (c *compiler) unlinked(u *unit) {
	if u.spec.Boundary == nil {
		c.unlinkedTrigger(u)
	}
	linked := slices.ContainsFunc(u.spec.Ports, func(p spec.Port) bool { _, ok := lifecycle.Of(p.Name); return !ok })
	for _, port := range u.def.Out {
		n, open := indexes(port, u.config, u.broken)
		if port.Indexes == nil || open || n == 0 {
			continue
		}
		if !linked && !slices.ContainsFunc(u.config.OutPorts(), listed) {
			c.report(u, diag.Warningf(diag.CodeUnlinked, "none of the out-ports has a link, so what is sent there becomes the response").
				WithHint(`link them in ports, or write "%s[0]": [] if that is meant`, port.Name).At(u.spec.Pos, "ports"))
			continue
		}
		written := make(map[int]bool)
		for _, p := range u.spec.Ports {
			if base, index, _, ok := splitPort(p.Name); ok && base == port.Name {
				written[index] = true
			}
		}
		for _, use := range u.config.OutPorts() {
			if written[use.Index] {
				continue
			}
			written[use.Index] = true // report it once
			name := port.Name + "[" + strconv.Itoa(use.Index) + "]"
			d := diag.Errorf(diag.CodeUnlinked, "%s has no link, so what is sent there becomes the response", name).
				WithHint(`link it in ports, or write "%s": [] if that is meant`, name)
			if !listed(use) { // a default, which may well return its input
				d.Severity = diag.SeverityWarning
			}
			c.report(u, d.At(use.Pos, use.Path))
		}
	}
}

// unlinkedTrigger is [compiler.unlinked] for triggers.
func (c *compiler) unlinkedTrigger(u *unit) {
	var traits node.Traits
	if u.def.Traits != nil {
		traits = u.def.Traits(u.config)
	}
	named := func(names ...string) bool {
		return slices.ContainsFunc(u.spec.Ports, func(p spec.Port) bool { return slices.Contains(names, p.Name) })
	}
	warn := func(code diag.Code, hint, format string, args ...any) {
		c.report(u, diag.Warningf(code, format, args...).WithHint("%s", hint).At(u.spec.Pos, "ports"))
	}
	const link = "link it in ports, or write out: [] if that is meant"
	used := slices.ContainsFunc(u.in[min(1, len(u.in)):], func(links int) bool { return links > 0 }) // such as by the port send of a bot
	switch {
	case named("out", "out[0]") || len(u.def.Out) == 0 || u.def.Out[0].Indexes != nil:
	case traits.InFlight > 0:
		warn(diag.CodeUnlinked, link, "out has no link, so messages are acknowledged and nothing is done with them")
	case u.def.Begins() && u.def.Role.Has(node.HasClient) && !used && len(u.spec.Ports) == 0:
		warn(diag.CodeUnlinked, link, "out has no link, so clients get back what they send")
	case u.def.Starts() && !u.def.Role.Has(node.HasClient) && !u.def.Role.Has(node.Tests):
		warn(diag.CodeUnlinked, link, "out has no link, so nothing is done")
	}
	if traits.Is.Has(node.RepeatsErrors) && !named("error") {
		warn(diag.CodeNoDeadLetters, "link it in ports: to a sink, which keeps what has failed, or to a nop, which drops it; write error: [] if that is meant",
			"error has no link, so a message that fails is not put aside: uniflow run ends there with an error, and uniflow start tries it again without end")
	}
}

// unreachable warns of nodes that no trigger and no lifecycle port leads to. It reports nothing
// in namespaces without a trigger, or in which tests are the only ones, because nodes are run by
// name then. All kinds must be known, and no link may be lost. It works on the links as they are
// written, links of lifecycle ports included: c.graph has neither these nor hops through sub-graphs.
func (c *compiler) unreachable() {
	from := slices.Clone(c.wrong)
	served := make(map[string]bool) // namespaces
	hosts := make(map[int32]bool)   // of workflows at a lifecycle port, which run even if the node is not reached
	for i := range c.units {
		u, v := &c.units[i], &c.prog.Vertices[i]
		if u.def.Begins() {
			from = append(from, int32(i))
			served[u.spec.Namespace] = served[u.spec.Namespace] || !u.def.Role.Has(node.Tests)
		}
		for _, edges := range v.Lifecycle {
			for _, e := range edges {
				hosts[int32(i)] = true
				from = append(from, e.Node)
			}
		}
	}
	reached := c.reach(from, nil)
	for i := range c.units {
		u, at := &c.units[i], int32(i)
		if _, found := slices.BinarySearch(reached, at); found || hosts[at] || !served[u.spec.Namespace] {
			continue
		}
		c.report(u, diag.Warningf(diag.CodeUnreachable, "nothing leads here, so the node never does anything").
			WithHint("link to it from a node that is reached, or remove it"))
	}
}

// endless warns of cycles that no payload leaves. A path ends at a port without a
// link (see [compiler.unlinked]), or at a port whose links all lead to nodes from
// which a path ends. Errors without a link, which end any process, do not count.
func (c *compiler) endless() {
	type port struct {
		node int32
		left int // links to nodes from which no path is known to end
	}
	var ports []port
	into := make([][]int, len(c.units)) // by target: the ports that lead there
	ends := make([]bool, len(c.units))
	var todo []int32
	end := func(at int32) {
		if !ends[at] {
			ends[at] = true
			todo = append(todo, at)
		}
	}
	for i := range c.prog.Vertices {
		v := &c.prog.Vertices[i]
		if len(v.Out) == 0 || c.units[i].broken {
			end(int32(i))
		}
		for _, edges := range append(v.Out[:len(v.Out):len(v.Out)], v.Err) {
			for _, e := range edges {
				into[e.Node] = append(into[e.Node], len(ports))
			}
			ports = append(ports, port{int32(i), len(edges)})
		}
		if slices.ContainsFunc(v.Out, func(edges []Edge) bool { return len(edges) == 0 }) {
			end(int32(i))
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, i := range into[at] {
			if ports[i].left--; ports[i].left == 0 {
				end(ports[i].node)
			}
		}
	}
	order := make([]int, len(c.units)) // of the visits to nodes, from 1
	next := 1
	for i := range c.units {
		next = c.endlessFrom(int32(i), ends, order, next)
	}
}

// endlessFrom follows links through nodes from which no path ends, until it comes to
// a node that was visited before. If this call visited it, there is a cycle, which
// it reports.
func (c *compiler) endlessFrom(n int32, ends []bool, order []int, next int) int {
	begin := next
	var path []int32
	for !ends[n] && order[n] == 0 {
		order[n], next = next, next+1
		path = append(path, n)
		for _, edges := range c.prog.Vertices[n].Out {
			// One of the nodes that each port leads to does not end.
			if i := slices.IndexFunc(edges, func(e Edge) bool { return !ends[e.Node] }); i >= 0 {
				n = edges[i].Node
				break
			}
		}
	}
	if ends[n] || order[n] < begin {
		return next
	}
	cycle := path[order[n]-begin:]
	first := slices.Index(cycle, slices.Min(cycle))
	var names []string
	for i := range min(len(cycle), 5) {
		names = append(names, nodeName(c.units[cycle[(first+i)%len(cycle)]].spec))
	}
	if len(cycle) > len(names) {
		names = append(names, "…")
	}
	u := &c.units[cycle[first]]
	c.report(u, diag.Warningf(diag.CodeEndless, "the cycle %s has no exit: a payload circulates until its process has used up its budget",
		strings.Join(append(names, names[0]), " → ")).WithHint("link an out-port to a node outside of it, or end it with an if").At(u.spec.PortsPos, "ports"))
	return next
}

// listed reports whether the field that sends to the port is in a list, such as a
// route.
func listed(use schema.OutPortUse) bool { return strings.Contains(use.Path, "[") }
