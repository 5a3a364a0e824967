//go:build unix

package exec_test

import (
	"syscall"
	"testing"
	"time"
)

// busy returns how long processors have worked for this process. It does not go on while the
// machine does other work, unlike a clock.
func busy(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
