package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A Resolver binds the env of nodes and renders the templates in the strings of their
// own fields. Make one with NewResolver.
type Resolver struct {
	vars        map[string]map[string]*Variable // by namespace, then by name and by "\x00" + id
	environment map[string]any
	scopes      map[*Node]keys // what the nodes of a sub-graph see
	list        diag.List
}

// NewResolver returns a resolver. An env entry with a name or id uses the variable of
// the node's namespace, or else one without a namespace; any other entry uses the
// environment.
func NewResolver(vars []*Variable, environment map[string]string) *Resolver {
	r := &Resolver{
		vars:        make(map[string]map[string]*Variable),
		environment: make(map[string]any, len(environment)),
		scopes:      make(map[*Node]keys),
	}
	for name, text := range environment {
		r.environment[name] = text
	}
	for _, v := range vars {
		r.add(v)
	}
	return r
}

// keys are what templates see.
type keys struct {
	values map[string]any // nil if there are none
	public bool           // no value comes from a variable or from the environment
	broken bool           // a key could not be bound
}

// Resolve renders the templates of a node in place. Call it once for each node, and
// for a sub-graph before its nodes, which see its keys. It does not change nodes that
// see no keys, so their strings may contain {{. The result of a template is a string
// that is marked as templated, and that no finding shows.
func (r *Resolver) Resolve(n *Node) {
	scope := scope{list: &r.list, node: n.title}
	keys := r.bind(scope, n.Namespace, n.Env, r.scopes[n.Outer])
	r.scopes[n] = keys
	if n.Unrendered = keys.broken; keys.broken {
		return // every template would complain about the missing key
	}
	before := len(r.list)
	templates := &renderer{scope: scope, keys: keys}
	for i := range n.Config.Fields {
		f := &n.Config.Fields[i]
		templates.render(f.Value, f.Name)
	}
	n.Unrendered = len(r.list) > before
	if !n.Unrendered && n.Config.Field("address") != nil && wasOlder(n) {
		splitAddress(scope, n)
	}
}

// Define sets what the nodes of a use of a template see, instead of the keys of n: the
// env of the template, bound in the namespace of n, and the keys of its parameters.
// Findings quote what templates make of public parameters.
func (r *Resolver) Define(n *Node, env []Binding, parameters map[string]any, public bool) {
	s := scope{list: &r.list, node: n.title}
	r.scopes[n] = r.bind(s, n.Namespace, env, keys{values: parameters, public: public})
}

// Findings returns what was wrong with the variables and nodes so far.
func (r *Resolver) Findings() diag.List { return r.list }

func (r *Resolver) add(v *Variable) {
	space := r.vars[v.Namespace]
	if space == nil {
		space = make(map[string]*Variable)
		r.vars[v.Namespace] = space
	}
	for _, key := range []struct{ what, text, key string }{{"name", v.Name, v.Name}, {"id", v.ID, "\x00" + v.ID}} {
		if key.text == "" {
			continue
		}
		if first, dup := space[key.key]; dup {
			if key.what == "id" && first.Name == v.Name {
				continue // the id was derived from the name, which was reported
			}
			d := diag.Errorf(diag.CodeVariable, "the %s %q is already used at %s", key.what, key.text, first.Pos).
				WithHint("rename one of the two variables")
			d.Pos, d.Private = v.Pos, true
			r.list.Add(d)
			continue
		}
		space[key.key] = v
	}
}

// bind returns the keys of an env, and the keys of outer. It reports the keys that
// cannot be bound.
func (r *Resolver) bind(s scope, namespace string, env []Binding, outer keys) keys {
	if len(env) == 0 {
		return outer
	}
	all := keys{values: maps.Clone(outer.values), broken: outer.broken}
	if all.values == nil {
		all.values = make(map[string]any, len(env))
	}
	for _, b := range env {
		v, bound := r.binding(s, namespace, b)
		all.broken = all.broken || !bound
		all.values[b.Key] = v
	}
	return all
}

func (r *Resolver) binding(s scope, namespace string, b Binding) (data any, ok bool) {
	path := "env." + b.Key
	if b.ID == "" && b.Name == "" {
		if b.Data != nil {
			return r.data(s, b.Data, path+".data", r.environment)
		}
		if text, ok := r.environment[b.Key]; ok {
			return text, true
		}
		d := diag.Errorf(diag.CodeUnknownVariable, "%q is not in the environment", b.Key)
		if !d.Suggest(b.Key, slices.Sorted(maps.Keys(r.environment))) {
			d.Hint = fmt.Sprintf("start with --environment %s=…, or name a variable", b.Key)
		}
		s.reportAt(b.NamePos, "", path, d)
		return nil, false
	}
	v := r.find(namespace, b)
	if v == nil {
		s.reportAt(b.NamePos, "", path, r.unknownVariable(namespace, b))
		return nil, false
	}
	if b.Data == nil {
		return v.Data.Go(), true
	}
	return r.data(s, b.Data, path+".data", v.Data.Go())
}

// find returns the variable of a binding, nil if there is none. A variable of the
// namespace has priority over one without a namespace.
func (r *Resolver) find(namespace string, b Binding) *Variable {
	key := b.Name
	if b.ID != "" {
		key = "\x00" + b.ID
	}
	for _, space := range []string{namespace, ""} {
		if v := r.vars[space][key]; v != nil && (b.Name == "" || v.Name == b.Name) {
			return v
		}
	}
	return nil
}

func (r *Resolver) unknownVariable(namespace string, b Binding) *diag.Diagnostic {
	if b.ID != "" {
		return diag.Errorf(diag.CodeUnknownVariable, "no variable with id %s in namespace %q", b.ID, namespace)
	}
	d := diag.Errorf(diag.CodeUnknownVariable, "no variable %q in namespace %q", b.Name, namespace)
	var names []string
	for _, space := range []string{namespace, ""} {
		for name := range r.vars[space] {
			if !strings.HasPrefix(name, "\x00") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	if !d.Suggest(b.Name, names) {
		d.Hint = "put it into a values file, and load that with --from-values"
	}
	return d
}

func (r *Resolver) data(s scope, raw *schema.Raw, path string, dot any) (any, bool) {
	before := len(r.list)
	t := &renderer{scope: s}
	made := t.copy(raw, path, dot)
	return made.Go(), len(r.list) == before
}

func (t *renderer) copy(raw *schema.Raw, path string, dot any) value.Value {
	switch raw.Kind {
	case schema.RawList:
		elems := make([]value.Value, len(raw.Items))
		for i, item := range raw.Items {
			elems[i] = t.copy(item, fmt.Sprintf("%s[%d]", path, i), dot)
		}
		return value.List(elems...)
	case schema.RawMap:
		fields := make([]value.Field, len(raw.Fields))
		for i, f := range raw.Fields {
			fields[i] = value.Field{Name: f.Name, Value: t.copy(f.Value, path+"."+f.Name, dot)}
		}
		return value.Map(fields...)
	}
	text, ok := raw.Value.AsString()
	if !ok || !strings.Contains(text, "{{") {
		return raw.Value
	}
	made, _ := t.text(raw, path, dot)
	return value.String(made)
}
