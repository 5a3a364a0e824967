package expand

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// A declared is a kind that a spec declares, and whose nodes are not specs.
type declared struct {
	spec *spec.Node
	def  *node.Def
}

// declare reads the declaration of a kind.
func (e *expander) declare(n *spec.Node) {
	form, _ := e.kinds.Kind(n.Kind)
	if form.Declare == nil {
		cfg, found := form.Config.Decode(n.Config)
		if e.report(n, found...); e.newKind(n) {
			e.template(n, cfg, found)
		}
		return
	}
	if n.Unrendered || !e.declared(n, form) {
		e.broken = append(e.broken, n.Declares())
	}
}

// declared makes the kind of a declaration, and reports whether it could.
func (e *expander) declared(n *spec.Node, form *node.Def) (ok bool) {
	cfg, found := form.Config.Decode(n.Config)
	e.report(n, found...)
	if !e.newKind(n) || found.HasErrors() {
		return false
	}
	before := len(e.list)
	d := node.Declaration{Name: n.Name, Config: cfg, Fields: e.parameters(n, cfg.List("fields"))}
	if len(e.list) > before {
		return false
	}
	made, err := form.Declare(d)
	if err != nil {
		e.report(n, asFindings(err)...)
		return false
	}
	e.specs.declared[n.Name] = &declared{n, made.Def}
	for _, t := range made.Tests {
		e.tests(n, t)
	}
	return true
}

// tests adds the specs of a test of a kind.
func (e *expander) tests(n *spec.Node, t node.DeclaredTest) {
	data, err := t.Specs.AppendJSON(nil)
	if err != nil {
		e.report(n, diag.Errorf(diag.CodeBadValue, "%w", err).At(t.Pos, "tests"))
		return
	}
	nodes, found := spec.Parse(spec.Document{File: n.Pos.File, Data: data}, spec.ParseOptions{Namespace: n.Namespace})
	for _, d := range found {
		d.Pos = t.Pos
	}
	e.report(n, found...)
	for _, inner := range nodes {
		move(inner, t.Pos)
	}
	e.specs.tests = append(e.specs.tests, nodes...)
}

// move gives a node, and all that is in it, the place that it was made for.
func move(n *spec.Node, pos diag.Pos) {
	n.Pos, n.KindPos, n.NamespacePos, n.NamePos, n.PortsPos, n.EnvPos = pos, pos, pos, pos, pos, pos
	for i := range n.Ports {
		n.Ports[i].Pos = pos
		for j := range n.Ports[i].Links {
			l := &n.Ports[i].Links[j]
			l.Pos, l.NamePos, l.PortPos = pos, pos, pos
		}
	}
	moveRaw(n.Config, pos)
}

func moveRaw(raw *schema.Raw, pos diag.Pos) {
	raw.Pos = pos
	for _, item := range raw.Items {
		moveRaw(item, pos)
	}
	for i := range raw.Fields {
		raw.Fields[i].Pos = pos
		moveRaw(raw.Fields[i].Value, pos)
	}
}

// asFindings returns an error as findings.
func asFindings(err error) []*diag.Diagnostic {
	switch e := err.(type) {
	case *diag.Diagnostic:
		return []*diag.Diagnostic{e}
	case diag.List:
		return e
	}
	return []*diag.Diagnostic{diag.Errorf(diag.CodeBadNode, "%w", err)}
}

// newKind reports what is wrong with the name of a kind that a spec declares.
func (e *expander) newKind(n *spec.Node) (ok bool) {
	if len(n.Ports) > 0 {
		e.report(n, diag.Errorf(diag.CodeCommonField, "a %s has no links of its own", n.Kind).WithHint("link the specs that use it").At(n.PortsPos, "ports"))
	}
	if n.Name == "" {
		e.report(n, diag.Errorf(diag.CodeCommonField, "a %s needs a name: it is the kind of the specs that use it", n.Kind).At(n.Pos, "name"))
		return false
	}
	var other *spec.Node
	if t, dup := e.specs.templates[n.Name]; dup {
		other = t.spec
	} else if d, dup := e.specs.declared[n.Name]; dup {
		other = d.spec
	}
	if other != nil {
		e.report(n, diag.Errorf(diag.CodeDuplicateName, "the %s %q is already declared at %s", other.Kind, n.Name, other.Pos).At(n.NamePos, "name"))
		return false
	}
	if _, dup := e.kinds.Kind(n.Name); dup {
		e.report(n, diag.Errorf(diag.CodeDuplicateName, "there is a kind %q already", n.Name).WithHint("give the %s another name", n.Kind).At(n.NamePos, "name"))
		return false
	}
	return true
}
