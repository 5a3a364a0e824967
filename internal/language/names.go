package language

import (
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
)

// A use is a place where a name stands that means a node, a template or a variable.
type use struct {
	Range
	node *spec.Node     // what it means; nil for a variable
	of   *spec.Variable // what it means; nil for a node
	own  bool           // it is where the name is given
}

// uses returns the places with names in the workflow of a file. A link means a node of its own document
// before one of another. Links that mean nothing are left out.
func (w *Workspace) uses(file string) (all []use) {
	type scope struct {
		file      string // of nodes in it alone; empty for all
		namespace string
		outer     *spec.Node
		name      string
	}
	type written struct {
		link spec.Link
		from *spec.Node
	}
	byName, byID := make(map[scope]*spec.Node), make(map[string]*spec.Node)
	templates := make(map[string]*spec.Node)
	variables := make(map[scope]*spec.Variable)
	for _, v := range w.opts.Variables() {
		variables[scope{namespace: v.Namespace, name: v.Name}] = v
	}
	var links []written
	workflow := w.workflow(file, w.parse)
	for _, t := range workflow {
		for _, n := range w.parse(t) {
			for _, at := range []scope{{t.File, n.Namespace, n.Outer, n.Name}, {"", n.Namespace, n.Outer, n.Name}} {
				if _, ok := byName[at]; !ok {
					byName[at] = n
				}
			}
			if _, ok := byID[n.ID]; !ok {
				byID[n.ID] = n
			}
			if w.kinds.IsTemplate(n.Kind) && templates[n.Name] == nil {
				templates[n.Name] = n
			}
		}
	}
	add := func(t *text, pos diag.Pos, name string, u use) {
		if r, ok := t.stands(pos, name); ok && name != "" {
			u.Range = r
			all = append(all, u)
		}
	}
	for _, t := range workflow {
		for _, n := range w.parse(t) {
			if n.NamePos != n.Pos {
				add(t, n.NamePos, n.Name, use{node: n, own: true})
			}
			if template := templates[n.Kind]; template != nil {
				add(t, n.KindPos, n.Kind, use{node: template})
			}
			for _, b := range n.Env {
				for _, namespace := range []string{n.Namespace, ""} {
					if v := variables[scope{namespace: namespace, name: b.Name}]; v != nil && b.Name != "" {
						add(t, b.NamePos, b.Name, use{of: v})
						break
					}
				}
			}
			links = links[:0]
			for _, p := range n.Ports {
				for _, l := range p.Links {
					links = append(links, written{l, n.Outer})
				}
			}
			if n.Boundary != nil {
				for _, p := range n.Boundary.In {
					for _, l := range p.Links {
						links = append(links, written{l, n})
					}
				}
			}
			for _, m := range w.mocks(n) {
				to := byName[scope{t.File, n.Namespace, nil, m.name}]
				if to == nil {
					to = byName[scope{"", n.Namespace, nil, m.name}]
				}
				if to != nil {
					add(t, m.pos, m.name, use{node: to})
				}
			}
			for _, l := range links {
				to := byName[scope{t.File, n.Namespace, l.from, l.link.Name}]
				if to == nil {
					to = byName[scope{"", n.Namespace, l.from, l.link.Name}]
				}
				switch {
				case l.link.Exit: // the entry of outbounds names the node itself
					add(t, l.link.NamePos, n.Name, use{node: n})
				case l.link.ID != "" && byID[l.link.ID] != nil:
					add(t, l.link.NamePos, l.link.ID, use{node: byID[l.link.ID]})
				case to != nil:
					add(t, l.link.NamePos, l.link.Name, use{node: to})
				}
			}
		}
	}
	return all
}

// A mock names a node that a test replaces.
type mock struct {
	name string
	pos  diag.Pos
}

// mocks returns what a test replaces.
func (w *Workspace) mocks(n *spec.Node) (all []mock) {
	def, ok := w.kinds.Kind(n.Kind)
	if !ok || !def.Role.Has(node.Tests) {
		return nil
	}
	list := n.Config.Field("mocks")
	if list == nil {
		return nil
	}
	for _, item := range list.Items {
		if of := item.Field("node"); of != nil {
			name, _ := of.Value.AsString()
			all = append(all, mock{name, of.Pos})
		}
	}
	return all
}

// stands returns the range of a word that stands at a place, with or without a quote before it.
func (t *text) stands(at diag.Pos, word string) (Range, bool) {
	src := t.src()
	offset := src.Offset(at.Line, at.Col)
	rest := src.Text[min(offset, len(src.Text)):]
	col := at.Col
	if trimmed := strings.TrimLeft(rest, `"'`); len(trimmed) == len(rest)-1 {
		rest, col = trimmed, col+1
	}
	if !strings.HasPrefix(rest, word) {
		return Range{}, false
	}
	return Range{t.pos(at.Line, col), t.pos(at.Line, col+runes(word))}, true
}

// useAt returns the use at a place, and all of its workflow.
func (w *Workspace) useAt(at diag.Pos) (u use, all []use, ok bool) {
	all = w.uses(at.File)
	i := slices.IndexFunc(all, func(u use) bool { return u.holds(at) })
	if i < 0 {
		return use{}, nil, false
	}
	return all[i], all, true
}

// Definition returns where the name at a place is given; ok is false if there is none.
func (w *Workspace) Definition(at diag.Pos) (r Range, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u, all, ok := w.useAt(at)
	if !ok {
		return Range{}, false
	}
	if u.of != nil {
		return Range{u.of.Pos, u.of.Pos}, u.of.Pos.IsValid()
	}
	for _, other := range all {
		if other.node == u.node && other.own {
			return other.Range, true
		}
	}
	return Range{u.node.Pos, u.node.Pos}, true
}

// References returns where what the name at a place means is used, in the order of documents. The place
// where the name is given comes first if own is set, and is left out otherwise.
func (w *Workspace) References(at diag.Pos, own bool) (all []Range) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u, uses, ok := w.useAt(at)
	if !ok {
		return nil
	}
	for _, other := range uses {
		switch same := other.node == u.node && other.of == u.of; {
		case same && !other.own:
			all = append(all, other.Range)
		case same && own:
			all = slices.Insert(all, 0, other.Range)
		}
	}
	return all
}

// Renamable returns the name at a place that [Workspace.Rename] changes.
func (w *Workspace) Renamable(at diag.Pos) (r Range, name string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u, _, ok := w.useAt(at)
	if !ok || u.node == nil {
		return Range{}, "", false
	}
	return u.Range, u.node.Name, true
}

// Rename returns the edits that give the node, or the template, at a place another name, everywhere. The
// error says why that is not possible.
func (w *Workspace) Rename(at diag.Pos, name string) ([]Edit, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u, uses, ok := w.useAt(at)
	if !ok || u.node == nil {
		return nil, fmt.Errorf("there is no name of a node here")
	}
	if strings.TrimSpace(name) != name || name == "" || strings.ContainsAny(name, "\n\r\t") || len(name) > 256 {
		return nil, fmt.Errorf("a name has no spaces at its ends, no line breaks, and at most 256 bytes")
	}
	for _, t := range w.workflow(at.File, w.parse) {
		nodes := w.parse(t)
		if t.stale {
			return nil, fmt.Errorf("%s cannot be read: put that right first", t.File)
		}
		for _, n := range nodes {
			if n.Name == name && n.Namespace == u.node.Namespace && n.Outer == u.node.Outer && n != u.node {
				return nil, fmt.Errorf("%s has a node %q already", t.File, name)
			}
		}
	}
	var edits []Edit
	given := false
	for _, other := range uses {
		if other.node != u.node || other.To.Col-other.From.Col != runes(u.node.Name) { // a link by id stays
			continue
		}
		given = given || other.own
		edits = append(edits, Edit{other.Range, w.quoted(other.Range, name)})
	}
	if !given {
		return nil, fmt.Errorf("the name of the node is written in a way that cannot be changed here: see %v", u.node.NamePos)
	}
	return edits, nil
}

// quoted writes a name as a scalar of YAML, within the quotes that are there.
func (w *Workspace) quoted(r Range, name string) string {
	src := w.texts[r.From.File].src()
	before := src.Text[:src.Offset(r.From.Line, r.From.Col)]
	switch {
	case strings.HasSuffix(before, `"`):
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
	case strings.HasSuffix(before, `'`):
		return strings.ReplaceAll(name, `'`, `''`)
	case plainName(name):
		return name
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// plainName reports whether a name needs no quotes wherever it stands.
func plainName(name string) bool {
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c > 0x7f
		if !letter && (i == 0 || !strings.ContainsRune("0123456789-./ ", c)) {
			return false
		}
	}
	switch strings.ToLower(name) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", "~":
		return false
	}
	return true
}

// A Symbol is a node of a document.
type Symbol struct {
	Name  string // or else its kind
	Kind  string
	Range       // of the whole spec
	At    Range // of the name
	Inner []Symbol
}

// Symbols returns the nodes of a document, with those of sub-graphs inside them.
func (w *Workspace) Symbols(file string) []Symbol {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.texts[file]
	if t == nil {
		return nil
	}
	nodes := slices.Clone(w.parse(t))
	slices.SortStableFunc(nodes, func(a, b *spec.Node) int {
		if before(a.Pos, b.Pos) {
			return -1
		} else if before(b.Pos, a.Pos) {
			return 1
		}
		return 0
	})
	last := len(t.src().Lines)
	return t.symbols(nodes, nil, t.pos(last, runes(t.src().Line(last))+1))
}

// symbols returns the nodes of a sub-graph, of which the last ends at end.
func (t *text) symbols(nodes []*spec.Node, outer *spec.Node, end diag.Pos) (all []Symbol) {
	var own []*spec.Node
	for _, n := range nodes {
		if n.Outer == outer && n.Pos.File == t.File {
			own = append(own, n)
		}
	}
	for i, n := range own {
		to := end
		if i+1 < len(own) {
			if next := own[i+1].Pos; next.Line > n.Pos.Line {
				to = t.pos(next.Line-1, runes(t.src().Line(next.Line-1))+1)
			} else {
				to = next
			}
		}
		s := Symbol{Name: n.Name, Kind: n.Kind, Range: Range{n.Pos, to}, At: t.extent(n.NamePos)}
		if s.Name == "" || strings.HasPrefix(s.Name, "$") {
			s.Name, s.At = n.Kind, t.extent(n.KindPos)
		}
		if n.Boundary != nil || slices.ContainsFunc(nodes, func(inner *spec.Node) bool { return inner.Outer == n }) {
			s.Inner = t.symbols(nodes, n, to)
		}
		all = append(all, s)
	}
	return all
}
