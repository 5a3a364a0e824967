package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"time"
)

func (s *Server) routes(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { s.text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /api/v1/status", s.status)
	mux.HandleFunc("GET /api/v1/nodes", s.nodes)
	mux.HandleFunc("GET /api/v1/kinds", s.kinds)
	mux.Handle("GET /metrics", metrics)
	if s.opts.Slow != nil {
		mux.Handle("GET "+SlowPath, http.StripPrefix(SlowPath, s.opts.Slow))
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", s.profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// profile takes a CPU profile whose samples say which node they are from, unless
// it is asked for with labels=0: then the program runs just as it does otherwise.
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
	s.text(w, http.StatusOK, "ready")
}

// statusBody is what /api/v1/status answers.
type statusBody struct {
	Version    string     `json:"version"`
	Started    time.Time  `json:"started"` // when the program began to run
	Ready      bool       `json:"ready"`
	Generation int        `json:"generation"`      // 0 while nothing is served
	Since      *time.Time `json:"since,omitempty"` // when the generation began to serve
	Nodes      int        `json:"nodes"`
	InFlight   int        `json:"in_flight"`
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
	s.json(w, body)
}

// nodeBody is one element of what /api/v1/nodes answers.
type nodeBody struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Col       int    `json:"col,omitempty"`
}

func (s *Server) nodes(w http.ResponseWriter, _ *http.Request) {
	nodes := []nodeBody{}
	for _, ref := range s.opts.Status().Nodes {
		nodes = append(nodes, nodeBody{ref.ID, ref.Kind, ref.Namespace, ref.Name, ref.Pos.File, ref.Pos.Line, ref.Pos.Col})
	}
	s.json(w, nodes)
}

// kindBody is one element of what /api/v1/kinds answers.
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
