package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// canForget tells whether forget does something.
const canForget = true

// forget has the system drop what it keeps of a file in memory. Pages that a
// process has mapped stay.
func forget(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil { // pages that are not written stay
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
