//go:build unix

package web

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// prepare makes what try needs, once for the connection.
func (l *link) prepare() {
	raw, err := l.TCPConn.SyscallConn()
	if err != nil {
		return // closed already
	}
	w := &l.writing
	w.raw = raw
	w.once = func(fd uintptr) bool {
		for {
			w.n, w.err = syscall.Write(int(fd), w.pending)
			if !errors.Is(w.err, syscall.EINTR) {
				return true
			}
		}
	}
}

// try sends what the kernel takes without waiting.
func (l *link) try(p []byte) (n int, err error) {
	w := &l.writing
	w.pending = p
	err = w.raw.Write(w.once)
	w.pending = nil
	if err != nil {
		return 0, err
	}
	if w.err == syscall.EAGAIN {
		return 0, nil
	}
	if w.err != nil {
		return 0, &net.OpError{Op: "write", Net: "tcp", Source: l.LocalAddr(), Addr: l.RemoteAddr(), Err: os.NewSyscallError("write", w.err)}
	}
	return w.n, nil
}
