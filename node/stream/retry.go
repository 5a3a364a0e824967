package stream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
)

// A retry says which failures are tried again, and when.
type retry struct {
	threshold int
	giveUp    time.Duration // of outages; 0 is never
	backoff   field.Backoff
	when      lang.Program // nil: defaultWhen
}

// read reads the field retry.
func (r *retry) read(init *node.Init, o Options) (err error) {
	cfg := init.Config.Group("retry")
	r.threshold, r.giveUp = int(cfg.Int("threshold")), cfg.Duration("give_up")
	if r.backoff, err = field.BackoffOf(cfg); err != nil {
		return err
	}
	r.when, err = o.Expr(cfg, "when", lang.Options{Condition: true, Timeout: evaluation, Log: init.Log, Warn: init.Warn})
	return err
}

// again reports whether the field when allows another attempt after an error. An
// expression that fails does not.
func (r *retry) again(ctx context.Context, resp node.Response) bool {
	if r.when == nil {
		return node.Describe(resp.Payload.AsError()).Retryable()
	}
	v, err := r.when.Eval(ctx, resp.Payload)
	return err == nil && v.Truth()
}

// longestAsked bounds the wait that an error asks for.
const longestAsked = time.Hour

// wait returns how long to wait after so many failures, at least 1. asked is what the
// error asks for.
func (r *retry) wait(failed int, asked time.Duration) time.Duration {
	return max(r.backoff.Wait(failed), min(asked, longestAsked))
}

// A retrier keeps tasks until their next attempt is due. The consumer guards it.
type retrier struct {
	env     retryEnv
	waiting map[*task]func() bool // what stops the timer
}

// A retryEnv is what a retrier needs of its consumer.
type retryEnv struct {
	lock  sync.Locker // of the consumer
	after func(time.Duration, func(context.Context)) (stop func() bool)
	due   func(t *task) // the wait of t is over; called with the lock
}

// wait keeps a task for so long.
func (r *retrier) wait(t *task, d time.Duration) {
	r.waiting[t] = r.env.after(d, func(context.Context) {
		r.env.lock.Lock()
		defer r.env.lock.Unlock()
		r.end(t)
	})
}

// end ends the wait of a task, if it still waits.
func (r *retrier) end(t *task) {
	if _, waits := r.waiting[t]; waits {
		delete(r.waiting, t)
		r.env.due(t)
	}
}

// resume ends the waits of the tasks that are meant.
func (r *retrier) resume(meant func(*task) bool) {
	for t, stop := range r.waiting {
		if meant(t) && stop() {
			r.end(t)
		}
	}
}

// abandoned takes the tasks out whose messages are gone.
func (r *retrier) abandoned() (tasks []*task) {
	for t, stop := range r.waiting {
		if !slices.ContainsFunc(t.messages, (*message).here) && stop() {
			delete(r.waiting, t)
			tasks = append(tasks, t)
		}
	}
	return tasks
}
