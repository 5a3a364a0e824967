package streams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// This file has the events of a window: payloads with a key and a time.

// An event is a payload with its time and key.
type event struct {
	payload value.Value
	key     state.Key
	name    value.Value // the key
	at      int64
}

func (n *windower) read(ctx context.Context, payload value.Value) (e event, err error) {
	e.payload = payload
	if e.key, e.name, err = keyOf(ctx, n.key, payload); err != nil {
		return e, err
	}
	at, err := n.time.Eval(ctx, payload)
	if err == nil {
		e.at, err = eventTime(at, n.clock.Now())
	}
	if err != nil {
		return e, unusable("time", fmt.Errorf("time: %w", err), payload)
	}
	return e, nil
}

// Times of events are nanoseconds of 64 bits, which reach from 1678 to 2262. One that is far ahead would end
// all windows, and make whatever comes later late.
const (
	firstYear, lastYear = 1700, 2200
	mostAhead           = 24 * time.Hour
)

func eventTime(v value.Value, now time.Time) (int64, error) {
	at, ok := v.AsTime()
	if v.Kind() == value.KindString {
		var err error
		if at, err = time.Parse(time.RFC3339Nano, v.String()); err != nil {
			return 0, fmt.Errorf("want a timestamp such as 2026-01-31T12:00:00Z, got %q", node.Clip(v.String(), 60))
		}
	} else if !ok {
		return 0, fmt.Errorf("want a timestamp, got %s: in CEL, write such as timestamp(self.body.at)", v.Kind())
	}
	switch {
	case at.Year() < firstYear || at.Year() > lastYear:
		return 0, fmt.Errorf("%s is out of range: years from %d to %d are taken", at.Format(time.RFC3339), firstYear, lastYear)
	case at.Sub(now) > mostAhead:
		return 0, fmt.Errorf("%s is more than %s ahead of the clock, and would end all windows before it", at.Format(time.RFC3339), mostAhead)
	}
	return at.UnixNano(), nil
}

var (
	errLate = &node.Error{Err: errors.New("late: the windows of this time have been sent"), Code: "late", Status: http.StatusUnprocessableEntity, Permanent: true}
	errFull = &node.Error{Err: errors.New("no memory is left for the windows"), Code: "memory", Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Outage: true}
)
