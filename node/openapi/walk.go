package openapi

import (
	"maps"
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// upstream returns the nodes that all requests have passed before a node, the first of them
// in front: those that are the only way from a listener to what follows.
func upstream(v *node.Vertex) (list []*node.Vertex) {
	from := requestsFrom(v.In)
	for len(from) == 1 && !slices.Contains(list, from[0]) {
		list = append(list, from[0])
		from = requestsFrom(from[0].In)
	}
	slices.Reverse(list)
	return list
}

// requestsFrom returns the nodes among some to which requests of a listener come. Others
// send packets of their own, such as tests.
func requestsFrom(all []*node.Vertex) []*node.Vertex {
	return slices.DeleteFunc(slices.Clone(all), func(v *node.Vertex) bool {
		for up := range node.Reach(node.Up, []*node.Vertex{v}, isListener) {
			if isListener(up) {
				return false
			}
		}
		return true
	})
}

func isListener(v *node.Vertex) bool { return v.Gives(node.GivesRequest) }

func isRouter(v *node.Vertex) bool { return v.Traits.Is.Has(node.Routes) }

// walk adds what the nodes behind links do to an operation. It reports whether another
// router decides on the requests, which then is added in place of the route.
func (b *builder) walk(op *operation, links []node.Target) (nested bool) {
	w := b.follow(op, links, len(links) == 1)
	for _, r := range w.routers {
		b.router(r)
	}
	return w.sureRouter
}

// follow follows links with a new walk.
func (b *builder) follow(op *operation, links []node.Target, sure bool) *walk {
	w := &walk{b: b, op: op, seen: make(map[*node.Vertex]bool), visits: &visits{all: make(map[*node.Vertex]bool)}}
	w.from(links, sure)
	for _, v := range w.visits.throws {
		op.throws(v, w.visits.all)
	}
	return w
}

// visits are the nodes that a walk and those within it have come to.
type visits struct {
	all    map[*node.Vertex]bool
	throws []*node.Vertex // those that make errors of payloads
}

type walk struct {
	*visits
	b          *builder
	op         *operation
	seen       map[*node.Vertex]bool
	routers    []*node.Vertex
	sureRouter bool // every request comes to a router
	staged     bool // answers go on to a later port of a node in front
}

// from follows links. All requests take them if sure is set.
func (w *walk) from(links []node.Target, sure bool) {
	for _, to := range links {
		v := to.Node
		if w.seen[v] || v.Def == nil {
			continue
		}
		w.seen[v], w.all[v] = true, true
		if isRouter(v) {
			w.routers = append(w.routers, v)
			w.sureRouter = w.sureRouter || sure
			continue
		}
		linked := w.staged || slices.ContainsFunc(v.Out, func(port []node.Target) bool { return len(port) > 0 })
		made := w.b.add(w.op, to, sure, linked)
		if made.throws && !slices.Contains(w.throws, v) {
			w.throws = append(w.throws, v)
		}
		if !made.answers && (!linked || made.final) {
			w.op.ends = true
		}
		if made.final {
			w.from(v.Err, false)
			for _, port := range made.asks {
				w.asked(v.Out[port], sure)
			}
			continue
		}
		if v.Traits.Is.Has(node.InTurn) && len(v.Out) > 0 {
			last := len(v.Out) - 1
			for _, port := range v.Out[:last] {
				w.stage(port)
			}
			w.op.ends = w.op.ends || len(v.Out[last]) == 0
			w.from(v.Out[last], false)
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

// asked follows the links of a port that a node asks whether it may go on. What refuses is
// the answer, and all else is not.
func (w *walk) asked(links []node.Target, sure bool) {
	inner := walk{visits: w.visits, b: w.b, op: w.op, seen: maps.Clone(w.seen)}
	least, ends := w.op.least, w.op.ends
	w.op.least = "300"
	inner.from(links, sure && len(links) == 1)
	w.op.least, w.op.ends = least, ends
}

// stage follows the links of a port whose answers go on to the next port: only errors are
// answers to the request.
func (w *walk) stage(links []node.Target) {
	inner := walk{visits: w.visits, b: w.b, op: w.op, seen: maps.Clone(w.seen), staged: true}
	ends, open := w.op.ends, w.op.open
	inner.from(links, false)
	w.op.ends, w.op.open = ends, open
	w.routers = append(w.routers, inner.routers...)
}

// An outcome is what a node makes of a request.
type outcome struct {
	answers bool  // how it answers
	throws  bool  // errors of the payloads, with their status
	final   bool  // that this is the answer: what leaves it belongs to other processes
	asks    []int // the out-ports whose refusals are the answer nevertheless
}

// add merges what a node adds to an operation. What a request must have is described only
// if all requests come to the node. A node that sends packets on does not give the answer
// unless it refuses them, and not even then if its port error is linked; or unless it says
// that it gives an early one.
func (b *builder) add(op *operation, to node.Target, sure, linked bool) (o outcome) {
	v := to.Node
	if v.Def == nil || v.Def.OpenAPI == nil {
		return o
	}
	fragment := v.Def.OpenAPI(v.Config)
	if fragment.Kind() != value.KindMap {
		return o
	}
	final, _ := fragment.Get("final")
	o.final = final.Truth()
	if o.final && to.Port > 0 {
		return o // not a request, such as a message at port send of websocket
	}
	linked = linked && !o.final
	fragment = b.adopt(fragment)
	o.asks = portsOf(v, fragment)
	b.ownPaths(op, v, fragment)
	early, _ := fragment.Get("early")
	for method, responses := range early.Fields() {
		op.answerEarly(method, responses)
	}
	responses, answers := fragment.Get("responses")
	o.answers = answers
	isSent, _ := fragment.Get(keySends)
	for status, response := range responses.Fields() {
		refuses := status >= "400" && !isSent.Truth()
		if refuses && len(v.Err) > 0 || !refuses && linked {
			continue
		}
		op.respond(status, response)
	}
	if open, _ := fragment.Get(keyOpen); open.Truth() && !linked {
		op.open = true
	}
	throws, _ := fragment.Get(keyThrows)
	o.throws = throws.Truth() && len(v.Err) == 0
	if sure {
		op.require(fragment)
	}
	return o
}

// portsOf returns the out-ports that a fragment names in asks.
func portsOf(v *node.Vertex, fragment value.Value) (ports []int) {
	asks, _ := fragment.Get("asks")
	for _, name := range asks.Elems() {
		i := slices.IndexFunc(v.Def.Out, func(p node.Port) bool { return p.Indexes == nil && name.Equal(text(p.Name)) })
		if i >= 0 && i < len(v.Out) {
			ports = append(ports, i)
		}
	}
	return ports
}
