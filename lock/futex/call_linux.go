package futex

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of the system call, of linux/futex.h.
const (
	opWait    = 0
	opWake    = 1
	opPrivate = 128 // the word is in the memory of one process only, which is faster to find
)

// everybody is a number of sleepers to wake.
const everybody = 1<<31 - 1

// The states of a word.
const (
	free      uint32 = iota
	held             // and nobody sleeps
	contended        // and somebody may sleep
)

// wait sleeps until the word is woken, if its value is contended when the kernel
// looks. It may return for no reason, so callers look again.
func wait(word *uint32, private uintptr) {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWait|private, uintptr(contended), 0, 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR: // woken; it has another value by now; a signal
	default:
		panic("futex: wait: " + errno.Error()) // the memory is gone
	}
}

// wake wakes as many as n of those who sleep.
func wake(word *uint32, n, private uintptr) {
	if _, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWake|private, n, 0, 0, 0); errno != 0 {
		panic("futex: wake: " + errno.Error())
	}
}

func tryLock(word *uint32) bool { return atomic.CompareAndSwapUint32(word, free, held) }

// lockOne is for locks that wake one. A locker who has slept leaves the word
// contended, since there may be others who do.
func lockOne(word *uint32, private uintptr) {
	if tryLock(word) {
		return
	}
	if atomic.LoadUint32(word) == contended {
		wait(word, private)
	}
	for atomic.SwapUint32(word, contended) != free {
		wait(word, private)
	}
}

// lockAll is for locks that wake all, who may then forget about one another.
func lockAll(word *uint32, spins int) {
	for {
		for range spins + 1 {
			if atomic.LoadUint32(word) == free && tryLock(word) {
				return
			}
		}
		if atomic.LoadUint32(word) == contended || atomic.CompareAndSwapUint32(word, held, contended) {
			wait(word, opPrivate)
		}
	}
}

func unlock(word *uint32, n, private uintptr) {
	switch atomic.SwapUint32(word, free) {
	case free:
		panic("futex: unlock of unlocked mutex")
	case contended:
		wake(word, n, private)
	}
}
