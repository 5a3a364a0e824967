//go:build !linux

package spool

import (
	"errors"
	"fmt"
)

// Preallocate is left to the file system: the portable ways would write zeros.
func (f diskFile) Preallocate(int64) error {
	return fmt.Errorf("preallocate %s: %w", f.Name(), errors.ErrUnsupported)
}
