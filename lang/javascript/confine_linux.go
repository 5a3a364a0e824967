package javascript

import (
	"os"
	"strconv"
	"syscall"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// limitMemory limits how much memory for data the process may have.
func limitMemory(bytes uint64) error {
	if invariant.Race {
		return nil // the detector maps terabytes
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &now); err != nil {
		return err
	}
	bytes = min(bytes, now.Max)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: bytes, Max: bytes})
}

// closeInherited closes the files that the process has from the one that started it,
// except for the standard ones. Those that Go has opened are marked as not to be
// inherited; others may come from far above, such as a shell.
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
			continue // the folder itself has been closed
		}
		if err := syscall.Close(fd); err != nil {
			return err
		}
	}
	return nil
}
