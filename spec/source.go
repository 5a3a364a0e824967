package spec

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
)

// A source is the text of a document, by lines as the YAML parser counts them.
type source struct {
	file  string
	text  string
	lines []int // byte offset of the beginning of each line

	// near is a place that was looked up before. Most look-ups go on from the
	// last one; from the beginning of the line, a document that is one line of
	// megabytes would take quadratic time.
	near struct{ line, col, offset int }
}

// newSource splits the text into lines, at all that YAML takes for a break.
func newSource(doc Document) *source {
	s := &source{file: doc.File, text: string(doc.Data)}
	s.text = strings.TrimPrefix(s.text, "\ufeff")
	s.lines = append(s.lines, 0)
	for i := 0; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '\n':
			s.lines = append(s.lines, i+1)
		case c == '\r' && !strings.HasPrefix(s.text[i+1:], "\n"):
			s.lines = append(s.lines, i+1)
		case c == 0xc2 && strings.HasPrefix(s.text[i:], "\u0085"):
			s.lines = append(s.lines, i+2)
		case c == 0xe2 && (strings.HasPrefix(s.text[i:], "\u2028") || strings.HasPrefix(s.text[i:], "\u2029")):
			s.lines = append(s.lines, i+3)
		}
	}
	return s
}

// check reports bytes that cannot be in a document, which the parser would
// report without a place.
func (s *source) check() *diag.Diagnostic {
	for i := 0; i < len(s.text); {
		c, size := utf8.DecodeRuneInString(s.text[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return diag.Errorf(diag.CodeYAML, "the byte 0x%02x is not UTF-8", s.text[i]).
				WithHint("documents are UTF-8").At(s.at(i), "")
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c >= 0x7f && c < 0xa0 && c != 0x85, c == 0xfffe, c == 0xffff:
			return diag.Errorf(diag.CodeYAML, "the control character %s is not allowed", fmt.Sprintf("U+%04X", c)).
				WithHint(`write it as an escape in a quoted string`).At(s.at(i), "")
		}
		i += size
	}
	return nil
}

// line returns the text of a line, from 1, without its break; "" past the end.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	end := len(s.text)
	if n < len(s.lines) {
		end = s.lines[n]
	}
	return strings.TrimRight(s.text[s.lines[n-1]:end], "\r\n\u0085\u2028\u2029")
}

// offset returns the byte offset of a line and column, both from 1.
func (s *source) offset(line, col int) int {
	if line < 1 || line > len(s.lines) {
		return len(s.text)
	}
	at, c := s.lines[line-1], 1
	if s.near.line == line && s.near.col <= col {
		at, c = s.near.offset, s.near.col
	}
	for ; c < col && at < len(s.text); c++ {
		_, size := utf8.DecodeRuneInString(s.text[at:])
		at += size
	}
	s.near.line, s.near.col, s.near.offset = line, c, at
	return at
}

// at returns the place of a byte offset.
func (s *source) at(offset int) diag.Pos {
	offset = min(offset, len(s.text))
	line := sort.SearchInts(s.lines, offset+1)
	from, col := s.lines[line-1], 1
	if s.near.line == line && s.near.offset <= offset {
		from, col = s.near.offset, s.near.col
	}
	col += utf8.RuneCountInString(s.text[from:offset])
	s.near.line, s.near.col, s.near.offset = line, col, offset
	return diag.Pos{File: s.file, Line: line, Col: col}
}

// content returns where the content of a scalar begins whose node begins at line
// and col: past its tag and anchor.
func (s *source) content(line, col int) int {
	at := s.offset(line, col)
	for at < len(s.text) {
		switch c := s.text[at]; c {
		case '!', '&':
			for at < len(s.text) && !strings.ContainsRune(" \t\r\n", rune(s.text[at])) {
				at++
			}
		case ' ', '\t', '\r', '\n':
			at++
		default:
			return at
		}
	}
	return at
}

// literal makes the text of a literal block, whose lines stand in the document
// one for one.
func (s *source) literal(code string, at int) diag.Text {
	header := s.at(at)
	n := strings.Count(code, "\n") + 1
	indent := -1
	rest := code
	for line := header.Line + 1; rest != ""; line++ {
		first, after, _ := strings.Cut(rest, "\n")
		if strings.Trim(first, " ") != "" {
			indent = utf8.RuneCountInString(s.line(line)) - utf8.RuneCountInString(first)
			break
		}
		rest = after
	}
	if indent < 0 {
		return diag.NewText(code, s.file, header, nil)
	}
	lines := make([]diag.Pos, n)
	for i := range lines {
		lines[i] = diag.Pos{File: s.file, Line: header.Line + 1 + i, Col: indent + 1}
	}
	return diag.NewText(code, s.file, header, lines)
}

// folded makes the text of a scalar over several lines that the parser has
// joined. at is where its content begins, for a block the line after the header.
// What cannot be matched, because of escapes, is found at the part before.
func (s *source) folded(code string, start diag.Pos, at int) diag.Text {
	var parts []diag.Part
	done := 0
	for line := s.at(at).Line; done < len(code) && line <= len(s.lines); line++ {
		text := s.line(line)
		if from := s.lines[line-1]; at > from {
			text = text[min(at-from, len(text)):]
		} else {
			at = from
		}
		trimmed := strings.TrimLeft(text, " \t")
		at += len(text) - len(trimmed)
		trimmed = strings.TrimRight(trimmed, " \t")
		if trimmed != "" {
			rest := strings.TrimLeft(code[done:], " \t\n")
			done = len(code) - len(rest)
			n := common(rest, trimmed)
			if n == 0 {
				break
			}
			parts = append(parts, diag.Part{Offset: done, Pos: s.at(at)})
			done += n
			if n < len(trimmed) {
				break
			}
		}
		at = len(s.text)
		if line < len(s.lines) {
			at = s.lines[line]
		}
	}
	return diag.NewFoldedText(code, s.file, start, parts)
}

// common returns the length of the common beginning of a and b.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
