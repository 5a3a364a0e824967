package spool

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Preallocate uses fallocate, so that appending within the size neither runs out
// of disk nor changes the length, which fsync would have to write as well.
func (f diskFile) Preallocate(size int64) error {
	err := uninterrupted(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("preallocate %s: %w", f.Name(), errors.ErrUnsupported)
	}
	if err != nil {
		return &os.PathError{Op: "preallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// Sync is fdatasync, which leaves out the times of the file only.
func (f diskFile) Sync() error {
	// fsync is not repeated after an error (see Spool), but a call that a signal
	// interrupted has not been made.
	if err := uninterrupted(func() error { return unix.Fdatasync(int(f.Fd())) }); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
