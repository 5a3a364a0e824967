package lsp

import (
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/internal/language"
)

// A lines finds places in a text: those of the protocol count lines at \n, \r\n and \r, from 0, and units of
// UTF-16; those of findings count as YAML does. It is for one goroutine.
type lines struct {
	text   string
	starts []int // byte offset of the beginning of each line of the protocol
	src    *doctree.Source
}

func linesOf(file, text string) *lines {
	l := &lines{text: text, starts: []int{0}, src: doctree.New(file, []byte(text), doctree.Limits{})}
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' || text[i] == '\r' && !strings.HasPrefix(text[i+1:], "\n") {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

// offset returns the byte offset of a place of the protocol; the end of its line or of the text if it is past
// that.
func (l *lines) offset(p position) int {
	if p.Line < 0 || p.Line >= len(l.starts) {
		return len(l.text)
	}
	at := l.starts[p.Line]
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
	offset = max(0, min(offset, len(l.text)))
	p.Line = sort.SearchInts(l.starts, offset+1) - 1
	for _, r := range l.text[l.starts[p.Line]:offset] {
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
