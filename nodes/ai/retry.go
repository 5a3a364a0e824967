package ai

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/schema"
)

// A retry says how often a request is sent again, and when.
type retry struct {
	threshold      int
	initial, max   time.Duration
	factor, jitter float64
}

func (r *retry) read(c schema.Config) {
	b := c.Group("backoff")
	*r = retry{threshold: int(c.Int("threshold")), initial: b.Duration("initial"), max: b.Duration("max"), factor: b.Float("factor"), jitter: b.Float("jitter")}
	if !b.Has("max") {
		r.max = max(r.max, r.initial)
	}
}

// wait returns how long to wait after so many failures, at least 1. asked is what the
// server asks for; ok is false if that is too long.
func (r *retry) wait(failed int, asked time.Duration) (d time.Duration, ok bool) {
	if failed > r.threshold || asked > r.max {
		return 0, false
	}
	if r.initial > 0 { // as 0 times an infinity is not a number
		d = time.Duration(min(float64(r.initial)*math.Pow(r.factor, float64(failed-1)), float64(r.max)))
	}
	d -= time.Duration(float64(d) * r.jitter * rand.Float64())
	return max(d, asked), true
}

// retryAfter returns how long a server asks to wait, 0 if it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 && seconds < 1e9 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
