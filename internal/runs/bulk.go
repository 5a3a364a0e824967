package runs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
)

// A Bulk does the same with many runs: see [Jobs].
type Bulk struct {
	Do     string   // what, in a word
	IDs    []string // of up to [api.MaxRuns] runs, or
	Query           // what selects them, with a state, a trigger or a time
	Rate   int      // how many a second, up to [api.MaxRate]; 0 is 50
	DryRun bool     // only counts them
	Act    func(context.Context, journal.ID) error
}

const defaultRate = 50

// check returns what of a bulk cannot be used, and sets what is left out.
func (v *View) check(b *Bulk) error {
	filtered := len(b.States) > 0 || b.Trigger != "" || !b.Since.IsZero()
	switch {
	case b.Rate < 0 || b.Rate > api.MaxRate:
		return &QueryError{fmt.Sprintf("rate: got %d", b.Rate), fmt.Sprintf("want 1 to %d runs in a second", api.MaxRate)}
	case len(b.IDs) == 0 && !filtered:
		return &QueryError{"neither ids nor a filter", "name the runs, or select some by state, trigger or since"}
	case len(b.IDs) > 0 && filtered:
		return &QueryError{"ids and a filter do not go together", "leave one out"}
	case len(b.IDs) > api.MaxRuns:
		return &QueryError{fmt.Sprintf("ids: got %d", len(b.IDs)), fmt.Sprintf("want 1 to %d, or a filter", api.MaxRuns)}
	}
	for _, id := range b.IDs {
		if _, err := ParseID(id); err != nil {
			return err
		}
	}
	if b.Rate == 0 {
		b.Rate = defaultRate
	}
	_, err := parseStates(b.States)
	return err
}

// pages calls f with the runs of a bulk, the latest first, a page after the other. Runs that begin meanwhile are left
// out.
func (v *View) pages(ctx context.Context, b *Bulk, f func([]journal.ID) error) error {
	if len(b.IDs) > 0 {
		ids := make([]journal.ID, 0, len(b.IDs))
		for _, text := range b.IDs {
			id, err := ParseID(text)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return f(ids)
	}
	for q := b.Query; ; {
		found, next, err := v.find(ctx, q)
		if err != nil {
			return err
		}
		ids := make([]journal.ID, 0, len(found))
		for _, r := range found {
			ids = append(ids, r.ID)
		}
		if err := f(ids); err != nil || next == "" {
			return err
		}
		q.After = next
	}
}

// run does all of a job. An error that is about a single run is in the job; any other one ends it.
func (j *job) run(ctx context.Context, v *View) error {
	pace := rate.NewLimiter(rate.Limit(j.bulk.Rate), 1)
	return v.pages(ctx, &j.bulk, func(ids []journal.ID) error {
		if j.bulk.DryRun {
			j.count(len(ids))
			return nil
		}
		for _, id := range ids {
			if err := pace.Wait(ctx); err != nil {
				return err
			}
			err := j.bulk.Act(ctx, id)
			switch {
			case err == nil:
			case ends(ctx, err):
				return err
			case errors.Is(err, journal.ErrNotFound):
				err = errors.New("there is no run with this id")
			}
			j.add(id, err, v.Redact)
		}
		return nil
	})
}

// ends reports whether an error is not about one run only: nothing can be done with the next one, either.
func ends(ctx context.Context, err error) bool {
	refused, ok := errors.AsType[*node.Error](err)
	return ctx.Err() != nil || errors.Is(err, journal.ErrClosed) || ok && refused.Status == http.StatusServiceUnavailable
}

func text(id journal.ID) string { return uuid.UUID(id).String() }

// maxReasons is how many reasons are told apart: there may be a million runs.
const maxReasons = 20

func (j *job) count(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.state.Selected += n
}

// add says what came of a run.
func (j *job) add(id journal.ID, err error, redact func(string) string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.mu.state
	if err == nil {
		s.Done++
		return
	}
	message := redact(err.Error())
	for i := range s.Refused {
		if known := &s.Refused[i]; known.Message == message || i == maxReasons {
			known.Runs++
			return
		}
	}
	if len(s.Refused) == maxReasons {
		message = "other reasons"
	}
	s.Refused = append(s.Refused, api.RunRefused{Runs: 1, Message: message, Example: text(id)})
}

// end says that nothing more is done.
func (j *job) end(state string, err error, redact func(string) string) api.RunJob {
	j.mu.Lock()
	j.mu.state.State, j.mu.state.Ended = state, new(time.Now().UTC())
	if err != nil {
		j.mu.state.Error = redact(err.Error())
	}
	j.mu.Unlock()
	return j.shown()
}
