package loader

import (
	"errors"
	"os"
	"syscall"
)

// limitFiles limits the size of the files that this process writes; writing past
// it fails as a full disk does.
func limitFiles(size uint64) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		return err
	}
	l.Cur = min(size, l.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
}

// mountTmpfs puts a file system of a size over a folder, which the process sees
// alone: it was started in a mount namespace of its own.
func mountTmpfs(dir, size string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
}

// ownMounts has a child start in a mount namespace of its own.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// fill writes a file until nothing more fits.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	for err = nil; err == nil; { // and the last bytes
		_, err = f.Write(block[:1])
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
