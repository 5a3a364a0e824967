// Package futex has a lock for memory that processes share, on Linux's futex system
// call: [Shared]. On other systems the package is empty.
//
// Use it for a word in memory that several processes map. It is not a lock for
// goroutines: a goroutine that waits in a system call blocks its thread, so a thousand
// waiting goroutines are a thousand threads (the runtime ends the program at ten
// thousand), and a woken one must get a processor first, which takes microseconds.
// Package lock and sync.Mutex put goroutines to sleep without the kernel.
//
// If a process dies while it holds the lock, the lock stays held. So hold it for a few
// instructions only. Use a file lock for what must end with a process.
//
// The algorithm is the third mutex of Ulrich Drepper, "Futexes Are Tricky". The zero
// value is unlocked, and must not be copied after use. Unlock of an unlocked lock
// panics.
package futex
