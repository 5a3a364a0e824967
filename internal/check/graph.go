package check

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

// A Report takes a finding about the node at an index of a graph.
type Report func(i int, d *diag.Diagnostic)

// Graph reports what is probably not meant in what nodes send to each other.
func Graph(graph []node.Vertex, report Report) {
	var takers []int // nodes that take a request over, to answer it when its process has ended
	for i := range graph {
		if slices.ContainsFunc(graph[i].Traits.Needs, func(n node.Need) bool { return n.What == node.GivesRequest && !n.Idle }) {
			takers = append(takers, i)
		}
	}
	for i := range graph {
		v := &graph[i]
		if v.Def == nil || v.Def.Subgraph != node.NoSubgraph {
			continue
		}
		if v.Def.Begins() && !v.Def.Role.Has(node.HasClient) && !v.Def.Role.Has(node.Tests) && v.Below.Has(node.FailsByStatus) {
			unseenStatus(graph, v, report)
		}
		if len(takers) > 0 && v.Traits.Is.Has(node.Commits) {
			committedBefore(graph, takers, v, report)
		}
		templatedStatement(i, v, report)
		durableBelow(i, v, report)
		unstored(graph, v, report)
		unrouted(i, v, report)
	}
	passedBack(graph, report)
	notShared(graph, report)
	noQueue(graph, report)
}

// noQueue reports nodes that put items into a queue that no node of the namespace is.
func noQueue(graph []node.Vertex, report Report) {
	queues := make(map[string][]string) // names, by namespace
	for i := range graph {
		if v := &graph[i]; v.Traits.Queue {
			queues[v.Ref.Namespace] = append(queues[v.Ref.Namespace], v.Ref.Name)
		}
	}
	for i := range graph {
		v := &graph[i]
		names := queues[v.Ref.Namespace]
		if v.Traits.Enqueues == "" || slices.Contains(names, v.Traits.Enqueues) {
			continue
		}
		d := v.Config.Errorf("queue", diag.CodeUnknownTarget, "no queue %q in the namespace %s", v.Traits.Enqueues, v.Ref.Namespace)
		if !d.Suggest(v.Traits.Enqueues, names) {
			d = d.WithHint("add a node of kind queue with the name")
		}
		report(i, d)
	}
}

// notShared reports nodes of a namespace that need the same thing for themselves.
func notShared(graph []node.Vertex, report Report) {
	type thing struct{ namespace, what, name string }
	holder := make(map[thing]*node.Vertex)
	for i := range graph {
		v := &graph[i]
		for _, hold := range v.Traits.Holds {
			it := thing{v.Ref.Namespace, hold.What, hold.Name}
			if other, ok := holder[it]; ok {
				report(i, v.Config.Errorf(hold.Field, diag.CodeNotShared, "%q has the same %s, so one of the two could not start", other.Ref.String(), hold.What).WithHint("%s", hold.Hint))
			} else {
				holder[it] = v
			}
		}
	}
}

func warning(d *diag.Diagnostic) *diag.Diagnostic {
	d.Severity = diag.SeverityWarning
	return d
}

// unseenStatus warns of nodes that compare the status of what another service has answered, in
// processes of a trigger without a client: there, an answer of 400 and more is an error.
func unseenStatus(graph []node.Vertex, trigger *node.Vertex, report Report) {
	reached := set(node.Reach(node.Down, []*node.Vertex{trigger}, nil))
	for i := range graph {
		if !reached[&graph[i]] || !graph[i].Traits.Is.Has(node.FailsByStatus) {
			continue
		}
		behind := behind(graph, &graph[i])
		for j := range graph {
			if reader := &graph[j]; reached[reader] && behind[reader] && comparesStatus(reader) {
				report(i, warning(diag.Errorf(diag.CodeUnseenStatus, "a status of 400 and more is an error here, so %q does not see it", reader.Ref.Name).
					WithHint("no client waits for processes of %q: link the port error, or write expect: true to get answers of any status", trigger.Ref.Name)))
				break
			}
		}
	}
}

func set(all iter.Seq[*node.Vertex]) map[*node.Vertex]bool {
	in := make(map[*node.Vertex]bool)
	for v := range all {
		in[v] = true
	}
	return in
}

// behind returns the nodes that get what a node sends, or run after it.
func behind(graph []node.Vertex, v *node.Vertex) map[*node.Vertex]bool {
	next := node.Nodes(v.Out...)
	for i := range graph {
		if !graph[i].Traits.Is.Has(node.InTurn) {
			continue
		}
		after := false
		for _, port := range graph[i].Out {
			if after {
				next = append(next, node.Nodes(port)...)
			}
			after = after || set(node.Reach(node.Down, node.Nodes(port), nil))[v]
		}
	}
	return set(node.Reach(node.Down, next, nil))
}

// status matches what compares the status of a payload, in CEL and JavaScript.
var status = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[^\w."'-])((self|input|payload)\.)?status\s*([=!]=|[<>]|in\b)`)
})

// parameter matches the parameter of a script, whose fields are the fields of the payload.
var parameter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`export\s+default\s+(?:async\s+)?(?:function\b\s*\w*\s*)?\(?\s*([A-Za-z_$][\w$]*)`)
})

// comparesStatus reports whether an expression of a node compares the status of a payload.
func comparesStatus(v *node.Vertex) bool {
	if v.Def == nil || v.Def.Subgraph != node.NoSubgraph || v.Traits.Is.Has(node.OwnStatus) {
		return false
	}
	for _, f := range v.Def.Config.All() {
		for raw := range v.Config.Raw(f.Name).All() {
			text, _ := raw.Value.AsString()
			if m := parameter().FindStringSubmatch(text); m != nil {
				text = strings.ReplaceAll(text, m[1]+".status", "self.status")
			}
			if status().MatchString(text) {
				return true
			}
		}
	}
	return false
}

// committedBefore warns of nodes that answer a request when its process has ended, behind one
// that commits then: what the first answer undoes nothing of what the second did. What comes
// to other in-ports than the first is not a request.
func committedBefore(graph []node.Vertex, takers []int, v *node.Vertex, report Report) {
	behind := behind(graph, v)
	for _, i := range takers {
		after := &graph[i]
		if behind[after] && slices.ContainsFunc(after.Into(0), func(from *node.Vertex) bool {
			return from == v || behind[from] || from.Traits.Is.Has(node.InTurn)
		}) {
			report(i, warning(diag.Errorf(diag.CodeCommittedBefore, "what %q has done is committed before the request is answered here", v.Ref.Name).
				WithHint("it stays whatever the status is that %s answers: if that is not meant, do it behind another route", after.Ref.Kind)))
		}
	}
}

// templatedStatement warns of a template in the code of a node that sends statements.
func templatedStatement(i int, v *node.Vertex, report Report) {
	if !v.Def.Config.Has("code") || !slices.ContainsFunc(node.Nodes(v.Out...), func(to *node.Vertex) bool { return to.Traits.Is.Has(node.TakesStatements) }) {
		return
	}
	for raw := range v.Config.Raw("code").All() {
		if raw.Templated {
			report(i, warning(diag.Errorf(diag.CodeStatement, "a template in a statement of SQL can change what the statement does").
				WithHint("send values as arguments: [\"SELECT … WHERE id = :id\", {\"id\": …}]").At(raw.Text.Template(), "code")))
			return
		}
	}
}

// passedBack warns of nodes that answer a trigger with the error that it has sent to its port
// error, which it then sends there again.
func passedBack(graph []node.Vertex, report Report) {
	from := make(map[*node.Vertex]string)
	for i := range graph {
		if !graph[i].Traits.Is.Has(node.RepeatsErrors) {
			continue
		}
		ends := func(v *node.Vertex) bool { return !v.Traits.Is.Has(node.SendsOn) }
		for v := range node.Reach(node.Down, node.Nodes(graph[i].Err), ends) {
			if !ends(v) && len(node.Nodes(v.Out...)) == 0 {
				from[v] = graph[i].Ref.Name
			}
		}
	}
	for i := range graph {
		if trigger, ok := from[&graph[i]]; ok {
			report(i, warning(diag.Errorf(diag.CodePassedBack, "it answers %q with the failure that came from there, which then comes again without end", trigger).
				WithHint("link the port out: to a nop, which drops the message, or to a sink, which keeps it")))
		}
	}
}

// durableBelow reports nodes that durable processes come to, and that cannot be resumed, or that begin again where they
// must not.
func durableBelow(i int, v *node.Vertex, report Report) {
	if !v.Traits.Is.Has(node.Durable) {
		return
	}
	begins := func(at *node.Vertex) bool { return at != v && at.Def != nil && at.Def.Begins() }
	from, hint := append(v.Out, v.Err), "remove durability, or that node"
	switch _, when := v.Config.Find("durability.when"); {
	case when == "when":
		hint = "with when, say which are durable: those that do not come to it"
	case v.Traits.Queue: // whose runs are always durable
		hint = "remove that node: all that a queue begins is durable"
	}
	if v.Traits.Is.Has(node.RepeatsErrors) { // its port error is for what has not started
		from = v.Out
	}
	if v.Def.Role.Has(node.Tests) {
		from, hint = v.Out[:min(1, len(v.Out))], "test it without durability, as its processes cannot be durable" // the answer is judged outside of the process
	}
	for at := range node.Reach(node.Down, node.Nodes(from...), begins) {
		if at.Traits.Is.Has(node.Asks) && !slices.Contains(v.Traits.Gives, node.GivesDurability) {
			report(i, v.Config.Errorf("durability", diag.CodeBadNode, "its processes come to %q, which waits for an answer: with the level accept they would begin again after a crash", at.Ref).
				WithHint("set the level to checkpoint"))
		}
		if at.Def == nil || at.Def.Recall == nil || at.Def.Recall(at.Config) != node.Attached {
			continue
		}
		report(i, v.Config.Errorf("durability", diag.CodeBadNode, "its processes come to %q, which cannot go on after a crash: %s is bound to a connection, or to the memory of the program", at.Ref, at.Ref.Kind).
			WithHint("%s", hint))
	}
}
