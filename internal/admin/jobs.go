package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/runs"
	"github.com/uniflow-labs/uniflow/journal"
)

// pauseTime is how long a client waits until a run that is in progress is paused; a job only tells it to stop.
const (
	pauseTime    = 10 * time.Second
	pauseTimeJob = 50 * time.Millisecond
)

// pause returns the action that pauses a run, or lets it stop. Only a run in progress is not waited for any longer: what
// needs the disk is awaited for as long as any action.
func (s *Server) pause(wait time.Duration) func(context.Context, journal.ID) error {
	return func(ctx context.Context, id journal.ID) error {
		for {
			within, cancel := context.WithTimeout(ctx, wait)
			_, err := s.opts.PauseRun(within, id) // the state of the run tells whether it is paused
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				return err
			}
		}
	}
}

// bulk starts a job that does the same with many runs.
func (s *Server) bulk(w http.ResponseWriter, r *http.Request) {
	view := s.view(w)
	if view == nil {
		return
	}
	var body api.RunBulk
	if !read(w, r, &body, `{"do": "retry", "ids": ["ID"]} or {"do": "retry", "where": {"states": ["failed"]}}`) {
		return
	}
	act := map[string]func(context.Context, journal.ID) error{
		"cancel": s.opts.CancelRun,
		"pause":  s.pause(pauseTimeJob),
		"resume": s.opts.ResumeRun,
		"retry":  func(ctx context.Context, id journal.ID) error { return s.opts.RetryRun(ctx, id, body.Latest) },
		"restart": func(ctx context.Context, id journal.ID) error {
			_, err := s.opts.RestartRun(ctx, id, nil)
			return err
		},
	}[body.Do]
	if act == nil {
		api.Fail(w, http.StatusBadRequest, fmt.Sprintf("do: got %q", body.Do), "want cancel, pause, resume, retry or restart")
		return
	}
	if body.Latest && body.Do != "retry" {
		api.Fail(w, http.StatusBadRequest, "latest goes with retry only", "leave it out")
		return
	}
	b := runs.Bulk{Do: body.Do, IDs: body.IDs, Rate: body.Rate, DryRun: body.DryRun}
	b.Act = func(ctx context.Context, id journal.ID) error {
		ctx, cancel := context.WithTimeout(ctx, maxSending)
		defer cancel()
		return act(ctx, id)
	}
	if where := body.Where; where != nil {
		b.States, b.Trigger, b.Namespace = where.States, where.Trigger, where.Namespace
		if where.Since != nil {
			b.Since = *where.Since
		}
	}
	job, err := s.jobs.Start(view, b)
	if busy, ok := errors.AsType[*runs.BusyError](err); ok {
		api.Fail(w, http.StatusConflict, err.Error(), "wait for it, or end it: uniflow runs jobs --cancel "+busy.Job.ID)
		return
	}
	if err != nil {
		s.noRuns(w, err)
		return
	}
	s.json(w, job)
}

// theJob answers with a job that get returns.
func (s *Server) theJob(get func(id string) (api.RunJob, bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.view(w) == nil {
			return
		}
		job, ok := get(r.PathValue("id"))
		if !ok {
			api.Fail(w, http.StatusNotFound, "there is no job with this id", "the program forgets jobs when it ends, and remembers the last 20")
			return
		}
		s.json(w, job)
	}
}
