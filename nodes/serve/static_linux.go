package serve

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A folderRoot opens the files of a folder, and no others. An [os.Root] opens each folder
// on the way to a file, one after the other; Linux can be asked to stay within a folder in
// one call, which for a file two folders down is a third of the server's work. The same
// paths and links lead out of the folder either way.
type folderRoot struct {
	root *os.Root
	dir  *os.File // nil if the kernel, or a filter in front of it, does not have the call
	fd   int      // of dir
}

func openFolder(name string) (*folderRoot, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	f := &folderRoot{root: root}
	if f.dir, err = root.Open("."); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	f.fd = int(f.dir.Fd())
	if probe, err := f.openBeneath("."); err == nil {
		return f, probe.Close()
	}
	err = f.dir.Close()
	f.dir = nil
	return f, err
}

func (f *folderRoot) Close() error {
	if f.dir == nil {
		return f.root.Close()
	}
	return errors.Join(f.dir.Close(), f.root.Close())
}

// open opens what has a name.
func (f *folderRoot) open(name string) (file, error) {
	if f.dir != nil {
		opened, err := f.openBeneath(name)
		if !errors.Is(err, unix.EAGAIN) { // a folder was moved meanwhile
			return opened, err
		}
	}
	return f.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

func (f *folderRoot) openBeneath(name string) (file, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := retry(func() (int, error) { return unix.Openat2(f.fd, name, &how) })
	if errors.Is(err, unix.EXDEV) { // it leads out
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	return &descriptor{fd: fd, name: name}, nil
}

// retry calls f until no signal interrupts it.
func retry(f func() (int, error)) (n int, err error) {
	for {
		if n, err = f(); err != unix.EINTR {
			return n, err
		}
	}
}

// A descriptor is a file without what an [os.File] has for pipes and sockets. It is for one
// goroutine, and must be closed.
type descriptor struct {
	fd   int
	name string
	at   int64
	size int64 // from Stat on
}

func (d *descriptor) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: d.name, Err: err}
}

func (d *descriptor) Stat() (fs.FileInfo, error) {
	info := &descriptorInfo{name: path.Base(d.name)}
	if _, err := retry(func() (int, error) { return 0, unix.Fstat(d.fd, &info.stat) }); err != nil {
		return nil, d.fail("fstat", err)
	}
	d.size = info.stat.Size
	return info, nil
}

// Read reads from where the file is.
func (d *descriptor) Read(p []byte) (int, error) {
	n, err := retry(func() (int, error) { return unix.Pread(d.fd, p, d.at) })
	switch {
	case err != nil:
		return 0, d.fail("read", err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	d.at += int64(n)
	return n, nil
}

// Seek changes where Read reads. Stat must have been called.
func (d *descriptor) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += d.at
	case io.SeekEnd:
		offset += d.size
	}
	if offset < 0 {
		return 0, d.fail("seek", unix.EINVAL)
	}
	d.at = offset
	return offset, nil
}

func (d *descriptor) Close() error { return unix.Close(d.fd) }

// SyscallConn lets the kernel send the file, from where it is: see [syscall.Conn]. Read does
// not go on after that.
func (d *descriptor) SyscallConn() (syscall.RawConn, error) {
	if _, err := unix.Seek(d.fd, d.at, io.SeekStart); err != nil {
		return nil, d.fail("seek", err)
	}
	return rawDescriptor{d}, nil
}

type rawDescriptor struct{ *descriptor }

func (d rawDescriptor) Control(f func(fd uintptr)) error {
	f(uintptr(d.fd))
	return nil
}

func (d rawDescriptor) Read(func(fd uintptr) bool) error  { return d.fail("read", unix.ENOSYS) }
func (d rawDescriptor) Write(func(fd uintptr) bool) error { return d.fail("write", unix.ENOSYS) }

type descriptorInfo struct {
	name string
	stat unix.Stat_t
}

func (i *descriptorInfo) Name() string       { return i.name }
func (i *descriptorInfo) Size() int64        { return i.stat.Size }
func (i *descriptorInfo) ModTime() time.Time { return time.Unix(i.stat.Mtim.Unix()) }
func (i *descriptorInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *descriptorInfo) Sys() any           { return &i.stat }

// Mode returns what kind of file it is; its permissions are not used.
func (i *descriptorInfo) Mode() fs.FileMode {
	switch i.stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	}
	return fs.ModeIrregular
}
