package javascript

import (
	"os"
	"strconv"
	"syscall"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// limitMemory limits the data memory of the process.
func limitMemory(bytes uint64) error {
	if invariant.Race {
		return nil // the race detector maps terabytes
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &now); err != nil {
		return err
	}
	bytes = min(bytes, now.Max)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bytes, Max: bytes})
}

// closeInherited closes the files that the process has inherited, except the standard
// ones. Files opened by Go are not inherited, but others may be, from a shell for
// example.
func closeInherited() error {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		if err != nil || fd < 3 {
			continue
		}
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno != 0 || flags&syscall.FD_CLOEXEC != 0 {
			continue // the folder itself is closed
		}
		if err := syscall.Close(fd); err != nil {
			return err
		}
	}
	return nil
}
