//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package spool

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// full are the errors that more space takes away.
var full = []error{syscall.Errno(syscall.ENOSPC)}

func lock(f *os.File) error {
	return fmt.Errorf("lock %s: %w on this system", f.Name(), errors.ErrUnsupported)
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
