//go:build unix

package serve_test

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe in the folder is not a file, and blocks no one who asks for it.
func TestStaticPipe(t *testing.T) {
	w, dir := folder(t, "")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := w.Request("GET", "/pipe", ""); got.Status != 404 {
		t.Errorf("got %+v", got)
	}
}
