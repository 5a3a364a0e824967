package doctree

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// A Source is the text of a document, by lines as the YAML parser counts them.
// It is for one goroutine.
type Source struct {
	File  string // what messages call it, "" for nothing
	Text  string // as the parser reads it: see [plain]
	Lines []int  // byte offset of the beginning of each line

	limits Limits
	edits  []edit // where Text is not the text of the document

	// near is the last place that was looked up. Most look-ups are a little after it.
	// If each began at the start of the line, a document of one long line would take
	// quadratic time.
	near struct{ line, col, offset int }
}

// New splits the text into lines, at every line break of YAML.
func New(file string, data []byte, limits Limits) *Source {
	s := &Source{File: file, limits: limits}
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
func (s *Source) check() *Error {
	for i := 0; i < len(s.Text); {
		c, size := utf8.DecodeRuneInString(s.Text[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return &Error{Pos: s.At(i), Msg: fmt.Sprintf("the byte 0x%02x is not UTF-8", s.Text[i]), Hint: "documents are UTF-8"}
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c >= 0x7f && c < 0xa0 && c != 0x85, c == 0xfffe, c == 0xffff:
			return &Error{Pos: s.At(i), Msg: fmt.Sprintf("the control character U+%04X is not allowed", c), Hint: "write it as an escape in a quoted string"}
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
func (s *Source) At(offset int) Pos {
	offset = min(offset, len(s.Text))
	line := sort.SearchInts(s.Lines, offset+1)
	from, col := s.Lines[line-1], 1
	if s.near.line == line && s.near.offset <= offset {
		from, col = s.near.offset, s.near.col
	}
	col += utf8.RuneCountInString(s.Text[from:offset])
	s.near.line, s.near.col, s.near.offset = line, col, offset
	return Pos{line, col + s.extra(s.Lines[line-1], offset)}
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

// Parts finds the text of a scalar in the document, which may have it on several
// lines, indented or with escapes. It calls yield with the offset of each part of
// n.Text that stands in the document as it is, in order, and the place of the part.
// It returns the place of the whole.
func (s *Source) Parts(n *Node, yield func(offset int, at Pos)) (start Pos) {
	if n.Text == "" {
		return n.Pos
	}
	at := s.Content(n.line, n.column)
	switch {
	case n.style&yaml.LiteralStyle != 0:
		return s.literal(n.Text, at, yield)
	case n.style&yaml.FoldedStyle != 0:
		at = s.Offset(s.At(at).Line+1, 1)
	default:
		if n.style&Quoted != 0 {
			at = min(at+1, len(s.Text))
		}
		if strings.HasPrefix(s.Text[at:], n.Text) && !strings.Contains(n.Text, "\n") {
			s.verbatim(at, at+len(n.Text), yield)
			return n.Pos
		}
	}
	s.folded(n.Text, at, yield)
	return n.Pos
}

// verbatim finds text that stands between two offsets: each edit begins a part.
func (s *Source) verbatim(from, to int, yield func(int, Pos)) {
	yield(0, s.At(from))
	for i := sort.Search(len(s.edits), func(i int) bool { return s.edits[i].offset > from }); i < len(s.edits) && s.edits[i].offset <= to; i++ {
		yield(s.edits[i].offset-from, s.At(s.edits[i].offset))
	}
}

// literal finds the text of a literal block, whose lines stand in the document one
// for one. at is where its header is.
func (s *Source) literal(text string, at int, yield func(int, Pos)) Pos {
	header := s.At(at)
	indent := -1
	rest := text
	for line := header.Line + 1; rest != ""; line++ {
		first, after, _ := strings.Cut(rest, "\n")
		if strings.Trim(first, " ") != "" {
			indent = utf8.RuneCountInString(s.Line(line)) - utf8.RuneCountInString(first)
			break
		}
		rest = after
	}
	if indent < 0 {
		return header
	}
	for offset, line := 0, header.Line+1; ; line++ {
		yield(offset, Pos{line, indent + 1})
		n := strings.IndexByte(text[offset:], '\n')
		if n < 0 {
			return header
		}
		offset += n + 1
	}
}

// folded finds the text of a scalar over several lines that the parser has joined.
// at is where its content begins, of a block the line after the header. What cannot
// be matched, because of escapes, belongs to the part before it.
func (s *Source) folded(text string, at int, yield func(int, Pos)) {
	done := 0
	for line := s.At(at).Line; done < len(text) && line <= len(s.Lines); line++ {
		found := s.Line(line)
		if from := s.Lines[line-1]; at > from {
			found = found[min(at-from, len(found)):]
		} else {
			at = from
		}
		trimmed := strings.TrimLeft(found, " \t")
		at += len(found) - len(trimmed)
		trimmed = strings.TrimRight(trimmed, " \t")
		if trimmed != "" {
			rest := strings.TrimLeft(text[done:], " \t\n")
			done = len(text) - len(rest)
			n := common(rest, trimmed)
			if n == 0 {
				return
			}
			yield(done, s.At(at))
			done += n
			if n < len(trimmed) {
				return
			}
		}
		at = len(s.Text)
		if line < len(s.Lines) {
			at = s.Lines[line]
		}
	}
}

// common returns the length of the common beginning of a and b.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
