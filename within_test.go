package uniflow_test

import (
	"context"
	"testing"

	"github.com/uniflow-labs/uniflow"
)

// TestWithinLate takes a result that is there although the time is over: a busy machine may
// let the waiting goroutine run only when both have happened.
func TestWithinLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		done := make(chan error, 1)
		done <- nil
		if err, ended := uniflow.Within(ctx, -1, done); err != nil || !ended {
			t.Fatalf("got %v, ended %v", err, ended)
		}
	}
}
