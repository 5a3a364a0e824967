package stream

import (
	"context"
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
	r.backoff = field.BackoffOf(cfg)
	r.when, err = o.Expr(cfg, "when", lang.Options{Timeout: evaluation, Log: init.Log})
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
