//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package loader

import (
	"os"
	"path/filepath"
)

// lockFolder takes nothing: this system has no locks that end with a process.
func lockFolder(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR|os.O_CREATE, 0o644)
}
