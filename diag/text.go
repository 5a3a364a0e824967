package diag

import (
	"strings"
	"unicode/utf8"
)

// A Text is a piece of code that stands in a document, with what is needed to
// find its lines and columns there. The zero Text is empty and nowhere.
type Text struct {
	Code string // the text as its language sees it
	File string // the document; the base for relative imports

	// start and lines are set by the parser of the document.
	start Pos
	lines []Pos // where each line of Code begins, if known
}

// NewText returns a text that begins at start. lines says where each line of
// code begins in the document; a line that it does not reach, or whose Pos is
// zero, is reported at the nearest one before, else at start. It takes ownership
// of lines.
func NewText(code, file string, start Pos, lines []Pos) Text {
	return Text{Code: code, File: file, start: start, lines: lines}
}

// PlainText returns a text that is a document by itself, without a file name.
func PlainText(code string) Text {
	lines := make([]Pos, 1+strings.Count(code, "\n"))
	for i := range lines {
		lines[i] = Pos{Line: i + 1, Col: 1}
	}
	return NewText(code, "", Pos{Line: 1, Col: 1}, lines)
}

// Start returns where the text stands in its document.
func (t Text) Start() Pos {
	if len(t.lines) > 0 && t.lines[0].IsValid() {
		return t.lines[0]
	}
	return t.start
}

// Pos returns the place in the document of a line and column of the code, both
// from 1, the column in characters. It is exact where the document has the
// line as it is, and the nearest known place otherwise. A col below 1 counts as
// 1.
func (t Text) Pos(line, col int) Pos {
	for i := min(line, len(t.lines)) - 1; i >= 0; i-- {
		p := t.lines[i]
		if !p.IsValid() {
			continue
		}
		if i == line-1 && p.Col > 0 {
			p.Col += max(col, 1) - 1
		}
		return p
	}
	return t.start
}

// At returns the place in the document of a byte offset into the code, from 0.
func (t Text) At(offset int) Pos {
	before := t.Code[:min(max(offset, 0), len(t.Code))]
	line := 1 + strings.Count(before, "\n")
	col := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return t.Pos(line, col)
}
