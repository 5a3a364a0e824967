// Package futex has locks on Linux's futex system call, for threads and for
// memory that processes share. On other systems it is empty.
//
// They are not for goroutines. A goroutine that waits in a system call takes its
// thread with it, so that a thousand that wait are a thousand threads (the
// runtime ends the program at ten thousand), and one that is woken must find a
// processor again, which takes microseconds; package lock and sync.Mutex put
// goroutines to sleep without the kernel. What is left for a futex is a word in
// memory that is mapped by several processes, such as the one that says who owns
// a spool: [Shared]. Nobody notices if a process dies with the lock: keep it for
// a few instructions, and leave to the locks of files what must end with a
// process.
//
// The others are within one process, and there to be compared, by bench/lock:
//
//   - [Pthread], 40 bytes: what the C library does for a mutex of the default
//     kind, on a struct of the same layout.
//   - [Spinning], 4 bytes: looks at the lock a hundred times before it sleeps, and
//     wakes all who sleep.
//   - [Blocking], 4 bytes: the same without spinning.
//   - [Mutex], 4 bytes: wakes one, who takes care of those who sleep on. This is
//     the third mutex of Ulrich Drepper, "Futexes Are Tricky".
//
// The zero values are unlocked, and none may be copied after use. Unlocking what
// is not locked panics. The package needs golang.org/x/sys/unix, and nothing of
// the project.
package futex
