package diagram

import (
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// Mermaid returns the picture as a flowchart of Mermaid, which finds places itself.
func (d *Diagram) Mermaid() []byte {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	d.mermaidIn(&b, -1, "  ")
	for _, l := range d.Links {
		if d.Nodes[l.To].Outer == l.From || d.Nodes[l.From].Outer == l.To { // Mermaid refuses a link into its own frame
			continue
		}
		arrow := "-->"
		if l.OutPort < 0 {
			arrow = "-.->"
		}
		if l.Out != "out" {
			arrow += "|" + quote(l.Out) + "|"
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", l.From, arrow, l.To)
	}
	return []byte(b.String())
}

// mermaidIn writes what is in a sub-graph.
func (d *Diagram) mermaidIn(b *strings.Builder, outer int, indent string) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Outer != outer {
			continue
		}
		text, below := n.words()
		if n.Open {
			fmt.Fprintf(b, "%ssubgraph n%d[%s]\n", indent, i, quote(text))
			d.mermaidIn(b, i, indent+"  ")
			fmt.Fprintf(b, "%send\n", indent)
			continue
		}
		if below != "" {
			text += "\n" + below
		}
		left, right := "[", "]"
		switch {
		case n.Group == Trigger:
			left, right = "([", "])"
		case n.Subgraph:
			left, right = "[[", "]]"
		}
		fmt.Fprintf(b, "%sn%d%s%s%s\n", indent, i, left, quote(text), right)
	}
}

// quote writes a text as Mermaid reads it: characters that it would read as its own are written by their
// numbers.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range show.PrintableLines(text) {
		switch {
		case r == '\n':
			b.WriteString("<br>")
		case strings.ContainsRune("\"#&<>`;\\", r):
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
