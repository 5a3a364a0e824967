package pace

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// sentAtOnce is how much of a file the kernel is asked to take in one call.
const sentAtOnce = 1 << 20

// sendFile sends at most left bytes of a file from where it is. It sends nothing, without an
// error, of a file that the kernel cannot send by itself.
func (c *Conn) sendFile(file syscall.Conn, left int64) (n int64, err error) {
	from, err := file.SyscallConn()
	if err != nil || c.writing.raw == nil {
		return 0, nil
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.writeRestLocked(); err != nil {
		return 0, err
	}
	controlErr := from.Control(func(fd uintptr) { n, err = c.sendFileLocked(int(fd), left) })
	return n, errors.Join(err, controlErr)
}

func (c *Conn) sendFileLocked(from int, left int64) (n int64, err error) {
	var waiting *pendingWrite // from when the kernel does not take everything
	var sent int
	var sendErr error
	once := func(fd uintptr) bool {
		for {
			sent, sendErr = syscall.Sendfile(int(fd), from, nil, int(min(left, sentAtOnce)))
			if !errors.Is(sendErr, syscall.EINTR) {
				return waiting == nil || sendErr != syscall.EAGAIN
			}
		}
	}
	defer func() {
		if waiting != nil {
			c.pending.remove(waiting)
			err = errors.Join(err, c.TCPConn.SetWriteDeadline(time.Time{}))
		}
	}()
	for left > 0 {
		send := func() error { return c.writing.raw.Write(once) }
		if waiting == nil {
			err = send()
		} else {
			err = c.inTime(PieceBytes, send)
		}
		if err != nil {
			return n, err
		}
		switch {
		case sendErr == syscall.EAGAIN:
			waiting = c.pending.add(&c.peer, PieceBytes)
		case sendErr != nil && n == 0 && (sendErr == syscall.EINVAL || sendErr == syscall.ENOSYS):
			return 0, nil
		case sendErr != nil:
			return n, &net.OpError{Op: "sendfile", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("sendfile", sendErr)}
		case sent == 0: // the file has become shorter
			return n, nil
		default:
			n, left = n+int64(sent), left-int64(sent)
			if waiting != nil {
				c.pending.progress(waiting, 0)
			}
		}
	}
	return n, nil
}
