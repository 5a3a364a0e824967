package main

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// pinned calls start on a thread that may use the given processors only, which
// a process that start starts inherits; on any if there are none.
func pinned(cpus []int, start func() error) error {
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
		return errors.Join(err, restored) // and the thread stays locked, so that nobody else gets it
	}
	runtime.UnlockOSThread()
	return err
}

// processors returns those that this process may use.
func processors() ([]int, error) {
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
