//go:build amd64 || arm64

package external

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied returns the system calls that fail with EPERM.
func (s *sandbox) denied() []uint32 {
	all := []uint32{
		unix.SYS_SETSID, unix.SYS_SETPGID, // what has left the group would outlive it
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_IO_URING_SETUP, // its operations pass no filter
		unix.SYS_PRLIMIT64 | limitsOthers,
	}
	if !s.Network {
		all = append(all, unix.SYS_SOCKET)
	}
	if s.Memory > 0 {
		all = append(all, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET) // their memory is not the process's
	}
	if s.Alone {
		all = append(all, unix.SYS_CLONE|startsProcess, unix.SYS_CLONE3|isMissing)
		if runtime.GOARCH == "amd64" {
			all = append(all, 57, 58) // fork and vfork, which others do not have
		}
	}
	return all
}

// Marks of system calls.
const (
	limitsOthers  = 1 << 31 // denied only for other processes: if the first argument is not 0
	startsProcess = 1 << 30 // denied unless it starts a thread
	isMissing     = 1 << 29 // fails with ENOSYS: a filter cannot read its arguments, and callers try an older call then
	marks         = limitsOthers | startsProcess | isMissing
)

// Offsets in struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
)

// filter makes the kernel refuse system calls of this thread, and of what it becomes.
func (s *sandbox) filter() error {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	const kill, pass = uint32(unix.SECCOMP_RET_KILL_PROCESS), uint32(unix.SECCOMP_RET_ALLOW)
	const deny, missing = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM), uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | code, K: k, Jt: yes, Jf: no}
	}
	code := []unix.SockFilter{
		load(offArch), jump(unix.BPF_JEQ, arch, 1, 0), ret(kill), // numbers of other architectures are other calls
		load(offNumber), jump(unix.BPF_JGE, 0x40000000, 0, 1), ret(kill), // x32
	}
	for _, number := range s.denied() {
		call := number &^ marks
		switch number & marks {
		case limitsOthers:
			code = append(code, jump(unix.BPF_JEQ, call, 0, 4), load(offArg0), jump(unix.BPF_JEQ, 0, 1, 0), ret(deny), load(offNumber))
		case startsProcess:
			code = append(code, jump(unix.BPF_JEQ, call, 0, 4), load(offArg0), jump(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0), ret(deny), load(offNumber))
		case isMissing:
			code = append(code, jump(unix.BPF_JEQ, call, 0, 1), ret(missing))
		default:
			code = append(code, jump(unix.BPF_JEQ, call, 0, 1), ret(deny))
		}
	}
	code = append(code, ret(pass))
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
