package program

import (
	"errors"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// CanForget reports whether [Forget] does something.
const CanForget = true

// Pinned calls start, which starts a process, so that the process stays on the
// given processors; on any if there are none. A process inherits what the thread
// that forks it may use.
func Pinned(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	var before, during unix.CPUSet
	for _, c := range cpus {
		during.Set(c)
	}
	runtime.LockOSThread()
	if err := errors.Join(unix.SchedGetaffinity(0, &before), unix.SchedSetaffinity(0, &during)); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err := start()
	if restored := unix.SchedSetaffinity(0, &before); restored != nil {
		return errors.Join(err, restored) // the thread stays locked, so that no other goroutine gets it
	}
	runtime.UnlockOSThread()
	return err
}

// Processors returns the processors that this process may use.
func Processors() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	for c := range 64 * len(set) {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// CPUTime returns the processor time that this process has used.
func CPUTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot happen, as the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Forget has the system drop the pages of a file from memory. Pages that a
// process has mapped stay.
func Forget(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil { // pages that are not written stay
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
