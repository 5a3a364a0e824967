package uniflow

import (
	"context"
	"errors"
	"net/http"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// errNoJournal refuses what needs a journal.
var errNoJournal error = &node.Error{Err: errors.New("the program has no journal"), Status: http.StatusConflict, Public: true}

// Signal sends a signal to the runs that wait for its event and key, or to the one that its token stands
// for, and returns when no crash can lose it. Without a namespace it is for that of the engine, without an
// id it has one of its own, and without a time to keep it is kept for a day. The error is a [node.Error]
// with a status: 400 for a signal that cannot be sent, 404 for a token that nothing waits with, 409 without
// a journal, and 503 while the journal takes nothing.
func (e *Engine) Signal(ctx context.Context, s node.Signal) error {
	if e.keeper == nil {
		return errNoJournal
	}
	if s.Namespace == "" && s.Token == "" {
		s.Namespace = e.opts.Namespace
	}
	return e.keeper.Send(ctx, s)
}

// CancelRun ends a durable run that waits or was put aside, as [journal.Cancelled]. Those who wait for its
// answer get an error. The error is [journal.ErrNotFound], or a [node.Error] with the status 409 for a run
// that is running or has ended, and 503 while the journal takes nothing.
func (e *Engine) CancelRun(ctx context.Context, run journal.ID) error {
	if e.keeper == nil {
		return errNoJournal
	}
	return e.keeper.Cancel(ctx, run)
}

// PauseRun puts a durable run aside that is queued, waits or runs, as [journal.Paused], until ResumeRun. Those who wait
// for its answer get an error. It returns when no crash can undo that. What a run has begun ends, and is recorded,
// before: if the context ends earlier, it reports false, and the run is paused then. Errors are those of
// [Engine.CancelRun].
func (e *Engine) PauseRun(ctx context.Context, run journal.ID) (paused bool, err error) {
	if e.keeper == nil {
		return false, errNoJournal
	}
	return e.keeper.Pause(ctx, run)
}

// ResumeRun lets a durable run go on that is paused, with what has come for it meanwhile, and returns when no crash
// can undo that. Errors are those of [Engine.CancelRun]: 409 for a run that is not paused, or cannot go on.
func (e *Engine) ResumeRun(ctx context.Context, run journal.ID) error {
	if e.keeper == nil {
		return errNoJournal
	}
	return e.keeper.Resume(ctx, run)
}

// RetryRun lets a durable run go on that is stuck or diverged, with what it has recorded, and one that has
// failed or is dead, without the failures: what has gone well is not done again. With latest, one that does so
// waits or is paused goes on in the workflow that is served now: records count where it comes to the same places with the
// same input. Errors are those of [Engine.CancelRun]: 409 also for a run that still cannot go on.
func (e *Engine) RetryRun(ctx context.Context, run journal.ID, latest bool) error {
	if e.keeper == nil {
		return errNoJournal
	}
	return e.keeper.Retry(ctx, run, latest)
}

// RestartRun starts a durable run of what is served now, with what another run has begun with, or with an
// input that is not nil, and returns its id. It has no idempotency key. Errors are those of [Engine.CancelRun]: 409 if the node that has started
// the other run is gone.
func (e *Engine) RestartRun(ctx context.Context, run journal.ID, input *value.Value) (journal.ID, error) {
	if e.keeper == nil {
		return journal.ID{}, errNoJournal
	}
	return e.keeper.Restart(ctx, run, input)
}

// RestartRunFrom starts a durable run of what is served now that begins from a node of another one, and returns its
// id: what that has recorded counts, and the node and all that its answers lead to are done again. Errors are those
// of [Engine.RestartRun]: 400 for a node that there is not, 409 for a run that nothing is recorded of, or that is an item of a queue.
func (e *Engine) RestartRunFrom(ctx context.Context, run journal.ID, node string) (journal.ID, error) {
	if e.keeper == nil {
		return journal.ID{}, errNoJournal
	}
	return e.keeper.RestartFrom(ctx, run, node)
}

// PauseQueue lets no more items of a queue begin, or lets them begin again, and returns when no crash can
// undo that. Errors are those of [Engine.Signal]: 404 for a queue that is not known.
func (e *Engine) PauseQueue(ctx context.Context, namespace, name string, paused bool) error {
	if e.keeper == nil {
		return errNoJournal
	}
	return e.keeper.PauseQueue(ctx, namespace, name, paused)
}

// Enqueue puts an item into a queue that is served, and returns when no crash can lose it. Errors are those of
// [Engine.Signal]: 404 for a queue that is not served.
func (e *Engine) Enqueue(ctx context.Context, it node.Item) (*node.Receipt, error) {
	if e.keeper == nil {
		return nil, errNoJournal
	}
	if it.Namespace == "" {
		it.Namespace = e.opts.Namespace
	}
	return e.keeper.Enqueue(ctx, it)
}
