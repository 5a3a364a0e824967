//go:build unix

package files

import (
	"io/fs"
	"syscall"
)

// identity returns what a file is known by, whatever its name is.
func identity(info fs.FileInfo, _ string) fileID {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fileID{device: uint64(st.Dev), inode: st.Ino}
	}
	return fileID{}
}
