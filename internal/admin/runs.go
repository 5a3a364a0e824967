package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/runs"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
)

// view returns what shows the runs of the journal, or answers that there is none.
func (s *Server) view(w http.ResponseWriter) *runs.View {
	if s.opts.Runs == nil {
		api.Fail(w, http.StatusConflict, "the program has no journal", "start it with --journal sqlite:FILE")
		return nil
	}
	namespace := s.opts.Namespace
	if namespace == "" {
		namespace = "default"
	}
	return &runs.View{
		Journal: s.opts.Runs, Nodes: func() []node.Ref { return s.opts.Status().Nodes }, Namespace: namespace,
		Redact: s.opts.Redact, Payload: s.payloadOf,
	}
}

// noRuns answers an error of a [runs.View].
func (s *Server) noRuns(w http.ResponseWriter, err error) {
	var wrong *runs.QueryError
	switch {
	case errors.As(err, &wrong):
		api.Fail(w, http.StatusBadRequest, wrong.Message, wrong.Hint)
	case errors.Is(err, journal.ErrNotFound):
		api.Fail(w, http.StatusNotFound, "there is no run with this id", "it may have been removed: runs that have ended are kept for some time only")
	case errors.Is(err, journal.ErrClosed):
		api.Fail(w, http.StatusServiceUnavailable, err.Error(), "")
	default:
		api.Fail(w, http.StatusInternalServerError, s.opts.Redact(err.Error()), "")
	}
}

// runs lists durable runs.
func (s *Server) runs(w http.ResponseWriter, r *http.Request) {
	view := s.view(w)
	if view == nil {
		return
	}
	q := runs.Query{Trigger: r.FormValue("trigger"), Namespace: r.FormValue("namespace"), After: r.FormValue("after")}
	if text := r.FormValue("state"); text != "" {
		q.States = strings.Split(text, ",")
	}
	if text := r.FormValue("since"); text != "" {
		ago, err := time.ParseDuration(text)
		if err != nil || ago <= 0 {
			api.Fail(w, http.StatusBadRequest, "since: want a duration such as 1h", "")
			return
		}
		q.Since = time.Now().Add(-ago)
	}
	var ok bool
	if q.Limit, ok = number(w, r, "limit"); !ok {
		return
	}
	page, err := view.List(r.Context(), q)
	if err != nil {
		s.noRuns(w, err)
		return
	}
	s.json(w, page)
}

// run shows a durable run; its payloads to those who may inspect.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	view := s.view(w)
	if view == nil {
		return
	}
	payloads := r.FormValue("payloads")
	if !slices.Contains([]string{"", "true", "false"}, payloads) {
		api.Fail(w, http.StatusBadRequest, "payloads: want true or false", "")
		return
	}
	if scope, _ := s.auth.scope(r); payloads == "true" && scope < api.Inspect {
		api.Fail(w, http.StatusForbidden, "payloads need the scope "+api.Inspect.String()+", and the client has "+scope.String(), s.more(api.Inspect))
		return
	}
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	id, err := runs.ParseID(r.PathValue("id"))
	if err != nil {
		s.noRuns(w, err)
		return
	}
	run, err := view.Show(r.Context(), id, int32(min(after, 1<<31-1)), payloads == "true")
	if err != nil {
		s.noRuns(w, err)
		return
	}
	s.json(w, run)
}
