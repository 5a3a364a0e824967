package pace

import (
	"io"
	"syscall"
)

// FileOf returns the file that src reads, and how many bytes of it src has left at most. ok
// is false for what is not a file.
func FileOf(src io.Reader) (file syscall.Conn, left int64, ok bool) {
	left = wholeFile
	if l, limited := src.(*io.LimitedReader); limited {
		src, left = l.R, l.N
	}
	file, ok = src.(syscall.Conn)
	return file, left, ok
}

// wholeFile is more than any file has.
const wholeFile = 1<<63 - 1

// ReadFrom sends what src has to its end. If that is a file, or an [io.LimitedReader] of
// one, the kernel sends it where it can. The client has as long as for what is written.
func (c *Conn) ReadFrom(src io.Reader) (n int64, err error) {
	if file, left, ok := FileOf(src); ok && left > 0 {
		n, err = c.sendFile(file, left)
		if l, limited := src.(*io.LimitedReader); limited {
			l.N -= n
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return io.Copy(struct{ io.Writer }{c}, src)
}
