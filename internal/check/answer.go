package check

import (
	"regexp"
	"slices"

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
			if i := slices.IndexFunc(specs, func(reader *spec.Node) bool { return reached[reader] && comparesStatus(reader) }); i >= 0 {
				warn(list, s, s.Pos, "", diag.Errorf(diag.CodeUnseenStatus, "a status of 400 and more is an error here, so %q does not see it", specs[i].Path()).
					WithHint("no client waits for processes of %q: link the port error, or write expect: true to get answers of any status", trigger.Path()))
			}
		}
		if len(reached) == len(specs) {
			break // others reach nothing more
		}
	}
}

// status matches what compares the status of a payload, in CEL and JavaScript.
var status = regexp.MustCompile(`(^|[^\w."'-])((self|input|payload)\.)?status\s*([=!]=|[<>]|in\b)`)

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
		if text, _ := raw.Value.AsString(); status.MatchString(text) {
			return true
		}
		return slices.ContainsFunc(raw.Items, find) || slices.ContainsFunc(raw.Fields, func(f schema.RawField) bool { return find(f.Value) })
	}
	return s.Kind != kindHTTP && find(s.Config)
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
		reached := g.reached([]*spec.Node{s}, notError)
		for _, after := range specs {
			if reached[after] && slices.Contains(handers, after.Kind) {
				warn(list, after, after.Pos, "", diag.Errorf(diag.CodeCommittedBefore, "what %q has done is committed before the request is answered here", s.Path()).
					WithHint("it stays whatever the status is that %s answers: if that is not meant, do it behind another route", after.Kind))
			}
		}
	}
}
