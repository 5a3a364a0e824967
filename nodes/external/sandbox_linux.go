//go:build amd64 || arm64

package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confine limits this process, and then becomes the program that text names: see [node.Programs.Confine]. It
// returns only if that fails; the error was written to file 3, whose reader has started this process.
func Confine(text string) error {
	err := confine(text)
	_, failed := os.NewFile(3, "status").WriteString(err.Error())
	return errors.Join(err, failed)
}

func confine(text string) error {
	var c confinement
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	// The rules of Landlock and the filter hold for this thread, and for the program that it becomes.
	runtime.LockOSThread()
	unix.CloseOnExec(3)
	box := &c.Sandbox
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no-new-privs: %w", err)
	}
	if err := box.restrictFiles(c.Path); err != nil {
		return err
	}
	if err := box.filter(); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	if err := box.setLimits(); err != nil { // last, as this process may have more than the program
		return err
	}
	return fmt.Errorf("exec %s: %w", c.Path, unix.Exec(c.Path, c.Argv, os.Environ()))
}

// possible returns which part of the sandbox the kernel cannot enforce.
func (s *sandbox) possible() error { return s.possibleWith(landlockABI()) }

func (s *sandbox) possibleWith(landlock int) error {
	if s.confinesFiles() && landlock < 1 {
		return errors.New(`sandbox.read and sandbox.write need Landlock (Linux 5.13, and "landlock" in the kernel's parameter lsm), which this kernel does not have: allow all files, with read: ["/"] and write: ["/"], to do without`)
	}
	if err := unix.Prctl(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("sandbox needs seccomp, which this kernel does not have (%w): leave sandbox out, and run the program as a user with few rights", err)
	}
	for _, path := range slices.Concat(s.Read, s.Write) {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("a path of sandbox.read or sandbox.write: %w", err)
		}
	}
	return nil
}

// confinesFiles reports whether not all files are allowed.
func (s *sandbox) confinesFiles() bool { return !slices.Contains(s.Write, "/") }

// Rights of Landlock.
const (
	mayRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	mayWrite = mayRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// system are the files that programs need. /proc is not among them: it shows other processes.
var system = []string{
	"/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr", "/nix/store", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/etc/localtime", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/dev/random", "/dev/urandom", "/dev/zero", "/sys/kernel/mm/transparent_hugepage",
}

// landlockABI returns the version of Landlock that the kernel has, 0 for none.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// restrictFiles lets this thread, and what it becomes, reach only the files of the sandbox. Signals, and sockets
// with abstract names, stay among them where the kernel can do that.
func (s *sandbox) restrictFiles(program string) error {
	abi := landlockABI()
	if abi < 1 { // possible has accepted it: all files are allowed
		return nil
	}
	write := uint64(mayWrite)
	if abi >= 2 {
		write |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		write |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		write |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	rules := unix.LandlockRulesetAttr{}
	if s.confinesFiles() {
		rules.Handled_access_fs = write
	}
	size := uintptr(8) // of the first version
	if abi >= 6 {
		rules.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = 24
	}
	if rules.Handled_access_fs|rules.Scoped == 0 {
		return nil
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	fd := int(set)
	defer unix.Close(fd)
	if s.confinesFiles() {
		// An interpreter of a script is among the files of the system, or in read.
		for _, path := range append(slices.Clone(system), program) {
			if err := allow(fd, path, mayRead); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
		for _, path := range s.Read {
			if err := allow(fd, path, mayRead); err != nil {
				return fmt.Errorf("sandbox.read: %w", err)
			}
		}
		for _, path := range append([]string{"/dev/null"}, s.Write...) {
			if err := allow(fd, path, write); err != nil {
				return fmt.Errorf("sandbox.write: %w", err)
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// allow adds a rule for what is at or below a path.
func allow(set int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %s: %w", path, errno)
	}
	return nil
}

// sharedMemory is how much address space a process may have that is not its own data: libraries, files, and what
// runtimes reserve. It bounds memory that is shared, which the limit of data does not count.
const sharedMemory = 4 << 30

func (s *sandbox) setLimits() error {
	set := func(what string, resource int, soft, hard uint64) error {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: soft, Max: hard}); err != nil {
			return fmt.Errorf("sandbox.%s: %w", what, err)
		}
		return nil
	}
	err := set("core", unix.RLIMIT_CORE, 0, 0)
	if s.Memory > 0 {
		n := uint64(s.Memory)
		err = errors.Join(err, set("memory", unix.RLIMIT_DATA, n, n), set("memory", unix.RLIMIT_AS, n+sharedMemory, n+sharedMemory))
	}
	if s.CPU > 0 {
		n := uint64((s.CPU + time.Second - 1) / time.Second)
		err = errors.Join(err, set("cpu", unix.RLIMIT_CPU, n, n)) // equal, so that the kernel kills
	}
	if s.Files > 0 {
		n := uint64(s.Files)
		err = errors.Join(err, set("files", unix.RLIMIT_NOFILE, n, n))
	}
	return err
}
