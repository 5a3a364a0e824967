package vfstest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Unpack copies stored files, that an earlier revision has left behind, from a .tar.gz into
// a folder of the test, which it returns. Room that was reserved takes none on the disk.
func Unpack(t testing.TB, archive string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(unpacked)
	for {
		head, err := files.Next()
		if err == io.EOF {
			return folder
		}
		if err == nil {
			path := filepath.Join(folder, filepath.FromSlash(head.Name))
			if head.Typeflag == tar.TypeDir {
				err = os.MkdirAll(path, 0o755)
			} else {
				err = writeSparse(path, files, head.Size)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// writeSparse writes a file without the blocks that are zero.
func writeSparse(path string, r io.Reader, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Truncate(size), f.Close()) }()
	var block [64 << 10]byte
	for at := int64(0); at < size; {
		n, err := io.ReadFull(r, block[:min(size-at, int64(len(block)))])
		if err != nil {
			return err
		}
		if block != ([64 << 10]byte{}) {
			if _, err := f.WriteAt(block[:n], at); err != nil {
				return err
			}
			block = [64 << 10]byte{}
		}
		at += int64(n)
	}
	return nil
}
