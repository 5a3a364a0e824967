package spec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
)

// Parse reads the nodes of a document: one spec or a list of them, in any number of
// YAML documents. It returns all findings, and the nodes that it could read.
//
// A node without an id gets one that depends on its namespace and name, or on its
// place if it has no name. So the id is the same when the document is read again.
func Parse(doc Document, opts ParseOptions) ([]*Node, diag.List) {
	roots, list := yamltree.Read(doc.File, doc.Data)
	p := &parser{opts: opts, seen: make(map[string]int), file: doc.File, list: list}
	for _, raw := range roots {
		if !isNull(raw) {
			p.specs(raw, p.number)
			p.number++
		}
	}
	if filepath.Base(doc.File) == KindFile && len(p.nodes) == 0 {
		p.node(&schema.Raw{Kind: schema.RawMap, Pos: diag.Pos{File: doc.File, Line: 1, Col: 1}}, 0)
		p.nodes[0].Unrendered = p.list.HasErrors()
	}
	p.list.Sort()
	return p.nodes, p.list
}

// ParseInner reads the nodes of a sub-graph, from a field of its spec. Those without
// a name are called $0, $1 and so on, by their place. They belong to the namespace of
// outer.
func ParseInner(field *schema.Raw, outer *Node) ([]*Node, diag.List) {
	p := &parser{opts: ParseOptions{Namespace: outer.Namespace}, outer: outer, seen: make(map[string]int)}
	if field != nil && !isNull(field) {
		p.file = field.Pos.File
		p.specs(field, 0)
	}
	p.list.Sort()
	return p.nodes, p.list
}

// ParseBoundary reads a map from the ports of a sub-graph to links, as in ports. An
// entry without a port is one to the port of the given name.
func ParseBoundary(field *schema.RawField, outer *Node, port string) ([]Port, diag.List) {
	var list diag.List
	s := scope{list: &list, node: outer.title}
	return s.portMap(outer, field, port), list
}

type parser struct {
	opts   ParseOptions
	outer  *Node // the sub-graph whose nodes are read; may be nil
	file   string
	number int // of the YAML document; empty ones do not count
	nodes  []*Node
	seen   map[string]int // number of times that a derived id was made
	list   diag.List
}

func (p *parser) specs(raw *schema.Raw, doc int) {
	switch {
	case raw.Kind == schema.RawMap:
		if f := wrapped(raw); f != nil {
			d := diag.Errorf(diag.CodeNotSpec, "a document is a list of specs, without a key around it").
				WithHint("remove the line %s:, and begin each spec with \"- \"", f.Name)
			d.Pos, d.Pointer = f.Pos, raw.Pointer
			p.list.Add(d)
			return
		}
		p.node(raw, doc)
		return
	case raw.Kind == schema.RawScalar:
		what := "a document"
		if p.outer != nil {
			what = "the field"
		}
		p.notSpec(raw, "%s is a spec or a list of specs, not %s", what, raw.What())
		return
	}
	for _, item := range raw.Items {
		if item.Kind != schema.RawMap {
			p.notSpec(item, "a spec is a map, not %s", item.What())
			continue
		}
		p.node(item, doc)
	}
}

// wrapped returns the field of a map that contains specs without being one, as in
// documents of other programs: nodes, steps, pipeline.
func wrapped(raw *schema.Raw) *schema.RawField {
	if raw.Field("kind") != nil {
		return nil
	}
	for i, f := range raw.Fields {
		for _, item := range append(f.Value.Items, f.Value) {
			if item.Field("kind") != nil {
				return &raw.Fields[i]
			}
		}
	}
	return nil
}

func (p *parser) notSpec(raw *schema.Raw, format string, args ...any) {
	d := diag.Errorf(diag.CodeNotSpec, format, args...).WithHint("write fields such as kind: snippet")
	d.Pos, d.Pointer = raw.Pos, raw.Pointer
	p.list.Add(d)
}

// A scope reads the common fields of one spec, or of one variable.
type scope struct {
	list    *diag.List
	node    func() string // its name in messages
	private bool
}

func (s scope) report(raw *schema.Raw, path string, d *diag.Diagnostic) {
	s.reportAt(raw.Pos, raw.Pointer, path, d)
}

func (s scope) reportAt(pos diag.Pos, pointer, path string, d *diag.Diagnostic) {
	d.Pos, d.Pointer, d.Path, d.Node, d.Private = pos, pointer, path, s.node(), s.private
	s.list.Add(d)
}

// str reads a string that must not be empty.
func (s scope) str(raw *schema.Raw, path string) string {
	str, ok := raw.Value.AsString()
	switch {
	case raw.Kind != schema.RawScalar || !ok:
		d := diag.Errorf(diag.CodeCommonField, "want a string, got %s", raw.What())
		if raw.Kind == schema.RawScalar && !raw.Value.IsNull() && !s.private {
			d.Hint = fmt.Sprintf("put quotes around it: %q", raw.Text.Code)
		}
		s.report(raw, path, d)
	case str == "":
		s.report(raw, path, diag.Errorf(diag.CodeName, "is empty").WithHint("give it a value, or leave it out"))
	}
	return str
}

func (s scope) name(raw *schema.Raw, path string) string {
	str := s.str(raw, path)
	if strings.TrimSpace(str) != str || strings.ContainsAny(str, "\n\r\t") || len(str) > 256 {
		s.report(raw, path, diag.Errorf(diag.CodeName, "a name has no spaces at its ends, no line breaks, and at most 256 bytes"))
	}
	return str
}

func (s scope) id(raw *schema.Raw, path string) string {
	str := s.str(raw, path)
	if str == "" {
		return ""
	}
	id, err := uuid.Parse(str)
	if err != nil || len(str) != 36 {
		s.report(raw, path, diag.Errorf(diag.CodeID, "%q is not a UUID", str).
			WithHint("leave id out, or write one such as 01890a5d-ac96-774b-bcce-b302099a8057"))
		return ""
	}
	return id.String()
}

// Unreadable reports whether findings of Parse say that a document, or the rest of it, could not be read:
// what it has is not known then.
func Unreadable(list diag.List) bool {
	return slices.ContainsFunc(list, func(d *diag.Diagnostic) bool { return d.Code == diag.CodeYAML || d.Code == diag.CodeLimit })
}

func (s scope) unknown(f *schema.RawField, path string, known ...string) {
	d := diag.Errorf(diag.CodeEntryField, "unknown field")
	if !d.Suggest(f.Name, known) {
		d.Hint = "the fields are: " + strings.Join(known, ", ")
	}
	s.reportAt(f.Pos, f.Value.Pointer, path+"."+f.Name, d)
}

func (s scope) annotations(raw *schema.Raw, path string) []Annotation {
	if isNull(raw) {
		return nil
	}
	if raw.Kind != schema.RawMap {
		s.report(raw, path, diag.Errorf(diag.CodeCommonField, "want a map, got %s", raw.What()))
		return nil
	}
	var list []Annotation
	for i := range raw.Fields {
		f := &raw.Fields[i]
		list = append(list, Annotation{Name: f.Name, Value: f.Value.ToValue(), Pos: f.Value.Pos})
	}
	return list
}

// Lifecycle returns the description of the common field lifecycle.
func Lifecycle() schema.Object {
	timeout := schema.Duration("timeout").Range(float64(time.Millisecond), float64(24*time.Hour))
	return schema.Fields(schema.Group("lifecycle", schema.Fields(timeout.Doc("How long each workflow at a lifecycle port may take; 10s if left out."))).
		Doc("How the workflows at the lifecycle ports run."))
}

func (s scope) lifecycle(f *schema.RawField) (timeout time.Duration) {
	if isNull(f.Value) {
		return 0
	}
	config, found := Lifecycle().Decode(&schema.Raw{Kind: schema.RawMap, Fields: []schema.RawField{*f}})
	for _, d := range found {
		d.Node = s.node()
	}
	s.list.Append(found)
	return config.Group(f.Name).Duration("timeout")
}

func isNull(raw *schema.Raw) bool {
	return raw.Kind == schema.RawScalar && raw.Value.IsNull()
}

// maxNodes is the largest number of specs of a document. It bounds the memory of the
// nodes, which can be a hundred times as large as their text.
const maxNodes = 50_000

func (p *parser) node(raw *schema.Raw, doc int) {
	if len(p.nodes) == maxNodes {
		d := diag.Errorf(diag.CodeLimit, "the document has more than %d specs", maxNodes).WithHint("split it into several files")
		d.Pos, d.Pointer = raw.Pos, raw.Pointer
		p.list.Add(d)
		return
	}
	n := &Node{
		Namespace: p.opts.namespace(),
		Outer:     p.outer,
		Pos:       raw.Pos, Pointer: raw.Pointer,
		KindPos: raw.Pos, NamespacePos: raw.Pos, NamePos: raw.Pos,
		AnnotationsPos: raw.Pos, EnvPos: raw.Pos, PortsPos: raw.Pos,
		Config: &schema.Raw{Kind: schema.RawMap, Pos: raw.Pos, Pointer: raw.Pointer},
	}
	s := scope{list: &p.list, node: n.title}
	// Name and kind first: messages about the other fields contain them.
	if f := raw.Field("name"); f != nil && f.Kind == schema.RawScalar {
		n.Name, _ = f.Value.AsString()
	}
	if f := raw.Field("kind"); f != nil && f.Kind == schema.RawScalar {
		n.Kind, _ = f.Value.AsString()
	}
	ports, links := -1, -1
	for i := range raw.Fields {
		f := &raw.Fields[i]
		switch f.Name {
		case "id":
			n.ID, n.IDPos = s.id(f.Value, f.Name), f.Value.Pos
		case "kind":
			n.Kind, n.KindPos = s.str(f.Value, f.Name), f.Value.Pos
		case "namespace":
			n.Namespace, n.NamespacePos = s.name(f.Value, f.Name), f.Value.Pos
		case "name":
			n.Name, n.NamePos = s.name(f.Value, f.Name), f.Value.Pos
		case "annotations":
			n.Annotations, n.AnnotationsPos = s.annotations(f.Value, f.Name), f.Value.Pos
		case "env":
			n.Env, n.EnvPos = s.env(n, f.Value), f.Value.Pos
		case "lifecycle":
			n.LifecycleTimeout = s.lifecycle(f)
		case "ports":
			ports = i
			n.PortsPos = f.Value.Pos
		case "links":
			links = i
		default:
			n.Config.Fields = append(n.Config.Fields, *f)
		}
	}
	if p.outer != nil {
		if n.Name == "" {
			n.Name = "$" + strconv.Itoa(len(p.nodes))
		}
		if n.Namespace != p.outer.Namespace {
			s.reportAt(n.NamespacePos, raw.Pointer, "namespace", diag.Errorf(diag.CodeCommonField, "a node of a sub-graph is in the namespace of the sub-graph, %q", p.outer.Namespace).
				WithHint("leave namespace out"))
			n.Namespace = p.outer.Namespace
		}
	}
	p.ports(s, n, raw, ports, links)
	declares := p.outer == nil && filepath.Base(p.file) == KindFile
	if raw.Field("kind") == nil && declares {
		n.Kind, n.KindPos = "plugin", n.Pos
	} else if raw.Field("kind") == nil {
		d := diag.Errorf(diag.CodeMissingKind, "missing").WithHint("say which kind of node it is, such as kind: snippet")
		for _, f := range n.Config.Fields {
			if _, ok := spell.Nearest(f.Name, []string{"kind"}); ok || f.Name == "type" {
				d.Hint = fmt.Sprintf("did you mean kind in place of %q?", f.Name)
			}
		}
		s.report(raw, "kind", d)
	}
	p.older(s, n)
	p.identify(n, doc)
	p.nodes = append(p.nodes, n)
}

func (p *parser) identify(n *Node, doc int) {
	if n.ID != "" {
		return
	}
	key := byName(n.Namespace, n.Name)
	switch {
	case n.Outer != nil:
		key = n.Outer.ID + "\x00inner\x00" + n.Name
	case n.Name == "":
		key = n.Namespace + "\x00place\x00" + p.file + "\x00" + strconv.Itoa(doc) + "\x00" + n.Pointer
	}
	if p.seen[key]++; p.seen[key] > 1 {
		key += "\x00" + strconv.Itoa(p.seen[key])
	}
	n.ID = uuid.NewSHA1(idSpace, []byte(key)).String()
}

// IDOf returns the id of the node with a name, if the node has no id of its own.
func IDOf(namespace, name string) string {
	return uuid.NewSHA1(idSpace, []byte(byName(namespace, name))).String()
}

func byName(namespace, name string) string { return namespace + "\x00name\x00" + name }

// idSpace is the namespace of the UUIDs (version 5) that are derived here. It must
// never change: ids of stored nodes depend on it.
var idSpace = uuid.MustParse("6f1c5b0e-8f0d-5c57-9d0e-3f7a8b2c4d19")

// ports reads the field ports, or its older name links.
func (p *parser) ports(s scope, n *Node, raw *schema.Raw, ports, links int) {
	at := ports
	if links >= 0 {
		f := &raw.Fields[links]
		if ports >= 0 {
			s.reportAt(f.Pos, f.Value.Pointer, "links", diag.Errorf(diag.CodeOldAndNew, "links is the older name of ports, and the spec has both").
				WithHint("move its entries to ports"))
			return
		}
		n.Older = append(n.Older, Deprecation{Pos: f.Pos, Path: "links", Want: "ports"})
		n.PortsPos = f.Value.Pos
		at = links
	}
	if at < 0 || isNull(raw.Fields[at].Value) {
		return
	}
	n.Ports = s.portMap(n, &raw.Fields[at], "in")
}

// portMap reads a map from ports to links: a list of them, or one by itself. A link
// without a port, such as the name of a node, is one to the port of the given name.
func (s scope) portMap(n *Node, f *schema.RawField, port string) (ports []Port) {
	field, list := f.Name, f.Value
	if list.Kind != schema.RawMap {
		s.report(list, field, diag.Errorf(diag.CodeCommonField, "want a map of ports, got %s", list.What()).
			WithHint("write %s: {PORT: NODE}", field))
		return nil
	}
	for i := range list.Fields {
		f := &list.Fields[i]
		path := field + "." + f.Name
		p := Port{Name: f.Name, Pos: f.Pos}
		read := func(raw *schema.Raw, path string) {
			if link, ok := s.link(n, raw, path, port); ok {
				p.Links = append(p.Links, link)
			}
		}
		if f.Value.Kind != schema.RawList && !isNull(f.Value) {
			read(f.Value, path)
		}
		for k, item := range f.Value.Items {
			read(item, fmt.Sprintf("%s[%d]", path, k))
		}
		ports = append(ports, p)
	}
	return ports
}

// link reads a link: the name of a node, or a map of name or id, and port.
func (s scope) link(n *Node, raw *schema.Raw, path, port string) (Link, bool) {
	l := Link{Port: port, Pos: raw.Pos, NamePos: raw.Pos, PortPos: raw.Pos}
	before := len(*s.list)
	if _, short := raw.Value.AsString(); short && raw.Kind == schema.RawScalar {
		l.Name = s.str(raw, path)
		return l, len(*s.list) == before
	}
	if raw.Kind != schema.RawMap {
		d := diag.Errorf(diag.CodeCommonField, "want the name of a node or a link, got %s", raw.What()).WithHint("write NODE, or {name: NODE, port: %s}", port)
		if raw.Kind == schema.RawScalar && !isNull(raw) {
			d.Hint = fmt.Sprintf("put quotes around it if it is the name of a node: %q", raw.Text.Code)
		}
		s.report(raw, path, d)
		return l, false
	}
	for i := range raw.Fields {
		f := &raw.Fields[i]
		switch f.Name {
		case "id":
			l.ID, l.NamePos = s.id(f.Value, path+".id"), f.Value.Pos
		case "name":
			l.Name, l.NamePos = s.str(f.Value, path+".name"), f.Value.Pos
		case "port":
			l.Port, l.PortPos = s.str(f.Value, path+".port"), f.Value.Pos
			if l.Port == "io" {
				l.Port = "in"
				n.Older = append(n.Older, Deprecation{Pos: f.Value.Pos, Path: path + ".port", Want: "in"})
			}
		default:
			s.unknown(f, path, "id", "name", "port")
		}
	}
	if len(*s.list) > before {
		return l, false
	}
	switch {
	case l.ID == "" && l.Name == "":
		s.report(raw, path, diag.Errorf(diag.CodeBadLink, "the link has neither name nor id").WithHint("name the node that it leads to"))
	case l.ID != "" && l.Name != "":
		s.report(raw, path, diag.Errorf(diag.CodeBadLink, "the link has both name and id").WithHint("keep one of the two"))
	default:
		return l, true
	}
	return l, false
}

func (s scope) env(n *Node, raw *schema.Raw) []Binding {
	if isNull(raw) {
		return nil
	}
	if raw.Kind != schema.RawMap {
		s.report(raw, "env", diag.Errorf(diag.CodeCommonField, "want a map, got %s", raw.What()).WithHint("write env: {KEY: {name: VARIABLE}}"))
		return nil
	}
	var list []Binding
	for i := range raw.Fields {
		f := &raw.Fields[i]
		path := "env." + f.Name
		entry := f.Value
		if entry.Kind == schema.RawList && len(entry.Items) == 1 { // the older form
			n.Older = append(n.Older, Deprecation{Pos: entry.Pos, Path: path, Want: "a map instead of a list"})
			entry = entry.Items[0]
		}
		if b, ok := s.binding(f, entry, path); ok {
			list = append(list, b)
		}
	}
	return list
}

func (s scope) binding(f *schema.RawField, entry *schema.Raw, path string) (Binding, bool) {
	b := Binding{Key: f.Name, Pos: f.Pos, NamePos: f.Pos}
	if isNull(entry) {
		return b, true
	}
	if entry.Kind != schema.RawMap {
		s.report(entry, path, diag.Errorf(diag.CodeCommonField, "want a map, got %s", entry.What()).WithHint(`write {name: VARIABLE}, or {data: "{{ .KEY }}"}`))
		return b, false
	}
	before := len(*s.list)
	for i := range entry.Fields {
		e := &entry.Fields[i]
		switch e.Name {
		case "id":
			b.ID, b.NamePos = s.id(e.Value, path+".id"), e.Value.Pos
		case "name":
			b.Name, b.NamePos = s.str(e.Value, path+".name"), e.Value.Pos
		case "data":
			b.Data = e.Value
		default:
			s.unknown(e, path, "id", "name", "data")
		}
	}
	return b, len(*s.list) == before
}
