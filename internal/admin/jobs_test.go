package admin

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

// TestPauseSlowDisk pauses a run while the disk takes longer than a run in progress is waited for: that is not a reason
// to refuse it. What ends the action, and any other error, is.
func TestPauseSlowDisk(t *testing.T) {
	asked := 0
	wrong := errors.New("it has ended")
	var then error
	s := &Server{opts: Options{PauseRun: func(ctx context.Context, _ journal.ID) (bool, error) {
		if asked++; asked < 3 {
			<-ctx.Done()
			return false, context.Cause(ctx)
		}
		return then == nil, then
	}}}
	pause := s.pause(time.Microsecond)
	if err := pause(t.Context(), journal.ID{}); err != nil || asked != 3 {
		t.Errorf("got %v after %d attempts, want none after 3", err, asked)
	}
	asked, then = 0, wrong
	if err := pause(t.Context(), journal.ID{}); !errors.Is(err, wrong) {
		t.Errorf("got %v, want %v", err, wrong)
	}
	asked = 0
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := pause(ended, journal.ID{}); !errors.Is(err, context.DeadlineExceeded) || asked != 1 {
		t.Errorf("got %v after %d attempts, want the end of the action after 1", err, asked)
	}
}
