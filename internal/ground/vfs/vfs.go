// Package vfs is the file system as logs and stores use it: files that are
// written at offsets, made durable file by file and folder by folder, and locked
// against a second process. Package vfstest has an implementation in memory that
// loses power, fills up and breaks as real ones do.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// ErrLocked is returned by FS.Lock for a file that is locked already.
var ErrLocked = errors.New("in use by another process, or opened twice")

// FS is a file system. Methods may be called from several goroutines. Names are
// paths of the operating system. An error for a lack of space must be one that
// IsFull recognizes; an error for a missing file must match fs.ErrNotExist.
type FS interface {
	// MkdirAll makes a folder and its parents, if they are missing.
	MkdirAll(name string) error
	// ReadDir returns the names of the entries of a folder, sorted.
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
	// Lock locks a file, which it makes if missing, until the Closer is closed or
	// the process ends. It does not wait: if the file is locked, the error is
	// ErrLocked.
	Lock(name string) (io.Closer, error)
}

// File is an open file. Its methods may be called from several goroutines.
// Ranges that are written concurrently do not overlap.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate sets the length. Added bytes read as zeros.
	Truncate(size int64) error
	// Preallocate reserves disk for the first size bytes and makes the file that
	// long. Added bytes read as zeros. A caller can ignore errors.ErrUnsupported.
	Preallocate(size int64) error
	// Sync makes all writes durable, and the length that reading them needs.
	Sync() error
}

// OS is the file system of the operating system.
type OS struct {
	// ReadOnly opens existing files for reading only, for a user without the
	// right to write them.
	ReadOnly bool
	// Public makes files and folders that other users can read. By default they
	// are private.
	Public bool
}

func (o OS) MkdirAll(name string) error {
	if o.Public {
		return os.MkdirAll(name, 0o755)
	}
	return os.MkdirAll(name, 0o700)
}

func (OS) ReadDir(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (o OS) Create(name string) (File, error) { return o.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL) }

func (o OS) Open(name string) (File, error) {
	if o.ReadOnly {
		return o.open(name, os.O_RDONLY)
	}
	return o.open(name, os.O_RDWR)
}

func (o OS) open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, o.fileMode())
	if err != nil {
		return nil, err // not a File that holds a nil *os.File
	}
	return osFile{f}, nil
}

func (o OS) fileMode() fs.FileMode {
	if o.Public {
		return 0o644
	}
	return 0o600
}

func (OS) Remove(name string) error { return os.Remove(name) }

func (OS) Rename(from, to string) error { return os.Rename(from, to) }

func (OS) SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there; the file system logs changes of names
	}
	d, err := os.Open(filepath.Clean(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (o OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, o.fileMode())
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		_ = f.Close() // the lock's error says more
		return nil, err
	}
	return lockFile{f}, nil
}

// A lockFile is a file that is locked until Close.
type lockFile struct{ *os.File }

// Close unlocks the file itself: a program that is being started holds a copy of the
// descriptor until it runs, and closing ours alone would leave the lock to it.
func (l lockFile) Close() error { return errors.Join(unlock(l.File), l.File.Close()) }

// osFile adds to *os.File what the standard library does not have.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// IsFull reports whether an error goes away when there is more space, or a higher
// limit.
func IsFull(err error) bool {
	return slices.ContainsFunc(full, func(f error) bool { return errors.Is(err, f) })
}

// ReadFile returns the content of a file.
func ReadFile(fsys FS, name string) (b []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b = make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}
