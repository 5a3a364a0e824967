package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// The bounds of a document. They keep hostile ones from taking the memory or the
// stack; all are far above what a person writes, and leave room for a list of a
// hundred thousand values made by a program.
const (
	maxSize  = 2 << 20 // bytes
	maxDepth = 100     // levels of lists and maps
	maxNodes = 250_000 // values, those that aliases repeat included
	maxText  = 8 << 20 // bytes that aliases repeat
)

// A shape is what a node of a document is.
type shape uint8

const (
	null shape = iota
	scalar
	sequence
	mapping
)

// String returns what a message calls the shape.
func (s shape) String() string {
	switch s {
	case scalar:
		return "a value"
	case sequence:
		return "a list"
	case mapping:
		return "a map"
	}
	return "nothing"
}

// A node is a part of a document with its place. One that was wrong has been
// reported, and is not read further.
type node struct {
	shape  shape
	pos    Pos
	value  event.Value // of a scalar
	text   string      // of a scalar: as it was written, without quotes
	items  []*node     // of a sequence
	fields []field     // of a mapping, in order
	wrong  bool
}

// A field is an entry of a mapping.
type field struct {
	name  string
	pos   Pos
	value *node
}

// A reader makes a tree of a document, and gathers what is wrong with it.
type reader struct {
	file   string
	errs   Errors
	nodes  int
	text   int          // bytes of text that aliases repeat
	active []*yaml.Node // the anchors being expanded
	full   bool         // a bound was passed; told once
}

// report gathers a problem.
func (r *reader) report(at Pos, hint, format string, args ...any) {
	r.errs = append(r.errs, &Error{File: r.file, Pos: at, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// read returns the tree of the one document in src, nil if there is none.
func (r *reader) read(src []byte) *node {
	if len(src) > maxSize {
		r.report(Pos{}, "", "the document has %d bytes, more than %d", len(src), maxSize)
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if !r.characters(src) {
		return nil
	}
	// JSON is YAML but for its pairs of \u escapes, which the YAML parser refuses.
	if trimmed := bytes.TrimLeft(src, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(src) {
		j := &jsonReader{reader: r, src: src, decoder: json.NewDecoder(bytes.NewReader(src)), line: 1, column: 1}
		j.decoder.UseNumber()
		return j.node(0)
	}
	if bytes.HasPrefix(src, []byte("%YAML 1.")) { // the parser knows 1.1 only; every 1.x is read alike
		end := bytes.IndexByte(src, '\n') + 1
		src = append(bytes.Repeat([]byte(" "), max(end-1, 0)), src[max(end-1, 0):]...)
	}
	loader, err := yaml.NewLoader(bytes.NewReader(src), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		r.syntax(err, src)
		return nil
	}
	var root *node
	for {
		doc := new(yaml.Node)
		err := loader.Load(doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.syntax(err, src)
			return nil
		}
		for _, n := range doc.Content {
			if root != nil && root.shape != null {
				r.report(posOf(n), "", "a second document; a query is one")
				return nil
			}
			root = r.node(n, 0)
		}
	}
	if root == nil || root.shape == null {
		r.report(Pos{Line: 1, Column: 1}, "begin with "+list(kindNames()), "the document is empty")
		return nil
	}
	return root
}

// characters reports bytes that cannot be in a document, which the YAML parser
// would report without a place.
func (r *reader) characters(src []byte) bool {
	line, column := 1, 1
	for i := 0; i < len(src); column++ {
		c, size := utf8.DecodeRune(src[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			r.report(Pos{line, column}, "documents are UTF-8", "the byte 0x%02x is not UTF-8", src[i])
			return false
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c >= 0x7f && c < 0xa0 && c != 0x85, c == 0xfffe, c == 0xffff:
			r.report(Pos{line, column}, "write it as an escape in a quoted string", "the control character U+%04X is not allowed", c)
			return false
		case c == '\n':
			line, column = line+1, 0
		}
		i += size
	}
	return true
}

// syntax reports an error of the YAML parser.
func (r *reader) syntax(err error, src []byte) {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		r.report(Pos{Line: 1, Column: 1}, "", "%v", err)
		return
	}
	msg, hint := load.Message, ""
	if load.ContextMsg != "" {
		msg += " " + load.ContextMsg
		if load.ContextMark.Line > 0 && load.ContextMark.Line != load.Mark.Line {
			msg += " that begins on line " + strconv.Itoa(load.ContextMark.Line)
		}
	}
	switch {
	case strings.Contains(msg, "max depth"):
		msg = "lists and maps nest deeper than " + strconv.Itoa(maxDepth) + " levels"
	case strings.Contains(msg, "unknown anchor"):
		hint = "an anchor such as &name must stand before its alias"
	case strings.Contains(msg, "mapping values are not allowed"):
		hint = `text that holds ": " needs quotes; a key needs its own line`
	case strings.Contains(msg, "cannot start any token"):
		hint = "indent with spaces, not tabs; quote text that begins with @, ` or %"
	case strings.Contains(msg, "tab character"):
		hint = "indent with spaces, not tabs"
	case strings.Contains(msg, "did not find expected"):
		hint = "check the indentation, and that brackets and quotes are closed"
	}
	at := Pos{Line: max(load.Mark.Line, 1), Column: max(load.Mark.Column, 1)}
	if last := bytes.Count(src, []byte("\n")) + 1; at.Line > last {
		at = Pos{Line: last, Column: 1} // the end of the document is counted past its last line
	}
	r.report(at, hint, "%s", msg)
}

func posOf(n *yaml.Node) Pos { return Pos{Line: n.Line, Column: n.Column} }

// room tells whether one more node may be made, and reports if not.
func (r *reader) room(at Pos, depth int) bool {
	r.nodes++
	if !r.full && (r.nodes > maxNodes || depth > maxDepth || r.text > maxText) {
		r.full = true
		r.report(at, "", "the document is too large: at most %d values, aliases expanded, and %d levels", maxNodes, maxDepth)
	}
	return !r.full
}

// node makes a tree of a YAML node.
func (r *reader) node(n *yaml.Node, depth int) *node {
	made := &node{pos: posOf(n)}
	if !r.room(made.pos, depth) {
		made.wrong = true
		return made
	}
	switch n.Kind {
	case yaml.AliasNode:
		if slices.Contains(r.active, n.Alias) {
			r.report(made.pos, "", "the alias *%s is part of what it stands for", n.Value)
			made.wrong = true
			return made
		}
		r.active = append(r.active, n.Alias)
		made = r.node(n.Alias, depth+1)
		r.active = r.active[:len(r.active)-1]
	case yaml.SequenceNode:
		r.tag(n, made, "!!seq")
		made.shape = sequence
		for _, c := range n.Content {
			made.items = append(made.items, r.node(c, depth+1))
		}
	case yaml.MappingNode:
		r.tag(n, made, "!!map")
		made.shape = mapping
		r.mapping(n, made, depth)
	case yaml.ScalarNode:
		if len(r.active) > 0 {
			r.text += len(n.Value)
		}
		r.scalar(n, made)
	}
	return made
}

// mapping reads the entries of a YAML map. What is merged with << comes last and
// yields to the map's own.
func (r *reader) mapping(n *yaml.Node, made *node, depth int) {
	seen := make(map[string]Pos)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merged = append(merged, val)
			continue
		}
		at := posOf(key)
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null" && key.Style&quoted == 0 {
			r.report(at, "put quotes around it", "a key must be text")
			made.wrong = true
			continue
		}
		r.enter(made, seen, field{key.Value, at, r.node(val, depth+1)})
	}
	for _, m := range merged {
		part := r.node(m, depth+1)
		parts := []*node{part}
		if part.shape == sequence {
			parts = part.items
		}
		for _, p := range parts {
			if p.shape != mapping {
				r.report(posOf(m), "", "<< wants a map or a list of maps")
				made.wrong = true
				break
			}
			for _, f := range p.fields {
				if _, own := seen[f.name]; !own {
					seen[f.name] = f.pos
					made.fields = append(made.fields, f)
				}
			}
		}
	}
}

// enter adds an entry to a mapping; a key that is there already is reported.
func (r *reader) enter(made *node, seen map[string]Pos, f field) {
	if first, again := seen[f.name]; again {
		r.report(f.pos, "keep one of the two", "the key %s is already at %d:%d", quote(f.name), first.Line, first.Column)
		return
	}
	seen[f.name] = f.pos
	made.fields = append(made.fields, f)
}

// quoted are the styles of scalars that are text whatever they look like.
const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// explicit returns the tag that the author wrote, "" if there is none.
func explicit(n *yaml.Node) string {
	switch {
	case n.Tag == "!": // the parser leaves its style plain
		return "!"
	case n.Style&yaml.TaggedStyle != 0:
		return n.ShortTag()
	}
	return ""
}

// tag reports a list or map with the tag of something else.
func (r *reader) tag(n *yaml.Node, made *node, want string) {
	if tag := explicit(n); tag != "" && tag != "!" && tag != want {
		r.report(made.pos, "leave the tag out", "the tag %s does not fit here", tag)
		made.wrong = true
	}
}

// scalar reads a scalar by the core schema of YAML 1.2.
func (r *reader) scalar(n *yaml.Node, made *node) {
	text := func() { made.shape, made.text, made.value = scalar, n.Value, event.StringOf(n.Value) }
	tag := explicit(n)
	switch {
	case tag == "!" || tag == "!!str", tag == "" && n.Style&quoted != 0:
		text()
		return
	case tag == "" || tag == "!!null" || tag == "!!bool" || tag == "!!int" || tag == "!!float":
		r.plain(made, n.Value)
		if tag == "" || made.wrong {
			return
		}
		is := map[event.Type]string{event.Bool: "!!bool", event.Int: "!!int", event.Float: "!!float", event.String: "!!str"}[made.value.Type()]
		if is == tag || is == "" && tag == "!!null" {
			return
		}
	}
	r.report(made.pos, "leave the tag out", "the tag %s does not fit the value", tag)
	made.wrong = true
}

// plain makes a scalar of text without quotes.
func (r *reader) plain(made *node, s string) {
	v, kind := plainValue(s)
	made.shape, made.text, made.value = kind, s, v
	if kind == scalar && v.Missing() {
		r.report(made.pos, "put quotes around it if it is text", "the number %s is out of range", quote(s))
		made.wrong = true
	}
}

var (
	decimal = regexp.MustCompile(`^[-+]?[0-9]+$`)
	float   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// plainValue returns what text without quotes is: null, or a scalar, whose value
// is missing if it is a number that nothing can hold. An integer beyond 64 bits is
// the nearest number. There is no infinity and no NaN: .inf is text.
func plainValue(s string) (v event.Value, kind shape) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return v, null
	case "true", "True", "TRUE":
		return event.BoolOf(true), scalar
	case "false", "False", "FALSE":
		return event.BoolOf(false), scalar
	}
	if c := s[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return event.StringOf(s), scalar
	}
	base, digits := 10, s
	switch {
	case strings.HasPrefix(s, "0x"):
		base, digits = 16, s[2:]
	case strings.HasPrefix(s, "0o"):
		base, digits = 8, s[2:]
	case !decimal.MatchString(s) && !float.MatchString(s):
		return event.StringOf(s), scalar
	}
	if base == 10 && !decimal.MatchString(s) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) {
			return event.Value{}, scalar
		}
		return event.FloatOf(f), scalar
	}
	if base != 10 && (digits == "" || strings.Trim(digits, "0123456789abcdefABCDEF") != "") {
		return event.StringOf(s), scalar
	}
	i, err := strconv.ParseInt(digits, base, 64)
	switch {
	case err == nil:
		return event.IntOf(i), scalar
	case base != 10 && errors.Is(err, strconv.ErrSyntax): // 0o9
		return event.StringOf(s), scalar
	case base != 10:
		return event.Value{}, scalar
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return event.Value{}, scalar
	}
	return event.FloatOf(f), scalar
}

// A jsonReader makes a tree of a document that is known to be valid JSON. It
// keeps the place of the decoder as it goes.
type jsonReader struct {
	*reader
	src          []byte
	decoder      *json.Decoder
	at           int // bytes of src that line and column are of
	line, column int
}

// next returns the next token and where it begins.
func (j *jsonReader) next() (json.Token, Pos) {
	from := int(j.decoder.InputOffset())
	for from < len(j.src) && bytes.IndexByte([]byte(" \t\r\n,:"), j.src[from]) >= 0 {
		from++
	}
	for j.at < from {
		c, size := utf8.DecodeRune(j.src[j.at:])
		j.at += size
		j.column++
		if c == '\n' {
			j.line, j.column = j.line+1, 1
		}
	}
	token, err := j.decoder.Token()
	if err != nil { // valid JSON has none but the end
		token = nil
	}
	return token, Pos{j.line, j.column}
}

// node reads one value.
func (j *jsonReader) node(depth int) *node {
	token, at := j.next()
	made := &node{pos: at}
	if !j.room(at, depth) {
		made.wrong = true
		return made
	}
	switch token := token.(type) {
	case string:
		made.shape, made.text, made.value = scalar, token, event.StringOf(token)
	case bool:
		made.shape, made.text, made.value = scalar, strconv.FormatBool(token), event.BoolOf(token)
	case json.Number:
		j.plain(made, token.String())
	case json.Delim:
		if token == '[' {
			made.shape = sequence
			for j.decoder.More() && !j.full {
				made.items = append(made.items, j.node(depth+1))
			}
		} else {
			made.shape = mapping
			seen := make(map[string]Pos)
			for j.decoder.More() && !j.full {
				key, at := j.next()
				name, _ := key.(string) // the keys of valid JSON are strings
				j.enter(made, seen, field{name, at, j.node(depth + 1)})
			}
		}
		j.next() // the bracket that closes it
	}
	return made
}
