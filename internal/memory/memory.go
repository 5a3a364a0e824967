// Package memory finds out how much memory the program may take. The package must not know
// what takes it.
package memory

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Limit returns the least of what the machine has, the cgroup, RLIMIT_DATA and RLIMIT_AS,
// and GOMEMLIMIT allow, in bytes. What cannot be read limits nothing: without any, it is
// 1 GiB.
func Limit() int64 {
	least := uint64(math.MaxInt64)
	for _, limit := range []func() (uint64, error){memlimit.FromSystem, memlimit.FromCgroup, resources} {
		if n, err := limit(); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	if least = min(least, uint64(debug.SetMemoryLimit(-1))); least == math.MaxInt64 {
		return 1 << 30
	}
	return int64(least)
}
