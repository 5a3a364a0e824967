package field

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
)

// A Backoff says how long to wait before another attempt: Initial, and Factor times as long
// after each further failure, up to Max. Jitter is the share of a wait, 0 to 1, that chance
// takes away. The zero value does not wait.
type Backoff struct {
	Initial, Max   time.Duration
	Factor, Jitter float64
}

// longestWait is what a config may ask for, at most.
const longestWait = float64(366 * 24 * time.Hour)

// NewBackoff declares the field, with these defaults. doc says what is waited for, and longest
// what bounds a wait.
func NewBackoff(defaults Backoff, doc, longest string) *schema.Field {
	return schema.Group("backoff", schema.Fields(
		schema.Duration("initial").Default(defaults.Initial).Range(0, longestWait).Doc("The first wait."),
		schema.Float("factor").Default(defaults.Factor).Range(1, 1000).Doc("How much longer each wait is than the one before."),
		schema.Duration("max").Default(defaults.Max).Range(0, longestWait).Doc(longest),
		schema.Float("jitter").Default(defaults.Jitter).Range(0, 1).Doc("The share of a wait that chance may take away, from 0 to 1."),
	)).Doc(doc)
}

// BackoffOf reads the field of a config. Max is at least Initial, and an Initial that is not set is at most Max. An
// error has a place.
func BackoffOf(c schema.Config) (Backoff, error) {
	g := c.Group("backoff")
	b := Backoff{Initial: g.Duration("initial"), Max: g.Duration("max"), Factor: g.Float("factor"), Jitter: g.Float("jitter")}
	switch {
	case b.Initial <= b.Max:
	case !g.Has("max"):
		b.Max = b.Initial
	case !g.Has("initial"):
		b.Initial = b.Max
	default:
		return b, g.Errorf("initial", diag.CodeBadValue, "the first wait is longer than max, the longest").WithHint("lower initial, or raise max or leave it out").AsPlain()
	}
	return b, nil
}

// Wait returns how long to wait after so many failures, at least 1.
func (b Backoff) Wait(failed int) time.Duration {
	d := time.Duration(0)
	if b.Initial > 0 { // as 0 times an infinity is not a number
		d = time.Duration(min(float64(b.Initial)*math.Pow(b.Factor, float64(failed-1)), float64(b.Max)))
	}
	return d - time.Duration(float64(d)*b.Jitter*rand.Float64())
}

// After returns how long to wait after so many failures, at least 1, if the other side asks for
// a time. ok is false if that is longer than Max.
func (b Backoff) After(failed int, asked time.Duration) (d time.Duration, ok bool) {
	return max(b.Wait(failed), asked), asked <= b.Max
}
