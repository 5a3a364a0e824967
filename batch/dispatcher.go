package batch

import (
	"context"
	"sync"
	"time"
)

// A dispatcher decides which lane sends its next batch, and when. It has one goroutine.
// Its lock may be taken under any other.
type dispatcher struct {
	linger, idle time.Duration // of Trigger
	lanes        []laneClock   // by lane.id; owned by run
	changed      []bool        // the lanes to check now; owned by run
	env          dispatchEnv

	woken chan struct{} // capacity 1, since one signal is enough
	mu    struct {
		sync.Mutex
		changed []bool // by lane.id, since run has checked the lane
	}
}

// A dispatchEnv is what a dispatcher needs of its pipeline. Lanes are named by lane.id.
type dispatchEnv struct {
	// demand says which batch the lane may send now. With demandTimed, first is when
	// the oldest waiting event was added.
	demand func(lane int) (d demand, first time.Time)
	// accepted returns how many events the lane has accepted. It is called with
	// Trigger.Idle only.
	accepted func(lane int) uint64
	// start makes a batch of what waits in the lane and sends it, with the open chunks
	// if open is true. It reports false if the chunks have to wait for the disk.
	start func(lane int, open bool, now time.Time) bool
}

// A demand says whether a batch of a lane is due.
type demand uint8

const (
	demandNone   demand = iota // nothing waits, or it may not be sent now
	demandTimed                // it is due when Trigger.Linger or Trigger.Idle says so
	demandSealed               // a batch of the sealed chunks is due
	demandAll                  // so is one with the open chunks
)

// A laneClock is what a dispatcher knows about a lane.
type laneClock struct {
	next           time.Time // when to check the lane if nothing changes; zero: never
	accepted       uint64    // events accepted until the last check
	unchangedSince time.Time // since when accepted has not changed
}

func newDispatcher(s *settings, env dispatchEnv) *dispatcher {
	d := &dispatcher{
		linger: s.linger, idle: s.idle, lanes: make([]laneClock, s.laneCount), changed: make([]bool, s.laneCount),
		env: env, woken: make(chan struct{}, 1),
	}
	d.mu.changed = make([]bool, s.laneCount)
	d.checkAll()
	return d
}

func (d *dispatcher) check(lane int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.changed[lane] = true
	notify(d.woken)
}

// checkAll makes the dispatcher check all lanes.
func (d *dispatcher) checkAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.mu.changed {
		d.mu.changed[i] = true
	}
	notify(d.woken)
}

// run sends what is due, until ctx ends. Its one timer is set for the first moment at
// which something may become due, and is stopped if nothing waits.
func (d *dispatcher) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := d.step(time.Now())
		timer.Stop()
		var due <-chan time.Time
		if next >= 0 {
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-d.woken:
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}

// step starts every batch that is due, and returns the time until the next one may
// be due. It is negative if only a change can make one due.
func (d *dispatcher) step(now time.Time) (next time.Duration) {
	d.takeChanged()
	next = -1
	for i := range d.lanes {
		l := &d.lanes[i]
		if d.changed[i] || !l.next.IsZero() && !now.Before(l.next) {
			l.next = d.serve(i, now)
		}
		if l.next.IsZero() {
			continue
		}
		if wait := max(0, l.next.Sub(now)); next < 0 || wait < next {
			next = wait
		}
	}
	return next
}

func (d *dispatcher) takeChanged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.changed, d.mu.changed)
	clear(d.mu.changed)
}

// serve starts every batch of a lane that is due, and returns when to check the
// lane again if nothing changes; zero means never.
func (d *dispatcher) serve(lane int, now time.Time) (next time.Time) {
	for {
		due, open, wait := d.due(lane, now)
		if !due && wait >= 0 {
			return now.Add(wait)
		}
		if !due || !d.env.start(lane, open, now) {
			return time.Time{}
		}
	}
}

// due reports whether a batch of a lane is due and may be sent, and whether it needs
// the events of open chunks. If none is, it returns the time until one may be; negative
// means never.
func (d *dispatcher) due(lane int, now time.Time) (due, open bool, wait time.Duration) {
	l := &d.lanes[lane]
	moved := d.idle > 0 && d.acceptedMore(lane)
	demand, first := d.env.demand(lane)
	if demand != demandTimed {
		return demand != demandNone, demand == demandAll, -1
	}
	wait = -1
	if d.linger > 0 {
		if wait = first.Add(d.linger).Sub(now); wait <= 0 {
			return true, true, 0
		}
	}
	if d.idle > 0 {
		if moved || l.unchangedSince.Before(first) {
			l.unchangedSince = now
		}
		rest := l.unchangedSince.Add(d.idle).Sub(now)
		if rest <= 0 {
			return true, true, 0
		}
		// Events between now and then are noticed only by a check.
		if rest = min(rest, max(d.idle/4, time.Millisecond)); wait < 0 || rest < wait {
			wait = rest
		}
	}
	return false, false, wait
}

// acceptedMore reports whether the lane has accepted events since the last call.
func (d *dispatcher) acceptedMore(lane int) bool {
	was := d.lanes[lane].accepted
	d.lanes[lane].accepted = d.env.accepted(lane)
	return d.lanes[lane].accepted != was
}
