//go:build !unix

package files

import (
	"hash/fnv"
	"io/fs"
)

// identity returns what a file is known by: its name, as the system has no inodes.
func identity(_ fs.FileInfo, path string) fileID {
	h := fnv.New64a()
	_, _ = h.Write([]byte(path)) // never fails
	return fileID{inode: h.Sum64()}
}
