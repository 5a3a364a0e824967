package batch

import "github.com/uniflow-labs/uniflow/batch/internal/spool"

// OnFS returns the spool with another file system.
func (s Spool) OnFS(fs spool.FS) *Spool {
	s.fs = fs
	return &s
}
