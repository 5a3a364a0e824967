package trail

import (
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A tapFS calls hit before each operation that changes something, outside of the
// file system's lock.
type tapFS struct {
	vfs.FS
	hit atomic.Pointer[func()]
}

func (f *tapFS) tap() {
	if hit := f.hit.Load(); hit != nil {
		(*hit)()
	}
}

func (f *tapFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return tapFile{file, f}, nil
}

func (f *tapFS) Create(name string) (vfs.File, error) {
	f.tap()
	return f.wrap(f.FS.Create(name))
}

func (f *tapFS) Open(name string) (vfs.File, error) { return f.wrap(f.FS.Open(name)) }

func (f *tapFS) Remove(name string) error {
	f.tap()
	return f.FS.Remove(name)
}

func (f *tapFS) Rename(from, to string) error {
	f.tap()
	return f.FS.Rename(from, to)
}

func (f *tapFS) SyncDir(name string) error {
	f.tap()
	return f.FS.SyncDir(name)
}

type tapFile struct {
	vfs.File
	fs *tapFS
}

func (f tapFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.tap()
	return f.File.WriteAt(p, off)
}

func (f tapFile) Truncate(size int64) error {
	f.fs.tap()
	return f.File.Truncate(size)
}

func (f tapFile) Sync() error {
	f.fs.tap()
	return f.File.Sync()
}
