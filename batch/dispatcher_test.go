package batch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A testSchedule is the environment of a dispatcher: lanes with demands.
type testSchedule struct {
	mu      sync.Mutex
	demands []demand
	first   time.Time // when the oldest event was added
	events  uint64    // accepted in each lane
	blocked bool      // start has to wait for the disk
	batches int       // that a demand for sealed chunks lasts
	checked []int     // the lanes of calls of demand
	started []string
}

// dispatch runs a dispatcher of some lanes until the test ends.
func (s *testSchedule) dispatch(t *testing.T, o settings, lanes ...demand) *dispatcher {
	began := time.Now()
	s.demands, s.first, o.laneCount = lanes, began, len(lanes)
	d := newDispatcher(&o, dispatchEnv{
		demand: func(lane int) (demand, time.Time) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.checked = append(s.checked, lane)
			return s.demands[lane], s.first
		},
		accepted: func(int) uint64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.events
		},
		start: func(lane int, open bool, now time.Time) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.started = append(s.started, fmt.Sprint(lane, open, now.Sub(began)))
			if s.batches--; s.batches < 1 && !s.blocked {
				s.demands[lane] = demandNone
			}
			return !s.blocked
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return d
}

// want compares what was started and checked since the last call.
func (s *testSchedule) want(t *testing.T, checked []int, started ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.started, started) {
		t.Errorf("started %q, want %q", s.started, started)
	}
	if checked != nil && !slices.Equal(s.checked, checked) {
		t.Errorf("checked lanes %v, want %v", s.checked, checked)
	}
	s.checked, s.started = nil, nil
}

func (s *testSchedule) set(lane int, d demand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demands[lane] = d
}

// TestDispatchLinger sends after Trigger.Linger, to the moment, and sleeps until then.
func TestDispatchLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s testSchedule
		s.dispatch(t, settings{linger: time.Second}, demandTimed)
		advance(time.Hour)
		s.want(t, []int{0, 0, 0}, "0 true 1s")
	})
}

func TestDispatchNoTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s testSchedule
		s.dispatch(t, settings{linger: -1}, demandTimed)
		advance(time.Hour)
		s.want(t, []int{0})
	})
}

// TestDispatchIdle adds events until 3.3 s. The batch leaves a second later, or up to a
// quarter of one after that.
func TestDispatchIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s testSchedule
		s.dispatch(t, settings{linger: -1, idle: time.Second}, demandTimed)
		for range 30 {
			advance(110 * time.Millisecond)
			s.mu.Lock()
			s.events++
			s.mu.Unlock()
		}
		s.want(t, nil)
		advance(999 * time.Millisecond)
		s.want(t, nil)
		advance(251 * time.Millisecond)
		s.want(t, nil, "0 true 4.5s")
	})
}

// TestDispatchChanged checks no lane but the one that has changed, and starts all of its
// batches.
func TestDispatchChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testSchedule{batches: 3}
		d := s.dispatch(t, settings{linger: time.Second}, demandNone, demandNone, demandNone)
		s.want(t, []int{0, 1, 2})
		s.set(1, demandSealed)
		d.check(1)
		s.want(t, []int{1, 1, 1, 1}, "1 false 0s", "1 false 0s", "1 false 0s")
		s.set(0, demandAll)
		s.set(2, demandAll)
		d.checkAll()
		s.want(t, []int{0, 0, 1, 2, 2}, "0 true 0s", "2 true 0s")
	})
}

// TestDispatchWaitsForDisk tries a lane again when it has changed, and not before.
func TestDispatchWaitsForDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testSchedule{blocked: true}
		d := s.dispatch(t, settings{linger: time.Second}, demandSealed)
		advance(time.Hour)
		s.want(t, []int{0}, "0 false 0s")
		s.mu.Lock()
		s.blocked = false
		s.mu.Unlock()
		d.check(0)
		s.want(t, []int{0, 0}, "0 false 1h0m0s")
	})
}
