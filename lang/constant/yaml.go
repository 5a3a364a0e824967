package constant

import (
	"errors"
	"fmt"
	"math"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// A YAML is the language of YAML documents: one of them, with maps in the order
// in which they are written. The zero YAML is ready.
type YAML struct{}

// maxSize is how large the value of a document may be, in bytes as
// [value.Value.Size] counts them: what aliases share, as often as it occurs.
const maxSize = 64 << 20

// Compile implements [lang.Language].
func (YAML) Compile(code diag.Text, _ lang.Options) (p lang.Program, err error) {
	defer func() {
		// The parser indexes its tokens without looking at times; whatever it
		// panics on is not a document.
		if r := recover(); r != nil {
			p, err = nil, lang.Syntax(code, 1, 1, "YAML: cannot be read: %v", r)
		}
	}()
	file, err := parser.ParseBytes([]byte(code.Code), 0)
	if err != nil {
		var bad yaml.Error
		if !errors.As(err, &bad) {
			return nil, lang.Syntax(code, 1, 1, "YAML: %v", err)
		}
		line, col := place(bad.GetToken())
		return nil, lang.Syntax(code, line, col, "YAML: %s", bad.GetMessage())
	}
	r := reader{anchors: map[string]value.Value{}}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	if len(bodies) == 0 {
		return program{value.Null()}, nil
	}
	if len(bodies) > 1 {
		line, col := place(bodies[1].GetToken())
		return nil, lang.Syntax(code, line, col, "YAML: a second document, where one is wanted")
	}
	v, err := r.value(bodies[0], 0)
	if err != nil {
		var bad *nodeError
		if errors.As(err, &bad) {
			line, col := place(bad.at)
			return nil, lang.Syntax(code, line, col, "YAML: %s", bad.msg)
		}
		return nil, lang.Syntax(code, 1, 1, "YAML: %v", err)
	}
	return program{v}, nil
}

func place(t *token.Token) (line, col int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return t.Position.Line, t.Position.Column
}

// A nodeError says what is wrong with a node.
type nodeError struct {
	at  *token.Token
	msg string
}

// Error returns the message.
func (e *nodeError) Error() string { return e.msg }

func wrong(n ast.Node, format string, args ...any) error {
	return &nodeError{n.GetToken(), fmt.Sprintf(format, args...)}
}

// A reader turns the nodes of one document into values.
type reader struct {
	anchors map[string]value.Value
}

func (r *reader) value(n ast.Node, depth int) (value.Value, error) {
	if depth >= value.MaxDepth {
		return value.Value{}, wrong(n, "nests deeper than %d levels", value.MaxDepth)
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return value.Null(), nil
	case *ast.BoolNode:
		return value.Bool(n.Value), nil
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return value.Int(i), nil
		case uint64:
			return value.Uint(i), nil
		}
		return value.Value{}, wrong(n, "the integer %s is out of range", n.Token.Value)
	case *ast.FloatNode:
		return value.Float(n.Value), nil
	case *ast.InfinityNode:
		return value.Float(n.Value), nil
	case *ast.NanNode:
		return value.Float(math.NaN()), nil
	case *ast.StringNode:
		return value.String(n.Value), nil
	case *ast.LiteralNode:
		return value.String(n.Value.Value), nil
	case *ast.SequenceNode:
		return r.sequence(n, depth)
	case *ast.MappingNode:
		return r.mapping(n.Values, depth)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{n}, depth)
	case *ast.AnchorNode:
		v, err := r.value(n.Value, depth)
		r.anchors[n.Name.GetToken().Value] = v
		return v, err
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		v, ok := r.anchors[name]
		if !ok {
			return value.Value{}, wrong(n, "no anchor &%s stands before this alias", name)
		}
		return v, nil
	case *ast.TagNode:
		return r.tagged(n, depth)
	}
	return value.Value{}, wrong(n, "a %s has no value", n.Type())
}

// tagged returns a value with an explicit type. The parser has already read
// !!str 1 as a string where it could; other tags of scalars are applied by the
// library's own decoder.
func (r *reader) tagged(n *ast.TagNode, depth int) (value.Value, error) {
	switch n.Value.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode, *ast.AnchorNode, *ast.AliasNode:
		return r.value(n.Value, depth)
	}
	var made any
	if err := yaml.NodeToValue(n, &made); err != nil {
		return value.Value{}, wrong(n, "the tag %s does not fit the value", n.Start.Value)
	}
	v, err := value.Encode(made)
	if err != nil {
		return value.Value{}, wrong(n, "the tag %s makes no value: %v", n.Start.Value, err)
	}
	return v, nil
}

func (r *reader) sequence(n *ast.SequenceNode, depth int) (value.Value, error) {
	elems := make([]value.Value, 0, len(n.Values))
	size := 0
	for _, e := range n.Values {
		v, err := r.value(e, depth+1)
		if err != nil {
			return value.Value{}, err
		}
		if size += v.Size(); size > maxSize {
			return value.Value{}, wrong(e, "the value is larger than %d bytes", maxSize)
		}
		elems = append(elems, v)
	}
	return checked(n, value.List(elems...))
}

func (r *reader) mapping(entries []*ast.MappingValueNode, depth int) (value.Value, error) {
	var b value.MapBuilder
	var merged []value.Value
	own := map[string]bool{}
	size := 0
	for _, entry := range entries {
		v, err := r.value(entry.Value, depth+1)
		if err != nil {
			return value.Value{}, err
		}
		if size += v.Size(); size > maxSize {
			return value.Value{}, wrong(entry, "the value is larger than %d bytes", maxSize)
		}
		if _, ok := entry.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, v)
			continue
		}
		name, err := r.key(entry.Key, depth)
		if err != nil {
			return value.Value{}, err
		}
		if own[name] {
			return value.Value{}, wrong(entry.Key, "the key %q stands here twice", name)
		}
		own[name] = true
		b.Set(name, v)
	}
	for _, m := range merged {
		if err := merge(&b, own, m); err != nil {
			return value.Value{}, wrong(entries[0], "%v", err)
		}
	}
	if len(entries) == 0 {
		return value.Map(), nil
	}
	return checked(entries[0], b.Build())
}

// merge adds the fields of a map, or of each map in a list, that are not there
// yet: a key of the map itself wins, then the earlier map.
func merge(b *value.MapBuilder, have map[string]bool, m value.Value) error {
	switch m.Kind() {
	case value.KindMap:
		for name, v := range m.Fields() {
			if !have[name] {
				have[name] = true
				b.Set(name, v)
			}
		}
		return nil
	case value.KindList:
		for _, e := range m.Elems() {
			if e.Kind() != value.KindMap {
				return fmt.Errorf("<< merges maps, not a %s", e.Kind())
			}
			if err := merge(b, have, e); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("<< merges maps, not a %s", m.Kind())
}

// key returns the name of a key. Scalars that are not strings are named as they
// are written.
func (r *reader) key(n ast.MapKeyNode, depth int) (string, error) {
	var node ast.Node = n
	if k, ok := n.(*ast.MappingKeyNode); ok {
		node = k.Value
	}
	switch k := node.(type) {
	case *ast.StringNode:
		return k.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return k.GetToken().Value, nil
	}
	v, err := r.value(node, depth)
	if err != nil {
		return "", err
	}
	switch v.Kind() {
	case value.KindList, value.KindMap, value.KindError:
		return "", wrong(node, "a %s cannot be a key", v.Kind())
	}
	return v.String(), nil
}

// checked reports a value that became too deep by way of an alias.
func checked(n ast.Node, v value.Value) (value.Value, error) {
	if err := v.AsError(); err != nil {
		return value.Value{}, wrong(n, "%v", err)
	}
	return v, nil
}
