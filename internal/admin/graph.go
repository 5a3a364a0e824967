package admin

import (
	"fmt"
	"net/http"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/diagram"
)

// graph draws one namespace of what is served: as JSON with all places, or as a picture. Sub-graphs are
// open unless closed=true.
func (s *Server) graph(w http.ResponseWriter, r *http.Request) {
	as, namespace, closed := r.FormValue("as"), r.FormValue("namespace"), r.FormValue("closed")
	switch {
	case as != "" && as != "json" && as != "svg" && as != "mermaid":
		api.Fail(w, http.StatusBadRequest, "as: want json, svg or mermaid", "")
		return
	case closed != "" && closed != "true" && closed != "false":
		api.Fail(w, http.StatusBadRequest, "closed: want true or false", "")
		return
	}
	named := namespace != ""
	if !named {
		namespace = s.opts.Namespace
	}
	generation := s.opts.Status().Generation // before the outline: an answer that is newer than its tag is asked for again
	tag := fmt.Sprintf(`"%d-%d"`, s.started.UnixNano(), generation)
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	d := diagram.Of(s.opts.Outline(), namespace, func(string) bool { return closed != "true" })
	if named && len(d.Nodes) == 0 {
		api.Fail(w, http.StatusNotFound, fmt.Sprintf("namespace %q has no nodes", namespace), "")
		return
	}
	d.Hide(s.opts.Redact)
	switch as {
	case "svg":
		w.Header().Set("Content-Type", "image/svg+xml")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'") // of a picture that is opened by itself
		s.write(w, http.StatusOK, d.SVG(fmt.Sprintf("%s, generation %d", namespace, generation)))
	case "mermaid":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		s.write(w, http.StatusOK, d.Mermaid())
	default:
		s.json(w, api.Graph{Generation: generation, Diagram: d})
	}
}
