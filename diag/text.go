package diag

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// A Text is code that is part of a document, with the places of its lines there.
// The zero Text is empty and has no place.
type Text struct {
	Code string // the text as its language sees it
	File string // the document; the base for relative imports

	// Hidden says that a template made the text. It may contain a secret, so
	// messages must not quote it.
	Hidden bool

	// start and parts are set by the parser of the document.
	start    Pos
	parts    []Part // by offset
	template Pos
}

// A Part of a [Text] is in the document literally, up to the next part or the end of
// its line of code.
type Part struct {
	Offset int // in bytes, into the code
	Pos    Pos // its place in the document
}

// NewText returns a text that begins at start. lines has the place at which each
// line of code begins in the document. Lines without one are reported at the nearest
// line before that has one, or else at start.
func NewText(code, file string, start Pos, lines []Pos) Text {
	t := Text{Code: code, File: file, start: start}
	offset := 0
	for i, p := range lines {
		if i > 0 {
			n := strings.IndexByte(code[offset:], '\n')
			if n < 0 {
				break
			}
			offset += n + 1
		}
		if p.IsValid() {
			t.parts = append(t.parts, Part{offset, p})
		}
	}
	return t
}

// NewFoldedText is [NewText] for code whose lines differ from the lines of the
// document. parts are sorted by offset; the function takes ownership of them.
func NewFoldedText(code, file string, start Pos, parts []Part) Text {
	return Text{Code: code, File: file, start: start, parts: parts}
}

// PlainText returns a text that is a whole document, without a file name.
func PlainText(code string) Text {
	lines := make([]Pos, 1+strings.Count(code, "\n"))
	for i := range lines {
		lines[i] = Pos{Line: i + 1, Col: 1}
	}
	return NewText(code, "", Pos{Line: 1, Col: 1}, lines)
}

// Rendered returns the text that a template made of t. Places in it are exact to the
// line if the template kept the number of lines; otherwise they are the start.
func (t Text) Rendered(code string) Text {
	made := Text{Code: code, File: t.File, Hidden: true, start: t.Start(), template: t.At(max(0, strings.Index(t.Code, "{{")))}
	if strings.Count(code, "\n") != strings.Count(t.Code, "\n") {
		return made
	}
	for from, at := 0, 0; ; {
		p := t.At(from)
		p.Col = 0
		made.parts = append(made.parts, Part{at, p})
		n, m := strings.IndexByte(t.Code[from:], '\n'), strings.IndexByte(code[at:], '\n')
		if n < 0 || m < 0 {
			return made
		}
		from, at = from+n+1, at+m+1
	}
}

// Template returns the place of the first template that made a part of the text; zero without
// one.
func (t Text) Template() Pos { return t.template }

// Start returns the place of the text in its document.
func (t Text) Start() Pos {
	if len(t.parts) > 0 && t.parts[0].Offset == 0 {
		return t.parts[0].Pos
	}
	return t.start
}

// Pos returns the place in the document of a line and column of the code, both from
// 1, the column in characters. It is exact if the document has the code literally,
// and otherwise the nearest known place. A line or col below 1 counts as 1, and a
// line after the end as the last one.
func (t Text) Pos(line, col int) Pos {
	offset := 0
	for ; line > 1; line-- {
		n := strings.IndexByte(t.Code[offset:], '\n')
		if n < 0 {
			break
		}
		offset += n + 1
	}
	for ; col > 1; col-- {
		c, size := utf8.DecodeRuneInString(t.Code[offset:])
		if size == 0 || c == '\n' {
			p := t.At(offset)
			if p.Col > 0 && p != t.start {
				p.Col += col - 1
			}
			return p
		}
		offset += size
	}
	return t.At(offset)
}

// At returns the place in the document of a byte offset in the code.
func (t Text) At(offset int) Pos {
	offset = min(max(offset, 0), len(t.Code))
	i := sort.Search(len(t.parts), func(i int) bool { return t.parts[i].Offset > offset }) - 1
	if i < 0 {
		return t.start
	}
	p := t.parts[i].Pos
	between := t.Code[t.parts[i].Offset:offset]
	if p.Col > 0 && !strings.Contains(between, "\n") {
		p.Col += utf8.RuneCountInString(between)
	}
	return p
}
