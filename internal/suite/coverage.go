package suite

import (
	"bytes"
	"fmt"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

// A Coverage says how often tests have used nodes, ports and links. Tests themselves and
// triggers, which do not run in tests, do not count.
type Coverage struct {
	outline uniflow.Outline
	starts  map[string]bool // kinds without in-ports
	counts  map[portOf]int  // packets
}

type portOf struct {
	id   string
	port int
	out  bool
}

func newCoverage(outline uniflow.Outline, kinds []*node.Def) *Coverage {
	c := &Coverage{outline: outline, starts: make(map[string]bool), counts: make(map[portOf]int)}
	for _, def := range kinds {
		c.starts[def.Kind] = def.Starts()
	}
	return c
}

// add adds what one test has used.
func (c *Coverage) add(r *recorder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, n := range r.counts {
		c.counts[portOf{r.refs[at.node].ID, int(at.port), at.out}] += n
	}
}

// A Part is a node, a port or a link, and how often tests have used it.
type Part struct {
	Namespace string   `json:"namespace"`
	Node      string   `json:"node"`
	Port      string   `json:"port,omitempty"`
	To        string   `json:"to,omitempty"` // of a link
	ToPort    string   `json:"to_port,omitempty"`
	File      string   `json:"file"`
	Line      int      `json:"line"`
	Count     int      `json:"count"`
	pos       diag.Pos // of Line
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
	return Part{Namespace: ref.Namespace, Node: ref.String(), File: pos.File, Line: pos.Line, pos: pos}
}

// counted reports whether a node counts.
func (c *Coverage) counted(ref node.Ref) bool {
	return !c.starts[ref.Kind] && ref.Kind != testKind && ref.Kind != assertKind
}

// Nodes returns the nodes, with the packets that each has received.
func (c *Coverage) Nodes() (parts []Part) {
	for _, ref := range c.outline.Nodes {
		if !c.counted(ref) {
			continue
		}
		p := partOf(ref, ref.Pos)
		for at, n := range c.counts {
			if at.id == ref.ID && !at.out {
				p.Count += n
			}
		}
		parts = append(parts, p)
	}
	return parts
}

// Ports returns the ports that have links, with their packets.
func (c *Coverage) Ports() (parts []Part) {
	seen := make(map[portOf]bool)
	add := func(ref node.Ref, at portOf, name string, pos diag.Pos, count int) {
		if seen[at] || !c.counted(ref) {
			return
		}
		seen[at] = true
		p := partOf(ref, pos)
		p.Port, p.Count = name, count
		parts = append(parts, p)
	}
	for _, l := range c.outline.Links {
		out, in := portOf{l.From.ID, l.OutPort, true}, portOf{l.To.ID, l.InPort, false}
		if l.OutPort >= -1 { // what a lifecycle port sends is not seen
			add(l.From, out, l.Out, l.Pos, c.counts[out])
		}
		add(l.To, in, l.In, l.To.Pos, c.counts[in])
	}
	return parts
}

// Links returns the links, with the packets that have passed each.
func (c *Coverage) Links() (parts []Part) {
	for _, l := range c.outline.Links {
		if !c.counted(l.From) || !c.counted(l.To) || l.OutPort < -1 {
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
	for _, parts := range [][]Part{c.Nodes(), c.Links()} {
		for _, p := range parts {
			if n, ok := counts[p.Line]; p.File == file && (!ok || p.Count < n) {
				counts[p.Line] = p.Count
			}
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
