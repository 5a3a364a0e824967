package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// Jobs do the same with many runs each, whether a client looks or not, one after the other. They are in memory: the
// end of the program ends them. Any goroutine may call the methods. They must be closed.
type Jobs struct {
	log     *slog.Logger
	workers sync.WaitGroup

	mu struct {
		sync.Mutex
		all    []*job // the latest first
		closed bool
	}
}

// A job is one of them.
type job struct {
	bulk Bulk
	stop context.CancelCauseFunc

	mu struct {
		sync.Mutex
		state api.RunJob
	}
}

// keptJobs is how many jobs are remembered.
const keptJobs = 20

// What has ended a job early.
var (
	errCancelled = errors.New("the job was cancelled")
	errStopped   = errors.New("the program ends, and the job with it")
)

// A BusyError says that another job has not ended.
type BusyError struct{ Job api.RunJob }

func (e *BusyError) Error() string {
	return fmt.Sprintf("another job has not ended: %s, %d done", e.Job.Do, e.Job.Done)
}

// NewJobs returns jobs that tell a log how they end.
func NewJobs(log *slog.Logger) *Jobs { return &Jobs{log: log} }

// Start starts a job. The error is a [QueryError], a [BusyError], or that the program ends.
func (j *Jobs) Start(v *View, b Bulk) (api.RunJob, error) {
	if err := v.check(&b); err != nil {
		return api.RunJob{}, err
	}
	ctx, stop := context.WithCancelCause(context.Background())
	one := &job{bulk: b, stop: stop}
	one.mu.state = api.RunJob{ID: uuid.NewString(), Do: b.Do, State: "running", Refused: []api.RunRefused{}, Began: time.Now().UTC()}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.mu.closed:
		stop(nil)
		return api.RunJob{}, errStopped
	case len(j.mu.all) > 0 && j.mu.all[0].shown().State == "running":
		stop(nil)
		return api.RunJob{}, &BusyError{j.mu.all[0].shown()}
	}
	j.mu.all = slices.Insert(j.mu.all, 0, one)
	j.mu.all = j.mu.all[:min(len(j.mu.all), keptJobs)]
	j.workers.Go(func() {
		defer stop(nil)
		j.during(ctx, v, one)
	})
	return one.shown(), nil
}

// during runs a job, and says how it has ended.
func (j *Jobs) during(ctx context.Context, v *View, one *job) {
	err := one.run(ctx, v)
	state, level := "done", slog.LevelInfo
	switch cause := context.Cause(ctx); {
	case err == nil:
	case errors.Is(cause, errCancelled):
		state, err = "cancelled", nil
	case cause != nil:
		state, err, level = "cancelled", cause, slog.LevelWarn
	default:
		state, level = "failed", slog.LevelError
	}
	s := one.end(state, err, v.Redact)
	refused := 0
	for _, r := range s.Refused {
		refused += r.Runs
	}
	args := []any{"do", s.Do, "state", s.State, "done", s.Done, "refused", refused}
	if s.Selected > 0 { // a dry run
		args = append(args, "selected", s.Selected)
	}
	if s.Error != "" {
		args = append(args, "error", s.Error)
	}
	j.log.Log(context.Background(), level, "a job over durable runs has ended", args...)
}

// shown returns how far a job is.
func (j *job) shown() api.RunJob {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.mu.state
	s.Refused = slices.Clone(s.Refused)
	return s
}

// All returns the last jobs, the latest first.
func (j *Jobs) All() []api.RunJob {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]api.RunJob, 0, len(j.mu.all))
	for _, one := range j.mu.all {
		all = append(all, one.shown())
	}
	return all
}

// Get returns a job that is remembered.
func (j *Jobs) Get(id string) (api.RunJob, bool) {
	one := j.find(id)
	if one == nil {
		return api.RunJob{}, false
	}
	return one.shown(), true
}

// Cancel ends a job. It may do what it does with one more run.
func (j *Jobs) Cancel(id string) (api.RunJob, bool) {
	one := j.find(id)
	if one == nil {
		return api.RunJob{}, false
	}
	one.stop(errCancelled)
	return one.shown(), true
}

func (j *Jobs) find(id string) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.mu.all {
		if one.shown().ID == id {
			return one
		}
	}
	return nil
}

// Close ends the job that is under way, and returns when it has.
func (j *Jobs) Close() {
	j.mu.Lock()
	j.mu.closed = true
	for _, one := range j.mu.all {
		one.stop(errStopped)
	}
	j.mu.Unlock()
	j.workers.Wait()
}
