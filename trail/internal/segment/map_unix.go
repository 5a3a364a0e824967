//go:build unix

package segment

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file for reading. The function it returns unmaps it.
func mapFile(path string) (image []byte, unmap func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	image, err = mapOpen(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, nil, err
	}
	return image, func() error {
		if len(image) == 0 {
			return nil
		}
		return unix.Munmap(image)
	}, nil
}

func mapOpen(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("segment %s: not a file", f.Name())
	}
	if info.Size() == 0 {
		return nil, nil // the system maps no empty files
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, fmt.Errorf("segment %s: %d bytes do not fit into memory", f.Name(), info.Size())
	}
	image, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		err = &os.PathError{Op: "mmap", Path: f.Name(), Err: err}
		if errors.Is(err, unix.ENOMEM) {
			err = fmt.Errorf("%w: the system lets a process map only so many files (on Linux vm.max_map_count)", err)
		}
		return nil, err
	}
	return image, nil
}
