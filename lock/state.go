package lock

// The states of a mutex.
const (
	// Nobody has the lock.
	free uint32 = iota
	// Somebody has it, and need not look for sleepers when unlocking.
	held
	// Somebody has it, and there may be sleepers.
	contended
	// Somebody has it and does not free it, but passes it on to the sleeper who
	// is first.
	owed
)

// A ticket is what a locker knows that changes what it does to the state. Its
// zero value is that of one who has just come.
type ticket struct {
	others bool // there were more sleepers when this one was woken: they depend on it
	late   bool // it has waited for so long that it may ask to be handed the lock
}

// entering returns what a locker makes of a mutex that it finds in state old. It
// has the lock if old was free; otherwise it may sleep if that is still the
// state by then (see mayAdd).
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

// mayAdd reports whether a locker may go to sleep on a mutex in state s, which
// is looked at while the place is locked: is somebody sure to come and wake it?
func mayAdd(s uint32) bool { return s == contended || s == owed }

// A duty is what an unlocker has to do.
type duty uint8

const (
	refuse   duty = iota // the mutex is not locked
	nothing              // but to change the state
	wakeOne              // once the state is changed
	handOver             // in place of changing the state
)

// leaving returns what an unlocker makes of a mutex that it finds in state old.
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

// handing returns the state of a mutex after a duty to hand it over: found says
// whether there was a sleeper to have it, others whether there are more. It is
// never owed to the next one as well. To hand it from one to the next as long as
// they are late, as sync.Mutex does, is a switch of goroutines for every section,
// which 200 goroutines with sections of 1 µs paid with up to a fifth.
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
