// Package doctree reads YAML, and so JSON, into trees with places. Workflow
// documents, values files, config files, YAML code and queries are read by it, so
// that the same text means the same in all of them.
//
// Read [Source] first, then [Source.Read] and [Node]. The work is bounded whatever
// the bytes. The package does not know what the trees mean.
package doctree

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	// This parser, and not github.com/goccy/go-yaml: it keeps its speed and its
	// stack on hostile input, and from version 4 on says line and column of a
	// mistake.
	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Limits bound a document. They keep hostile ones from taking the memory.
type Limits struct {
	Size   int // bytes of the text
	Values int // about as many keys and values, with what aliases repeat
}

const (
	maxDepth  = 100 // levels of lists and maps
	valueSize = 320 // bytes that a reader of the tree is taken to need for a value, without its text
	maxErrors = 2000
	repeated  = 10 // times that text repeated by an alias counts: what reads the tree may copy it
)

// A Pos is a place in a document: line and column from 1, the column in
// characters. The zero Pos is none.
type Pos struct{ Line, Column int }

// A Kind is what a [Node] is.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Int    // it fits int64
	Uint   // it fits uint64 but not int64
	BigInt // an integer that fits neither
	Float
	String
	Binary // base64, with the tag !!binary
	List
	Map
)

// A Node is a part of a document.
type Node struct {
	Kind   Kind
	Wrong  bool // an error was reported: the node is Null, or some of a List or Map is missing
	Pos    Pos
	Text   string  // of a scalar, as it is written, without quotes
	Items  []Node  // of a List
	Fields []Field // of a Map, in the order written, their names unique

	bits         uint64 // a Bool, Int, Uint or Float
	line, column int    // as the parser has them
	style        yaml.Style
}

// A Field is an entry of a map.
type Field struct {
	Name  string
	Pos   Pos // of the name
	Value Node
}

// Scalar reports whether the node is a value other than null.
func (n *Node) Scalar() bool { return n.Kind > Null && n.Kind < List }

// Bool returns the value of a Bool.
func (n *Node) Bool() bool { return n.bits != 0 }

// Int returns the value of an Int.
func (n *Node) Int() int64 { return int64(n.bits) }

// Uint returns the value of a Uint.
func (n *Node) Uint() uint64 { return n.bits }

// Float returns the value of an Int, a Uint, a BigInt or a Float.
func (n *Node) Float() float64 {
	switch n.Kind {
	case Int:
		return float64(int64(n.bits))
	case Uint:
		return float64(n.bits)
	}
	return math.Float64frombits(n.bits)
}

// Binary returns the bytes of a Binary.
func (n *Node) Binary() []byte {
	data, _ := decodeBase64(n.Text) // it was decoded before it became a Binary
	return data
}

// An ErrorKind is what is wrong with a document.
type ErrorKind uint8

// The kinds of errors.
const (
	BadSyntax ErrorKind = iota
	TooLarge
	BadAlias
	BadKey
	DuplicateKey
	BadScalar
)

// An Error is one problem of a document.
type Error struct {
	Kind    ErrorKind
	Pos     Pos
	Pointer string // a JSON Pointer to the value, if it is known
	Msg     string
	Hint    string // what to write instead; "" for none
}

// Load parses the YAML documents of the source. Documents before a mistake are
// returned together with it.
func (s *Source) Load() ([]*yaml.Node, []*Error) {
	if len(s.Text) > s.limits.Size {
		return nil, []*Error{{Kind: TooLarge, Msg: fmt.Sprintf("the document has %d bytes, more than %d", len(s.Text), s.limits.Size)}}
	}
	if e := s.check(); e != nil {
		return nil, []*Error{e}
	}
	if s.marks() > 2*s.limits.Values { // the parser would take hundreds of bytes for each
		return nil, []*Error{s.tooLarge()}
	}
	loader, err := yaml.NewLoader(strings.NewReader(s.Text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, []*Error{s.syntaxError(err)}
	}
	var docs []*yaml.Node
	for {
		doc := new(yaml.Node)
		switch err := loader.Load(doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return docs, []*Error{s.syntaxError(err)}
		}
		docs = append(docs, doc)
	}
}

func (s *Source) tooLarge() *Error {
	return &Error{Kind: TooLarge, Msg: "the document has too many keys and values",
		Hint: fmt.Sprintf("split it into several files, of at most some %d keys and values each", s.limits.Values)}
}

// A Builder makes something of a document. It is called for each value in the order
// of the text, what aliases repeat included.
type Builder interface {
	// Scalar is called for a value that is not a List or Map. n is valid until it returns.
	Scalar(n *Node)
	// Begin begins a List or a Map of about that many entries, which End ends.
	Begin(kind Kind, at Pos, entries int)
	// Key is called before each value in a Map. No key comes twice.
	Key(name string, at Pos)
	End(wrong bool)
}

// Build loads the documents of the source and reads them, as [Source.Load] and
// [Source.Walk] do, but with less memory.
func (s *Source) Build(b Builder) []*Error {
	docs, errs := s.Load()
	return append(errs, s.walk(docs, b, true)...)
}

// Walk reads documents as Load returns them. Those that are empty are skipped.
func (s *Source) Walk(docs []*yaml.Node, b Builder) []*Error { return s.walk(docs, b, false) }

// walk drops each node of the parser as soon as it is read, if release is set.
func (s *Source) walk(docs []*yaml.Node, b Builder, release bool) []*Error {
	r := &reader{src: s, to: b, release: release}
	for _, doc := range docs {
		for _, n := range doc.Content {
			r.read(n)
		}
	}
	return r.errs
}

// Read returns the trees of the documents of the source.
func (s *Source) Read() ([]*Node, []*Error) {
	t := new(tree)
	errs := s.Build(t)
	return t.roots, errs
}

// A tree is the Builder of nodes.
type tree struct {
	roots []*Node
	open  []*Node // the lists and maps that have not ended
}

// next returns the node of the next value.
func (t *tree) next() *Node {
	if len(t.open) == 0 {
		t.roots = append(t.roots, new(Node))
		return t.roots[len(t.roots)-1]
	}
	top := t.open[len(t.open)-1]
	if top.Kind == Map {
		return &top.Fields[len(top.Fields)-1].Value
	}
	top.Items = append(top.Items, Node{})
	return &top.Items[len(top.Items)-1]
}

func (t *tree) Scalar(n *Node) { *t.next() = *n }

func (t *tree) Begin(kind Kind, at Pos, entries int) {
	n := t.next()
	n.Kind, n.Pos = kind, at
	if kind == List {
		n.Items = make([]Node, 0, entries)
	} else {
		n.Fields = make([]Field, 0, entries)
	}
	t.open = append(t.open, n)
}

func (t *tree) Key(name string, at Pos) {
	top := t.open[len(t.open)-1]
	top.Fields = append(top.Fields, Field{Name: name, Pos: at})
}

func (t *tree) End(wrong bool) {
	t.open[len(t.open)-1].Wrong = wrong
	t.open = t.open[:len(t.open)-1]
}

// A reader calls a Builder for the nodes of the YAML parser.
type reader struct {
	src     *Source
	to      Builder
	release bool
	errs    []*Error
	path    []step       // to the node
	length  int          // of the JSON Pointer to the node, in bytes
	size    int          // of the tree, in bytes
	active  []*yaml.Node // the anchors being expanded
	aliases bool         // there were some
	held    int          // anchors that the node is in
	full    bool         // a limit was passed; reported once
	value   Node         // the scalar that the Builder has
}

// A step is a key of a map or a place in a list.
type step struct {
	key   string
	index int // from 0, -1 for a key
}

// enter and leave surround the reading of a value in a list or map.
func (r *reader) enter(s step) {
	r.path = append(r.path, s)
	r.length += 1 + len(s.key)
}

func (r *reader) leave() {
	last := len(r.path) - 1
	r.length -= 1 + len(r.path[last].key)
	r.path = r.path[:last]
}

func (r *reader) pos(n *yaml.Node) Pos {
	if len(r.src.edits) > 0 {
		return r.src.At(r.src.Offset(n.Line, n.Column))
	}
	return Pos{n.Line, n.Column}
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer appends an escaped key to a JSON Pointer.
func Pointer(pointer, key string) string {
	if strings.ContainsAny(key, "~/") {
		key = pointerEscape.Replace(key)
	}
	return pointer + "/" + key
}

// PointerAt appends a place in a list to a JSON Pointer.
func PointerAt(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }

func (r *reader) report(n *yaml.Node, kind ErrorKind, hint, format string, args ...any) {
	pointer := ""
	for _, s := range r.path {
		if s.index >= 0 {
			pointer = PointerAt(pointer, s.index)
		} else {
			pointer = Pointer(pointer, s.key)
		}
	}
	if len(r.errs) == maxErrors {
		return
	}
	r.errs = append(r.errs, &Error{Kind: kind, Pos: r.pos(n), Pointer: pointer, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// read reads a node. What is wrong in it is reported, and is null.
func (r *reader) read(n *yaml.Node) {
	size := valueSize + r.length
	if len(r.active) > 0 {
		size += repeated * len(n.Value)
	}
	if !r.charge(n, size) {
		r.null(n)
		return
	}
	if n.Anchor != "" {
		r.held++
		defer func() { r.held-- }()
	}
	switch n.Kind {
	case yaml.AliasNode:
		r.alias(n)
	case yaml.SequenceNode:
		r.to.Begin(List, r.pos(n), r.entries(len(n.Content)))
		fits := r.tag(n, "!!seq")
		for i := 0; i < len(n.Content) && !r.full; i++ {
			r.enter(step{index: i})
			r.read(n.Content[i])
			r.leave()
			r.done(n, i)
		}
		r.to.End(!fits)
	case yaml.MappingNode:
		r.to.Begin(Map, r.pos(n), r.entries(len(n.Content)/2))
		fits := r.tag(n, "!!map")
		r.to.End(!r.mapping(n, make(map[string]Pos, len(n.Content)/2), false) || !fits)
	case yaml.ScalarNode:
		r.scalar(n)
	}
}

// charge counts bytes of the tree. It reports false once a limit is passed.
func (r *reader) charge(n *yaml.Node, size int) bool {
	if r.full {
		return false
	}
	r.size += size
	if r.full = r.size > r.src.limits.Values*valueSize || len(r.path)+len(r.active) > maxDepth; !r.full {
		return true
	}
	if r.aliases {
		r.report(n, TooLarge, fmt.Sprintf("at most some %d values and %d levels", r.src.limits.Values, maxDepth), "the document is too large once its aliases are expanded")
	} else {
		e := r.src.tooLarge()
		r.report(n, TooLarge, e.Hint, "%s", e.Msg)
	}
	return false
}

// null puts a Null in place of a node that cannot be read.
func (r *reader) null(n *yaml.Node) { r.to.Scalar(&Node{Pos: r.pos(n), Wrong: true}) }

// entries returns how many of n entries still fit the limit.
func (r *reader) entries(n int) int { return max(0, min(n, r.src.limits.Values-r.size/valueSize)) }

// done drops an entry of a list or map, except in what an alias may repeat.
func (r *reader) done(n *yaml.Node, i int) {
	if r.release && r.held == 0 {
		n.Content[i] = nil
	}
}

// ExplicitTag returns the tag that the author wrote, "" if there is none.
func ExplicitTag(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return ""
	case n.Tag == "!": // the parser leaves its style plain
		return "!"
	case n.Style&yaml.TaggedStyle != 0:
		return n.ShortTag()
	}
	return ""
}

// tag reports a list or map with the tag of something else.
func (r *reader) tag(n *yaml.Node, want string) (fits bool) {
	tag := ExplicitTag(n)
	if fits = tag == "" || tag == "!" || tag == want; !fits {
		r.report(n, BadScalar, "leave the tag out", "the tag %s does not fit here", tag)
	}
	return fits
}

func (r *reader) alias(n *yaml.Node) {
	for _, a := range r.active {
		if a == n.Alias {
			r.report(n, BadAlias, "", "the alias *%s is part of what it stands for", n.Value)
			r.null(n)
			return
		}
	}
	r.aliases = true
	r.active = append(r.active, n.Alias)
	r.read(n.Alias)
	r.active = r.active[:len(r.active)-1]
}

// mapping reads the entries of a map. Entries merged with << come last and yield
// to the map's own; seen has the keys so far. It reports false if some of the
// entries are missing.
func (r *reader) mapping(n *yaml.Node, seen map[string]Pos, merged bool) bool {
	ok := true
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content) && !r.full; i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merges = append(merges, val)
			continue
		}
		name, isText := r.key(key)
		if !isText {
			ok = false
			continue
		}
		first, twice := seen[name]
		if twice && merged {
			r.charge(val, valueSize) // the same map may be merged many times
			continue
		}
		r.enter(step{name, -1})
		if twice {
			place := fmt.Sprintf("%d:%d", first.Line, first.Column)
			if r.src.File != "" {
				place = r.src.File + ":" + place
			}
			r.report(key, DuplicateKey, "keep one of the two", "the key %q is already at %s", name, place)
		} else {
			seen[name] = r.pos(key)
			r.to.Key(name, seen[name])
			r.read(val)
			r.done(n, i)
			r.done(n, i+1)
		}
		r.leave()
	}
	for _, m := range merges {
		ok = r.merge(m, seen) && ok
	}
	return ok
}

// merge reads the value of <<: a map, an alias of one, or a list of both.
func (r *reader) merge(n *yaml.Node, seen map[string]Pos) bool {
	at, active := n, len(r.active)
	defer func() { r.active = r.active[:active] }()
	for n.Kind == yaml.AliasNode {
		if slices.Contains(r.active, n.Alias) {
			r.report(at, BadAlias, "", "the alias *%s is part of what it stands for", n.Value)
			return false
		}
		r.aliases = true
		r.active = append(r.active, n.Alias)
		n = n.Alias
	}
	if n.Anchor != "" {
		r.held++
		defer func() { r.held-- }()
	}
	if !r.charge(at, valueSize) {
		return false
	}
	ok := true
	switch n.Kind {
	case yaml.MappingNode:
		ok = r.mapping(n, seen, true)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			ok = r.merge(c, seen) && ok
		}
	default:
		r.report(at, BadKey, "", "<< needs a map or a list of maps")
		return false
	}
	return ok
}

// key returns the text of a key. Numbers and booleans are keys as they are
// written.
func (r *reader) key(n *yaml.Node) (name string, ok bool) {
	at := n
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" && n.Style&Quoted == 0 {
		r.report(at, BadKey, "put quotes around it", "a key must be text")
		return "", false
	}
	return n.Value, true
}

// The styles of scalars that are text whatever they look like.
const (
	Block  = yaml.LiteralStyle | yaml.FoldedStyle
	Quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | Block
)

// scalar reads a scalar by the core schema of YAML 1.2.
func (r *reader) scalar(n *yaml.Node) {
	to := &r.value
	*to = Node{Pos: r.pos(n), Text: n.Value, line: n.Line, column: n.Column, style: n.Style}
	switch tag := ExplicitTag(n); tag {
	case "":
		if to.Kind = String; n.Style&Quoted == 0 {
			to.plain()
		}
	case "!", "!!str", "!!timestamp":
		to.Kind = String
	case "!!binary":
		if _, ok := decodeBase64(n.Value); ok {
			to.Kind = Binary
		} else {
			r.misfit(n, tag)
		}
	case "!!null", "!!bool", "!!int", "!!float":
		if to.plain(); !to.tagged(tag) {
			r.misfit(n, tag)
		}
	default:
		to.Wrong = true
		r.report(n, BadScalar, "leave the tag out", "unknown tag %s", tag)
	}
	r.to.Scalar(to)
}

func (r *reader) misfit(n *yaml.Node, tag string) {
	r.value.Kind, r.value.Wrong = Null, true
	r.report(n, BadScalar, "leave the tag out", "the tag %s does not fit the value", tag)
}

// tagged makes a plain scalar what a tag says. It reports false if the tag does not
// fit.
func (n *Node) tagged(tag string) bool {
	switch tag {
	case "!!null":
		return n.Kind == Null
	case "!!bool":
		return n.Kind == Bool
	case "!!int":
		return n.Kind == Int || n.Kind == Uint
	}
	if n.Kind != Int && n.Kind != Uint && n.Kind != Float {
		return false
	}
	n.Kind, n.bits = Float, math.Float64bits(n.Float())
	return true
}

func decodeBase64(s string) ([]byte, bool) {
	s = strings.Join(strings.Fields(s), "")
	data, err := base64.StdEncoding.DecodeString(s)
	return data, err == nil
}

// Plain returns the node of a scalar without quotes and without a place.
func Plain(text string) Node {
	n := Node{Text: text}
	n.plain()
	return n
}

// plain finds out what the text of a plain scalar is.
func (n *Node) plain() {
	s := n.Text
	setFloat := func(f float64) { n.Kind, n.bits = Float, math.Float64bits(f) }
	switch s {
	case "", "~", "null", "Null", "NULL":
		n.Kind = Null
		return
	case "true", "True", "TRUE":
		n.Kind, n.bits = Bool, 1
		return
	case "false", "False", "FALSE":
		n.Kind = Bool
		return
	case ".nan", ".NaN", ".NAN":
		setFloat(math.NaN())
		return
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		setFloat(math.Inf(1))
		return
	case "-.inf", "-.Inf", "-.INF":
		setFloat(math.Inf(-1))
		return
	}
	n.Kind = String
	if c := s[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return
	}
	unsigned := s
	if s[0] == '-' || s[0] == '+' {
		unsigned = s[1:]
	}
	switch {
	case unsigned != "" && strings.Trim(unsigned, "0123456789") == "":
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			n.Kind, n.bits = Int, uint64(i)
			return
		}
		n.uint(strings.TrimPrefix(s, "+"), 10)
	case strings.HasPrefix(s, "0x") && strings.Trim(s[2:], "0123456789abcdefABCDEF") == "" && len(s) > 2:
		n.uint(s[2:], 16)
	case strings.HasPrefix(s, "0o") && strings.Trim(s[2:], "01234567") == "" && len(s) > 2:
		n.uint(s[2:], 8)
	case strings.Trim(s, "0123456789+-.eE") == "": // ParseFloat takes more: hexadecimal digits, and underscores
		// Past the range ParseFloat returns an infinity, as JSON readers do.
		if f, err := strconv.ParseFloat(s, 64); err == nil || math.IsInf(f, 0) {
			setFloat(f)
		}
	}
}

func (n *Node) uint(digits string, base int) {
	u, err := strconv.ParseUint(digits, base, 64)
	switch {
	case err != nil:
		f := math.Inf(1)
		if base == 10 {
			f, _ = strconv.ParseFloat(n.Text, 64)
		}
		n.Kind, n.bits = BigInt, math.Float64bits(f)
	case base != 10 && u <= math.MaxInt64:
		n.Kind, n.bits = Int, u
	default:
		n.Kind, n.bits = Uint, u
	}
}
