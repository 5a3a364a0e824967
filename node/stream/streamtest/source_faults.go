package streamtest

import (
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
)

// backlog is how many messages produceUntil is ahead at most.
const backlog = 2000

// produceUntil produces on a goroutine of its own, until end is called, which returns when
// that has ended.
func (r *rig) produceUntil() (end func()) {
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		every(5*time.Millisecond, stop, func() {
			if r.made()-r.ledger.tally().done < backlog {
				r.produce(20, 20, 100)
			}
		})
	})
	end = sync.OnceFunc(func() {
		close(stop)
		work.Wait()
	})
	r.Cleanup(end) // if the row ends early
	return end
}

// progress waits until more messages than before are answered, or all.
func (r *rig) progress(what string, within time.Duration) {
	r.Helper()
	before := r.ledger.tally().done
	r.until(what, within, func() bool { done := r.ledger.tally().done; return done > before || done == r.made() })
}

// sourceResets: connections break at any byte, of messages and of acknowledgements.
func sourceResets(r *rig) {
	breaks := faultproxy.Severs(r.rnd, 20_000)
	r.load(r.source(nil))
	end := r.produceUntil()
	r.progress("messages come", patience)
	for range scale(3, 30) {
		r.proxy.Set(breaks)
		r.proxy.Break()
		seen := r.proxy.Seen()
		r.until("three connections were made and reset", patience, func() bool { return r.proxy.Seen() > seen+3 })
		r.proxy.Set(nil)
		r.progress("messages come after the resets", resume())
	}
	end()
	r.proxy.Set(nil)
	r.proxy.Break()
	r.allDone()
}

func hole(r *rig) { r.proxy.Disturb(faultproxy.Trouble{Hole: true}) }
func slow(r *rig) { r.proxy.Disturb(faultproxy.Trouble{Rate: 1}) }

// last is how long trouble lasts.
func last() time.Duration { return time.Duration(scale(500, 10_000)) * time.Millisecond }

// sourceTrouble: nothing passes, or nearly so; then it goes on.
func sourceTrouble(begin func(*rig)) func(*rig) {
	return func(r *rig) {
		r.load(r.source(nil))
		end := r.produceUntil()
		for range scale(2, 5) {
			r.progress("messages come", patience)
			begin(r)
			r.pause(last())
			r.proxy.Heal()
			r.progress("messages come after it has healed", resume())
		}
		end()
		r.allDone()
	}
}

// pause waits, while there is trouble.
func (r *rig) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// sourceRestarts: the system ends, and comes back with what it had.
func sourceRestarts(r *rig) {
	r.load(r.source(nil))
	for range scale(3, 20) {
		r.produce(200, 50, 100)
		r.progress("messages come", patience)
		r.system.Restart(r)
		if r.proxy != nil {
			r.proxy.Retarget(r.system.Addr)
		}
		r.produce(50, 50, 100)
		r.progress("messages come after the restart", resume())
	}
	r.allDone()
}
