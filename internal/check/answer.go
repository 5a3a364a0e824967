package check

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// The kinds that the rules of this file are about.
const (
	kindHTTP    = "http"
	kindRetry   = "retry"
	kindSession = "session"
	kindSnippet = "snippet"
)

// handers are kinds that answer a request by themselves, when its process has ended.
var handers = []string{"proxy", "static", "websocket"}

// notError reports whether a port is for what has not failed.
func notError(port spec.Port) bool { return port.Name != "error" }

// unseenStatus warns of workflows that compare the status of what another service has
// answered, in processes without a client: there, an answer of 400 and more is an error.
func unseenStatus(specs []*spec.Node, kinds *registry.Registry, list *diag.List) {
	g, ok := newGraph(specs)
	if !ok {
		return
	}
	var triggers []*spec.Node
	for _, s := range specs {
		def, known := kinds.Kind(s.Kind)
		if starts, _ := kinds.Trigger(s.Kind); known && starts && !def.Role.Has(node.HasClient) && s.Kind != testKind {
			triggers = append(triggers, s)
		}
	}
	for _, trigger := range triggers {
		reached := g.reached([]*spec.Node{trigger}, notError)
		for _, s := range specs {
			if !reached[s] || s.Kind != kindHTTP || s.Config.Field("expect") != nil {
				continue
			}
			behind := g.behind(specs, s)
			if i := slices.IndexFunc(specs, func(reader *spec.Node) bool { return reached[reader] && behind[reader] && comparesStatus(reader) }); i >= 0 {
				warn(list, s, s.Pos, "", diag.Errorf(diag.CodeUnseenStatus, "a status of 400 and more is an error here, so %q does not see it", specs[i].Path()).
					WithHint("no client waits for processes of %q: link the port error, or write expect: true to get answers of any status", trigger.Path()))
			}
		}
		if len(reached) == len(specs) {
			break // others reach nothing more
		}
	}
}

// inTurn are kinds whose out-ports are used one after the other, each after the answer of the one before.
var inTurn = []string{"pipe", "for"}

// behind returns the specs that get what a spec sends, or run after it.
func (g graph) behind(specs []*spec.Node, s *spec.Node) map[*spec.Node]bool {
	var next []*spec.Node
	for _, port := range s.Ports {
		if notError(port) {
			targets, _ := g.targets(s, port)
			next = append(next, targets...)
		}
	}
	for _, turns := range specs {
		if !slices.Contains(inTurn, turns.Kind) {
			continue
		}
		ports := slices.DeleteFunc(slices.Clone(turns.Ports), func(p spec.Port) bool { return !strings.HasPrefix(p.Name, "out") })
		slices.SortFunc(ports, func(a, b spec.Port) int { // out and out[0] are one, and out[2] comes before out[10]
			return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
		})
		after := false
		for _, port := range ports {
			targets, _ := g.targets(turns, port)
			if after {
				next = append(next, targets...)
			}
			after = after || g.reached(targets, notError)[s]
		}
	}
	return g.reached(next, notError)
}

// status matches what compares the status of a payload, in CEL and JavaScript.
var status = regexp.MustCompile(`(^|[^\w."'-])((self|input|payload)\.)?status\s*([=!]=|[<>]|in\b)`)

// parameter matches the parameter of a script, whose fields are those of the payload.
var parameter = regexp.MustCompile(`export\s+default\s+(?:async\s+)?(?:function\b\s*\w*\s*)?\(?\s*([A-Za-z_$][\w$]*)`)

// comparesStatus reports whether an expression of a spec compares the status of a payload.
func comparesStatus(s *spec.Node) bool {
	if s.Kind == kindSQL || s.Kind == kindRetry { // statements, and what sees errors
		return false
	}
	if language := s.Config.Field("language"); s.Kind == kindSnippet && language != nil {
		if name, _ := language.Value.AsString(); name == "text" {
			return false
		}
	}
	var find func(raw *schema.Raw) bool
	find = func(raw *schema.Raw) bool {
		text, _ := raw.Value.AsString()
		if m := parameter.FindStringSubmatch(text); m != nil {
			text = strings.ReplaceAll(text, m[1]+".status", "self.status")
		}
		if status.MatchString(text) {
			return true
		}
		return slices.ContainsFunc(raw.Items, find) || slices.ContainsFunc(raw.Fields, func(f schema.RawField) bool { return find(f.Value) })
	}
	return s.Kind != kindHTTP && find(s.Config)
}

// sendsOnly reports whether what is behind a spec only sends messages to a websocket, and no request.
func (g graph) sendsOnly(specs []*spec.Node, s *spec.Node, behind map[*spec.Node]bool, to *spec.Node) (sends bool) {
	for _, from := range specs {
		if from != s && !behind[from] && !slices.Contains(inTurn, from.Kind) {
			continue
		}
		for _, port := range from.Ports {
			for _, link := range port.Links {
				if targets, _ := g.targets(from, spec.Port{Name: port.Name, Links: []spec.Link{link}}); slices.Contains(targets, to) {
					if link.Port != "send" {
						return false
					}
					sends = true
				}
			}
		}
	}
	return sends
}

// committedBefore warns of nodes that answer a request when its process has ended, behind
// those that commit then: what the first answer undoes nothing of what the second did.
func committedBefore(specs []*spec.Node, list *diag.List) {
	if !slices.ContainsFunc(specs, func(s *spec.Node) bool { return slices.Contains(handers, s.Kind) }) {
		return
	}
	g, ok := newGraph(specs)
	if !ok {
		return
	}
	for _, s := range specs {
		if s.Kind != kindSQL && s.Kind != kindSession {
			continue
		}
		behind := g.behind(specs, s)
		for _, after := range specs {
			if behind[after] && slices.Contains(handers, after.Kind) && !g.sendsOnly(specs, s, behind, after) {
				warn(list, after, after.Pos, "", diag.Errorf(diag.CodeCommittedBefore, "what %q has done is committed before the request is answered here", s.Path()).
					WithHint("it stays whatever the status is that %s answers: if that is not meant, do it behind another route", after.Kind))
			}
		}
	}
}
