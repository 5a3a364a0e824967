//go:build !unix

package plain

import "errors"

// Supported reports whether connections can be served here: it takes a read that does not wait.
const Supported = false

func (c *conn) readOnce(uintptr) bool {
	c.err = errors.ErrUnsupported
	return true
}

func (c *conn) watch() bool { return false }
