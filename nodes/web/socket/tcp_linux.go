package socket

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much of an answer the kernel buffers before it is sent. More
// would hide for minutes that the client has stopped reading, or reads slowly.
const unsentBytes = 64 << 10

// listenConfig returns how sockets are opened. On Linux, connections inherit the
// options of the listening socket, which saves five system calls for each.
// Multipath TCP is off, as its sockets take no filter: see dropNewConns.
func listenConfig() *net.ListenConfig {
	config := &net.ListenConfig{
		KeepAlive: -1,
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			controlErr := c.Control(func(fd uintptr) {
				err = errors.Join(
					unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes),
				)
			})
			return errors.Join(controlErr, err)
		},
	}
	config.SetMultipathTCP(false)
	return config
}

// dropNewConns makes the kernel drop the packets that begin a connection. The
// client repeats them, and by then the port is closed or another socket is bound to
// it. dropNewConns reports whether the kernel does that.
func dropNewConns(l *net.TCPListener) bool {
	const flags, syn = 13, 0x02 // of the TCP header, at which the filter starts
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 18}, // all of the packet
	}
	var err error
	if !control(l, func(fd int) {
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	}) {
		return false
	}
	return err == nil
}

// admitNewConns undoes dropNewConns.
func admitNewConns(l *net.TCPListener) {
	control(l, func(fd int) {
		// It fails if there is no filter, as is usual.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	})
}

// connsQueued reports whether connections wait to be accepted.
func connsQueued(l *net.TCPListener) bool {
	ready := 0
	return control(l, func(fd int) {
		var err error
		if ready, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); err != nil {
			ready = 0
		}
	}) && ready > 0
}

// control calls f with the socket's descriptor, unless the socket is closed.
func control(l *net.TCPListener, f func(fd int)) bool {
	raw, err := l.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { f(int(fd)) }) == nil
}
