package spool

import (
	"io"
	"os"
	"path/filepath"
)

// FS is the part of a file system that a spool needs. There is one real
// implementation, taken when Options.FS is nil; the interface exists so that
// tests can lose power, fill the disk and break fsync at any place.
//
// A spool calls it from several goroutines. Names are those given in Options.Dir
// joined with the names of files. An error for a lack of space must satisfy
// errors.Is with syscall.ENOSPC, EDQUOT or EFBIG; one for a missing file
// fs.ErrNotExist.
type FS interface {
	// MkdirAll makes a folder and those above it, if they are missing.
	MkdirAll(name string) error
	// ReadDir returns the names of what is in a folder, sorted.
	ReadDir(name string) ([]string, error)
	// Create makes a file that must not exist, for reading and writing.
	Create(name string) (File, error)
	// Open opens a file that exists, for reading and writing.
	Open(name string) (File, error)
	// Remove deletes a file. Open files stay readable, or the error says that
	// they are in use.
	Remove(name string) error
	// Rename moves a file over another, atomically.
	Rename(from, to string) error
	// SyncDir makes the entries of a folder durable.
	SyncDir(name string) error
	// Lock takes the lock of a file, made if missing, that ends with the
	// process at the latest. It does not wait: ErrLocked says that another has it.
	Lock(name string) (io.Closer, error)
}

// File is an open file. Its methods may be called from several goroutines;
// ranges written at the same time do not overlap.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate sets the length; what is added reads as zeros.
	Truncate(size int64) error
	// Preallocate reserves disk for the first size bytes and makes the file that
	// long; what is added reads as zeros. errors.ErrUnsupported is no harm.
	Preallocate(size int64) error
	// Sync makes everything written durable, with the length that reading it
	// needs.
	Sync() error
}

// disk is the real file system.
type disk struct{}

const (
	dirMode  = 0o700 // events are private
	fileMode = 0o600
)

func (disk) MkdirAll(name string) error { return os.MkdirAll(name, dirMode) }

func (disk) ReadDir(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (disk) Create(name string) (File, error) { return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL) }

func (disk) Open(name string) (File, error) { return open(name, os.O_RDWR) }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err // not a File that holds a nil *os.File
	}
	return diskFile{f}, nil
}

func (disk) Remove(name string) error { return os.Remove(name) }

func (disk) Rename(from, to string) error { return os.Rename(from, to) }

func (disk) SyncDir(name string) error { return syncDir(filepath.Clean(name)) }

func (disk) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		_ = f.Close() // the lock's error says more
		return nil, err
	}
	return f, nil
}

// diskFile is an *os.File with what the standard library leaves out.
type diskFile struct{ *os.File }

func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
