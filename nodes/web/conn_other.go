//go:build !unix

package web

// prepareWrite does nothing: everything is sent with a deadline.
func (c *trackedConn) prepareWrite() {}

func (c *trackedConn) tryWrite([]byte) (int, error) { return 0, nil }
