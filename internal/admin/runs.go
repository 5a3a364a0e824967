package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/runs"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// view returns what shows the runs of the journal, or answers that there is none.
func (s *Server) view(w http.ResponseWriter) *runs.View {
	if s.opts.Runs == nil {
		api.Fail(w, http.StatusConflict, "the program has no journal", "start it with --journal sqlite:FILE")
		return nil
	}
	return s.viewOf()
}

// viewOf is view for a program that has a journal.
func (s *Server) viewOf() *runs.View {
	namespace := s.opts.Namespace
	if namespace == "" {
		namespace = "default"
	}
	return &runs.View{
		Journal: s.opts.Runs, Nodes: func() []node.Ref { return s.opts.Status().Nodes }, Namespace: namespace,
		Redact: s.opts.Redact, Payload: s.payloadOf,
	}
}

// noRuns answers an error of a [runs.View], or of an action.
func (s *Server) noRuns(w http.ResponseWriter, err error) {
	var wrong *runs.QueryError
	var refused *node.Error
	switch {
	case errors.As(err, &wrong):
		api.Fail(w, http.StatusBadRequest, wrong.Message, wrong.Hint)
	case errors.Is(err, journal.ErrNotFound):
		api.Fail(w, http.StatusNotFound, "there is no run with this id", "it may have been removed: runs that have ended are kept for some time only")
	case errors.As(err, &refused) && refused.Status > 0:
		if refused.Status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		api.Fail(w, refused.Status, s.opts.Redact(err.Error()), "")
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
	q := runs.Query{Trigger: r.FormValue("trigger"), Queue: r.FormValue("queue"), Namespace: r.FormValue("namespace"), After: r.FormValue("after")}
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

// same makes an action of one whose run stays the same.
func same(act func(context.Context, journal.ID) error) func(context.Context, journal.ID) (journal.ID, error) {
	return func(ctx context.Context, id journal.ID) (journal.ID, error) { return id, act(ctx, id) }
}

// runAction does something with a run, and answers with the run that act returns.
func (s *Server) runAction(act func(context.Context, journal.ID) (journal.ID, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		view := s.view(w)
		if view == nil {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxSending)
		defer cancel()
		var run api.Run
		id, err := runs.ParseID(r.PathValue("id"))
		if err == nil {
			id, err = act(ctx, id)
		}
		if err == nil {
			run, err = view.One(ctx, id)
		}
		if err != nil {
			s.noRuns(w, err)
			return
		}
		s.json(w, run)
	}
}

// retry is runAction of one that goes on, perhaps in another workflow.
func (s *Server) retry(act func(context.Context, journal.ID, bool) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body api.RunRetry
		if r.ContentLength != 0 && !read(w, r, &body, `{"latest": true}, or no body`) {
			return
		}
		s.runAction(same(func(ctx context.Context, id journal.ID) error { return act(ctx, id, body.Latest) }))(w, r)
	}
}

// restart is runAction of one whose run begins with what another one has begun with, or with an input, or from a node.
func (s *Server) restart(act func(context.Context, journal.ID, *value.Value) (journal.ID, error), from func(context.Context, journal.ID, string) (journal.ID, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body api.RunRestart
		if r.ContentLength != 0 && !read(w, r, &body, `{"input": JSON} or {"from": "NODE"}, or no body`) {
			return
		}
		if body.From != "" {
			switch {
			case from == nil:
				api.Fail(w, http.StatusBadRequest, "from: runs begin from their trigger here", "leave it out")
			case body.Input != nil:
				api.Fail(w, http.StatusBadRequest, "from goes without input", "leave one of the two out: what the node gets follows from what was recorded before it")
			default:
				s.runAction(func(ctx context.Context, id journal.ID) (journal.ID, error) { return from(ctx, id, body.From) })(w, r)
			}
			return
		}
		var edited value.Value
		if body.Input != nil {
			var ok bool
			if edited, ok = parsed(w, "input", string(body.Input)); !ok {
				return
			}
		}
		s.runAction(func(ctx context.Context, id journal.ID) (journal.ID, error) {
			if body.Input == nil {
				return act(ctx, id, nil)
			}
			original, err := s.view(w).Input(ctx, id)
			if err != nil {
				return journal.ID{}, err
			}
			input, err := s.restored(edited, original)
			if err != nil {
				return journal.ID{}, &runs.QueryError{Message: "input: " + err.Error()}
			}
			return act(ctx, id, &input)
		})(w, r)
	}
}

// signal sends a signal, and answers when no crash can lose it.
func (s *Server) signal(w http.ResponseWriter, r *http.Request) {
	if s.view(w) == nil {
		return
	}
	var body api.Signal
	if !read(w, r, &body, `{"event": "EVENT", "key": "KEY", "payload": JSON}`) {
		return
	}
	sent := node.Signal{Namespace: body.Namespace, Event: body.Event, Key: body.Key, Token: body.Token, ID: body.ID}
	if len(body.Payload) > 0 {
		var ok bool
		if sent.Payload, ok = parsed(w, "payload", string(body.Payload)); !ok {
			return
		}
	}
	if body.Keep != "" {
		var err error
		if sent.Keep, err = time.ParseDuration(body.Keep); err != nil || sent.Keep <= 0 {
			api.Fail(w, http.StatusBadRequest, "keep: want a duration such as 1h", "")
			return
		}
	}
	if sent.ID == "" && sent.Token == "" {
		sent.ID = uuid.NewString()
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxSending)
	defer cancel()
	if err := s.opts.Signal(ctx, sent); err != nil {
		s.noRuns(w, err)
		return
	}
	s.json(w, api.Signalled{ID: sent.ID})
}
