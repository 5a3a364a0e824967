package suite

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

// A Coverage says how often tests have used nodes, ports and links. What counts is what a
// trigger leads to, or all if there is no trigger. Triggers themselves do not count, as
// they do not run in tests, and neither do tests, asserts, and what is in a sub-graph that a
// mock replaces.
type Coverage struct {
	of      map[int]*covered // by workflow
	numbers []int            // of the workflows, in order
}

// covered is the coverage of one workflow.
type covered struct {
	outline uniflow.Outline // the nodes are the same in all rounds
	counted map[string]bool // nodes, by id
	counts  map[portOf]int  // packets
}

type portOf struct {
	id   string
	port int
	out  bool
}

func newCoverage(kinds []*node.Def, tests []Case) *Coverage {
	c := &Coverage{of: make(map[int]*covered)}
	rounds := make(map[int][]*Round)
	for _, t := range tests {
		n := t.Round.Workflow
		if rounds[n] == nil {
			c.numbers = append(c.numbers, n)
		}
		if !slices.Contains(rounds[n], t.Round) {
			rounds[n] = append(rounds[n], t.Round)
		}
	}
	for n, rounds := range rounds {
		c.of[n] = newCovered(kinds, rounds)
	}
	return c
}

func newCovered(kinds []*node.Def, rounds []*Round) *covered {
	outline := rounds[0].Outline
	c := &covered{outline: outline, counted: make(map[string]bool), counts: make(map[portOf]int)}
	starts, serves, judges := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, def := range kinds {
		starts[def.Kind] = def.Begins()
		serves[def.Kind] = def.Begins() && !def.Role.Has(node.Tests)
		judges[def.Kind] = def.Role.Has(node.Judges)
	}
	next := make(map[string][]string)
	var todo []string
	for _, l := range outline.Links {
		next[l.From.ID] = append(next[l.From.ID], l.To.ID)
		if serves[l.From.Kind] || l.OutPort < observe.ErrorPort {
			todo = append(todo, l.To.ID)
		}
	}
	reached := make(map[string]bool)
	all := len(todo) == 0
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !reached[id] {
			reached[id] = true
			todo = append(todo, next[id]...)
		}
	}
	inside := replaced(rounds)
	for _, ref := range outline.Nodes {
		c.counted[ref.ID] = (all || reached[ref.ID]) && !starts[ref.Kind] && !judges[ref.Kind] && !inside[ref.ID]
	}
	c.outline.Links = slices.DeleteFunc(slices.Clone(outline.Links), func(l uniflow.Link) bool { return inside[l.From.ID] || inside[l.To.ID] })
	return c
}

// replaced returns the nodes, by id, that are in sub-graphs that mocks replace in all rounds.
func replaced(rounds []*Round) map[string]bool {
	times := make(map[string]int)
	for _, r := range rounds {
		inside := make(map[string]bool)
		for i, ref := range r.Outline.Nodes {
			if outer := r.Outline.Outer[i]; outer >= 0 {
				graph := r.Outline.Nodes[outer] // which comes before what is in it
				inside[ref.ID] = inside[graph.ID] || slices.ContainsFunc(r.Mocks, func(m *Mock) bool { return !m.records && m.Replaces(graph) })
			}
			if inside[ref.ID] {
				times[ref.ID]++
			}
		}
	}
	always := make(map[string]bool)
	for id, n := range times {
		always[id] = n == len(rounds)
	}
	return always
}

// add adds what one test has used.
func (c *covered) add(r *recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, n := range r.counts {
		c.counts[portOf{r.refs[at.node].ID, int(at.port), at.out}] += n
	}
}

// A Part is a node, a port or a link, and how often tests have used it.
type Part struct {
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Port      string `json:"port,omitempty"`
	To        string `json:"to,omitempty"` // of a link
	ToPort    string `json:"to_port,omitempty"`
	File      string `json:"file"`
	Line      int    `json:"line"`
	Count     int    `json:"count"`
}

func (p *Part) String() string {
	text := p.Namespace + "/" + p.Node
	if p.Port != "" {
		text += " " + p.Port
	}
	if p.To != "" {
		text += " -> " + p.To + " " + p.ToPort
	}
	return text
}

func partOf(ref node.Ref, pos diag.Pos) Part {
	return Part{Namespace: ref.Namespace, Node: ref.String(), File: pos.File, Line: pos.Line}
}

func (c *Coverage) parts(list func(*covered) []Part) (parts []Part) {
	for _, n := range c.numbers {
		parts = append(parts, list(c.of[n])...)
	}
	return parts
}

// Nodes returns the nodes, with the packets that each has received.
func (c *Coverage) Nodes() (parts []Part) { return c.parts((*covered).nodes) }

func (c *covered) nodes() (parts []Part) {
	received := make(map[string]int)
	for at, n := range c.counts {
		if !at.out {
			received[at.id] += n
		}
	}
	for _, ref := range c.outline.Nodes {
		if !c.counted[ref.ID] {
			continue
		}
		p := partOf(ref, ref.Pos)
		p.Count = received[ref.ID]
		parts = append(parts, p)
	}
	return parts
}

// Ports returns the ports that have links, with their packets.
func (c *Coverage) Ports() (parts []Part) { return c.parts((*covered).ports) }

func (c *covered) ports() (parts []Part) {
	seen := make(map[portOf]bool)
	add := func(ref node.Ref, at portOf, name string, pos diag.Pos, count int) {
		if seen[at] || !c.counted[ref.ID] {
			return
		}
		seen[at] = true
		p := partOf(ref, pos)
		p.Port, p.Count = name, count
		parts = append(parts, p)
	}
	for _, l := range c.outline.Links {
		out, in := portOf{l.From.ID, l.OutPort, true}, portOf{l.To.ID, l.InPort, false}
		if l.OutPort >= observe.ErrorPort { // what a lifecycle port sends is not seen
			add(l.From, out, l.Out, l.Pos, c.counts[out])
		}
		add(l.To, in, l.In, l.To.Pos, c.counts[in])
	}
	return parts
}

// Links returns the links, with the packets that have passed each.
func (c *Coverage) Links() (parts []Part) { return c.parts((*covered).links) }

func (c *covered) links() (parts []Part) {
	for _, l := range c.outline.Links {
		if !c.counted[l.From.ID] || !c.counted[l.To.ID] || l.OutPort < observe.ErrorPort {
			continue
		}
		p := partOf(l.From, l.Pos)
		p.Port, p.To, p.ToPort = l.Out, l.To.String(), l.In
		p.Count = c.counts[portOf{l.From.ID, l.OutPort, true}]
		parts = append(parts, p)
	}
	return parts
}

// A Tally is how many of some parts tests have used.
type Tally struct {
	Total  int    `json:"total"`
	Used   int    `json:"used"`
	Unused []Part `json:"unused"`
}

func tally(parts []Part) Tally {
	t := Tally{Total: len(parts), Unused: []Part{}}
	for _, p := range parts {
		if p.Count > 0 {
			t.Used++
		} else {
			t.Unused = append(t.Unused, p)
		}
	}
	slices.SortStableFunc(t.Unused, func(a, b Part) int { return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return t
}

// A CoverageReport is what has been used.
type CoverageReport struct {
	Nodes Tally `json:"nodes"`
	Ports Tally `json:"ports"`
	Links Tally `json:"links"`
}

// Report sums up.
func (c *Coverage) Report() CoverageReport {
	return CoverageReport{tally(c.Nodes()), tally(c.Ports()), tally(c.Links())}
}

// Text lists what was never used.
func (r *CoverageReport) Text() string {
	var b bytes.Buffer
	for _, row := range []struct {
		what string
		t    Tally
	}{{"nodes", r.Nodes}, {"ports", r.Ports}, {"links", r.Links}} {
		fmt.Fprintf(&b, "coverage: %d of %d %s\n", row.t.Used, row.t.Total, row.what)
		for _, p := range row.t.Unused {
			fmt.Fprintf(&b, "  %s:%d: %s\n", p.File, p.Line, p.String())
		}
	}
	return b.String()
}

// Listing returns a document with the count of each line on which a node or a link
// begins.
func (c *Coverage) Listing(file string, text []byte) string {
	counts := make(map[int]int)
	for _, p := range c.Links() {
		if n, ok := counts[p.Line]; p.File == file && (!ok || p.Count < n) {
			counts[p.Line] = p.Count
		}
	}
	for _, p := range c.Nodes() { // its own count, where a node has a line with its links
		if p.File == file {
			counts[p.Line] = p.Count
		}
	}
	var b bytes.Buffer
	for i, line := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		switch n, ok := counts[i+1]; {
		case !ok:
			fmt.Fprintf(&b, "%8s  %s\n", "", line)
		case n == 0:
			fmt.Fprintf(&b, "%8s  %s\n", "never", line)
		default:
			fmt.Fprintf(&b, "%7dx  %s\n", n, line)
		}
	}
	return b.String()
}
