//go:build unix

package arm

import (
	"syscall"
	"time"
)

// used returns the CPU time that this process has taken.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // the arguments being right, it cannot be
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
