package trail

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/tabular"
)

// Times bounds the times of events that are taken. A time far off mostly comes from a
// clock that was never set, or from seconds read as milliseconds. Each bucket of time
// costs a file, and events scattered over all centuries would need more files than a
// process may map. The zero Times are the default: from 20 years before now to a day after.
type Times struct {
	Any  bool      // takes the years 1 to 9999; From and To do not count
	From time.Time // zero: 20 years before now
	To   time.Time // exclusive; zero: a day after now
}

const (
	defaultYears = 20
	defaultAhead = 24 * time.Hour
)

// ParseTimes reads "any", or FROM/TO, each a day or a time of RFC 3339. A side that is
// left out has its default; the empty text is the zero Times.
func ParseTimes(text string) (Times, error) {
	switch text {
	case "":
		return Times{}, nil
	case "any":
		return Times{Any: true}, nil
	}
	from, to, ok := strings.Cut(text, "/")
	if !ok {
		return Times{}, fmt.Errorf("times %q: want any, or FROM/TO such as 1990-01-01/2030-01-01", text)
	}
	var t Times
	for _, side := range []struct {
		text string
		time *time.Time
	}{{from, &t.From}, {to, &t.To}} {
		if side.text == "" {
			continue
		}
		millis, err := tabular.ParseDate(side.text)
		if err != nil {
			return Times{}, fmt.Errorf("times %q: %q is not a day or a time of RFC 3339", text, side.text)
		}
		*side.time = event.Time(millis)
	}
	if from != "" && to != "" && !t.From.Before(t.To) {
		return Times{}, fmt.Errorf("times %q: %s is not before %s", text, from, to)
	}
	return t, nil
}

// String returns the text that ParseTimes reads.
func (t Times) String() string {
	side := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	switch {
	case t.Any:
		return "any"
	case t == Times{}:
		return ""
	}
	return side(t.From) + "/" + side(t.To)
}

// Check returns a *TimeError for a time that is outside at the moment now.
func (t Times) Check(millis int64, now time.Time) error {
	return t.window(now).plausible(millis)
}

func (t Times) window(now time.Time) window {
	if t.Any {
		return anyTime()
	}
	if t.From.IsZero() {
		t.From = now.AddDate(-defaultYears, 0, 0)
	}
	if t.To.IsZero() {
		t.To = now.Add(defaultAhead)
	}
	return window{from: event.Millis(t.From), to: event.Millis(t.To), kept: math.MinInt64}
}

// A window is the times of events that an append or an import takes: from
// inclusive, to exclusive, and not before what the store keeps.
type window struct{ from, to, kept int64 }

func anyTime() window {
	return window{from: event.MinTime, to: event.MaxTime + 1, kept: math.MinInt64}
}

func (w window) check(millis int64) error {
	if err := w.plausible(millis); err != nil {
		return err
	}
	if millis < w.kept {
		return fmt.Errorf("time %s is before %s, the first time that the store keeps events of", timeText(millis), timeText(w.kept))
	}
	return nil
}

// plausible returns why a time is outside from and to; it ignores kept.
func (w window) plausible(millis int64) error {
	switch {
	case millis < event.MinTime || millis > event.MaxTime:
		return fmt.Errorf("time %d ms is outside the years 1 to 9999", millis)
	case millis < w.from || millis >= w.to:
		return &TimeError{Time: millis, From: w.from, To: w.to}
	}
	return nil
}

// A TimeError reports an event whose time is outside Options.Times.
type TimeError struct {
	Time     int64 // in milliseconds since 1970 UTC
	From, To int64 // what is taken, To exclusive
}

func (e *TimeError) Error() string {
	return fmt.Sprintf("time %s is not plausible: only times from %s to %s are taken", timeText(e.Time), timeText(e.From), timeText(e.To))
}

func timeText(millis int64) string { return event.Time(millis).Format(time.RFC3339) }
