//go:build !linux && !darwin && !freebsd

package memory

import "math"

// resources returns that nothing is limited.
func resources() (uint64, error) { return math.MaxUint64, nil }
