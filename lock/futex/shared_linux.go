package futex

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The states of the word.
const (
	free      uint32 = iota
	held             // no thread sleeps
	contended        // a thread may sleep
)

// Operations of the system call, from linux/futex.h.
const (
	opWait = 0
	opWake = 1
)

// A Shared is a lock in memory that processes share, at the same offset in the
// mapping of each process; see [At]. It is four bytes, all zero when unlocked.
type Shared struct{ word uint32 }

// At returns the lock in the first four bytes of memory, which must be part of a
// shared mapping (mmap with MAP_SHARED). Keep it mapped as long as you use the lock.
// The address must be a multiple of four.
func At(memory []byte) (*Shared, error) {
	if len(memory) < 4 {
		return nil, fmt.Errorf("futex: a lock needs 4 bytes, got %d", len(memory))
	}
	p := unsafe.Pointer(unsafe.SliceData(memory))
	if uintptr(p)%4 != 0 {
		return nil, fmt.Errorf("futex: the address of a lock must be a multiple of 4, it is %d more", uintptr(p)%4)
	}
	return (*Shared)(p), nil
}

// Lock locks s, and blocks the thread while the lock is held.
func (s *Shared) Lock() {
	if s.TryLock() {
		return
	}
	if atomic.LoadUint32(&s.word) == contended {
		s.wait()
	}
	// A thread that has slept leaves the word contended, because others may sleep.
	for atomic.SwapUint32(&s.word, contended) != free {
		s.wait()
	}
}

// TryLock locks s if it is free, and reports whether it did.
func (s *Shared) TryLock() bool { return atomic.CompareAndSwapUint32(&s.word, free, held) }

// Unlock unlocks s, and wakes one waiting thread of any process.
func (s *Shared) Unlock() {
	switch atomic.SwapUint32(&s.word, free) {
	case free:
		panic("futex: unlock of unlocked mutex")
	case contended:
		if errno := s.call(opWake, 1); errno != 0 {
			panic("futex: wake: " + errno.Error())
		}
	}
}

// wait sleeps until the word is woken, if it is still contended. It may return
// without a reason, so callers check the word again.
func (s *Shared) wait() {
	switch errno := s.call(opWait, uintptr(contended)); errno {
	case 0, unix.EAGAIN, unix.EINTR: // woken; another value; a signal
	default:
		panic("futex: wait: " + errno.Error()) // the memory is not mapped any more
	}
}

func (s *Shared) call(op, value uintptr) syscall.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.word)), op, value, 0, 0, 0)
	return errno
}
