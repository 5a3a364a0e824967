package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
)

func (s *Server) routes(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /api/v1/{$}", s.api)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { s.text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /api/v1/status", s.status)
	mux.HandleFunc("GET /api/v1/nodes", s.nodes)
	mux.HandleFunc("GET "+graphPath, s.graph)
	mux.HandleFunc("GET /api/v1/kinds", s.kinds)
	mux.Handle("GET /metrics", metrics)
	if s.opts.Slow != nil {
		mux.Handle("GET "+SlowPath, http.StripPrefix(SlowPath, s.opts.Slow))
	}
	mux.HandleFunc("GET /debug/pprof/", bounded(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/cmdline", s.cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", bounded(s.profile))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", bounded(pprof.Trace))
	return mux
}

type endpoint struct {
	Path string `json:"path"`
	What string `json:"what"`
}

func (s *Server) endpoints() []endpoint {
	all := []endpoint{
		{"/healthz", "200 while the program runs"},
		{"/readyz", "200 while it serves and all nodes are ready"},
		{"/metrics", "metrics for Prometheus"},
		{"/api/v1/status", "the generation that serves, and how the last reload went"},
		{"/api/v1/nodes", "the nodes that are served, and their links"},
		{graphPath, "the nodes and links that are served, with places to draw them; ?as=svg is the picture"},
		{"/api/v1/kinds", "the kinds that documents may use"},
	}
	if s.opts.Slow != nil {
		all = append(all, endpoint{SlowPath, "what was kept of slow processes"})
	}
	return append(all, endpoint{"/debug/pprof/", "profiles, for go tool pprof"})
}

var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>uniflow</title>
<h1>uniflow {{.Version}}</h1>
<ul>{{range .Endpoints}}
<li><a href="{{.Path}}">{{.Path}}</a> {{.What}}{{end}}
</ul>
<p><img src="{{.Graph}}" alt="The nodes and links that are served"></p>
`))
})

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := page().Execute(&b, map[string]any{"Version": s.opts.Version, "Endpoints": s.endpoints(), "Graph": graphPath + "?as=svg"}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src 'self'")
	s.write(w, http.StatusOK, b.Bytes())
}

// api lists the paths of the API.
func (s *Server) api(w http.ResponseWriter, _ *http.Request) {
	all := slices.DeleteFunc(s.endpoints(), func(e endpoint) bool { return !strings.HasPrefix(e.Path, "/api/v1/") })
	s.json(w, map[string]any{"endpoints": all})
}

// maxSeconds is the longest time of a profile or trace.
const maxSeconds = 3600

func bounded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if text := r.FormValue("seconds"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(seconds >= 0 && seconds <= maxSeconds) {
				http.Error(w, fmt.Sprintf("seconds: want a number from 0 to %d", maxSeconds), http.StatusBadRequest)
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

// statusBody is the answer of /api/v1/status.
type statusBody struct {
	Version    string     `json:"version"`
	Started    time.Time  `json:"started"` // when the program began to run
	Ready      bool       `json:"ready"`
	Generation int        `json:"generation"`      // 0 while nothing is served
	Since      *time.Time `json:"since,omitempty"` // when the generation began to serve
	Nodes      int        `json:"nodes"`
	InFlight   int        `json:"in_flight"`
	WaitingFor []string   `json:"waiting_for,omitempty"` // why nodes are not ready

	Reload *reloadBody `json:"reload,omitempty"` // the last; nil while the program starts
}

type reloadBody struct {
	Time       time.Time `json:"time"`
	Successful bool      `json:"successful"`
	Error      string    `json:"error,omitempty"`    // why the documents could not be started
	Findings   diag.List `json:"findings,omitempty"` // in the documents
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	now := s.opts.Status()
	body := statusBody{
		Version: s.opts.Version, Started: s.started, Ready: s.ready.Load(),
		Generation: now.Generation, Nodes: len(now.Nodes), InFlight: now.InFlight,
	}
	if now.Generation > 0 {
		body.Since = &now.Since
	}
	for _, reason := range s.opts.Ready() {
		body.Ready, body.WaitingFor = false, append(body.WaitingFor, reason.Error())
	}
	if last := s.opts.Reload(); !last.Time.IsZero() {
		body.Reload = &reloadBody{Time: last.Time, Successful: last.OK, Findings: last.Findings}
		if last.Err != nil {
			body.Reload.Error = last.Err.Error()
		}
	}
	s.json(w, body)
}

// nodeBody is an element of the answer of /api/v1/nodes.
type nodeBody struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Col       int    `json:"col,omitempty"`

	Links []linkBody `json:"links,omitempty"`
}

// linkBody is a link of a node to another.
type linkBody struct {
	Port string `json:"port"` // of this node
	To   string `json:"to"`   // the id of the other
	Name string `json:"name,omitempty"`
	In   string `json:"in"` // port of the other
}

func (s *Server) nodes(w http.ResponseWriter, _ *http.Request) {
	links := make(map[string][]linkBody)
	for _, l := range s.opts.Links() {
		links[l.From.ID] = append(links[l.From.ID], linkBody{Port: l.Out, To: l.To.ID, Name: l.To.Name, In: l.In})
	}
	nodes := []nodeBody{}
	for _, ref := range s.opts.Status().Nodes {
		nodes = append(nodes, nodeBody{ref.ID, ref.Kind, ref.Namespace, ref.Name, ref.Pos.File, ref.Pos.Line, ref.Pos.Col, links[ref.ID]})
	}
	s.json(w, nodes)
}

// kindBody is an element of the answer of /api/v1/kinds.
type kindBody struct {
	Kind    string `json:"kind"`
	Summary string `json:"summary"`
}

func (s *Server) kinds(w http.ResponseWriter, _ *http.Request) {
	kinds := []kindBody{}
	for _, def := range s.opts.Kinds {
		kinds = append(kinds, kindBody{def.Kind, def.Summary})
	}
	s.json(w, kinds)
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
		http.Error(w, err.Error(), http.StatusInternalServerError)
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
