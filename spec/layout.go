package spec

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
)

// layout makes pages of the YAML documents of a file, and attaches every comment to
// an entry: a comment above an entry or on its line belongs to the entry, and a
// comment that is indented deeper than the next entry to the entry before.
//
// The YAML parser attaches comments, too, but differently after they have been
// written and read again.
func layout(src *doctree.Source, docs []*yaml.Node) []*page {
	l := &layouter{src: src}
	for _, d := range docs {
		p := &page{first: d.Line}
		l.page = p
		for _, c := range d.Content {
			p.root = l.cell(c, nil)
		}
		l.pages = append(l.pages, p)
		l.ends = append(l.ends, len(l.entries))
	}
	if len(l.pages) == 0 {
		l.pages, l.ends = []*page{{}}, []int{0}
	}
	l.comments()
	return l.pages
}

func commented(text string) bool { return strings.Contains(text, "#") }

type layouter struct {
	src     *doctree.Source
	page    *page
	pages   []*page
	ends    []int    // number of entries up to the end of each page
	entries []*entry // in the order of the source
	spans   []span   // where a # does not begin a comment, in the order of the source
}

type span struct{ from, to int }

// cell makes a cell of a node, and entries of its children. in is the entry that
// contains the node, nil at the root.
func (l *layouter) cell(n *yaml.Node, in *entry) *cell {
	c := &cell{node: n, kind: n.Kind, flow: n.Style&yaml.FlowStyle != 0}
	if n.Anchor != "" {
		c.prefix = "&" + n.Anchor + " "
		l.page.anchors = true
	}
	tag := doctree.ExplicitTag(n)
	if !implied(tag) && tag != "!!str" { // that is implied by quotes
		c.prefix += tag + " "
	}
	switch n.Kind {
	case yaml.AliasNode:
		c.text = "*" + n.Value
		l.page.anchors = true
	case yaml.ScalarNode:
		l.scalar(n, c, in)
		if (tag == "!" || tag == "!!str") && n.Style&doctree.Quoted == 0 {
			c.text = strconv.Quote(n.Value)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			e := l.entry(item, in)
			e.col = l.dash(e)
			e.value = l.cell(item, e)
			c.entries = append(c.entries, e)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			e := l.entry(key, in)
			k := l.cell(key, e)
			e.key, e.name = k.prefix+k.text, key.Value
			if key.Kind == yaml.AliasNode {
				e.key += " " // the colon would be part of the alias's name
			}
			e.value = l.cell(n.Content[i+1], e)
			c.entries = append(c.entries, e)
		}
	}
	return c
}

// implied reports whether a tag is not written, as the node implies it.
func implied(tag string) bool { return tag == "" || tag == "!" || tag == "!!seq" || tag == "!!map" }

func (l *layouter) entry(n *yaml.Node, in *entry) *entry {
	e := &entry{parent: in, offset: l.src.Offset(n.Line, n.Column), line: n.Line, col: n.Column}
	l.entries = append(l.entries, e)
	return e
}

// dash returns the column of the dash in front of an item of a list, or of the
// item itself if there is none.
func (l *layouter) dash(e *entry) int {
	before := strings.TrimRight(l.src.Text[l.src.Lines[min(e.line, len(l.src.Lines))-1]:e.offset], " \t")
	if strings.HasSuffix(before, "-") && len(before) < e.col {
		return len(before)
	}
	return e.col
}

// scalar decides how to write a scalar: unchanged if it fits on a line, or as a
// block.
func (l *layouter) scalar(n *yaml.Node, c *cell, in *entry) {
	at := l.src.Content(n.Line, n.Column)
	switch {
	case n.Style&doctree.Block != 0:
		l.blockScalar(n, c, in, at)
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		end := quotedEnd(l.src.Text, at)
		l.spans = append(l.spans, span{at, end})
		c.text = l.src.Text[at:end]
		if strings.ContainsAny(c.text, "\n\r\u0085\u2028\u2029") {
			c.text = strconv.Quote(n.Value)
		}
	case n.Value == "":
	case strings.ContainsAny(n.Value, "\n\r\u0085\u2028\u2029"):
		c.text = strconv.Quote(n.Value)
	default:
		c.text = n.Value
	}
}

// quotedEnd returns the offset after the quoted scalar that begins at at.
func quotedEnd(text string, at int) int {
	if at >= len(text) {
		return len(text)
	}
	quote := text[at]
	for i := at + 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] != quote:
		case quote == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
		default:
			return i + 1
		}
	}
	return len(text)
}

func (l *layouter) blockScalar(n *yaml.Node, c *cell, in *entry, at int) {
	header := l.src.At(at).Line
	token := l.src.Text[at:]
	token = token[:len(token)-len(strings.TrimLeft(token, "|>+-0123456789"))]
	outer := -1 // columns that the block must be indented more than
	if in != nil {
		outer = in.col - 1
	}
	indent, last := -1, header
	for line := header + 1; line <= len(l.src.Lines); line++ {
		text := l.src.Line(line)
		spaces := len(text) - len(strings.TrimLeft(text, " "))
		if spaces == len(text) {
			if indent >= 0 && spaces > indent {
				last = line // such spaces are part of the value
			}
			continue
		}
		if indent < 0 && !strings.ContainsAny(token, "123456789") {
			indent = spaces
		}
		if spaces < max(indent, outer+1) {
			break
		}
		last = line
	}
	body := strings.TrimRight(n.Value, "\n")
	if n.Style&yaml.LiteralStyle != 0 && body != "" {
		last = min(header+strings.Count(body, "\n")+1, len(l.src.Lines))
	}
	to := len(l.src.Text)
	if last < len(l.src.Lines) {
		to = l.src.Lines[last]
	}
	if header < len(l.src.Lines) && last > header {
		l.spans = append(l.spans, span{l.src.Lines[header], to})
	}
	if in == nil || strings.Trim(body, " \t\n") == "" || strings.ContainsAny(n.Value, "\r\u0085\u2028\u2029\ufeff") {
		c.text = strconv.Quote(n.Value)
		return
	}
	chomp := ""
	switch len(n.Value) - len(body) {
	case 0:
		chomp = "-"
	case 1:
	default: // blank lines at the end count, so that no blank line could follow
		c.text = strconv.Quote(n.Value)
		return
	}
	if n.Style&yaml.LiteralStyle != 0 {
		c.block = strings.Split(body, "\n")
		if first := strings.TrimLeft(body, "\n"); first[0] == ' ' || first[0] == '\t' {
			chomp = "2" + chomp
		}
		c.text = "|" + chomp
		return
	}
	if indent < 0 { // with an indicator: rare, and folded lines cannot be distinguished
		c.text = strconv.Quote(n.Value)
		return
	}
	c.text = ">" + chomp
	for line := header + 1; line <= last; line++ {
		text := l.src.Line(line)
		text = text[min(indent, len(text)):]
		if text != "" && strings.Trim(text, " \t") == "" { // such spaces are part of the value
			c.text, c.block = strconv.Quote(n.Value), nil
			return
		}
		c.block = append(c.block, text)
	}
}

// comments finds all comments and blank lines, and attaches them to entries.
func (l *layouter) comments() {
	slices.SortFunc(l.spans, func(a, b span) int { return a.from - b.from })
	var (
		run   []remark // on lines of their own, since the last entry
		next  int      // the first entry after the place
		page  int
		spans = l.spans
		src   = l.src
	)
	for line := 1; line <= len(src.Lines); line++ {
		from := src.Lines[line-1]
		to := len(src.Text)
		if line < len(src.Lines) {
			to = src.Lines[line]
		}
		for len(spans) > 0 && spans[0].to <= from {
			spans = spans[1:]
		}
		inside := len(spans) > 0 && spans[0].from < from // the line begins in a scalar
		text := src.Line(line)
		if page+1 < len(l.pages) && line == l.pages[page+1].first {
			l.endPage(page, next, run)
			run = nil
			page++
		}
		at, spansHere := commentAt(src.Text, from, to, spans)
		spans = spansHere
		own, tag := strings.TrimSpace(text) == "", false // tag: the comment is after one that is not written
		if at >= 0 {
			before := strings.TrimSpace(src.Text[from:at])
			before = strings.Trim(before, "-? ")
			own, tag = before == "" && !inside, before != "" && implied(before)
			text = strings.TrimSpace(src.Text[at:min(to, len(src.Text))])
		}
		if next < len(l.entries) && l.entries[next].line == line {
			l.settle(run, next)
			run = nil
			for next < len(l.entries) && l.entries[next].line == line {
				next++
			}
		}
		switch {
		case tag && next > 0:
			e := l.entries[next-1]
			for e.parent != nil && e.parent.line == line {
				e = e.parent
			}
			e.head = append(e.head, text)
		case at >= 0 && !own && next > 0:
			e := l.entries[next-1]
			for e.parent != nil && e.parent.line == line && e.parent.value.flow {
				e = e.parent // the comment is about all that is on the line
			}
			if e.eol == "" {
				e.eol = text
			} else {
				e.foot = append(e.foot, text)
			}
		case at >= 0:
			run = append(run, remark{text, src.At(at).Column})
		case own && !inside && line < len(src.Lines) && (len(run) == 0 || run[len(run)-1].text != ""):
			run = append(run, remark{"", 1 << 20})
		}
	}
	l.endPage(page, next, run)
}

// A remark is a comment on a line of its own; a blank line has no text.
type remark struct {
	text string
	col  int
}

// commentAt returns the offset of the comment on a line, or -1, and the spans that
// end after it.
func commentAt(text string, from, to int, spans []span) (int, []span) {
	for i := from; i < to; i++ {
		for len(spans) > 0 && spans[0].to <= i {
			spans = spans[1:]
		}
		if len(spans) > 0 && spans[0].from <= i {
			i = spans[0].to - 1
			continue
		}
		if text[i] == '#' && (i == from || text[i-1] == ' ' || text[i-1] == '\t') {
			return i, spans
		}
	}
	return -1, spans
}

// settle attaches a run of remarks to the next entry, or those that are indented
// deeper to the entries before.
func (l *layouter) settle(run []remark, next int) {
	e := l.entries[next]
	first := next == 0 || slices.Contains(l.ends, next)
	if !first {
		run = l.below(run, next, e.col)
	}
	for _, r := range run {
		e.head = append(e.head, r.text)
	}
}

// below attaches the remarks at the beginning of a run that are indented deeper than
// col to the entries before, and returns the rest.
func (l *layouter) below(run []remark, next, col int) []remark {
	for i := len(run) - 1; i >= 0; i-- {
		if run[i].text == "" || run[i].col <= col {
			continue
		}
		for _, r := range run[:i+1] {
			e := l.entries[next-1]
			for e.parent != nil && (e.col > r.col || e.parent.value != nil && e.parent.value.flow) {
				e = e.parent
			}
			e.foot = append(e.foot, r.text)
		}
		return run[i+1:]
	}
	return run
}

// endPage attaches the remarks after the last entry of a page to it or to the page.
func (l *layouter) endPage(page, next int, run []remark) {
	if next > 0 && (page == 0 || next > l.ends[page-1]) {
		run = l.below(run, next, 1)
	}
	for len(run) > 0 && run[len(run)-1].text == "" {
		run = run[:len(run)-1]
	}
	for _, r := range run {
		l.pages[page].tail = append(l.pages[page].tail, r.text)
	}
}
