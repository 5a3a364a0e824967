//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package vfs_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// TestCloseUnlocksForAll has a copy of the descriptor of a lock, as a program has that is
// being started: Close unlocks the file nevertheless.
func TestCloseUnlocksForAll(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, err := vfs.OS{}.Lock(name)
	must(t, err)
	n, err := syscall.Dup(int(first.(interface{ Fd() uintptr }).Fd()))
	must(t, err)
	defer func() { must(t, syscall.Close(n)) }()
	must(t, first.Close())
	second, err := vfs.OS{}.Lock(name)
	must(t, err)
	must(t, second.Close())
}
