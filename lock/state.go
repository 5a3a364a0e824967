package lock

// The states of a mutex.
const (
	// The lock is free.
	free uint32 = iota
	// The lock is held, and no goroutine sleeps.
	held
	// The lock is held, and goroutines may sleep.
	contended
	// The lock is held, and the holder hands it to the first sleeper instead of
	// freeing it.
	owed
)

// A ticket is what a locker knows about its wait. A new locker has the zero value.
type ticket struct {
	others bool // there were more sleepers when this one was woken, and they depend on it
	late   bool // it has waited so long that it may ask for a hand-over
}

// entering returns the new state when a locker finds state old. It has the lock if old
// was free. Otherwise it sleeps if the state is still the same then (see mayAdd).
func entering(old uint32, t ticket) uint32 {
	switch {
	case old == free && t.others:
		return contended
	case old == free:
		return held
	case old == owed || t.late:
		return owed
	default:
		return contended
	}
}

// mayAdd reports whether a locker may sleep for a mutex in state s, so that another
// goroutine is certain to wake it. It is checked while the place is locked.
func mayAdd(s uint32) bool { return s == contended || s == owed }

// A duty is what an unlocker has to do in addition to changing the state.
type duty uint8

const (
	refuse   duty = iota // the mutex is not locked
	nothing              // the state is all
	wakeOne              // once the state is changed
	handOver             // instead of changing the state
)

// leaving returns the new state and the duty when an unlocker finds state old.
func leaving(old uint32) (uint32, duty) {
	switch old {
	case held:
		return free, nothing
	case contended:
		return free, wakeOne
	case owed:
		return owed, handOver
	default:
		return old, refuse
	}
}

// handing returns the state of a mutex after a hand-over. found says whether there was
// a sleeper to take it, others whether there are more. The state is never owed: to hand
// the lock from one late sleeper to the next, as sync.Mutex does, is a switch of
// goroutines for every section, which cost 200 goroutines with sections of 1 µs up to a
// fifth of their throughput.
func handing(found, others bool) uint32 {
	switch {
	case !found:
		return free
	case others:
		return contended
	default:
		return held
	}
}
