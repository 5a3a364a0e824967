//go:build !linux

package vfs

import (
	"errors"
	"fmt"
)

// Preallocate is not supported: the portable ways write zeros.
func (f osFile) Preallocate(int64) error {
	return fmt.Errorf("preallocate %s: %w", f.Name(), errors.ErrUnsupported)
}
