package openapi

import (
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// upstream returns the nodes that all requests have passed before a node, the first of them
// in front: those that are the only way from a listener to what follows.
func upstream(v *node.Vertex) (list []*node.Vertex) {
	for {
		from := requestsFrom(v.In)
		if len(from) != 1 || slices.Contains(list, from[0]) {
			break
		}
		v = from[0]
		list = append(list, v)
	}
	slices.Reverse(list)
	return list
}

// requestsFrom returns the nodes among some to which requests of a listener come. Others
// send packets of their own, such as tests.
func requestsFrom(all []*node.Vertex) (list []*node.Vertex) {
	for _, v := range all {
		if isBehindListener(v, make(map[*node.Vertex]bool)) {
			list = append(list, v)
		}
	}
	return list
}

func isBehindListener(v *node.Vertex, seen map[*node.Vertex]bool) bool {
	if seen[v] {
		return false
	}
	seen[v] = true
	return v.Ref.Kind == listenerKind || slices.ContainsFunc(v.In, func(up *node.Vertex) bool { return isBehindListener(up, seen) })
}

// walk adds what the nodes behind links do to an operation. It reports whether another
// router decides on the requests, which then is added in place of the route.
func (b *builder) walk(op *operation, links []node.Target) (nested bool) {
	w := walk{b: b, op: op, seen: make(map[*node.Vertex]bool)}
	w.from(links, len(links) == 1)
	for _, r := range w.routers {
		b.router(r)
	}
	return w.sureRouter
}

type walk struct {
	b          *builder
	op         *operation
	seen       map[*node.Vertex]bool
	routers    []*node.Vertex
	sureRouter bool // every request comes to a router
}

// from follows links. All requests take them if sure is set.
func (w *walk) from(links []node.Target, sure bool) {
	for _, to := range links {
		v := to.Node
		if w.seen[v] || v.Def == nil {
			continue
		}
		w.seen[v] = true
		if v.Ref.Kind == routerKind {
			w.routers = append(w.routers, v)
			w.sureRouter = w.sureRouter || sure
			continue
		}
		linked := slices.ContainsFunc(v.Out, func(port []node.Target) bool { return len(port) > 0 })
		answers, final := w.b.add(w.op, to, sure, linked)
		if !answers && (!linked || final) {
			w.op.ends = true
		}
		if final {
			w.from(v.Err, false)
			continue
		}
		onlyWay := len(v.Def.Out) == 1 && v.Def.Out[0].Indexes == nil
		for _, port := range v.Out {
			w.from(port, sure && onlyWay && len(port) == 1)
		}
		w.from(v.Err, false)
	}
}

// add merges what a node adds to an operation. What a request must have is described only
// if all requests come to the node. A node that sends packets on does not give the answer
// unless it refuses them, and not even then if its port error is linked. add reports whether
// the node says how it answers, and whether that is the answer: what leaves the node then
// belongs to other processes.
func (b *builder) add(op *operation, to node.Target, sure, linked bool) (answers, final bool) {
	v := to.Node
	if v.Def == nil || v.Def.OpenAPI == nil {
		return false, false
	}
	fragment := v.Def.OpenAPI(v.Config)
	if fragment.Kind() != value.KindMap {
		return false, false
	}
	said, _ := fragment.Get("final")
	final = said.Truth()
	if final && to.Port > 0 {
		return false, true // not a request, such as a message at port send of websocket
	}
	linked = linked && !final
	fragment = b.adopt(fragment)
	responses, answers := fragment.Get("responses")
	for status, response := range responses.Fields() {
		refuses := status >= "400"
		if refuses && len(v.Err) > 0 || !refuses && linked {
			continue
		}
		op.respond(status, response)
	}
	if sure {
		op.require(fragment)
	}
	return answers, final
}

// adopt moves the components of a fragment to those of the document, and returns the
// fragment with the references to those that had to get another name.
func (b *builder) adopt(fragment value.Value) value.Value {
	components, ok := fragment.Get("components")
	if !ok {
		return fragment
	}
	fragment = fragment.Without("components")
	renamed := make(map[string]string)
	for group, entries := range components.Fields() {
		for name, entry := range entries.Fields() {
			if got := b.component(group, name, entry); got != name {
				renamed[reference(group, name)] = reference(group, got)
				if group == "securitySchemes" {
					fragment = renameSecurity(fragment, name, got)
				}
			}
		}
	}
	if len(renamed) > 0 {
		fragment = rename(fragment, renamed)
	}
	return fragment
}

func reference(group, name string) string { return "#/components/" + group + "/" + name }

// rename replaces references in a value.
func rename(v value.Value, to map[string]string) value.Value {
	switch v.Kind() {
	case value.KindList:
		elems := make([]value.Value, 0, v.Len())
		for _, elem := range v.Elems() {
			elems = append(elems, rename(elem, to))
		}
		return value.List(elems...)
	case value.KindMap:
		fields := make([]value.Field, 0, v.Len())
		for name, f := range v.Fields() {
			if s, ok := f.AsString(); ok && name == "$ref" {
				fields = append(fields, field(name, text(renameRef(s, to))))
				continue
			}
			fields = append(fields, field(name, rename(f, to)))
		}
		return value.UniqueMap(fields)
	}
	return v
}

// renameRef replaces a reference to a component, or into one.
func renameRef(s string, to map[string]string) string {
	for from, now := range to {
		if s == from || len(s) > len(from) && s[:len(from)] == from && s[len(from)] == '/' {
			return now + s[len(from):]
		}
	}
	return s
}

func renameSecurity(fragment value.Value, from, to string) value.Value {
	list, _ := fragment.Get("security")
	all := make([]value.Value, 0, list.Len())
	for _, requirement := range list.Elems() {
		var b value.MapBuilder
		for name, scopes := range requirement.Fields() {
			if name == from {
				name = to
			}
			b.Set(name, scopes)
		}
		all = append(all, b.Build())
	}
	return fragment.With("security", value.List(all...))
}
