package files

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFileSinkFullDisk fills a small file system, and makes room on it. Where the test may
// not mount one, TestFileSinkFull is all there is.
func TestFileSinkFullDisk(t *testing.T) {
	for _, fsync := range []string{"none", "each"} {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Logf("no small file system: %v", err)
			return
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		filler, path := filepath.Join(dir, "filler"), filepath.Join(dir, "out")
		if err := os.WriteFile(filler, make([]byte, 32<<10), 0o666); err != nil {
			t.Fatal(err)
		}
		w := newWriting(t, fmt.Sprintf(`{"path": %q, "fsync": %q}`, path, fsync))
		row := `"` + strings.Repeat("x", 3000) + `"`
		var want bytes.Buffer
		problem := ""
		for i := 0; problem == "" && i < 100; i++ {
			if problem = w.write("", row); problem == "" {
				want.WriteString(row + "\n")
			}
		}
		if !strings.Contains(problem, "out: no space left on device") || want.Len() == 0 {
			t.Fatalf("fsync: %s: after %d bytes: %s", fsync, want.Len(), problem)
		}
		if got := w.write("", row); !strings.Contains(got, "no space left") {
			t.Errorf("fsync: %s: once more: %s", fsync, got)
		}
		if !strings.HasSuffix(problem, "[full]") {
			t.Errorf("fsync: %s: got %s, want the code full", fsync, problem)
		}
		same(t, "the file on the full disk", read(t, path), want.String())
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		same(t, "with room", w.write("", row, `"end"`), "")
		same(t, "the file in the end", read(t, path), want.String()+row+"\n\"end\"\n")
		w.close()
	}
}
