package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/console"
)

// handlers are what answers the routes of the table, by their patterns.
func (s *Server) handlers(metrics http.Handler) map[string]http.Handler {
	all := map[string]http.Handler{
		"GET /{$}":                       http.HandlerFunc(console.Page),
		"GET /assets/{file}":             http.HandlerFunc(console.Asset),
		"POST " + api.SessionPath:        http.HandlerFunc(s.session),
		"POST " + api.CodePath:           http.HandlerFunc(s.newCode),
		"GET /healthz":                   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.text(w, http.StatusOK, "ok") }),
		"GET /readyz":                    http.HandlerFunc(s.readyz),
		"GET /metrics":                   metrics,
		"GET /api/v1/{$}":                http.HandlerFunc(s.index),
		"GET /api/v1/openapi.json":       http.HandlerFunc(s.openapi),
		"GET " + api.StatusPath:          http.HandlerFunc(s.status),
		"GET /api/v1/nodes":              http.HandlerFunc(s.nodes),
		"GET " + api.GraphPath:           http.HandlerFunc(s.graph),
		"GET /api/v1/kinds":              http.HandlerFunc(s.kinds),
		"GET /api/v1/kinds/{kind}":       http.HandlerFunc(s.kind),
		"GET " + api.MetricsPath:         http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.json(w, s.stream.Metrics()) }),
		"GET /api/v1/processes":          http.HandlerFunc(s.processes),
		"GET /api/v1/processes/{id}":     http.HandlerFunc(s.process),
		"GET /api/v1/nodes/{id}":         http.HandlerFunc(s.node),
		"GET /api/v1/nodes/{id}/packets": http.HandlerFunc(s.packets),
		"GET /api/v1/queues":             http.HandlerFunc(s.queues),
		"GET /api/v1/queues/{id}/dead":   http.HandlerFunc(s.deadLetters),
		"GET /api/v1/trails":             http.HandlerFunc(s.trails),
		"POST /api/v1/trails/query":      http.HandlerFunc(s.trailQuery),
		"GET " + api.RunsPath:            http.HandlerFunc(s.runs),
		"GET " + api.RunsPath + "/{id}":  http.HandlerFunc(s.run),
		"GET " + api.EventsPath:          s.stream,
		"GET /debug/pprof/":              bounded(pprof.Index),
		"GET /debug/pprof/cmdline":       http.HandlerFunc(s.cmdline),
		"GET /debug/pprof/profile":       bounded(s.profile),
		"GET /debug/pprof/symbol":        http.HandlerFunc(pprof.Symbol),
		"POST /debug/pprof/symbol":       http.HandlerFunc(pprof.Symbol),
		"GET /debug/pprof/trace":         bounded(pprof.Trace),
	}
	if s.opts.Slow != nil {
		all["GET "+api.SlowPath] = http.StripPrefix(api.SlowPath, s.opts.Slow)
	}
	if s.opts.Logs != nil {
		all["GET /api/v1/logs"] = http.HandlerFunc(s.logs)
	}
	if s.opts.Send != nil {
		all["POST /api/v1/nodes/{id}/packets"] = http.HandlerFunc(s.send)
	}
	if s.opts.Requeue != nil {
		all["POST /api/v1/queues/{id}/dead"] = http.HandlerFunc(s.requeue)
	}
	if s.opts.Signal != nil {
		all["POST "+api.SignalsPath] = http.HandlerFunc(s.signal)
	}
	if act := s.opts.CancelRun; act != nil {
		all["POST "+api.RunsPath+"/{id}/cancel"] = s.runAction(same(act))
	}
	if act := s.opts.RetryRun; act != nil {
		all["POST "+api.RunsPath+"/{id}/retry"] = s.retry(act)
	}
	if act := s.opts.RestartRun; act != nil {
		all["POST "+api.RunsPath+"/{id}/restart"] = s.restart(act, s.opts.RestartRunFrom)
	}
	if s.opts.PauseRun != nil {
		all["POST "+api.RunsPath+"/{id}/pause"] = s.runAction(same(s.pause(pauseTime)))
	}
	if act := s.opts.ResumeRun; act != nil {
		all["POST "+api.RunsPath+"/{id}/resume"] = s.runAction(same(act))
	}
	if s.opts.CancelRun != nil && s.opts.PauseRun != nil && s.opts.ResumeRun != nil && s.opts.RetryRun != nil && s.opts.RestartRun != nil {
		all["POST "+api.JobsPath] = http.HandlerFunc(s.bulk)
		all["GET "+api.JobsPath] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.json(w, s.jobs.All()) })
		all["GET "+api.JobsPath+"/{id}"] = s.theJob(s.jobs.Get)
		all["DELETE "+api.JobsPath+"/{id}"] = s.theJob(s.jobs.Cancel)
	}
	if s.opts.PauseQueue != nil {
		all["POST "+api.QueuesPath+"/{id}/pause"] = s.pauseQueue(true)
		all["POST "+api.QueuesPath+"/{id}/resume"] = s.pauseQueue(false)
	}
	if s.opts.Enqueue != nil {
		all["POST "+api.QueuesPath+"/{id}/items"] = http.HandlerFunc(s.enqueue)
	}
	if s.opts.Debug != nil {
		all["GET "+api.DebugPath] = http.HandlerFunc(s.debug)
		all["PUT "+api.DebugPath+"/breakpoints"] = http.HandlerFunc(s.breakpoints)
		all["POST "+api.DebugPath+"/held/{id}"] = http.HandlerFunc(s.move)
	}
	if s.opts.Edit != nil {
		all["GET "+api.DocumentsPath] = http.HandlerFunc(s.documents)
		all["POST /api/v1/complete"] = http.HandlerFunc(s.complete)
		all["POST /api/v1/hover"] = http.HandlerFunc(s.hover)
		all["POST /api/v1/definition"] = http.HandlerFunc(s.definition)
		all["POST /api/v1/rename"] = http.HandlerFunc(s.rename)
		all["POST /api/v1/format"] = http.HandlerFunc(s.format)
		all["POST /api/v1/plan"] = http.HandlerFunc(s.plan)
		all["POST /api/v1/tests"] = http.HandlerFunc(s.tests)
		all["POST /api/v1/try"] = http.HandlerFunc(s.try)
		all["POST /api/v1/apply"] = http.HandlerFunc(s.applyDrafts)
		all["GET /api/v1/revisions"] = http.HandlerFunc(s.revisions)
		all["POST /api/v1/revisions/{id}"] = http.HandlerFunc(s.rollback)
	}
	if s.opts.Cancel != nil {
		all["POST /api/v1/processes/{id}/cancel"] = http.HandlerFunc(s.cancel)
	}
	if s.opts.Again != nil {
		all["POST /api/v1/reload"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.opts.Again()
			w.WriteHeader(http.StatusAccepted)
		})
	}
	return all
}

// routes serves the table. What has no handler is answered 404, to those who may view.
func (s *Server) routes(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	handlers := s.handlers(metrics)
	for _, r := range api.Routes() {
		if h := handlers[r.Pattern()]; h != nil {
			mux.Handle(r.Pattern(), s.guard(&r, h))
			s.served = append(s.served, r)
		}
	}
	other := s.guard(&api.Route{Scope: api.View}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(refusal{w}, r) }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

// index lists what is served.
func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	index := api.Index{Endpoints: []api.Endpoint{}}
	for _, r := range s.served {
		if path := r.Listed(); path != "" {
			index.Endpoints = append(index.Endpoints, api.Endpoint{Path: path, What: r.Doc, Scope: r.Scope.String()})
		}
	}
	s.json(w, index)
}

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	document, err := api.OpenAPI()
	if err != nil {
		api.Fail(w, http.StatusInternalServerError, err.Error(), "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.write(w, http.StatusOK, document)
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	level := slog.LevelInfo
	if text := r.FormValue("level"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			api.Fail(w, http.StatusBadRequest, "level: want debug, info, warn or error", "")
			return
		}
	}
	q := console.Query{Least: level, Node: r.FormValue("node")}
	if text := r.FormValue("after"); text != "" {
		var err error
		if q.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			api.Fail(w, http.StatusBadRequest, "after: want the seq of a line", "")
			return
		}
	}
	s.json(w, s.opts.Logs.Lines(q, s.opts.Redact))
}

// maxSeconds is the longest time of a profile or trace.
const maxSeconds = 3600

func bounded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if text := r.FormValue("seconds"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(seconds >= 0 && seconds <= maxSeconds) {
				api.Fail(w, http.StatusBadRequest, fmt.Sprintf("seconds: want a number from 0 to %d", maxSeconds), "")
				return
			}
		}
		next(w, r)
	}
}

// cmdline serves the command line in the format of pprof, with a zero byte after each
// word, without secrets.
func (s *Server) cmdline(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	s.write(w, http.StatusOK, []byte(strings.Join(s.opts.Cmdline, "\x00")))
}

// profile takes a CPU profile whose samples are labelled with nodes. With labels=0
// the program runs without labels, as it does otherwise.
func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("labels") != "0" {
		defer s.opts.Label()()
	}
	pprof.Profile(w, r)
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		s.text(w, http.StatusServiceUnavailable, "not ready")
		return
	}
	if reasons := s.opts.Ready(); len(reasons) > 0 {
		text := "not ready"
		for _, reason := range reasons {
			text += "\n" + reason.Error()
		}
		s.text(w, http.StatusServiceUnavailable, text)
		return
	}
	// After a failed reload the old workflow is still served, so the program is
	// ready; the answer has the reason of the failure below.
	text := "ready"
	if last := s.opts.Reload(); !last.Time.IsZero() && !last.OK {
		text += "\nlast reload failed at " + last.Time.UTC().Format(time.RFC3339)
		if last.Err != nil {
			text += "\n" + last.Err.Error()
		}
		for _, d := range last.Findings {
			text += "\n" + d.Error()
		}
	}
	s.text(w, http.StatusOK, text)
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	now := s.opts.Status()
	scope, _ := s.auth.scope(r)
	body := api.Status{
		Version: s.opts.Version, Started: s.started, Ready: s.ready.Load(), Namespace: s.opts.Namespace, Namespaces: []string{},
		Generation: now.Generation, Nodes: len(now.Nodes), InFlight: now.InFlight, Scope: scope.String(),
	}
	for _, ref := range now.Nodes {
		body.Namespaces = append(body.Namespaces, s.opts.Redact(ref.Namespace))
	}
	slices.Sort(body.Namespaces)
	body.Namespaces = slices.Compact(body.Namespaces)
	if now.Generation > 0 {
		body.Since = &now.Since
	}
	for _, reason := range s.opts.Ready() {
		body.Ready, body.WaitingFor = false, append(body.WaitingFor, reason.Error())
	}
	if last := s.opts.Reload(); !last.Time.IsZero() {
		body.Reload = &api.Reload{Time: last.Time, Successful: last.OK}
		for _, d := range last.Findings {
			body.Reload.Findings = append(body.Reload.Findings, d.Finding())
		}
		if last.Err != nil {
			body.Reload.Error = last.Err.Error()
		}
	}
	s.json(w, body)
}

func (s *Server) nodes(w http.ResponseWriter, _ *http.Request) {
	links := make(map[string][]api.Link)
	for _, l := range s.opts.Links() {
		links[l.From.ID] = append(links[l.From.ID], api.Link{Port: l.Out, To: l.To.ID, Name: l.To.Name, In: l.In})
	}
	nodes := []api.Node{}
	for _, ref := range s.opts.Status().Nodes {
		nodes = append(nodes, api.Node{
			ID: ref.ID, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name,
			File: ref.Pos.File, Line: ref.Pos.Line, Col: ref.Pos.Col, Links: links[ref.ID],
		})
	}
	s.json(w, nodes)
}

func (s *Server) kinds(w http.ResponseWriter, _ *http.Request) {
	kinds := []api.Kind{}
	for _, def := range s.opts.Kinds {
		kinds = append(kinds, api.Kind{Kind: def.Kind, Summary: def.Summary})
	}
	s.json(w, kinds)
}

func (s *Server) kind(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("kind")
	for _, def := range s.opts.Kinds {
		if def.Kind == name {
			s.json(w, api.KindDetail{Kind: def.Kind, Summary: def.Summary, Doc: def.Doc})
			return
		}
	}
	api.Fail(w, http.StatusNotFound, fmt.Sprintf("there is no kind %q", name), "see "+api.Base+"kinds")
}

func (s *Server) text(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	s.write(w, status, []byte(text+"\n"))
}

func (s *Server) json(w http.ResponseWriter, body any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(body); err != nil {
		api.Fail(w, http.StatusInternalServerError, err.Error(), "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.write(w, http.StatusOK, b.Bytes())
}

func (s *Server) write(w http.ResponseWriter, status int, body []byte) {
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.opts.Log.Debug("answering an admin request", "error", err)
	}
}
