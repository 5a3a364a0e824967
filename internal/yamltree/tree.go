// Package yamltree reads YAML, and so JSON, into trees of values with the place
// of each: what workflow documents, values files, config files and YAML code have
// in common, so that the same text means the same in all of them.
//
// Read [Source] first, then [Source.Load] and [Source.Trees]. Its work is bounded
// whatever the bytes. The package must not know what the trees mean.
package yamltree

import (
	"encoding/base64"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	// This parser, and not github.com/goccy/go-yaml: it keeps its speed and its
	// stack on hostile input, and from version 4 on says line and column of a
	// mistake.
	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// The bounds of a document. They keep hostile ones from taking the memory or the
// stack; all are far above what a person writes.
const (
	MaxSize  = 16 << 20  // bytes of a document
	maxDepth = 100       // levels of lists and maps
	maxMarks = 1_050_000 // of a document, see [Source.marks]: about as many keys and values
	maxTree  = 160 << 20 // bytes of the tree, what aliases repeat included
	rawSize  = 320       // bytes that one value of the tree takes, without its text
	repeated = 10        // times that text repeated by an alias counts: what reads the tree may copy it
)

// Load parses the YAML documents of the source. What stands before a mistake is
// returned together with it.
func (s *Source) Load() ([]*yaml.Node, diag.List) {
	if len(s.Text) > MaxSize {
		return nil, diag.List{diag.Errorf(diag.CodeLimit, "the document has %d bytes, more than %d", len(s.Text), MaxSize).
			At(diag.Pos{File: s.File}, "")}
	}
	if d := s.check(); d != nil {
		return nil, diag.List{d}
	}
	if s.marks() > maxMarks { // the parser would take hundreds of bytes for each
		return nil, diag.List{tooLarge().At(diag.Pos{File: s.File}, "")}
	}
	loader, err := yaml.NewLoader(strings.NewReader(s.Text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, diag.List{s.syntaxError(err)}
	}
	var docs []*yaml.Node
	for {
		doc := new(yaml.Node)
		switch err := loader.Load(doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return docs, diag.List{s.syntaxError(err)}
		}
		docs = append(docs, doc)
	}
}

func tooLarge() *diag.Diagnostic {
	return diag.Errorf(diag.CodeLimit, "the document has too many keys and values").
		WithHint("split it into several files, of at most some %d keys and values each", maxMarks/2)
}

// Read returns the trees of the documents of the source, one for each that is not
// empty. It is Load and Trees in one, with less memory.
func (s *Source) Read() ([]*schema.Raw, diag.List) {
	docs, list := s.Load()
	roots, found := s.trees(docs, true)
	list.Append(found)
	return roots, list
}

// Trees returns the trees of documents as Load returns them, one for each that
// is not empty.
func (s *Source) Trees(docs []*yaml.Node) ([]*schema.Raw, diag.List) { return s.trees(docs, false) }

// trees makes trees of documents. release lets go of each node of the parser when
// it is done with it.
func (s *Source) trees(docs []*yaml.Node, release bool) ([]*schema.Raw, diag.List) {
	r := &reader{src: s, release: release}
	var roots []*schema.Raw
	for _, doc := range docs {
		for _, root := range doc.Content {
			roots = append(roots, r.tree(root, "", 0))
		}
	}
	return roots, r.list
}

// A reader turns the nodes of the YAML parser into a tree with places.
type reader struct {
	src     *Source
	release bool
	list    diag.List
	size    int          // of the tree, in bytes
	active  []*yaml.Node // the anchors being expanded
	aliases bool         // there were some
	held    int          // anchors that the node stands in
	full    bool         // a bound was passed; reported once
}

func (r *reader) pos(n *yaml.Node) diag.Pos {
	if len(r.src.edits) > 0 {
		return r.src.At(r.src.Offset(n.Line, n.Column))
	}
	return diag.Pos{File: r.src.File, Line: n.Line, Col: n.Column}
}

func (r *reader) report(n *yaml.Node, pointer string, d *diag.Diagnostic) {
	d.Pos, d.Pointer = r.pos(n), pointer
	r.list.Add(d)
}

// tree makes a tree of a node. What is wrong in it is reported, and is null.
func (r *reader) tree(n *yaml.Node, pointer string, depth int) *schema.Raw {
	raw := &schema.Raw{Pos: r.pos(n), Pointer: pointer}
	if r.full {
		return raw
	}
	if r.size += rawSize + len(pointer); len(r.active) > 0 {
		r.size += repeated * len(n.Value)
	}
	if r.size > maxTree || depth > maxDepth {
		r.full = true
		d := tooLarge()
		if r.aliases {
			d = diag.Errorf(diag.CodeLimit, "the document is too large once its aliases are expanded").
				WithHint("at most some %d values and %d levels", maxTree/rawSize, maxDepth)
		}
		r.report(n, pointer, d)
		return raw
	}
	if n.Anchor != "" {
		r.held++
		defer func() { r.held-- }()
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.alias(n, raw, depth)
	case yaml.SequenceNode:
		r.tag(n, pointer, "!!seq")
		raw.Kind = schema.RawList
		raw.Items = make([]*schema.Raw, 0, len(n.Content))
		for i, c := range n.Content {
			if r.full {
				break
			}
			raw.Items = append(raw.Items, r.tree(c, pointer+"/"+strconv.Itoa(i), depth+1))
			r.done(n, i)
		}
	case yaml.MappingNode:
		r.tag(n, pointer, "!!map")
		raw.Kind = schema.RawMap
		r.mapping(n, raw, depth)
	case yaml.ScalarNode:
		r.scalar(n, raw)
	}
	return raw
}

// done lets go of an entry of a list or map, except in what an alias may repeat.
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
func (r *reader) tag(n *yaml.Node, pointer, want string) {
	if tag := ExplicitTag(n); tag != "" && tag != "!" && tag != want {
		r.report(n, pointer, diag.Errorf(diag.CodeScalar, "the tag %s does not fit here", tag).WithHint("leave the tag out"))
	}
}

func (r *reader) alias(n *yaml.Node, raw *schema.Raw, depth int) *schema.Raw {
	for _, a := range r.active {
		if a == n.Alias {
			r.report(n, raw.Pointer, diag.Errorf(diag.CodeAlias, "the alias *%s is part of what it stands for", n.Value))
			return raw
		}
	}
	r.aliases = true
	r.active = append(r.active, n.Alias)
	made := r.tree(n.Alias, raw.Pointer, depth+1)
	r.active = r.active[:len(r.active)-1]
	return made
}

// mapping reads the entries of a map. Entries merged with << come last and yield
// to the map's own.
func (r *reader) mapping(n *yaml.Node, raw *schema.Raw, depth int) {
	seen := make(map[string]int, len(n.Content)/2) // where it is in raw.Fields
	var merges []*yaml.Node
	raw.Fields = make([]schema.RawField, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && !r.full; i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merges = append(merges, val)
			continue
		}
		name, ok := r.key(key, raw.Pointer)
		if !ok {
			continue
		}
		pointer := raw.Pointer + "/" + pointerEscape(name)
		if first, dup := seen[name]; dup {
			r.report(key, pointer, diag.Errorf(diag.CodeDuplicateKey, "the key %q is already at %s", name, raw.Fields[first].Pos).
				WithHint("keep one of the two"))
			continue
		}
		seen[name] = len(raw.Fields)
		raw.Fields = append(raw.Fields, schema.RawField{Name: name, Pos: r.pos(key), Value: r.tree(val, pointer, depth+1)})
		r.done(n, i)
		r.done(n, i+1)
	}
	for _, m := range merges {
		r.merge(m, raw, seen, depth)
	}
}

func (r *reader) merge(n *yaml.Node, raw *schema.Raw, seen map[string]int, depth int) {
	merged := r.tree(n, raw.Pointer, depth+1)
	parts := []*schema.Raw{merged}
	if merged.Kind == schema.RawList {
		parts = merged.Items
	}
	for _, part := range parts {
		if part.Kind != schema.RawMap {
			r.report(n, raw.Pointer, diag.Errorf(diag.CodeKey, "<< wants a map or a list of maps"))
			return
		}
		for _, f := range part.Fields {
			if _, own := seen[f.Name]; own {
				continue
			}
			seen[f.Name] = len(raw.Fields)
			raw.Fields = append(raw.Fields, f)
		}
	}
}

// key returns the text of a key. Numbers and booleans are keys as they are
// written.
func (r *reader) key(n *yaml.Node, pointer string) (name string, ok bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" && n.Style&Quoted == 0 {
		r.report(n, pointer, diag.Errorf(diag.CodeKey, "a key must be text").WithHint("put quotes around it"))
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
func (r *reader) scalar(n *yaml.Node, raw *schema.Raw) {
	raw.Text = r.text(n)
	tag := ExplicitTag(n)
	var ok bool
	switch tag {
	case "":
		if n.Style&Quoted != 0 {
			raw.Value = value.String(n.Value)
			return
		}
		raw.Value, ok = Scalar(n.Value)
		if !ok {
			r.report(n, raw.Pointer, diag.Errorf(diag.CodeScalar, "the integer does not fit 64 bits").
				WithHint("put quotes around it, or write it as 1e30"))
		}
		return
	case "!", "!!str", "!!timestamp":
		raw.Value, ok = value.String(n.Value), true
	case "!!binary":
		var data []byte
		if data, ok = decodeBase64(n.Value); ok {
			raw.Value = value.Binary(data)
		}
	case "!!null", "!!bool", "!!int", "!!float":
		var v value.Value
		if v, ok = Scalar(n.Value); ok {
			raw.Value, ok = tagged(v, tag)
		}
	default:
		r.report(n, raw.Pointer, diag.Errorf(diag.CodeScalar, "unknown tag %s", tag).WithHint("leave the tag out"))
		return
	}
	if !ok {
		r.report(n, raw.Pointer, diag.Errorf(diag.CodeScalar, "the tag %s does not fit the value", tag).WithHint("leave the tag out"))
	}
}

func tagged(v value.Value, tag string) (value.Value, bool) {
	switch k := v.Kind(); tag {
	case "!!null":
		return v, k == value.KindNull
	case "!!bool":
		return v, k == value.KindBool
	case "!!int":
		return v, k == value.KindInt || k == value.KindUint
	}
	f, ok := v.AsFloat()
	return value.Float(f), ok
}

func decodeBase64(s string) ([]byte, bool) {
	s = strings.Join(strings.Fields(s), "")
	data, err := base64.StdEncoding.DecodeString(s)
	return data, err == nil
}

var (
	decimal = regexp.MustCompile(`^[-+]?[0-9]+$`)
	float   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// Scalar returns what a plain scalar is. It is not ok for an integer beyond 64
// bits.
func Scalar(s string) (v value.Value, ok bool) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return value.Null(), true
	case "true", "True", "TRUE":
		return value.Bool(true), true
	case "false", "False", "FALSE":
		return value.Bool(false), true
	case ".nan", ".NaN", ".NAN":
		return value.Float(math.NaN()), true
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		return value.Float(math.Inf(1)), true
	case "-.inf", "-.Inf", "-.INF":
		return value.Float(math.Inf(-1)), true
	}
	if c := s[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return value.String(s), true
	}
	switch {
	case decimal.MatchString(s):
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return value.Int(i), true
		}
		u, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64)
		return value.Uint(u), err == nil
	case strings.HasPrefix(s, "0x") && strings.Trim(s[2:], "0123456789abcdefABCDEF") == "" && len(s) > 2:
		u, err := strconv.ParseUint(s[2:], 16, 64)
		return value.Uint(u), err == nil
	case strings.HasPrefix(s, "0o") && strings.Trim(s[2:], "01234567") == "" && len(s) > 2:
		u, err := strconv.ParseUint(s[2:], 8, 64)
		return value.Uint(u), err == nil
	case float.MatchString(s):
		// Past the range ParseFloat returns an infinity, as JSON readers do.
		f, err := strconv.ParseFloat(s, 64)
		return value.Float(f), err == nil || math.IsInf(f, 0)
	}
	return value.String(s), true
}

// text finds the places of a scalar's text.
func (r *reader) text(n *yaml.Node) diag.Text {
	s, start := r.src, r.pos(n)
	if n.Value == "" {
		return diag.NewText("", s.File, start, nil)
	}
	at := s.Content(n.Line, n.Column)
	if n.Style&yaml.LiteralStyle != 0 {
		return s.literal(n.Value, at)
	}
	if n.Style&yaml.FoldedStyle != 0 {
		line := s.At(at).Line + 1
		return s.folded(n.Value, start, s.Offset(line, 1))
	}
	if n.Style&Quoted != 0 {
		at = min(at+1, len(s.Text))
	}
	if strings.HasPrefix(s.Text[at:], n.Value) && !strings.Contains(n.Value, "\n") {
		return diag.NewFoldedText(n.Value, s.File, start, s.parts(at, at+len(n.Value)))
	}
	return s.folded(n.Value, start, at)
}

func pointerEscape(key string) string {
	if !strings.ContainsAny(key, "~/") {
		return key
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
