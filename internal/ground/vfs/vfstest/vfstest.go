// Package vfstest has a file system in memory for tests that fails as real ones
// do. It loses power and the writes that were not synced, whole or in part. It
// becomes full in the middle of a write. Its fsync fails and drops the writes that
// it should have saved. Make one with New, write to it, and continue with what
// Crash returns.
package vfstest

import (
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// Op is an operation, for SetFail.
type Op string

// The operations that can be made to fail.
const (
	Create      Op = "create"
	Open        Op = "open"
	Read        Op = "read"
	Write       Op = "write"
	Truncate    Op = "truncate"
	Preallocate Op = "preallocate"
	Sync        Op = "sync"
	Remove      Op = "remove"
	Rename      Op = "rename"
	SyncDir     Op = "syncdir"
)

// FS is a file system in memory. Make one with New; all methods may be called
// from several goroutines.
type FS struct {
	mu struct {
		sync.Mutex
		names    map[string]*inode // as processes see them
		durable  map[string]*inode // as they are after a loss of power
		changes  []change          // of names, not yet durable, in order
		locks    map[string]bool
		capacity int64
		used     int64
		fail     func(op Op, name string) error
	}
}

// An inode is a file without its name.
type inode struct {
	data    []byte // as processes see it
	stable  []byte // as it is after a loss of power
	pending []edit // the writes since the last sync
	opened  int    // open files
	removed bool   // its space is free once no file is open
}

// An edit is a write, or a new length.
type edit struct {
	off    int64
	data   []byte
	length int64 // if data is nil
}

// A change gives a name to an inode, or removes the name if the inode is nil.
type change struct {
	name string
	to   *inode
}

// New returns an empty file system without limits.
func New() *FS {
	f := &FS{}
	f.mu.names = make(map[string]*inode)
	f.mu.durable = make(map[string]*inode)
	f.mu.locks = make(map[string]bool)
	f.mu.capacity = math.MaxInt64
	return f
}

// SetCapacity limits the total size of the files in bytes. A write beyond the
// limit writes what fits and returns ENOSPC. Overwriting takes no space.
func (f *FS) SetCapacity(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.capacity = n
}

// SetFail sets a hook that is called before each operation. If it returns an
// error, the operation does nothing and returns that. A failed Sync also drops the
// writes that it should have made durable, while they stay readable: a kernel that
// gives up dirty pages does the same.
func (f *FS) SetFail(fail func(op Op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.fail = fail
}

// Used returns the total size of the files in bytes.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.used
}

// Names returns the names of all files, sorted.
func (f *FS) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.mu.names))
	for name := range f.mu.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Content returns a copy of a file, or nil if it is missing.
func (f *FS) Content(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.mu.names[name]; n != nil {
		return slices.Clone(n.data)
	}
	return nil
}

// SetContent makes or replaces a file, durably.
func (f *FS) SetContent(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.mu.names[name]; n != nil {
		f.mu.used -= int64(len(n.data))
	}
	n := &inode{data: slices.Clone(data), stable: slices.Clone(data)}
	f.mu.used += int64(len(data))
	f.mu.names[name], f.mu.durable[name] = n, n
}

// Clone returns a file system with the same files, all durable, without locks,
// limits and hook.
func (f *FS) Clone() *FS {
	c := New()
	for _, name := range f.Names() {
		c.SetContent(name, f.Content(name))
	}
	return c
}

// Crash returns the file system as a loss of power now would leave it: with a
// prefix of the changes of names since the last SyncDir, and in each file what was
// synced and some of the later writes. rnd chooses which: either a prefix of the
// writes, with the last one torn, or any sectors of them. The original file system
// stays usable.
func (f *FS) Crash(rnd *rand.Rand) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make(map[string]*inode, len(f.mu.durable))
	for name, n := range f.mu.durable {
		names[name] = n
	}
	for _, c := range f.mu.changes[:rnd.IntN(len(f.mu.changes)+1)] {
		rename(names, c)
	}
	order := make([]string, 0, len(names))
	for name := range names {
		order = append(order, name)
	}
	slices.Sort(order) // for a result that depends on rnd alone
	after := New()
	for _, name := range order {
		after.SetContent(name, names[name].survive(rnd))
	}
	return after
}

func rename(names map[string]*inode, c change) {
	if c.to == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.to
	}
}

// survive returns the content after a loss of power.
func (n *inode) survive(rnd *rand.Rand) []byte {
	data := slices.Clone(n.stable)
	if rnd.IntN(2) == 0 { // a prefix
		kept := rnd.IntN(len(n.pending) + 1)
		for _, e := range n.pending[:kept] {
			data = e.apply(data)
		}
		if kept < len(n.pending) {
			if e := n.pending[kept]; e.data != nil {
				e.data = e.data[:rnd.IntN(len(e.data)+1)]
				data = e.apply(data)
			}
		}
		return data
	}
	const sector = 512
	for _, e := range n.pending {
		if e.data == nil {
			if rnd.IntN(2) == 0 {
				data = e.apply(data)
			}
			continue
		}
		for at := 0; at < len(e.data); {
			size := min(sector-int((e.off+int64(at))%sector), len(e.data)-at)
			if rnd.IntN(2) == 0 {
				data = edit{off: e.off + int64(at), data: e.data[at : at+size]}.apply(data)
			}
			at += size
		}
	}
	return data
}

func (e edit) apply(data []byte) []byte {
	if e.data == nil {
		return resize(data, e.length)
	}
	if end := e.off + int64(len(e.data)); end > int64(len(data)) {
		data = resize(data, end)
	}
	copy(data[e.off:], e.data)
	return data
}

func resize(data []byte, n int64) []byte {
	if n <= int64(len(data)) {
		return data[:n:n] // growing again gives zeros
	}
	return append(data, make([]byte, n-int64(len(data)))...)
}

func (f *FS) failLocked(op Op, name string) error {
	if f.mu.fail == nil {
		return nil
	}
	if err := f.mu.fail(op, name); err != nil {
		return &fs.PathError{Op: string(op), Path: name, Err: err}
	}
	return nil
}

// MkdirAll does nothing: a folder exists when a file is in it.
func (f *FS) MkdirAll(string) error { return nil }

// ReadDir returns the names of the files in a folder, sorted.
func (f *FS) ReadDir(dir string) ([]string, error) {
	var names []string
	for _, name := range f.Names() {
		if filepath.Dir(name) == filepath.Clean(dir) {
			names = append(names, filepath.Base(name))
		}
	}
	return names, nil
}

// Create makes an empty file.
func (f *FS) Create(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.failLocked(Create, name); err != nil {
		return nil, err
	}
	if f.mu.names[name] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	n := &inode{opened: 1}
	f.mu.names[name] = n
	f.mu.changes = append(f.mu.changes, change{name, n})
	return &file{f, name, n}, nil
}

// Open opens a file that exists.
func (f *FS) Open(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.failLocked(Open, name); err != nil {
		return nil, err
	}
	n := f.mu.names[name]
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	n.opened++
	return &file{f, name, n}, nil
}

// Remove deletes a file. Its space is free once no file is open.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.failLocked(Remove, name); err != nil {
		return err
	}
	n := f.mu.names[name]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	n.removed = true
	f.freeLocked(n)
	delete(f.mu.names, name)
	f.mu.changes = append(f.mu.changes, change{name, nil})
	return nil
}

// freeLocked gives back the space of a file that is removed and closed.
func (f *FS) freeLocked(n *inode) {
	if n.removed && n.opened == 0 {
		f.mu.used -= int64(len(n.data))
		n.data = nil
	}
}

// Rename moves a file over another.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.failLocked(Rename, from); err != nil {
		return err
	}
	n := f.mu.names[from]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	if old := f.mu.names[to]; old != nil {
		old.removed = true
		f.freeLocked(old)
	}
	f.mu.names[to] = n
	delete(f.mu.names, from)
	f.mu.changes = append(f.mu.changes, change{to, n}, change{from, nil})
	return nil
}

// SyncDir makes the changes of names in all folders durable.
func (f *FS) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.failLocked(SyncDir, name); err != nil {
		return err
	}
	for _, c := range f.mu.changes {
		rename(f.mu.durable, c)
	}
	f.mu.changes = nil
	return nil
}

// Lock takes a lock of this file system.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.locks[name] {
		return nil, vfs.ErrLocked
	}
	f.mu.locks[name] = true
	return unlocker{f, name}, nil
}

type unlocker struct {
	fs   *FS
	name string
}

func (u unlocker) Close() error {
	u.fs.mu.Lock()
	defer u.fs.mu.Unlock()
	delete(u.fs.mu.locks, u.name)
	return nil
}

type file struct {
	fs   *FS
	name string
	n    *inode
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.failLocked(Read, f.name); err != nil {
		return 0, err
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes as much as there is space for.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.failLocked(Write, f.name); err != nil {
		return 0, err
	}
	grow := max(0, off+int64(len(p))-int64(len(f.n.data)))
	short := max(0, grow-max(0, f.fs.mu.capacity-f.fs.mu.used))
	n := max(0, int64(len(p))-short)
	if n > 0 {
		f.fs.editLocked(f.n, edit{off: off, data: slices.Clone(p[:n])})
	}
	if short > 0 {
		return int(n), &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
	}
	return int(n), nil
}

func (f *FS) editLocked(n *inode, e edit) {
	before := len(n.data)
	n.data = e.apply(n.data)
	n.pending = append(n.pending, e)
	f.mu.used += int64(len(n.data) - before)
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.n.opened--
	if f.n.opened < 0 {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.fs.freeLocked(f.n)
	return nil
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.n.data)), nil
}

func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.failLocked(Truncate, f.name); err != nil {
		return err
	}
	f.fs.editLocked(f.n, edit{length: size})
	return nil
}

// Preallocate makes the file at least that long if there is space for all of it.
func (f *file) Preallocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.failLocked(Preallocate, f.name); err != nil {
		return err
	}
	grow := size - int64(len(f.n.data))
	if grow <= 0 {
		return nil
	}
	if grow > f.fs.mu.capacity-f.fs.mu.used {
		return &fs.PathError{Op: "preallocate", Path: f.name, Err: syscall.ENOSPC}
	}
	f.fs.editLocked(f.n, edit{length: size})
	return nil
}

func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.failLocked(Sync, f.name); err != nil {
		f.n.pending = nil
		return err
	}
	for _, e := range f.n.pending { // not all of data: a failed Sync drops some
		f.n.stable = e.apply(f.n.stable)
	}
	f.n.pending = nil
	return nil
}
