// Package openapi describes the requests that a workflow serves, as documents of OpenAPI
// 3.1. What a kind adds is its [node.Def.OpenAPI]; the routes come from nodes with
// [node.Routes], and requests come from those that give [node.GivesRequest]. The package must
// not know kinds.
//
// Read [Document] first. walk.go finds what the nodes behind a route add, and operation.go
// and merge.go put that together; paths.go makes the paths of routes, and own.go those that
// nodes answer themselves; problem.go has the answers that every listener gives.
//
// A document says no more than what is certain: the body of a request is described if all
// requests of the route come to the node that checks it, and the body of an answer by the field doc of
// the route or by a constant. The status of an answer is known by these, by what nodes say of the payloads that they
// send (see [Sent]), and by the errors that they make; otherwise there is the response "default".
package openapi

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// version is the version of OpenAPI.
const version = "3.1.1"

// Info is what a document says of itself.
type Info struct {
	Title       string // empty is "API"
	Version     string // empty is "0.0.0"
	Description string // Markdown; may be empty

	// Components is a Components Object whose entries win over the entries of nodes; null has none.
	Components value.Value
}

// InfoOf returns what the field openapi of a router says.
func InfoOf(router schema.Config) Info {
	if !router.Has("openapi") {
		return Info{}
	}
	o := router.Group("openapi")
	return Info{o.String("title"), o.String("version"), o.String("description"), o.Value("components")}
}

// Document describes the requests that come to routers, and to the routers behind them. A
// node that several of them share is described in each route. The routers are not changed.
func Document(routers []*node.Vertex, info Info) value.Value {
	b := &builder{
		byShape: make(map[string]*path), seen: make(map[*node.Vertex]bool),
		components: make(map[string]map[string]value.Value),
	}
	b.own(info.Components)
	for _, r := range routers {
		b.router(r)
	}
	return b.document(info)
}

// Routers returns the nodes that have routes, but not those that only take the requests of
// another router: [Document] finds them.
func Routers(all []node.Vertex) []*node.Vertex {
	var list []*node.Vertex
	for i := range all {
		if isRouter(&all[i]) {
			list = append(list, &all[i])
		}
	}
	return list
}

// A builder collects a document.
type builder struct {
	paths      []*path
	byShape    map[string]*path
	seen       map[*node.Vertex]bool             // routers
	components map[string]map[string]value.Value // by group and name
}

// A path is a Path Item Object.
type path struct {
	template   string
	shape      string   // the same with {:} for each parameter, and {*} for a rest
	names      []string // of its parameters
	operations map[string]value.Value
}

// add adds an operation that make returns, unless there is one with the method.
func (p *path) add(method string, make func() value.Value) {
	if _, taken := p.operations[method]; !taken {
		p.operations[method] = make()
	}
}

// methods are those that a Path Item Object can have, in the order in which they are shown.
var methods = [...]string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// anyMethods are those that a route for any method is described with.
var anyMethods = [...]string{"get", "put", "post", "delete", "patch"}

// router adds the routes of a router.
func (b *builder) router(v *node.Vertex) {
	if v.Def == nil || b.seen[v] {
		return
	}
	b.seen[v] = true
	before := newOperation()
	for _, up := range upstream(v) {
		b.add(before, node.Target{Node: up}, true, true)
		if isListener(up) && len(up.Err) > 0 {
			before.handled = true
			b.follow(before, up.Err, false)
			before.ends, before.open = false, false
		}
	}
	without, behind := b.unrouted(v)
	var open []func() // routes for any method, which come last
	for _, route := range v.Config.List("routes") {
		at, names, ok := b.path(route.String("path"))
		port := route.OutPort("port")
		if !ok || port >= len(v.Out) {
			continue
		}
		op := before.clone()
		op.pathNames, op.renamed, op.route = at.names, names, at.shape
		if nested := b.walk(op, v.Out[port]); nested {
			continue
		}
		if len(v.Out[port]) == 0 {
			op.ends = true
		}
		if len(at.names) > 0 {
			without(op)
		}
		doc := route.Raw("doc").ToValue()
		method := strings.ToLower(route.String("method"))
		switch {
		case method == "*":
			open = append(open, func() {
				for _, method := range anyMethods {
					at.add(method, func() value.Value { return op.object(method, doc, b).Without("operationId") })
				}
			})
		case slices.Contains(methods[:], method):
			at.add(method, func() value.Value { return op.object(method, doc, b) })
		}
	}
	for _, f := range open {
		f()
	}
	for _, r := range behind {
		b.router(r)
	}
}

// own adds the components of a document's author.
func (b *builder) own(components value.Value) {
	for group, entries := range components.Fields() {
		for name, entry := range entries.Fields() {
			b.component(group, name, entry)
		}
	}
}

// component adds a component, and returns the name under which it is: another one if there
// is a different one of that name.
func (b *builder) component(group, name string, entry value.Value) string {
	if b.components[group] == nil {
		b.components[group] = make(map[string]value.Value)
	}
	for n, free := 2, name; ; n++ {
		old, taken := b.components[group][free]
		if !taken {
			b.components[group][free] = entry
		}
		if !taken || old.Equal(entry) {
			return free
		}
		from := reference(group, free)
		free = name + strconv.Itoa(n)
		entry = rename(entry, map[string]string{from: reference(group, free)}) // where it refers to itself
	}
}

func (b *builder) document(info Info) value.Value {
	var about, paths, components, doc value.MapBuilder
	about.Set("title", value.String(cmp.Or(info.Title, "API")))
	if info.Description != "" {
		about.Set("description", value.String(info.Description))
	}
	about.Set("version", value.String(cmp.Or(info.Version, "0.0.0")))
	for _, p := range b.paths {
		var item value.MapBuilder
		for _, method := range methods {
			if op, ok := p.operations[method]; ok {
				item.Set(method, op)
			}
		}
		if item.Len() > 0 {
			paths.Set(p.template, item.Build())
		}
	}
	for _, group := range slices.Sorted(maps.Keys(b.components)) {
		var entries value.MapBuilder
		for _, name := range slices.Sorted(maps.Keys(b.components[group])) {
			entries.Set(name, b.components[group][name])
		}
		components.Set(group, entries.Build())
	}
	doc.Set("openapi", value.String(version))
	doc.Set("info", about.Build())
	doc.Set("paths", paths.Build())
	if components.Len() > 0 {
		doc.Set("components", components.Build())
	}
	return doc.Build()
}
