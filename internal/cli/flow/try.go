package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/edit"
	"github.com/uniflow-labs/uniflow/internal/redact"
	"github.com/uniflow-labs/uniflow/internal/suite"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// trialFile is the name of the document that sends the packet of a trial.
const trialFile = "<try>"

// tryDrafts sends a packet through documents, by a test that is added to them. Secret variables have
// stand-ins, as the answer goes to a client.
func (s *server) tryDrafts(ctx context.Context, p *planner, docs []spec.Document, trial edit.Trial) (edit.Tried, error) {
	src, list, err := s.reading.read()
	if err != nil {
		return edit.Tried{}, err
	}
	src.specs = docs
	source := src.source()
	outline, found := p.engine.Outline(source) // the engine knows the secrets now
	if list.Append(found); list.HasErrors() {
		return edit.Tried{Failures: onlyErrors(list)}, nil
	}
	doc, test, err := trialDocument(outline, s.opts.Namespace, trial)
	if err != nil {
		return edit.Tried{Failures: asFindings(err)}, nil
	}
	source.Documents = append(slices.Clone(docs), doc)
	source.Values = p.standIns(src)
	outline, found = p.engine.Outline(source)
	if found.HasErrors() {
		return edit.Tried{Failures: ofTrial(onlyErrors(found))}, nil
	}
	at := slices.IndexFunc(outline.Tests, func(t uniflow.Test) bool { return t.Node.Name == test && t.Node.Pos.File == trialFile })
	if at < 0 {
		return edit.Tried{}, fmt.Errorf("%w: the packet finds no way", edit.ErrTests)
	}
	t := outline.Tests[at]
	mocks, found := p.mocks(t, outline)
	if found.HasErrors() {
		return edit.Tried{Failures: ofTrial(onlyErrors(found))}, nil
	}
	results, _ := suite.Run(ctx, []suite.Case{{Test: t, Round: &suite.Round{Outline: outline, Mocks: mocks}}}, suite.Options{
		Kinds: s.kinds(s.opts.Language), Programs: ofDrafts(), Timeout: testTime, Running: true, Dry: true, Allowed: trial.Allow, Redact: p.engine.Redact,
	})
	if len(results) == 0 {
		return edit.Tried{}, ctx.Err()
	}
	return triedOf(results[0], test, outline), nil
}

// standIns returns values without secrets for the variables that have some.
func (p *planner) standIns(src *sources) map[string]value.Value {
	values := make(map[string]value.Value)
	for _, doc := range src.values {
		variables, _ := spec.ParseVariables(doc) // the outline has reported the errors
		for _, v := range variables {
			shown := p.engine.RedactValue(v.Data)
			if v.Secret {
				shown = redact.StandIn(v.Data)
			}
			if !shown.Equal(v.Data) {
				values[v.Name] = shown
			}
		}
	}
	for name, text := range src.environment {
		if shown := p.engine.Redact(text); shown != text {
			values[name] = value.String(shown)
		}
	}
	return values
}

func onlyErrors(list diag.List) diag.List {
	return slices.DeleteFunc(slices.Clone(list), func(d *diag.Diagnostic) bool { return d.Severity != diag.SeverityError })
}

// ofTrial returns findings without places in the document of the trial, which its author does not see.
func ofTrial(list diag.List) (all diag.List) {
	for _, d := range list {
		if d.Pos.File == trialFile {
			d = &diag.Diagnostic{Severity: d.Severity, Code: d.Code, Msg: d.Msg, Hint: d.Hint}
		}
		all.Add(d)
	}
	return all
}

// trialDocument returns a document with a test that sends a payload to a node, and the name of the test.
func trialDocument(outline uniflow.Outline, namespace string, trial edit.Trial) (doc spec.Document, test string, err error) {
	v, to, err := trialTarget(outline, namespace, trial.Node)
	if err != nil {
		return doc, "", err
	}
	payload := trial.Payload
	if getsRequests(outline, v.Ref.Namespace, v.Ref.Name) && (payload.IsNull() || payload.Kind() == value.KindMap) {
		if payload, err = request.Complete(payload); err != nil {
			return doc, "", diag.Errorf(diag.CodeBadValue, "%w", err).WithHint(`a request is a map such as {"method": "POST", "path": "/orders", "body": {"item": "tea"}}`)
		}
	}
	for test = "trial"; slices.ContainsFunc(outline.Nodes, func(ref node.Ref) bool { return strings.HasPrefix(ref.Name, test) }); {
		test += "~"
	}
	sends := test + " packet"
	code := func(v value.Value) value.Field {
		data, failed := v.AppendJSON(nil)
		err = errors.Join(err, failed)
		return text("code", string(data))
	}
	ports := func(port string, to value.Value) value.Field {
		return value.Field{Name: "ports", Value: value.Map(value.Field{Name: port, Value: to})}
	}
	var mocks []value.Value
	for _, pin := range trial.Pins {
		mocks = append(mocks, value.Map(text("node", pin.Node), text("language", "json"), code(pin.Answer)))
	}
	within := text("namespace", v.Ref.Namespace)
	specs := value.List(
		value.Map(text("kind", "test"), text("name", test), within, value.Field{Name: "mocks", Value: value.List(mocks...)}, ports("out[0]", value.String(sends))),
		value.Map(text("kind", "snippet"), text("name", sends), within, text("language", "json"), code(payload), ports("out", to)),
	)
	data, failed := specs.AppendJSON(nil)
	return spec.Document{File: trialFile, Data: data}, test, errors.Join(err, failed)
}

// trialTarget returns the node that a trial names, and links to it. A trigger stands for what it leads to.
func trialTarget(outline uniflow.Outline, namespace, name string) (v *node.Vertex, links value.Value, err error) {
	var names []string
	for i := range outline.Vertices {
		ref := outline.Vertices[i].Ref
		if ref.Name == "" || strings.Contains(ref.Name, "/") {
			continue // no link leads to it
		}
		names = append(names, ref.Name)
		if name == ref.Namespace+"/"+ref.Name || name == ref.Name && ref.Namespace == namespace {
			v = &outline.Vertices[i]
		}
	}
	if v == nil {
		return nil, links, diag.Errorf(diag.CodeBadLink, "there is no node %q", name).WithHint("%s", cmp.Or(app.DidYouMean(name, names, ""), "the nodes are: "+strings.Join(names[:min(len(names), 20)], ", ")))
	}
	if !v.Def.Starts() {
		return v, value.String(v.Ref.Name), nil
	}
	var targets []value.Value
	for _, l := range outline.Links {
		if l.From.ID == v.Ref.ID && l.OutPort == 0 && l.To.Name != "" {
			targets = append(targets, value.Map(text("name", l.To.Name), text("port", l.In)))
		}
	}
	if len(targets) == 0 {
		return nil, links, diag.Errorf(diag.CodeBadLink, "%s %s starts processes itself, and leads to no node with a name", v.Ref.Kind, v.Ref.Name).WithHint("name the node that it leads to")
	}
	return v, value.List(targets...), nil
}

func text(name, of string) value.Field { return value.Field{Name: name, Value: value.String(of)} }

// triedOf returns what came of the test of a trial.
func triedOf(r *suite.Result, test string, outline uniflow.Outline) edit.Tried {
	tried := edit.Tried{Skipped: r.Skipped, Log: r.Log, Took: r.Duration}
	for _, f := range r.Failures() {
		tried.Failures.Add(f.Finding)
	}
	tried.Failures = ofTrial(tried.Failures)
	for _, step := range r.Steps {
		switch {
		case step.From == test && step.Out == "out[1]":
			tried.Answer = new(step.Payload.At(0))
		case step.From == test:
		default:
			if strings.HasPrefix(step.From, test) {
				step.From = ""
			}
			named := slices.ContainsFunc(outline.Nodes, func(ref node.Ref) bool { return ref.Name != "" && ref.Name == step.From })
			tried.Steps = append(tried.Steps, edit.Step{From: step.From, Named: named, Out: step.Out, To: step.To, Payload: step.Payload})
		}
	}
	return tried
}
