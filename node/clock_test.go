package node_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/uniflow-labs/uniflow/node"
)

// TestClockDue lets many goroutines of a test wait for what is due already. With timers of package
// time this ends the process under the race detector (Go 1.26): they share one context of it.
func TestClockDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock node.SystemClock
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 5_000 {
					called := make(chan struct{})
					stop := clock.AfterFunc(0, func(context.Context) { close(called) })
					<-called
					if stop() {
						t.Error("stop says that it prevented a call that was made")
					}
					if err := clock.Sleep(t.Context(), -1); err != nil {
						t.Error("Sleep:", err)
					}
				}
			})
		}
		all.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("cause")
		cancel(cause)
		if err := clock.Sleep(ctx, 0); err != cause {
			t.Errorf("Sleep in a context that is done: %v, want %v", err, cause)
		}
	})
}
