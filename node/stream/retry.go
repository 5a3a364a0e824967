package stream

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
)

// A retry says which failures are tried again, and when.
type retry struct {
	threshold int
	giveUp    time.Duration // of outages; 0 is never
	backoff   backoff
	when      lang.Program // nil: defaultWhen
}

// read reads the field retry.
func (r *retry) read(init *node.Init, o Options) (err error) {
	cfg := init.Config.Group("retry")
	b := cfg.Group("backoff")
	r.threshold, r.giveUp = int(cfg.Int("threshold")), cfg.Duration("give_up")
	r.backoff = backoff{initial: b.Duration("initial"), max: b.Duration("max"), factor: b.Float("factor"), jitter: b.Float("jitter")}
	if !b.Has("max") {
		r.backoff.max = max(r.backoff.max, r.backoff.initial)
	}
	if cfg.Has("when") {
		r.when, err = o.compile(init, cfg, "when")
	}
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

// A backoff says how long to wait.
type backoff struct {
	initial, max   time.Duration
	factor, jitter float64
}

// longestAsked bounds the wait that an error asks for.
const longestAsked = time.Hour

// wait returns how long to wait after so many failures, at least 1. asked is what the
// error asks for.
func (b *backoff) wait(failed int, asked time.Duration) time.Duration {
	d := time.Duration(0)
	if b.initial > 0 { // as 0 times an infinity is not a number
		d = time.Duration(min(float64(b.initial)*math.Pow(b.factor, float64(failed-1)), float64(b.max)))
	}
	d -= time.Duration(float64(d) * b.jitter * rand.Float64())
	return max(d, min(asked, longestAsked))
}
