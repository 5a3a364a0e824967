package serve

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The two ways to open a file agree.
func TestFolderRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "www")
	for path, text := range map[string]string{"a.txt": "a", "one/two/b.txt": "b", "../out.txt": "out"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"in": "one/two/b.txt", "one/up": "../a.txt", "out": "../out.txt", "far": "../../../../../../etc/passwd", "absolute": filepath.Join(dir, "a.txt"),
		"folder": "one", "away": "..", "loop": "loop", "gone": "nothing", "proc": "/proc/self/root",
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	quick, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer quick.Close()
	if quick.dir == nil {
		t.Log("this kernel has no openat2: both ways are the same")
	}
	slow := &folderRoot{root: quick.root}
	read := func(f *folderRoot, name string) string {
		opened, err := f.open(name)
		if err != nil {
			return missing(err).Error()
		}
		defer opened.Close()
		info, err := opened.Stat()
		if err != nil {
			return err.Error()
		}
		if info.IsDir() {
			return "a folder"
		}
		if end, err := opened.Seek(0, io.SeekEnd); err != nil || end != info.Size() {
			return "a file whose end is somewhere else"
		}
		if _, err := opened.Seek(0, io.SeekStart); err != nil {
			return err.Error()
		}
		data, err := io.ReadAll(opened)
		if err != nil {
			return err.Error()
		}
		return info.Name() + " " + string(data) + " " + info.ModTime().UTC().String() + " " + info.Mode().Type().String()
	}
	for _, name := range []string{
		".", "a.txt", "one", "one/two/b.txt", "in", "one/up", "folder/two/b.txt", "out", "far", "absolute", "away", "away/out.txt", "loop", "gone", "proc", "proc/etc/passwd",
		"nothing", "a.txt/x", "one/../a.txt", "../out.txt", "/etc/passwd", "", strings.Repeat("a", 300), strings.Repeat("a/", 3000) + "a",
	} {
		if a, b := read(quick, name), read(slow, name); a != b || strings.Contains(a, "out 2") || strings.Contains(a, "root:") {
			t.Errorf("%q: got %q in one call, %q step by step", name, a, b)
		}
	}
}
