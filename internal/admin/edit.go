package admin

import (
	"errors"
	"net/http"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/edit"
	"github.com/uniflow-labs/uniflow/internal/language"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// mayEdit reports whether a client may change documents: it sees them whole.
func (s *Server) mayEdit(r *http.Request) bool {
	scope, _ := s.auth.scope(r)
	return s.opts.Edit.Editable() && scope >= api.Control
}

func (s *Server) documents(w http.ResponseWriter, r *http.Request) {
	now, err := s.opts.Edit.Documents()
	if err != nil {
		s.notEdited(w, err)
		return
	}
	body := api.Documents{Revision: now.ID, Editable: s.mayEdit(r), Documents: []api.Document{}}
	for _, doc := range now.Documents {
		text := string(doc.Data)
		if !body.Editable {
			text = s.opts.Redact(text)
		}
		body.Documents = append(body.Documents, api.Document{File: doc.File, Text: text})
	}
	s.json(w, body)
}

// notEdited answers why a request about documents failed.
func (s *Server) notEdited(w http.ResponseWriter, err error) {
	status, hint := http.StatusInternalServerError, ""
	switch {
	case errors.Is(err, edit.ErrConflict):
		status, hint = http.StatusConflict, "read them again, and make the change there"
	case errors.Is(err, edit.ErrReadOnly):
		status, hint = http.StatusForbidden, "start the program with --edit"
	case errors.Is(err, edit.ErrFile):
		status, hint = http.StatusNotFound, "see "+api.DocumentsPath
	case errors.Is(err, edit.ErrRevision):
		status, hint = http.StatusNotFound, "see "+api.Base+"revisions"
	case errors.Is(err, edit.ErrSame), errors.Is(err, edit.ErrTests), errors.Is(err, edit.ErrName):
		status = http.StatusBadRequest
	}
	api.Fail(w, status, s.opts.Redact(err.Error()), hint)
}

// draftsOf returns drafts as documents.
func draftsOf(drafts []api.Document) []spec.Document {
	docs := make([]spec.Document, len(drafts))
	for i, d := range drafts {
		docs[i] = spec.Document{File: d.File, Data: []byte(d.Text)}
	}
	return docs
}

func (s *Server) plan(w http.ResponseWriter, r *http.Request) {
	var body api.Drafts
	if !read(w, r, &body, "drafts") {
		return
	}
	p, err := s.opts.Edit.Plan(draftsOf(body.Drafts))
	if err != nil {
		s.notEdited(w, err)
		return
	}
	answer := api.Plan{Revision: p.Revision, Findings: []api.PlanFinding{}, Changes: []api.NodeChange{}, InFlight: s.opts.Status().InFlight}
	for _, f := range p.Findings {
		answer.Findings = append(answer.Findings, api.PlanFinding{Finding: s.finding(f.Diagnostic), End: f.To.Col})
	}
	for _, c := range p.Changes {
		answer.Changes = append(answer.Changes, s.change(c))
	}
	s.json(w, answer)
}

// finding is a finding without secrets.
func (s *Server) finding(d *diag.Diagnostic) diag.Finding {
	f := d.Finding()
	f.Message, f.Hint = s.opts.Redact(f.Message), s.opts.Redact(f.Hint)
	if f.Hint != d.Hint {
		f.Fix = nil
	}
	return f
}

func (s *Server) change(c spec.NodeChange) api.NodeChange {
	n, what := c.After, "changed"
	switch {
	case c.Before == nil:
		what = "added"
	case c.After == nil:
		n, what = c.Before, "removed"
	}
	shown := api.NodeChange{What: what, ID: n.ID, Kind: n.Kind, Namespace: n.Namespace, Name: s.opts.Redact(n.Path()), File: n.Pos.File, Line: n.Pos.Line}
	text := func(v value.Value) string {
		if v.IsNull() {
			return ""
		}
		return s.opts.Redact(s.opts.RedactValue(v).String())
	}
	for _, f := range c.Fields {
		shown.Fields = append(shown.Fields, api.FieldChange{Path: f.Path, Before: text(f.Before), After: text(f.After)})
	}
	return shown
}

// classes are the names of what can be written.
var classes = map[language.Class]string{
	language.ClassKind: "kind", language.ClassField: "field", language.ClassWord: "word",
	language.ClassNode: "node", language.ClassPort: "port", language.ClassVariable: "variable",
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	var body api.Place
	if !read(w, r, &body, "a place") {
		return
	}
	items, err := s.opts.Edit.Complete(draftsOf(body.Drafts), placeOf(body))
	if err != nil {
		s.notEdited(w, err)
		return
	}
	answer := []api.Completion{}
	for _, item := range items {
		answer = append(answer, api.Completion{
			Label: item.Label, Class: classes[item.Class], Detail: item.Detail, Doc: item.Doc,
			From: item.Edit.From.Col, To: item.Edit.To.Col, Text: item.Edit.Text,
		})
	}
	s.json(w, answer)
}

func (s *Server) hover(w http.ResponseWriter, r *http.Request) {
	var body api.Place
	if !read(w, r, &body, "a place") {
		return
	}
	_, doc, _, err := s.opts.Edit.Hover(draftsOf(body.Drafts), placeOf(body))
	if err != nil {
		s.notEdited(w, err)
		return
	}
	s.json(w, api.Hover{Doc: doc})
}

func (s *Server) definition(w http.ResponseWriter, r *http.Request) {
	var body api.Place
	if !read(w, r, &body, "a place") {
		return
	}
	at, _, err := s.opts.Edit.Definition(draftsOf(body.Drafts), placeOf(body))
	if err != nil {
		s.notEdited(w, err)
		return
	}
	s.json(w, api.Definition{File: at.File, Line: at.Line, Col: at.Col})
}

func (s *Server) rename(w http.ResponseWriter, r *http.Request) {
	var body api.Rename
	if !read(w, r, &body, "a place, and a name") {
		return
	}
	docs, err := s.opts.Edit.Rename(draftsOf(body.At.Drafts), placeOf(body.At), body.Name)
	if err != nil {
		s.notEdited(w, err)
		return
	}
	answer := []api.Document{}
	for _, doc := range docs {
		answer = append(answer, api.Document{File: doc.File, Text: string(doc.Data)})
	}
	s.json(w, answer)
}

func (s *Server) format(w http.ResponseWriter, r *http.Request) {
	var body api.Formatting
	if !read(w, r, &body, "a draft") {
		return
	}
	text, list := s.opts.Edit.Format(spec.Document{File: body.Draft.File, Data: []byte(body.Draft.Text)})
	answer := api.Formatted{Text: string(text), Findings: []diag.Finding{}}
	if list.HasErrors() {
		answer.Text = body.Draft.Text
	}
	for _, d := range list {
		answer.Findings = append(answer.Findings, s.finding(d))
	}
	s.json(w, answer)
}

func placeOf(p api.Place) diag.Pos { return diag.Pos{File: p.File, Line: p.Line, Col: p.Col} }

func (s *Server) tests(w http.ResponseWriter, r *http.Request) {
	var body api.TestRun
	if !read(w, r, &body, "drafts") {
		return
	}
	done, err := s.opts.Edit.Test(r.Context(), draftsOf(body.Drafts), body.Run)
	if err != nil {
		s.notEdited(w, err)
		return
	}
	answer := api.Tests{Tests: []api.Test{}, Nodes: api.Share(done.Nodes), Links: api.Share(done.Links)}
	for _, t := range done.List {
		answer.Tests = append(answer.Tests, api.Test{
			Name: t.Name, File: t.Pos.File, Line: t.Pos.Line, Passed: t.Error == "", Seconds: t.Took.Seconds(), Text: s.opts.Redact(t.Error),
		})
	}
	s.json(w, answer)
}

func (s *Server) try(w http.ResponseWriter, r *http.Request) {
	var body api.Trial
	if !read(w, r, &body, `{"drafts": [], "node": "NAME", "text": "JSON"}`) {
		return
	}
	trial := edit.Trial{Node: body.Node, Allow: body.Allow}
	payload, ok := parsed(w, "text", body.Text)
	if !ok {
		return
	}
	trial.Payload = payload
	for _, p := range body.Pins {
		answer, ok := parsed(w, "the pin of "+p.Node, p.Text)
		if !ok {
			return
		}
		trial.Pins = append(trial.Pins, edit.Pin{Node: p.Node, Answer: answer})
	}
	t, err := s.opts.Edit.Try(r.Context(), draftsOf(body.Drafts), trial)
	if err != nil {
		s.notEdited(w, err)
		return
	}
	answer := api.Tried{
		Failed: len(t.Failures) > 0, Findings: []diag.Finding{}, Steps: []api.Step{},
		Skipped: t.Skipped, Log: s.opts.Redact(t.Log), Seconds: t.Took.Seconds(), Answer: s.payloadOf(t.Answer),
	}
	for _, d := range t.Failures {
		answer.Findings = append(answer.Findings, s.finding(d))
	}
	for _, step := range t.Steps {
		answer.Steps = append(answer.Steps, api.Step{
			From: s.opts.Redact(step.From), Named: step.Named, Out: step.Out, To: s.redacted(step.To), Payload: s.payloadOf(&step.Payload),
		})
	}
	s.json(w, answer)
}

// parsed returns the payload that a client has written as JSON.
func parsed(w http.ResponseWriter, what, text string) (value.Value, bool) {
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		api.Fail(w, http.StatusBadRequest, what+": "+err.Error(), "the payload must be JSON; write a text in double quotes")
	}
	return v, err == nil
}

// payloadOf is a payload without secrets; nil is none.
func (s *Server) payloadOf(v *value.Value) api.Payload {
	if v == nil {
		return api.Payload{Kind: "none"}
	}
	return s.payload(v, v.Size())
}

func (s *Server) redacted(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = s.opts.Redact(text)
	}
	return all
}

func (s *Server) applyDrafts(w http.ResponseWriter, r *http.Request) {
	var body api.Apply
	if !read(w, r, &body, "a revision and drafts") {
		return
	}
	out, err := s.opts.Edit.Apply(r.Context(), body.Revision, draftsOf(body.Drafts), body.Why)
	s.applied(w, r, out, err)
}

func (s *Server) rollback(w http.ResponseWriter, r *http.Request) {
	out, err := s.opts.Edit.Rollback(r.Context(), r.PathValue("id"))
	s.applied(w, r, out, err)
}

// applied answers what came of a change, and logs that it was asked for.
func (s *Server) applied(w http.ResponseWriter, r *http.Request, out edit.Outcome, err error) {
	if err != nil {
		s.notEdited(w, err)
		return
	}
	answer := api.Applied{OK: out.Err == nil && !out.Findings.HasErrors(), Findings: []diag.Finding{}, Generation: out.Generation}
	if out.Err != nil {
		answer.Error = s.opts.Redact(out.Err.Error())
	}
	for _, d := range out.Findings {
		answer.Findings = append(answer.Findings, s.finding(d))
	}
	s.opts.Log.Info("documents changed by a client of the admin server", "remote", r.RemoteAddr, "served", answer.OK, "generation", answer.Generation)
	s.json(w, answer)
}

func (s *Server) revisions(w http.ResponseWriter, _ *http.Request) {
	if _, err := s.opts.Edit.Documents(); err != nil { // so that what is there now is among them
		s.notEdited(w, err)
		return
	}
	answer := []api.Revision{}
	for _, r := range s.opts.Edit.Revisions() {
		answer = append(answer, api.Revision{ID: r.ID, Since: r.Since, Why: r.Why})
	}
	s.json(w, answer)
}
