package futex

import (
	"fmt"
	"unsafe"
)

// A Shared is a lock in memory that processes share, at the same offset in each
// process's mapping; see [At]. It is four bytes, all zero when unlocked.
type Shared struct{ word uint32 }

// At returns the lock in the first four bytes of memory, which is to come from a
// shared mapping (mmap with MAP_SHARED), and stays the caller's: it must be
// mapped for as long as the lock is used. The address must be a multiple of four.
func At(memory []byte) (*Shared, error) {
	if len(memory) < 4 {
		return nil, fmt.Errorf("futex: %d bytes, want 4 for a lock", len(memory))
	}
	p := unsafe.Pointer(unsafe.SliceData(memory))
	if uintptr(p)%4 != 0 {
		return nil, fmt.Errorf("futex: the lock is %d bytes past a multiple of four, want 0", uintptr(p)%4)
	}
	return (*Shared)(p), nil
}

// Lock locks s, and blocks the thread while others have it.
func (s *Shared) Lock() { lockOne(&s.word, 0) }

// TryLock locks s if it is free, and reports whether it did.
func (s *Shared) TryLock() bool { return tryLock(&s.word) }

// Unlock unlocks s, and wakes one who waits, in whichever process.
func (s *Shared) Unlock() { unlock(&s.word, 1, 0) }

// A Mutex is the lock with three states that wakes one, for threads.
type Mutex struct{ word uint32 }

// Lock locks m, and blocks the thread while others have it.
func (m *Mutex) Lock() { lockOne(&m.word, opPrivate) }

// TryLock locks m if it is free, and reports whether it did.
func (m *Mutex) TryLock() bool { return tryLock(&m.word) }

// Unlock unlocks m, and wakes one who waits.
func (m *Mutex) Unlock() { unlock(&m.word, 1, opPrivate) }

// A Blocking is a lock that sleeps at once and wakes all, for threads.
type Blocking struct{ word uint32 }

// Lock locks b, and blocks the thread while others have it.
func (b *Blocking) Lock() { lockAll(&b.word, 0) }

// TryLock locks b if it is free, and reports whether it did.
func (b *Blocking) TryLock() bool { return tryLock(&b.word) }

// Unlock unlocks b, and wakes all who wait.
func (b *Blocking) Unlock() { unlock(&b.word, everybody, opPrivate) }

// spins is how often a Spinning lock is looked at before sleeping: what the
// standard library of Rust does, and some 100 ns.
const spins = 100

// A Spinning is a lock that spins before it sleeps and wakes all, for threads.
type Spinning struct{ word uint32 }

// Lock locks s, and blocks the thread while others have it for long.
func (s *Spinning) Lock() { lockAll(&s.word, spins) }

// TryLock locks s if it is free, and reports whether it did.
func (s *Spinning) TryLock() bool { return tryLock(&s.word) }

// Unlock unlocks s, and wakes all who wait.
func (s *Spinning) Unlock() { unlock(&s.word, everybody, opPrivate) }

// A Pthread is a lock with what the C library keeps besides the word, for threads.
type Pthread struct {
	word  uint32
	_     uint32 // how often a recursive mutex is locked
	owner int32  // 1 and not a thread's number, which C has at hand and Go would ask the kernel for
	users uint32
	_     int32    // its kind, the default being 0
	_     [2]int16 // of other kinds
	_     [16]byte // the list of the robust ones
}

// Lock locks p, and blocks the thread while others have it.
func (p *Pthread) Lock() {
	lockOne(&p.word, opPrivate)
	p.owner = 1
	p.users++
}

// TryLock locks p if it is free, and reports whether it did.
func (p *Pthread) TryLock() bool {
	if !tryLock(&p.word) {
		return false
	}
	p.owner = 1
	p.users++
	return true
}

// Unlock unlocks p, and wakes one who waits.
func (p *Pthread) Unlock() {
	p.owner = 0
	p.users--
	unlock(&p.word, 1, opPrivate)
}
