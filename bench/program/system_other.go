//go:build !linux

package program

import (
	"runtime"
	"time"
)

// CanForget reports whether [Forget] does something.
const CanForget = false

// Pinned calls start. Only on Linux is the process confined to processors.
func Pinned(_ []int, start func() error) error { return start() }

// Processors returns the processors that this process may use.
func Processors() ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}

// CPUTime returns 0: it is not known here.
func CPUTime() time.Duration { return 0 }

// Forget does nothing.
func Forget(string) error { return nil }
