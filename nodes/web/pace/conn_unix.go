//go:build unix

package pace

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// prepareWrite makes what tryWrite needs, once for the connection.
func (c *Conn) prepareWrite() {
	raw, err := c.TCPConn.SyscallConn()
	if err != nil {
		return // closed already
	}
	w := &c.writing
	w.raw = raw
	w.once = func(fd uintptr) bool {
		for {
			w.n, w.err = syscall.Write(int(fd), w.data)
			if !errors.Is(w.err, syscall.EINTR) {
				return true
			}
		}
	}
}

// tryWrite sends what the kernel takes without waiting.
func (c *Conn) tryWrite(p []byte) (n int, err error) {
	w := &c.writing
	w.data = p
	err = w.raw.Write(w.once)
	w.data = nil
	if err != nil {
		return 0, err
	}
	if w.err == syscall.EAGAIN {
		return 0, nil
	}
	if w.err != nil {
		return 0, &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("write", w.err)}
	}
	return w.n, nil
}
