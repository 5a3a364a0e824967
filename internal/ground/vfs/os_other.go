//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package vfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// full are the errors that go away with more space.
var full = []error{syscall.Errno(syscall.ENOSPC)}

func lock(f *os.File) error {
	return fmt.Errorf("lock %s: %w on this system", f.Name(), errors.ErrUnsupported)
}

func unlock(*os.File) error { return nil } // no file is ever locked
