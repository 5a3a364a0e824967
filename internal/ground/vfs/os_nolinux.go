//go:build !linux

package vfs

import (
	"errors"
	"fmt"
	"math"
)

// Preallocate is not supported: the portable ways write zeros.
func (f osFile) Preallocate(int64) error {
	return fmt.Errorf("preallocate %s: %w", f.Name(), errors.ErrUnsupported)
}

// FreeBytes is math.MaxInt64: it is not known.
func FreeBytes(string) int64 { return math.MaxInt64 }
