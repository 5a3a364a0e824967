//go:build !linux

package serve

import (
	"errors"
	"io/fs"
	"os"
)

// A folderRoot opens the files of a folder, and no others.
type folderRoot struct{ *os.Root }

func openFolder(name string) (*folderRoot, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &folderRoot{root}, nil
}

// open opens what has a name. A pipe is not opened: that would wait for who writes into it.
func (f *folderRoot) open(name string) (file, error) {
	info, err := f.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a file")}
	}
	return f.Open(name)
}
