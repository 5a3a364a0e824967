package yamltree

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
)

// A Source is the text of a document, by lines as the YAML parser counts them.
// It is for one goroutine.
type Source struct {
	File  string // what findings call it
	Text  string // as the parser reads it: see [plain]
	Lines []int  // byte offset of the beginning of each line

	edits []edit // where Text is not the text of the document

	// near is a place that was looked up before. Most look-ups go on from the
	// last one; from the beginning of the line, a document that is one line of
	// megabytes would take quadratic time.
	near struct{ line, col, offset int }
}

// New splits the text into lines, at all that YAML takes for a break.
func New(file string, data []byte) *Source {
	s := &Source{File: file}
	s.Text, s.edits = plain(strings.TrimPrefix(string(data), "\ufeff"))
	s.Lines = append(s.Lines, 0)
	for i := 0; i < len(s.Text); i++ {
		switch c := s.Text[i]; {
		case c == '\n':
			s.Lines = append(s.Lines, i+1)
		case c == '\r' && !strings.HasPrefix(s.Text[i+1:], "\n"):
			s.Lines = append(s.Lines, i+1)
		case c == 0xc2 && strings.HasPrefix(s.Text[i:], "\u0085"):
			s.Lines = append(s.Lines, i+2)
		case c == 0xe2 && (strings.HasPrefix(s.Text[i:], "\u2028") || strings.HasPrefix(s.Text[i:], "\u2029")):
			s.Lines = append(s.Lines, i+3)
		}
	}
	return s
}

// check reports bytes that cannot be in a document, which the parser would
// report without a place.
func (s *Source) check() *diag.Diagnostic {
	for i := 0; i < len(s.Text); {
		c, size := utf8.DecodeRuneInString(s.Text[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return diag.Errorf(diag.CodeYAML, "the byte 0x%02x is not UTF-8", s.Text[i]).
				WithHint("documents are UTF-8").At(s.At(i), "")
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c >= 0x7f && c < 0xa0 && c != 0x85, c == 0xfffe, c == 0xffff:
			return diag.Errorf(diag.CodeYAML, "the control character %s is not allowed", fmt.Sprintf("U+%04X", c)).
				WithHint(`write it as an escape in a quoted string`).At(s.At(i), "")
		}
		i += size
	}
	return nil
}

// Line returns the text of a line, from 1, without its break; "" past the end.
func (s *Source) Line(n int) string {
	if n < 1 || n > len(s.Lines) {
		return ""
	}
	end := len(s.Text)
	if n < len(s.Lines) {
		end = s.Lines[n]
	}
	return strings.TrimRight(s.Text[s.Lines[n-1]:end], "\r\n\u0085\u2028\u2029")
}

// Offset returns the byte offset of a line and column, both from 1.
func (s *Source) Offset(line, col int) int {
	if line < 1 || line > len(s.Lines) {
		return len(s.Text)
	}
	at, c := s.Lines[line-1], 1
	if s.near.line == line && s.near.col <= col {
		at, c = s.near.offset, s.near.col
	}
	for ; c < col && at < len(s.Text); c++ {
		_, size := utf8.DecodeRuneInString(s.Text[at:])
		at += size
	}
	s.near.line, s.near.col, s.near.offset = line, c, at
	return at
}

// At returns the place of a byte offset.
func (s *Source) At(offset int) diag.Pos {
	offset = min(offset, len(s.Text))
	line := sort.SearchInts(s.Lines, offset+1)
	from, col := s.Lines[line-1], 1
	if s.near.line == line && s.near.offset <= offset {
		from, col = s.near.offset, s.near.col
	}
	col += utf8.RuneCountInString(s.Text[from:offset])
	s.near.line, s.near.col, s.near.offset = line, col, offset
	return diag.Pos{File: s.File, Line: line, Col: col + s.shift(s.Lines[line-1], offset)}
}

// Content returns where the content of a scalar begins whose node begins at line
// and col: past its tag and anchor.
func (s *Source) Content(line, col int) int {
	at := s.Offset(line, col)
	for at < len(s.Text) {
		switch c := s.Text[at]; c {
		case '!', '&':
			for at < len(s.Text) && !strings.ContainsRune(" \t\r\n", rune(s.Text[at])) {
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
func (s *Source) literal(code string, at int) diag.Text {
	header := s.At(at)
	n := strings.Count(code, "\n") + 1
	indent := -1
	rest := code
	for line := header.Line + 1; rest != ""; line++ {
		first, after, _ := strings.Cut(rest, "\n")
		if strings.Trim(first, " ") != "" {
			indent = utf8.RuneCountInString(s.Line(line)) - utf8.RuneCountInString(first)
			break
		}
		rest = after
	}
	if indent < 0 {
		return diag.NewText(code, s.File, header, nil)
	}
	lines := make([]diag.Pos, n)
	for i := range lines {
		lines[i] = diag.Pos{File: s.File, Line: header.Line + 1 + i, Col: indent + 1}
	}
	return diag.NewText(code, s.File, header, lines)
}

// folded makes the text of a scalar over several lines that the parser has
// joined. at is where its content begins, for a block the line after the header.
// What cannot be matched, because of escapes, is found at the part before.
func (s *Source) folded(code string, start diag.Pos, at int) diag.Text {
	var parts []diag.Part
	done := 0
	for line := s.At(at).Line; done < len(code) && line <= len(s.Lines); line++ {
		text := s.Line(line)
		if from := s.Lines[line-1]; at > from {
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
			parts = append(parts, diag.Part{Offset: done, Pos: s.At(at)})
			done += n
			if n < len(trimmed) {
				break
			}
		}
		at = len(s.Text)
		if line < len(s.Lines) {
			at = s.Lines[line]
		}
	}
	return diag.NewFoldedText(code, s.File, start, parts)
}

// common returns the length of the common beginning of a and b.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
