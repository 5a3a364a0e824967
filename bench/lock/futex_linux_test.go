package lock_test

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// futexLocks returns the locks that sleep in the kernel.
func futexLocks() []subject {
	return []subject{
		of[pthreadLock]("futex.Pthread"), of[spinningLock]("futex.Spinning"),
		of[blockingLock]("futex.Blocking"), of[futexLock]("futex.Mutex"),
	}
}

// A futexLock wakes one waiter, who wakes the next: the third mutex of Ulrich
// Drepper, "Futexes Are Tricky".
type futexLock struct{ word futexWord }

func (l *futexLock) Lock()   { l.word.lockOne() }
func (l *futexLock) Unlock() { l.word.unlock(1) }

// A blockingLock sleeps immediately and wakes all waiters.
type blockingLock struct{ word futexWord }

func (l *blockingLock) Lock()   { l.word.lockAll(0) }
func (l *blockingLock) Unlock() { l.word.unlock(allWaiters) }

// A spinningLock spins before it sleeps, and wakes all waiters.
type spinningLock struct{ word futexWord }

func (l *spinningLock) Lock()   { l.word.lockAll(100) } // as Rust's standard library does: some 100 ns
func (l *spinningLock) Unlock() { l.word.unlock(allWaiters) }

// A pthreadLock does what the C library does for a default mutex, in the same layout.
type pthreadLock struct {
	word  futexWord
	_     uint32 // depth of a recursive mutex
	owner int32  // 1: C has the thread's number at hand, Go would have to ask the kernel
	users uint32
	_     int32    // kind, 0 by default
	_     [2]int16 // for other kinds
	_     [16]byte // list of robust mutexes
}

func (l *pthreadLock) Lock() {
	l.word.lockOne()
	l.owner = 1
	l.users++
}

func (l *pthreadLock) Unlock() {
	l.owner = 0
	l.users--
	l.word.unlock(1)
}

// The states of a futexWord, operations of linux/futex.h, and how many waiters all are.
const (
	wordFree, wordHeld, wordContended = 0, 1, 2

	opWait, opWake, opPrivate = 0, 1, 128

	allWaiters = 1<<31 - 1
)

type futexWord uint32

// lockOne is for locks that wake one waiter. A waiter leaves the word contended,
// because others may sleep.
func (w *futexWord) lockOne() {
	p := (*uint32)(w)
	if atomic.CompareAndSwapUint32(p, wordFree, wordHeld) {
		return
	}
	if atomic.LoadUint32(p) == wordContended {
		w.call(opWait, wordContended)
	}
	for atomic.SwapUint32(p, wordContended) != wordFree {
		w.call(opWait, wordContended)
	}
}

// lockAll is for locks that wake all waiters.
func (w *futexWord) lockAll(spins int) {
	p := (*uint32)(w)
	for {
		for range spins + 1 {
			if atomic.LoadUint32(p) == wordFree && atomic.CompareAndSwapUint32(p, wordFree, wordHeld) {
				return
			}
		}
		if atomic.LoadUint32(p) == wordContended || atomic.CompareAndSwapUint32(p, wordHeld, wordContended) {
			w.call(opWait, wordContended)
		}
	}
}

func (w *futexWord) unlock(waiters uintptr) {
	if atomic.SwapUint32((*uint32)(w), wordFree) == wordContended {
		w.call(opWake, waiters)
	}
}

// call makes the system call for a word that one process uses.
func (w *futexWord) call(op, value uintptr) {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), op|opPrivate, value, 0, 0, 0)
	if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR { // another value; a signal
		panic("futex: " + errno.Error())
	}
}
