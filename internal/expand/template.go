package expand

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// A template is the declaration of a kind in a document.
type template struct {
	spec   *spec.Node
	body   *schema.Raw // its fields as written; instances copy it
	def    *node.Def
	broken bool // its specs must not be used
}

// template reads the declaration of a kind whose nodes are specs in it.
func (e *expander) template(n *spec.Node, cfg schema.Config, found diag.List) {
	t := &template{spec: n, body: copied(n.Config), broken: found.HasErrors()}
	t.def = &node.Def{
		Kind: n.Name, Summary: cfg.String("summary"), Page: node.Page{Doc: cfg.String("doc"), Example: cfg.String("example")},
		Subgraph: node.SubgraphGraph,
	}
	if t.def.Summary == "" {
		t.def.Summary = fmt.Sprintf("A template of %s.", n.Pos.File)
	}
	if t.def.Config = schema.Fields(); !t.broken {
		before := len(e.list)
		t.def.Config = e.parameters(n, cfg.List("parameters"))
		t.broken = len(e.list) > before
	}
	e.specs.templates[n.Name] = t
	body := *n
	body.Config = without(t.body, "summary", "doc", "example", "parameters", "specs", "inbounds", "outbounds")
	e.specs.Bodies = append(e.specs.Bodies, &body)
	for _, inner := range e.inner(&body, node.SubgraphGraph, copied(t.body)) {
		e.specs.Bodies = append(e.specs.Bodies, e.expand(inner)...)
	}
	t.def.In, t.def.Out = Ports(body.Boundary)
}

// Ports returns the ports of a sub-graph, without the port error.
func Ports(b *spec.Boundary) (in, out []node.Port) {
	for _, port := range b.In {
		in = append(in, node.Port{Name: port.Name})
	}
	for _, name := range b.Out {
		if name != "error" {
			out = append(out, node.Port{Name: name})
		}
	}
	return in, out
}

// parameters makes fields of the parameters of a template. A parameter without a
// default is required.
func (e *expander) parameters(n *spec.Node, list []schema.Config) schema.Object {
	var fields []*schema.Field
	seen := make(map[string]bool)
	for _, p := range list {
		name := p.String("name")
		switch {
		case !key().MatchString(name):
			e.report(n, p.Errorf("name", diag.CodeBadValue, "%q cannot be used in a template", name).WithHint("write a name of letters, digits and _"))
			continue
		case slices.Contains(spec.CommonFields(), name):
			e.report(n, p.Errorf("name", diag.CodeBadValue, "every spec has a field %q", name).WithHint("give the parameter another name"))
			continue
		case seen[name]:
			e.report(n, p.Errorf("name", diag.CodeDuplicateName, "the parameter %q is declared twice", name))
			continue
		}
		seen[name] = true
		f := fieldOf(p)
		if !p.Has("default") {
			fields = append(fields, f.Required())
			continue
		}
		if text, _ := p.Value("default").AsString(); strings.Contains(text, "{{") {
			e.report(n, p.Errorf("default", diag.CodeBadValue, "a default is not rendered as a template").WithHint("use the key in the specs, as in {{ .KEY }}"))
			continue
		}
		// A default that does not fit is reported here; as the default of a field it would panic.
		given := schema.RawField{Name: name, Pos: p.Pos("default"), Value: p.Raw("default")}
		decoded, found := schema.Fields(f).Decode(&schema.Raw{Kind: schema.RawMap, Fields: []schema.RawField{given}})
		for _, d := range found {
			d.Code = diag.CodeBadValue // no schema can check it
		}
		if e.report(n, found...); !found.HasErrors() {
			fields = append(fields, fieldOf(p).Default(decoded.Value(name)))
		}
	}
	return schema.Fields(fields...)
}

var key = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// types make the fields of parameters.
var types = map[string]func(string) *schema.Field{
	"string":   schema.String,
	"text":     schema.Text,
	"integer":  schema.Int,
	"number":   schema.Float,
	"boolean":  schema.Bool,
	"duration": schema.Duration,
	"size":     schema.Bytes,
	"strings":  schema.Strings,
	"any":      schema.Any,
}

func fieldOf(p schema.Config) *schema.Field {
	f := types[p.String("type")](p.String("name")).Doc(p.String("doc"))
	if words := p.Strings("words"); len(words) > 0 && p.String("type") == "string" {
		f = schema.Enum(p.String("name"), words...).Doc(p.String("doc"))
	}
	if p.Bool("secret") {
		f.Secret()
	}
	return f
}

// register adds the templates to the kinds.
func (e *expander) register() {
	var defs []*node.Def
	for _, name := range slices.Sorted(maps.Keys(e.specs.templates)) {
		defs = append(defs, e.specs.templates[name].def)
	}
	for _, name := range slices.Sorted(maps.Keys(e.specs.declared)) {
		defs = append(defs, e.specs.declared[name].def)
	}
	kinds, err := e.kinds.With(defs, e.broken)
	if err != nil {
		e.list.Add(diag.Errorf(diag.CodeBug, "kinds of templates: %w", err))
		kinds = e.kinds
	}
	e.specs.Kinds = kinds
}

// Instantiate resolves all nodes, and puts nodes in the place of templates.
func (s *Specs) Instantiate(r *spec.Resolver) diag.List {
	e := &expander{kinds: s.Kinds, specs: s}
	nodes := s.Nodes
	s.Nodes = nil
	e.instantiate(nodes, r, nil)
	e.list.Sort()
	return e.list
}

// instantiate resolves nodes that are within the uses of templates on the stack.
func (e *expander) instantiate(nodes []*spec.Node, r *spec.Resolver, stack []string) {
	for _, n := range nodes {
		r.Resolve(n)
		e.specs.Nodes = append(e.specs.Nodes, n)
		t, ok := e.specs.templates[n.Kind]
		if !ok {
			continue
		}
		if slices.Contains(stack, n.Kind) {
			e.report(n, diag.Errorf(diag.CodeSubgraph, "the template %s uses itself: %s", n.Kind, strings.Join(append(stack, n.Kind), " → ")).At(n.KindPos, "kind"))
			continue
		}
		if e.tooDeep(n) {
			continue
		}
		if len(e.specs.Nodes) > maxNodes {
			e.report(n, diag.Errorf(diag.CodeSubgraph, "the templates make more than %d nodes", maxNodes))
			return
		}
		if inner := e.instance(n, t, r); inner != nil {
			e.instantiate(inner, r, append(stack[:len(stack):len(stack)], n.Kind))
		}
	}
}

// instance returns the nodes of one use of a template. It leaves the boundary of n
// unset if n or the template is wrong.
func (e *expander) instance(n *spec.Node, t *template, r *spec.Resolver) []*spec.Node {
	if t.broken || n.Unrendered {
		return nil
	}
	config, found := t.def.Config.Decode(n.Config)
	e.report(n, found...)
	if found.HasErrors() {
		return nil
	}
	keys, public := make(map[string]any), true
	for _, f := range t.def.Config.All() {
		keys[f.Name] = config.Value(f.Name).Go()
		public = public && !config.Hidden(f.Name)
	}
	use := *n
	if !n.UsedAt.IsValid() {
		use.UsedAt = n.Pos
	}
	r.Define(n, t.spec.Env, keys, public)
	body := e.inner(&use, node.SubgraphGraph, copied(t.body))
	n.Boundary = use.Boundary
	var nodes []*spec.Node
	for _, inner := range body {
		inner.Outer = n
		nodes = append(nodes, e.expand(inner)...)
	}
	return nodes
}

// copied returns a copy of a tree, so that rendering templates in one does not change
// the other.
func copied(raw *schema.Raw) *schema.Raw {
	c := *raw
	c.Items = slices.Clone(raw.Items)
	for i, item := range c.Items {
		c.Items[i] = copied(item)
	}
	c.Fields = slices.Clone(raw.Fields)
	for i := range c.Fields {
		c.Fields[i].Value = copied(c.Fields[i].Value)
	}
	return &c
}
