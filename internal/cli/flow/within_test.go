package flow

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

// TestWithTimeout stops waiting when the time is over, and not before.
func TestWithTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		takes := func(d time.Duration) func() error {
			return func() error {
				<-time.After(d)
				return failed
			}
		}
		if err := withTimeout(time.Second, takes(999*time.Millisecond)); err != failed {
			t.Errorf("in time: got %v, want %v", err, failed)
		}
		if err := withTimeout(0, takes(time.Hour)); err != failed {
			t.Errorf("no limit: got %v, want %v", err, failed)
		}
		var late *app.ExitError
		if err := withTimeout(time.Second, takes(time.Minute)); !errors.As(err, &late) || late.Code != app.ExitFindings || late.Hint == "" {
			t.Errorf("late: got %v, want an error with a hint and exit code %d", err, app.ExitFindings)
		}
		<-time.After(time.Hour) // what was left to itself ends
	})
}
