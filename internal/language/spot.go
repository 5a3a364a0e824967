package language

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
)

// A spot is what stands at the cursor: a word, and the way to it from the spec around it. The rest of the
// document may be broken, or be written yet.
type spot struct {
	Range        // of the word
	text  string // the whole scalar that the word is in
	head  string // what stands of the word before the cursor

	path  []step
	key   bool // the word is the name of a field
	alone bool // the line has nothing else: a name of a field, or an entry of a list
	flow  bool // it is between brackets
}

// A step leads from a map or list to what is in it.
type step struct {
	in    *doctree.Node
	key   string // of a map
	index int    // of a list; -1 in a map
}

// mark stands for the word at the cursor while a document is read. It is of the characters for private use.
const mark = "\uf8fe"

// spotAt finds the spot of a place. The spec around it is read alone, with a mark in place of the word, in
// the first form that can be read: as the name of a field or as a value; with what follows or without it,
// open brackets closed then. ok is false in comments, and where nothing of it can be read.
func (t *text) spotAt(at diag.Pos) (s spot, ok bool) {
	src := t.src()
	line := src.Line(at.Line)
	cursor := src.Offset(at.Line, at.Col) - src.Offset(at.Line, 1)
	cursor = max(0, min(cursor, len(line)))
	from, to := wordAt(line, cursor)
	s.Range = Range{t.pos(at.Line, runes(line[:from])+1), t.pos(at.Line, runes(line[:to])+1)}
	s.head = line[from:cursor]
	first, last := t.block(at.Line)
	above := t.lines(first, at.Line-1)
	below := t.lines(at.Line+1, last)
	prefix, rest := above+line[:from], line[to:]
	s.alone = strings.Trim(line[:from], " -") == ""
	isKey := strings.HasPrefix(strings.TrimLeft(rest, `"' `), ":")
	open := openBrackets(prefix)
	s.flow = open != ""

	marked := []string{mark + ": "}
	if isKey {
		marked = []string{mark}
	} else if !s.alone && !beginsEntry(prefix, open) {
		marked = []string{mark}
	} else {
		marked = append(marked, mark)
	}
	for _, tail := range []string{rest + "\n" + below, closing(open) + "\n" + below, closing(open)} {
		for _, m := range marked {
			roots, errs := doctree.New("", []byte(prefix+m+tail), doctree.Limits{Size: len(t.Data) + 64, Values: 1 << 20}).Read()
			if len(errs) > 0 && !slices.ContainsFunc(errs, func(e *doctree.Error) bool { return e.Kind == doctree.DuplicateKey }) {
				continue
			}
			for _, root := range roots {
				if s.find(root, line[from:to]) {
					return s, true
				}
			}
		}
	}
	return s, false
}

// find looks for the mark in a tree, and keeps the way to it.
func (s *spot) find(n *doctree.Node, word string) bool {
	switch n.Kind {
	case doctree.Map:
		for i := range n.Fields {
			f := &n.Fields[i]
			s.path = append(s.path, step{in: n, key: f.Name, index: -1})
			if strings.Contains(f.Name, mark) {
				s.key, s.text = true, strings.ReplaceAll(f.Name, mark, word)
				s.path[len(s.path)-1].key = s.text
				return true
			}
			if s.find(&f.Value, word) {
				return true
			}
			s.path = s.path[:len(s.path)-1]
		}
	case doctree.List:
		for i := range n.Items {
			s.path = append(s.path, step{in: n, index: i})
			if s.find(&n.Items[i], word) {
				return true
			}
			s.path = s.path[:len(s.path)-1]
		}
	default:
		if strings.Contains(n.Text, mark) {
			s.text = strings.ReplaceAll(n.Text, mark, word)
			return true
		}
	}
	return false
}

// spec returns the map of the innermost spec around the spot, and the way from there. It is nil outside of
// specs.
func (s *spot) spec() (in *doctree.Node, path []step) {
	for i, st := range s.path {
		if st.in.Kind != doctree.Map {
			continue
		}
		if in == nil || i > 0 && (s.path[i-1].key == "specs" || i > 1 && s.path[i-1].index >= 0 && s.path[i-2].key == "specs") {
			in, path = st.in, s.path[i:]
		}
	}
	return in, path
}

// field returns a field of a map, nil if it has none.
func field(n *doctree.Node, name string) *doctree.Node {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return &n.Fields[i].Value
		}
	}
	return nil
}

// given reports whether a map has a field.
func given(n *doctree.Node, name string) bool { return field(n, name) != nil }

// word returns the text of a field of a map, "" if it has none.
func word(n *doctree.Node, name string) string {
	if f := field(n, name); f != nil && f.Scalar() && !strings.Contains(f.Text, mark) {
		return f.Text
	}
	return ""
}

// block returns the first and the last line of the spec around a line: an entry of the list that the
// document is, or the document.
func (t *text) block(line int) (first, last int) {
	src := t.src()
	first, last = 1, len(src.Lines)
	begins := func(n int) bool { return strings.HasPrefix(src.Line(n), "- ") || src.Line(n) == "-" }
	divides := func(n int) bool { return strings.HasPrefix(src.Line(n), "---") }
	for n := line; n >= 1; n-- {
		if begins(n) {
			first = n
			break
		}
		if divides(n) {
			first = n + 1
			break
		}
	}
	for n := line + 1; n <= len(src.Lines); n++ {
		if begins(n) || divides(n) {
			last = n - 1
			break
		}
	}
	return first, last
}

func (t *text) lines(from, to int) string {
	src := t.src()
	if to < from || from > len(src.Lines) {
		return ""
	}
	end := len(src.Text)
	if to < len(src.Lines) {
		end = src.Lines[to]
	}
	return src.Text[src.Lines[from-1]:end]
}

func (t *text) pos(line, col int) diag.Pos { return diag.Pos{File: t.File, Line: line, Col: col} }

func runes(s string) int { return utf8.RuneCountInString(s) }

// wordAt returns where the word around a byte of a line begins and ends. out[0] is one word.
func wordAt(line string, at int) (from, to int) {
	from, to = at, at
	for from > 0 && inWord(line, from-1) {
		from--
	}
	for to < len(line) && inWord(line, to) {
		to++
	}
	return from, to
}

// inWord reports whether a byte of a line is part of a word.
func inWord(line string, i int) bool {
	switch c := line[i]; c {
	case ' ', '\t', ',', '{', '}', '"', '\'', '#', '(', ')', '|', '>', '=', '!', '&', '*':
		return false
	case '-':
		return i > 0 && inWord(line, i-1) || i+1 < len(line) && line[i+1] != ' ' && line[i+1] != '-' && strings.TrimSpace(line[:i]) != ""
	case ':':
		return i+1 < len(line) && line[i+1] != ' ' && line[i+1] != '"' && line[i+1] != '\''
	case '[':
		return i > 0 && inWord(line, i-1)
	case ']': // of out[0]
		open := strings.LastIndexByte(line[:i], '[')
		return open > 0 && strings.Trim(line[open+1:i], "0123456789") == "" && inWord(line, open-1)
	}
	return true
}

// openBrackets returns the brackets of a text that are not closed, outermost first.
func openBrackets(text string) string {
	var open []byte
	var quote byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\n'):
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case (c == '"' || c == '\'') && begins(text[:i]):
			quote = c
		case (c == '{' || c == '[') && (len(open) > 0 || begins(text[:i])):
			open = append(open, c)
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	return string(open)
}

// begins reports whether a value can begin after a text.
func begins(before string) bool {
	trimmed := strings.TrimRight(before, " \n")
	if trimmed == "" {
		return true
	}
	switch trimmed[len(trimmed)-1] {
	case ':', '-', ',', '{', '[':
		return true
	}
	return false
}

// beginsEntry reports whether a text ends where an entry of a map between brackets begins.
func beginsEntry(text, open string) bool {
	if !strings.HasSuffix(open, "{") {
		return false
	}
	trimmed := strings.TrimRight(text, " \n")
	return strings.HasSuffix(trimmed, "{") || strings.HasSuffix(trimmed, ",")
}

// closing returns what closes brackets.
func closing(open string) string {
	var b strings.Builder
	for i := len(open) - 1; i >= 0; i-- {
		if open[i] == '{' {
			b.WriteByte('}')
		} else {
			b.WriteByte(']')
		}
	}
	return b.String()
}
