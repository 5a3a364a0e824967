package vfs

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Preallocate uses fallocate, so that appends within the size neither run out of disk
// nor change the length, which fsync would have to write as well.
func (f osFile) Preallocate(size int64) error {
	err := uninterrupted(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("preallocate %s: %w", f.Name(), errors.ErrUnsupported)
	}
	if err != nil {
		return &os.PathError{Op: "preallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// Sync is fdatasync: only the times of the file may be lost.
func (f osFile) Sync() error {
	// An fsync that failed must not be repeated, but one that a signal interrupted
	// was not made.
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

// FreeBytes returns how much room a program has on the disk of a folder; math.MaxInt64 if that is not known.
func FreeBytes(dir string) int64 {
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil {
		return math.MaxInt64
	}
	return int64(min(at.Bavail*uint64(at.Bsize), math.MaxInt64))
}
