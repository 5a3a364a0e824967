package vfs_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestImplementations shows what the operating system and its twin have in common.
func TestImplementations(t *testing.T) {
	t.Run("os", func(t *testing.T) { implementation(t, vfs.OS{}, filepath.Join(t.TempDir(), "a", "b")) })
	t.Run("memory", func(t *testing.T) { implementation(t, vfstest.New(), filepath.Join("a", "b")) })
}

func implementation(t *testing.T, fsys vfs.FS, dir string) {
	one, two := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	must(t, fsys.MkdirAll(dir))
	if _, err := fsys.Open(one); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a missing file: %v, want %v", err, fs.ErrNotExist)
	}
	if err := fsys.Remove(one); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of a missing file: %v, want %v", err, fs.ErrNotExist)
	}
	f, err := fsys.Create(one)
	must(t, err)
	if _, err := fsys.Create(one); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a file that exists: %v, want %v", err, fs.ErrExist)
	}
	_, err = f.WriteAt([]byte("abc"), 1)
	must(t, err)
	must(t, f.Truncate(3))
	if err := f.Preallocate(6); err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
		must(t, f.Truncate(6))
	}
	must(t, f.Sync())
	must(t, fsys.SyncDir(dir))
	must(t, f.Close())
	must(t, fsys.Rename(one, two))
	b, err := vfs.ReadFile(fsys, two)
	if err != nil || string(b) != "\x00ab\x00\x00\x00" {
		t.Errorf("read %q, %v", b, err)
	}
	names, err := fsys.ReadDir(dir)
	if err != nil || !slices.Equal(names, []string{"2"}) {
		t.Errorf("the folder has %q, %v", names, err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, "lock"))
	must(t, err)
	if _, err := fsys.Lock(filepath.Join(dir, "lock")); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second lock: %v, want %v", err, vfs.ErrLocked)
	}
	must(t, lock.Close())
	lock, err = fsys.Lock(filepath.Join(dir, "lock"))
	must(t, err)
	must(t, lock.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadOnly shows that a file which only others may write can be read.
func TestReadOnly(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f, err := vfs.OS{}.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte("x"), 0)
	must(t, errors.Join(err, f.Close()))
	f, err = vfs.OS{ReadOnly: true}.Open(name)
	must(t, err)
	if _, err := f.WriteAt([]byte("y"), 0); err == nil {
		t.Error("a file opened for reading was written")
	}
	must(t, f.Close())
}

func TestIsFull(t *testing.T) {
	if runtime.GOOS != "windows" && !vfs.IsFull(&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}) {
		t.Error("ENOSPC is not recognized")
	}
	if vfs.IsFull(nil) || vfs.IsFull(fs.ErrNotExist) {
		t.Error("another error is recognized")
	}
}

// TestSeries shows that a number has one name.
func TestSeries(t *testing.T) {
	dec := vfs.Series{Prefix: "events-", Suffix: ".ndjson", Base: 10, Digits: 6}
	hex := vfs.Series{Suffix: ".seg", Base: 16, Digits: 16}
	names := []string{
		"events-000010.ndjson", "events-1000000.ndjson", "events-000000.ndjson",
		"events-0000001.ndjson", "events-1.ndjson", "events--00001.ndjson", "events-+00001.ndjson", "events-.ndjson", "events-000001", "000001.ndjson",
		"events-99999999999999999999.ndjson", "lock",
		"00000000000000ff.seg", "00000000000000FE.seg", "0x000000000000fd.seg", "ffffffffffffffff.seg", "1ffffffffffffffff.seg", "ff.seg",
	}
	if got, want := dec.Numbers(names), []uint64{0, 10, 1_000_000}; !slices.Equal(got, want) {
		t.Errorf("decimal: %d, want %d", got, want)
	}
	if got, want := hex.Numbers(names), []uint64{255, 1<<64 - 1}; !slices.Equal(got, want) {
		t.Errorf("hexadecimal: %d, want %d", got, want)
	}
	for _, s := range []vfs.Series{dec, hex} {
		for _, n := range []uint64{0, 1, 255, 1 << 40, 1<<64 - 1} {
			if got, ok := s.Number(s.Name(n)); !ok || got != n {
				t.Errorf("%q is number %d, %t; want %d", s.Name(n), got, ok, n)
			}
		}
	}
}
