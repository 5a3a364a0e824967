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
	return all
}

// limitsOthers marks a system call that is denied only for other processes: if its first argument is not 0.
const limitsOthers = 1 << 31

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
	const kill, deny, pass = uint32(unix.SECCOMP_RET_KILL_PROCESS), uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM), uint32(unix.SECCOMP_RET_ALLOW)
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
		if number&limitsOthers == 0 {
			code = append(code, jump(unix.BPF_JEQ, number, 0, 1), ret(deny))
			continue
		}
		code = append(code, jump(unix.BPF_JEQ, number&^limitsOthers, 0, 4), load(offArg0), jump(unix.BPF_JEQ, 0, 1, 0), ret(deny), load(offNumber))
	}
	code = append(code, ret(pass))
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
