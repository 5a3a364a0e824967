package main

import (
	"errors"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startOn starts a command that stays on the given processors; on any if there
// are none. A child inherits what its parent's thread may use, so the thread is
// confined while it forks.
func startOn(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
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
	err := cmd.Start()
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
