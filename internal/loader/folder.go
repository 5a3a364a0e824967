package loader

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// series are numbered files of a folder, such as events-000001.ndjson.
type series struct {
	dir, prefix, suffix string
}

// path returns the path of a file.
func (s series) path(n uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%06d%s", s.prefix, n, s.suffix))
}

// list returns the numbers of the files that are there, in order.
func (s series) list() ([]uint64, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var all []uint64
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, s.prefix) || !strings.HasSuffix(name, s.suffix) {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(name, s.prefix), s.suffix), 10, 64)
		if err == nil && filepath.Base(s.path(n)) == name {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, cmp.Compare)
	return all, nil
}

// syncFolder makes names durable: files that were made, renamed or removed.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there, and names are durable with their files
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// cutFile takes away what a file has after size bytes, durably, and returns the
// size that it had. It opens the file anew: a descriptor whose fsync has failed
// says nothing true any more.
func cutFile(path string, size int64) (was int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err == nil {
		if was = info.Size(); was > size {
			err = f.Truncate(size)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return was, errors.Join(err, f.Close())
}

// remove removes a file if it is there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
