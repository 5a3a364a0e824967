package compile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

const errorPort = "error"

func (c *compiler) link() {
	for i := range c.units {
		if u := &c.units[i]; u.def != nil {
			u.in = make([]int, count(u.def.In, u.config, u.broken)+u.exits())
		}
	}
	for i := range c.units {
		if c.units[i].def != nil {
			c.linkUnit(int32(i))
		}
	}
	for i := range c.units {
		if u := &c.units[i]; u.def != nil {
			c.prog.Vertices[i].In = len(u.in)
			c.checkGaps(u, "in-port", u.def.In, u.in, nil)
			if u.fits {
				c.unlinked(u)
			}
		}
	}
}

// count returns the number of ports of a list under a config. Families that have as
// many ports as are linked do not count yet.
func count(ports []node.Port, cfg schema.Config, broken bool) int {
	n := 0
	for _, port := range ports {
		if size, open := indexes(port, cfg, broken); !open {
			n += size
		}
	}
	return n
}

// indexes returns the number of indexes of a port. It is open if the port has as
// many as are linked, or if the config is broken.
func indexes(port node.Port, cfg schema.Config, broken bool) (n int, open bool) {
	if port.Indexes == nil {
		return 1, false
	}
	if broken {
		return 0, true
	}
	n = port.Indexes(cfg)
	return max(n, 0), n == node.AsLinked
}

func (c *compiler) linkUnit(at int32) {
	u, v := &c.units[at], &c.prog.Vertices[at]
	v.Out = make([][]Edge, u.entries()+count(u.def.Out, u.config, u.broken))
	positions := make(map[int]diag.Pos)
	fits := !u.broken
	if b := u.spec.Boundary; b != nil {
		c.enter(at, b)
	}
	for _, port := range u.spec.Ports {
		first := len(c.prog.Links)
		edges := c.resolve(at, port)
		if phase, ok := lifecycle.Of(port.Name); ok {
			c.leaveFrom(first, LifecyclePort)
			v.Lifecycle[phase] = append(v.Lifecycle[phase], edges...)
			continue
		}
		if port.Name == errorPort && u.def.HasError() {
			c.leaveFrom(first, ErrorPort)
			v.Err = append(v.Err, edges...)
			continue
		}
		index, d := findPort(u.def.Out, u, port.Name, "out-port", &v.Out)
		if d != nil {
			c.report(u, d.At(port.Pos, "ports."+port.Name))
			for _, e := range edges {
				c.wrong = append(c.wrong, e.Node)
			}
			fits = false
			continue
		}
		index += u.entries()
		c.leaveFrom(first, index)
		v.Out[index] = append(v.Out[index], edges...)
		positions[index] = port.Pos
	}
	u.out = make([]int, len(v.Out))
	for i := range v.Out {
		u.out[i] = len(v.Out[i])
	}
	c.checkGaps(u, "out-port", u.def.Out, u.out, positions)
	u.fits = fits
}

// leaveFrom sets the out-port of the links since first.
func (c *compiler) leaveFrom(first, index int) {
	for i := range c.prog.Links[first:] {
		c.prog.Links[first+i].OutPort = index
	}
}

// findPort returns the index of a port by the name in a document, where each member
// of a family counts. It extends sized if the port belongs to an open family.
func findPort[T any](ports []node.Port, u *unit, name, what string, sized *[]T) (index int, d *diag.Diagnostic) {
	base, at, isIndexed, ok := splitPort(name)
	if !ok {
		return 0, diag.Errorf(diag.CodeUnknownPort, "%q is not a port name", name).WithHint("write a name such as out, or out[0]")
	}
	offset := 0
	for _, port := range ports {
		n, open := indexes(port, u.config, u.broken)
		if port.Name != base {
			offset += n
			continue
		}
		switch {
		case isIndexed && port.Indexes == nil && at > 0:
			return 0, diag.Errorf(diag.CodePortIndex, "kind %s has one %s %q, not several", u.spec.Kind, what, base)
		case !open && at >= n:
			return 0, diag.Errorf(diag.CodePortIndex, "%s %q: %s", what, name, indexRange(base, n)).
				WithHint("write an index that the fields of the node send to")
		case open && at >= maxIndexes:
			return 0, diag.Errorf(diag.CodePortIndex, "%s %q: an index may go up to %d", what, name, maxIndexes-1)
		}
		for len(*sized) <= offset+at {
			var zero T
			*sized = append(*sized, zero)
		}
		return offset + at, nil
	}
	return 0, unknownPort(u, ports, name, what)
}

// maxIndexes bounds a family of as many ports as are linked.
const maxIndexes = 1024

func indexRange(base string, n int) string {
	switch n {
	case 0:
		return "the config uses none"
	case 1:
		return "only " + base + "[0] is in use"
	}
	return "only " + base + "[0] to " + base + "[" + strconv.Itoa(n-1) + "] are in use"
}

// splitPort takes "out[2]" apart; a bare name has index 0.
func splitPort(name string) (base string, index int, indexed, ok bool) {
	base, rest, indexed := strings.Cut(name, "[")
	if !indexed {
		return name, 0, false, name != ""
	}
	digits, closed := strings.CutSuffix(rest, "]")
	index, err := strconv.Atoi(digits)
	return base, index, true, closed && err == nil && index >= 0 && base != "" && digits == strconv.Itoa(index)
}

func unknownPort(u *unit, ports []node.Port, name, what string) *diag.Diagnostic {
	d := diag.Errorf(diag.CodeUnknownPort, "kind %s has no %s %q", u.spec.Kind, what, name)
	var names []string
	for _, port := range ports {
		names = append(names, port.Name)
	}
	if what == "out-port" {
		if len(ports) > 0 {
			names = append(names, errorPort)
		}
		names = append(names, lifecycle.Names()...)
	}
	base, _, _ := strings.Cut(name, "[")
	if d.Suggest(base, names) {
		return d
	}
	if len(names) == 0 {
		return d.WithHint("it has no %ss", what)
	}
	return d.WithHint("it has: %s", strings.Join(names, ", "))
}

// resolve returns the edges of an out-port.
func (c *compiler) resolve(from int32, port spec.Port) []Edge {
	edges := make([]Edge, 0, len(port.Links))
	for _, l := range port.Links {
		if l.Exit {
			edges = append(edges, c.exit(from, port, l))
		} else if e, ok := c.edge(from, c.units[from].spec.Outer, port, l, "ports."+port.Name); ok {
			edges = append(edges, e)
		}
	}
	return edges
}

// edge returns the edge of a link to a node in a document or a sub-graph.
func (c *compiler) edge(from int32, outer *spec.Node, port spec.Port, l spec.Link, path string) (e Edge, ok bool) {
	u := &c.units[from]
	to, d := c.target(outer, u, l)
	if d != nil {
		c.lost = true
		c.report(u, d.At(l.NamePos, path))
		return Edge{}, false
	}
	target := &c.units[to]
	if target.def == nil {
		return Edge{}, false // reported as an unknown kind
	}
	index, d := findPort(target.def.In, target, l.Port, "in-port", &target.in)
	if d != nil {
		c.wrong = append(c.wrong, to)
		c.report(u, d.At(l.PortPos, path))
		return Edge{}, false
	}
	target.in[index]++
	c.prog.Links = append(c.prog.Links, Link{From: from, To: to, Out: port.Name, In: l.Port, InPort: index, Pos: l.Pos})
	return Edge{to, int32(index)}, true
}

// target finds the node that a link of u names, in a document or a sub-graph.
func (c *compiler) target(outer *spec.Node, u *unit, l spec.Link) (at int32, d *diag.Diagnostic) {
	where := fmt.Sprintf("namespace %q", u.spec.Namespace)
	if outer != nil {
		where = outer.Path()
	}
	if l.ID != "" {
		at, ok := c.byID[l.ID]
		if !ok || c.units[at].spec.Namespace != u.spec.Namespace || c.units[at].spec.Outer != outer {
			return 0, diag.Errorf(diag.CodeUnknownTarget, "no node with id %s in %s", l.ID, where)
		}
		return at, nil
	}
	scope := scoped{u.spec.Namespace, outer, l.Name}
	at, ok := c.byName[scope]
	if ok {
		return at, nil
	}
	d = diag.Errorf(diag.CodeUnknownTarget, "no node %q in %s", l.Name, where)
	if c.hints++; c.hints > diag.MaxFindings {
		return 0, d // looking through all names for each would take quadratic time
	}
	if i := strings.LastIndexAny(l.Name, ".:/"); i >= 0 {
		if _, ok := c.byName[scoped{scope.namespace, outer, l.Name[:i]}]; ok {
			return 0, d.WithHint("a port other than in has a field of its own: {name: %s, port: %s}", l.Name[:i], l.Name[i+1:])
		}
	}
	if at, ok := c.byID[l.Name]; ok && c.units[at].spec.Outer == outer {
		return 0, d.WithHint("this is an id: write {id: %s}", l.Name)
	}
	if d.Suggest(l.Name, c.names(scope)) {
		return 0, d
	}
	for i := range c.units {
		if s := c.units[i].spec; s.Name == l.Name && s.Outer == outer && s.Namespace != u.spec.Namespace {
			return 0, d.WithHint("the node %q is in namespace %q: links stay within one", l.Name, s.Namespace)
		}
	}
	return 0, d.WithHint("add a node with name: %s, or link to another", l.Name)
}

func (c *compiler) names(scope scoped) []string {
	var names []string
	for i := range c.units {
		if s := c.units[i].spec; s.Name != "" && scopeOf(s, scope.name) == scope {
			names = append(names, s.Name)
		}
	}
	return names
}

// checkGaps reports linked indexes of a contiguous family that do not start at 0 or
// have gaps.
func (c *compiler) checkGaps(u *unit, what string, ports []node.Port, links []int, positions map[int]diag.Pos) {
	offset := 0
	for _, port := range ports {
		n, open := indexes(port, u.config, u.broken)
		if open {
			n = len(links) - offset
		}
		if port.Contiguous {
			for i := 1; i < n; i++ {
				if links[offset+i] > 0 && links[offset+i-1] == 0 {
					d := diag.Errorf(diag.CodePortGap, "%s %s[%d] is linked, but %s[%d] is not", what, port.Name, i, port.Name, i-1).
						WithHint("number the ports from 0 without gaps")
					c.report(u, d.At(positions[offset+i], "ports"))
				}
			}
		}
		offset += n
	}
}
