//go:build unix

package plain

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Supported reports whether connections can be served here: it takes a read that does not wait.
const Supported = true

// readOnce reads into the free end of the buffer. It returns false if there is nothing to be read,
// to be called again when there is.
func (c *conn) readOnce(fd uintptr) bool {
	c.getWork()
	for {
		n, err := syscall.Read(int(fd), c.w.in[c.w.end:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			c.putWork()
			return false
		case err != nil:
			c.err = &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("read", err)}
		case n <= 0:
			c.err = io.EOF
		default:
			c.w.end += n
			c.err = nil
			c.MarkBusy()
		}
		return true
	}
}

// watch waits until the client sends more, or goes: gone reports the latter. It consumes nothing.
func (c *conn) watch() (gone bool) {
	var b [1]byte
	err := c.raw.Read(func(fd uintptr) bool {
		for {
			n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case errors.Is(err, syscall.EAGAIN):
				return false
			}
			gone = err != nil || n <= 0
			return true
		}
	})
	return err == nil && gone
}
