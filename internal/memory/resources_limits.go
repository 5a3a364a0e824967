//go:build linux || darwin || freebsd

package memory

import (
	"math"

	"golang.org/x/sys/unix"
)

// resources returns what the limits of the process allow.
func resources() (uint64, error) {
	least := uint64(math.MaxUint64)
	for _, which := range []int{unix.RLIMIT_DATA, unix.RLIMIT_AS} {
		var r unix.Rlimit
		if err := unix.Getrlimit(which, &r); err != nil {
			return 0, err
		}
		least = min(least, uint64(r.Cur))
	}
	return least, nil
}
