package flame

import (
	"bytes"
	_ "embed" // script
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// The measures of the picture, in pixels.
const (
	width     = 1200
	rowHeight = 17
	top       = 30 // above the frames
	bottom    = 8  // below them
	charWidth = 6.7
	padding   = 3 // left of the text of a frame
)

// unit is how many steps a pixel has. Edges are rounded to steps, not widths, so that
// frames never overlap or leave their parent.
const unit = 100

// The colours of frames that are not functions.
const (
	colourAll   = "#e4e4e4"
	colourNode  = "#8fbbe8"
	colourOther = "#c3cbd3" // owners without a node, and the runtime
)

// script adds zoom and search. It reads only the text of the picture.
//
//go:embed script.js
var script string

// SVG draws a flame graph: all time at the top, below it the owners, below them the
// stacks of calls, with widths in proportion to time. Frames of less than 0.1 % are
// left out. The picture has no external references, and is complete without its script.
func (p *Profile) SVG() []byte {
	root := p.tree(p.CPU / 1000)
	height := top + root.depth()*rowHeight + bottom
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" id="flame" width="%d" height="%d" viewBox="0 0 %d %d" font-family="monospace" font-size="11">
<style>
.f:hover rect { stroke: #000; }
.hit rect { fill: #ffe14d; }
.up { opacity: 0.55; }
.button { cursor: pointer; text-decoration: underline; }
.live .f { cursor: pointer; }
</style>
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="%d" y="19">%s</text>
<text id="found" x="800" y="19"></text>
<text id="reset" class="button" x="1040" y="19" visibility="hidden">reset zoom</text>
<text id="search" class="button" x="1140" y="19" visibility="hidden">search</text>
`, width, height, width, height, padding, escape(p.Summary()))
	p.draw(&b, root, 0, 0)
	b.WriteString("<script><![CDATA[\n" + script + "]]></script>\n</svg>\n")
	return b.Bytes()
}

// Summary is the number of samples and the CPU time, in one line.
func (p *Profile) Summary() string {
	samples := strconv.FormatInt(p.Samples, 10) + " samples"
	if p.Samples == 1 {
		samples = "1 sample"
	}
	if p.Wall == 0 {
		return fmt.Sprintf("%s, %s of CPU", samples, show.Duration(p.CPU))
	}
	return fmt.Sprintf("%s, %s of CPU in %s: %.2f processors", samples, show.Duration(p.CPU), show.Duration(p.Wall), float64(p.CPU)/float64(p.Wall))
}

// edge converts time since the left edge into units of a pixel.
func (p *Profile) edge(at time.Duration) int {
	if p.CPU == 0 {
		return 0
	}
	return int(float64(at) / float64(p.CPU) * width * unit)
}

// draw draws a frame that begins at a time since the left edge, and its children.
func (p *Profile) draw(b *bytes.Buffer, f *frame, left time.Duration, level int) {
	from, to := p.edge(left), p.edge(left+f.time)
	if level == 0 {
		to = width * unit // also if there are no samples
	}
	name, detail, fill := f.look(level)
	y := top + level*rowHeight
	fmt.Fprintf(b, `<g class="f"><title>%s`, escape(name))
	if detail != "" {
		b.WriteString("\n" + escape(detail))
	}
	fmt.Fprintf(b, "\n%s, %.1f %%</title>", show.Duration(f.time), 100*share(f.time, p.CPU))
	fmt.Fprintf(b, `<rect x="%s" y="%d" width="%s" height="%d" fill="%s" rx="1"/>`, pixels(from), y, pixels(to-from), rowHeight-1, fill)
	fmt.Fprintf(b, `<text x="%s" y="%d">%s</text></g>`+"\n", pixels(from+padding*unit), y+12, escape(fit(name, to-from)))
	for _, c := range f.children {
		p.draw(b, c, left, level+1)
		left += c.time
	}
}

// look returns the name, the title and the colour of a frame.
func (f *frame) look(level int) (name, detail, fill string) {
	switch {
	case level == 0:
		return "all", "", colourAll
	case level == 1 && f.owner.Kind == "":
		return show.Printable(f.owner.Node), "", colourOther
	case level == 1:
		return show.Printable(f.owner.Node), show.Printable(f.owner.Kind + " in namespace " + f.owner.Namespace), colourNode
	}
	path := PackageOf(f.function)
	return show.Printable(Short(f.function)), show.Printable(path), colour(path)
}

// colour returns the colour of a package: light, derived from the path.
func colour(path string) string {
	if path == "runtime" || strings.HasPrefix(path, "runtime/") || strings.HasPrefix(path, "internal/runtime/") {
		return colourOther
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(path)) // a hash takes all
	sum := h.Sum32()
	hi, mid, lo := 245, 160+int(sum/6%80), 160
	rgb := [6][3]int{{hi, mid, lo}, {mid, hi, lo}, {lo, hi, mid}, {lo, mid, hi}, {mid, lo, hi}, {hi, lo, mid}}[sum%6]
	return fmt.Sprintf("#%02x%02x%02x", rgb[0], rgb[1], rgb[2])
}

// fit cuts a name to the room of a frame, in units of a pixel.
func fit(name string, room int) string {
	chars := int((float64(room)/unit - 2*padding) / charWidth)
	switch n := utf8.RuneCountInString(name); {
	case n <= chars:
		return name
	case chars < 3:
		return ""
	}
	return string([]rune(name)[:chars-1]) + "…"
}

func pixels(n int) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%02d", n/unit, n%unit), "0"), ".")
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder takes all
	return b.String()
}
