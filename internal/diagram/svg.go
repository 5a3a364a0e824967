package diagram

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/observe"
)

// margin is the space around a picture.
const margin = 16.0

// style has the colours of both themes: a viewer of SVG knows which the reader has.
const style = `<style>
svg{--bg:#fafaf8;--box:#fff;--text:#1a1c1e;--muted:#5c6166;--edge:#8b9096;--line:#c9cac6;--frame:#f3f3ef;--hot:#c0281b;--trigger:#6d4bc3;--net:#0b7285;--code:#2b59c3;--control:#5c6166}
@media(prefers-color-scheme:dark){svg{--bg:#101214;--box:#171a1d;--text:#e8e9ea;--muted:#9aa0a6;--edge:#6f767d;--line:#3a4046;--frame:#131619;--hot:#ff8a80;--trigger:#b79cff;--net:#5cc6d6;--code:#8ab0ff;--control:#9aa0a6}}
text{font-family:Inter,system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif}
.bg{fill:var(--bg)}.box{fill:var(--box);stroke:var(--line)}.frame{fill:var(--frame);stroke:var(--line)}
.name{font-size:13px;font-weight:600;fill:var(--text)}.kind{font-size:11px;fill:var(--muted)}
.port{font-size:10px;fill:var(--muted);paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round}
.link{fill:none;stroke:var(--edge);stroke-width:1.5}.tip{fill:var(--edge)}
.error .link{stroke:var(--hot);stroke-dasharray:4 3}.error .tip{fill:var(--hot)}.life .link{stroke-dasharray:1.5 3}
.trigger{stroke:var(--trigger)}.net{stroke:var(--net)}.code{stroke:var(--code)}.control{stroke:var(--control)}
.sign{fill:none;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}
</style>
`

// signs are drawn in a square of 16: a hue alone does not tell groups apart.
var signs = map[Group]string{
	Trigger: "M4 2.5 L13 8 L4 13.5 Z",
	Net:     "M2.5 5.5 H13 M10 2.5 L13 5.5 L10 8.5 M13.5 10.5 H3 M6 7.5 L3 10.5 L6 13.5",
	Code:    "M5.5 3.5 L1.5 8 L5.5 12.5 M10.5 3.5 L14.5 8 L10.5 12.5",
	Control: "M8 1.5 L14.5 8 L8 14.5 L1.5 8 Z",
}

// SVG returns the picture as a document of SVG, in the colours of the reader's theme.
func (d *Diagram) SVG(title string) []byte {
	var b strings.Builder
	w, h := d.Width+2*margin, d.Height+2*margin
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" width=\"%[1]s\" height=\"%[2]s\" role=\"img\">\n", number(w), number(h))
	fmt.Fprintf(&b, "<title>%s</title>\n%s<rect class=\"bg\" width=\"100%%\" height=\"100%%\"/>\n", escape(title), style)
	fmt.Fprintf(&b, "<g transform=\"translate(%s %[1]s)\">\n", number(margin))
	for i := range d.Nodes {
		if d.Nodes[i].Open {
			d.Nodes[i].frame(&b)
		}
	}
	for i := range d.Links {
		d.Links[i].draw(&b)
	}
	for i := range d.Nodes {
		if !d.Nodes[i].Open {
			d.Nodes[i].box(&b)
		}
	}
	for i := range d.Links {
		d.label(&b, &d.Links[i])
	}
	b.WriteString("</g>\n</svg>\n")
	return []byte(b.String())
}

func (n *Node) frame(b *strings.Builder) {
	fmt.Fprintf(b, "<g>%s<rect class=\"frame\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"8\"/>", n.title(), number(n.X), number(n.Y), number(n.Width), number(n.Height))
	fmt.Fprintf(b, "<text class=\"kind\" x=\"%s\" y=\"%s\">%s</text></g>\n", number(n.X+12), number(n.Y+20), escape(fit(n.both(" · "), int(n.Width/6.5))))
}

func (n *Node) box(b *strings.Builder) {
	fmt.Fprintf(b, "<g>%s", n.title())
	if n.Subgraph { // a second box behind it
		fmt.Fprintf(b, "<rect class=\"box\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"6\"/>", number(n.X+4), number(n.Y+4), number(n.Width-4), number(n.Height))
	}
	fmt.Fprintf(b, "<rect class=\"box\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"6\"/>", number(n.X), number(n.Y), number(n.Width), number(n.Height))
	middle := n.Y + n.Height/2
	fmt.Fprintf(b, "<path class=\"sign %s\" transform=\"translate(%s %s)\" d=\"%s\"/>", n.Group, number(n.X+12), number(middle-8), signs[n.Group])
	title, below := n.words()
	line := middle + 4.5
	if below != "" {
		line = middle - 3
		fmt.Fprintf(b, "<text class=\"kind\" x=\"%s\" y=\"%s\">%s</text>", number(n.X+38), number(middle+13), escape(fit(below, nameWidth+3)))
	}
	fmt.Fprintf(b, "<text class=\"name\" x=\"%s\" y=\"%s\">%s</text></g>\n", number(n.X+38), number(line), escape(fit(title, nameWidth)))
}

// nameWidth is how many Latin letters of a name fit into a box.
const nameWidth = 21

// both is the name and the kind in one line.
func (n *Node) both(between string) string {
	title, below := n.words()
	if below == "" {
		return title
	}
	return title + between + below
}

// title is what a browser shows under the pointer.
func (n *Node) title() string {
	text := n.both(": ")
	if n.File != "" {
		text += fmt.Sprintf(", %s:%d:%d", n.File, n.Line, n.Col)
	}
	return "<title>" + escape(text) + "</title>"
}

func (l *Link) draw(b *strings.Builder) {
	p := l.Path
	fmt.Fprintf(b, "<g%s><path class=\"link\" d=\"M%s %s", l.class(), number(p[0]), number(p[1]))
	for i := 2; i < len(p); i += 6 {
		fmt.Fprintf(b, "C%s %s %s %s %s %s", number(p[i]), number(p[i+1]), number(p[i+2]), number(p[i+3]), number(p[i+4]), number(p[i+5]))
	}
	x, y := p[len(p)-2], p[len(p)-1]
	fmt.Fprintf(b, "\"/><path class=\"tip\" d=\"M%s %sl-7 -3.5v7z\"/></g>\n", number(x), number(y))
}

func (l *Link) class() string {
	switch {
	case l.OutPort == observe.ErrorPort:
		return ` class="error"`
	case l.OutPort < observe.ErrorPort:
		return ` class="life"`
	}
	return ""
}

// label writes the names of ports that do not go without saying.
func (d *Diagram) label(b *strings.Builder, l *Link) {
	from, to := "out", "in"
	if d.Nodes[l.To].Outer == l.From { // it comes in
		from = "in"
	}
	if d.Nodes[l.From].Outer == l.To { // it goes out
		to = "out"
	}
	write := func(x, y float64, anchor, name string) {
		fmt.Fprintf(b, "<text class=\"port\" x=\"%s\" y=\"%s\"%s>%s</text>\n", number(x), number(y), anchor, escape(fit(name, 16)))
	}
	if p := l.Path; l.Out != from {
		write(p[0]+5, p[1]-3, "", l.Out)
	}
	if p := l.Path; l.In != to {
		write(p[len(p)-2]-9, p[len(p)-1]-4, ` text-anchor="end"`, l.In)
	}
}

// fit shortens a text that is too long for so many Latin letters. Others count as two.
func fit(text string, letters int) string {
	width, end := 0, 0
	for i, r := range text {
		if width++; r >= 0x1100 {
			width++
		}
		if width < letters {
			end = i + utf8.RuneLen(r)
		}
	}
	if width <= letters {
		return text
	}
	return text[:end] + "…"
}

// escape writes a text in XML, which cannot have control characters.
func escape(text string) string { return html.EscapeString(show.Printable(text)) }

func number(x float64) string { return strconv.FormatFloat(round(x), 'f', -1, 64) }
