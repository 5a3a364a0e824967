package node_test

import (
	"context"
	"errors"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
)

// TestWaitFor: a Stop whose work had ended when the grace was over has not failed. A select
// takes either of two channels, so one round shows nothing.
func TestWaitFor(t *testing.T) {
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	ended := make(chan struct{})
	if err := node.WaitFor(ctx, ended); err != late {
		t.Errorf("got %v, want %v", err, late)
	}
	close(ended)
	for range 100 {
		if err := node.WaitFor(ctx, ended); err != nil {
			t.Fatalf("what had ended is late: %v", err)
		}
	}
}
