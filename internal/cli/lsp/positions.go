package lsp

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/internal/language"
)

// A lines finds places in a text: those of the protocol count lines at \n, \r\n and \r, from 0, and units of
// UTF-16; those of findings count as YAML does.
type lines struct {
	text string
	src  *doctree.Source
}

func linesOf(file, text string) *lines {
	return &lines{text, doctree.New(file, []byte(text), doctree.Limits{})}
}

// offset returns the byte offset of a place of the protocol; the end of its line or of the text if it is past
// that.
func (l *lines) offset(p position) int {
	at := 0
	for range p.Line {
		i := strings.IndexAny(l.text[at:], "\r\n")
		if i < 0 {
			return len(l.text)
		}
		at += i + 1
		if l.text[at-1] == '\r' && strings.HasPrefix(l.text[at:], "\n") {
			at++
		}
	}
	for units := 0; at < len(l.text) && l.text[at] != '\n' && l.text[at] != '\r'; {
		r, size := utf8.DecodeRuneInString(l.text[at:])
		if units += max(1, utf16.RuneLen(r)); units > p.Character {
			break
		}
		at += size
	}
	return at
}

// position returns the place of a byte offset.
func (l *lines) position(offset int) (p position) {
	before := l.text[:max(0, min(offset, len(l.text)))]
	start := 0
	for i := 0; i < len(before); i++ {
		if before[i] == '\n' || before[i] == '\r' && !strings.HasPrefix(l.text[i+1:], "\n") {
			p.Line++
			start = i + 1
		}
	}
	for _, r := range before[start:] {
		p.Character += max(1, utf16.RuneLen(r))
	}
	return p
}

// place returns the place of a finding that a place of the protocol is.
func (l *lines) place(p position) diag.Pos {
	at := l.src.At(l.offset(p))
	return diag.Pos{File: l.src.File, Line: at.Line, Col: at.Column}
}

// span returns a range of the protocol.
func (l *lines) span(r language.Range) lspRange {
	return lspRange{l.position(l.src.Offset(r.From.Line, r.From.Col)), l.position(l.src.Offset(r.To.Line, r.To.Col))}
}
