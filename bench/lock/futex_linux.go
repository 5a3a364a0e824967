package main

import (
	"sync"
	"unsafe"

	"github.com/uniflow-labs/uniflow/lock/futex"
)

// futexSubjects returns the locks that sleep in the kernel.
func futexSubjects() []subject {
	return []subject{
		goSubject("futex.Pthread", int(unsafe.Sizeof(futex.Pthread{})), func() sync.Locker { return &new(padded[futex.Pthread]).l }),
		goSubject("futex.Spinning", int(unsafe.Sizeof(futex.Spinning{})), func() sync.Locker { return &new(padded[futex.Spinning]).l }),
		goSubject("futex.Blocking", int(unsafe.Sizeof(futex.Blocking{})), func() sync.Locker { return &new(padded[futex.Blocking]).l }),
		goSubject("futex.Mutex", int(unsafe.Sizeof(futex.Mutex{})), func() sync.Locker { return &new(padded[futex.Mutex]).l }),
	}
}
