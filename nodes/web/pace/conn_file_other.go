//go:build !linux

package pace

import "syscall"

// sendFile sends nothing: files are read and written.
func (c *Conn) sendFile(syscall.Conn, int64) (int64, error) { return 0, nil }
