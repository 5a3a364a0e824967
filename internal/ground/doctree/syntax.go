package doctree

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A mistake says what an error of the YAML parser means for an author. None shows
// the text of the document, which may be a values file.
type mistake struct {
	says      string // what the parser says
	when      func(before, after string, later bool) bool
	begins    bool      // the place is where the piece begins that the parser was in
	kind      ErrorKind // Syntax if there is none
	msg, hint string
}

const quoteAll = `put the whole value in quotes, as in code: '"a" + b'; within them, ' is written ''`

// mistakes are tried in order. when sees the text of the line before and after
// the place, and whether the parser was in something that begins on an earlier
// line.
var mistakes = []mistake{
	{says: "max depth", kind: TooLarge, msg: "lists and maps nest deeper than " + strconv.Itoa(maxDepth) + " levels", hint: "nest less deeply"},
	{says: "unknown anchor", kind: BadAlias, msg: "the alias refers to an anchor that is not there",
		hint: "an anchor such as &name must stand before its alias; text that begins with * needs quotes"},
	{says: "unexpected end of stream", begins: true, msg: "the quote that begins here is not closed", hint: "write the closing quote at the end of the value"},
	{says: "unexpected document indicator", begins: true, msg: "the quote that begins here is not closed", hint: "write the closing quote at the end of the value"},
	{says: "expected ',' or ", when: inOneLine, msg: "a comma or the closing bracket is missing here", hint: "separate entries with commas; put text that holds brackets in quotes"},
	{says: "expected ',' or ", begins: true, msg: "the bracket that is opened here is not closed", hint: "close it with ] or }; put text that begins with a bracket in quotes"},
	{says: "did not find expected key", when: afterValue, msg: "there is text after the end of a quoted value, a list or a map", hint: quoteAll},
	{says: "did not find expected key", when: isEntry, msg: "a list entry stands where a key is expected",
		hint: `a document is either a map or a list: begin each spec with "- ", and indent its other fields by two blanks`},
	{says: "did not find expected key", msg: "the line is not aligned with the keys above it", hint: "indent it exactly as the other keys of its map"},
	{says: "expected '-' indicator", msg: "the line is indented less than the list entry above it",
		hint: `indent it as the other fields of the entry, or begin a new entry with "- "`},
	{says: "mapping values are not allowed", when: afterKey, msg: `a second ": " in one value`,
		hint: `text that holds ": " needs quotes: put the whole value in quotes, or write it on its own lines after |`},
	{says: "mapping values are not allowed", msg: "a key is not allowed here",
		hint: `indent it exactly as the key above it, and write ": " with a blank after each key`},
	{says: "could not find expected ':'", begins: true, msg: `the line is not a key with a value`,
		hint: `write KEY: VALUE, with a blank after the colon; indent text that belongs to the line above deeper than its key, after a |`},
	{says: "cannot start any token", msg: "text cannot begin with this character", hint: "indent with spaces, not tabs; quote text that begins with @, ` or %"},
	{says: "tab character", msg: "a tab character stands in the indentation", hint: "indent with spaces, not tabs"},
	{says: "comment or line break", msg: "text stands on the line of its | or >", hint: "write the text on the lines below, indented; quote text that begins with | or >"},
	{says: "unknown escape", msg: "the escape is unknown", hint: `write \\ for a backslash, or use single quotes, which take it as it is`},
	{says: "Unicode character escape", msg: "the escape is not a character", hint: "half of a surrogate pair is not a character; write both halves in JSON, or the character itself"},
	{says: "expected hexdecimal", msg: "the escape needs hexadecimal digits", hint: `write \\ for a backslash, or use single quotes, which take it as it is`},
	{says: "expected node content", msg: "a value is missing before this character", hint: "quote text that begins with a bracket or a comma"},
	{says: "while scanning an a", msg: "a name is missing after & or *", hint: "quote text that begins with & or *"},
	{says: "are not allowed in this context", msg: "a list or map cannot begin on the line of its key", hint: `begin it on the next line; quote text that begins with "- " or "? "`},
	{says: "expected <document start>", msg: "there is text after the end of the document", hint: "remove the bracket that is too many, or begin a new document with ---"},
	{says: "before directive", msg: "a directive stands within a document", hint: "end the document above it with a line of three dots"},
	{says: "incompatible YAML", msg: "this version of YAML is not known", hint: "write %YAML 1.2, or leave the line out"},
	{says: "", msg: "the document cannot be read from here on", hint: "check the indentation, and that brackets and quotes are closed"},
}

func inOneLine(_, after string, later bool) bool { return !later && after != "" }

func afterValue(before, _ string, _ bool) bool {
	before = strings.TrimRight(before, " ")
	return before != "" && strings.IndexByte(`"'])}`, before[len(before)-1]) >= 0
}

func isEntry(_, after string, _ bool) bool { return strings.HasPrefix(after, "- ") }

func afterKey(before, _ string, _ bool) bool { return strings.Contains(before, ": ") }

// syntaxError says what an error of the YAML parser means.
func (s *Source) syntaxError(err error) *Error {
	var at, begin yaml.Mark
	text := err.Error()
	var load *yaml.LoadError
	if errors.As(err, &load) {
		at, begin, text = load.Mark, load.ContextMark, load.Message+" "+load.ContextMsg
	}
	var before, after string
	if line := s.Line(at.Line); at.Line > 0 && at.Line <= len(s.Lines) {
		split := min(s.Offset(at.Line, at.Column)-s.Lines[at.Line-1], len(line))
		before, after = line[:split], line[split:]
	}
	for _, m := range mistakes {
		if !strings.Contains(text, m.says) || m.when != nil && !m.when(before, after, begin.Line > 0 && begin.Line < at.Line) {
			continue
		}
		if m.begins && begin.Line > 0 {
			at = begin
		}
		e := &Error{Kind: m.kind, Msg: m.msg, Hint: m.hint}
		switch {
		case at.Line > len(s.Lines): // the end of the document, counted past the last break
			e.Pos = s.At(len(s.Text))
		case at.Line > 0:
			e.Pos = s.At(s.Offset(at.Line, at.Column))
		}
		return e
	}
	panic("doctree: the last mistake matches any error")
}
