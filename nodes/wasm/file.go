package wasm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// open opens the folder of a document, or a folder.
func open(document string) (*os.Root, error) {
	if document == "" || strings.HasPrefix(document, "<") {
		return nil, errors.New("the document is not a file, so it has no folder to read modules from")
	}
	folder := document
	if info, err := os.Stat(document); err != nil || !info.IsDir() {
		folder = filepath.Dir(document)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, reason(err)
	}
	return root, nil
}

// read reads a module. Documents may be of strangers, so nothing outside of their folder is read.
func read(root *os.Root, name string) (binary []byte, err error) {
	// Without blocking, as it may be a pipe.
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, reason(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	case info.Size() > mostModule:
		return nil, fmt.Errorf("it has %d bytes, %d are the most", info.Size(), mostModule)
	}
	binary, err = io.ReadAll(io.LimitReader(f, mostModule+1))
	if err != nil {
		return nil, reason(err)
	}
	return binary, nil
}

// reason returns an error of a file without its path, which the message has.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
