package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
)

// Read reads documents from files, from folders with all that is in them, and
// from stdin for the path "-". Of folders it takes the .yaml, .yml and .json
// files, by name, without hidden ones. A file that is found twice is read once.
// The documents that could be read are returned beside an error, which is a
// [diag.List].
func Read(paths []string, stdin io.Reader) ([]Document, error) {
	r := &fileReader{seen: make(map[string]bool)}
	for _, path := range paths {
		if path == "-" {
			r.stdin(stdin)
			continue
		}
		r.path(path)
	}
	return r.docs, r.list.Err()
}

type fileReader struct {
	docs []Document
	seen map[string]bool
	list diag.List
}

func (r *fileReader) fail(file string, err error) {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = fmt.Errorf("%s: %w", path.Op, path.Err) // the place has the name
	}
	r.list.Add(diag.Errorf(diag.CodeRead, "%w", err).At(diag.Pos{File: file}, ""))
}

func (r *fileReader) stdin(stdin io.Reader) {
	const name = "<stdin>"
	if r.seen[name] {
		return
	}
	r.seen[name] = true
	if stdin == nil {
		r.fail(name, errors.New("there is no standard input"))
		return
	}
	r.read(name, stdin)
}

// path reads a file that was named, whatever its extension, or a folder.
func (r *fileReader) path(path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.fail(path, err)
	case !info.IsDir():
		r.file(path)
	default:
		r.folder(path)
	}
}

func (r *fileReader) folder(path string) {
	before := len(r.docs) + len(r.list)
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			r.fail(file, err)
			return nil
		}
		if file != path && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch strings.ToLower(filepath.Ext(file)) {
		case ".yaml", ".yml", ".json":
			if info, err := os.Stat(file); err == nil && info.IsDir() {
				return nil
			}
			r.file(file)
		}
		return nil
	})
	if err != nil {
		r.fail(path, err)
	}
	if len(r.docs)+len(r.list) == before {
		r.list.Add(diag.Errorf(diag.CodeRead, "the folder has no .yaml, .yml or .json files").At(diag.Pos{File: path}, ""))
	}
}

func (r *fileReader) file(path string) {
	if same, err := filepath.EvalSymlinks(path); err == nil {
		if absolute, err := filepath.Abs(same); err == nil {
			if r.seen[absolute] {
				return
			}
			r.seen[absolute] = true
		}
	}
	f, err := os.Open(path)
	if err != nil {
		r.fail(path, err)
		return
	}
	r.read(path, f)
	if err := f.Close(); err != nil {
		r.fail(path, err)
	}
}

// read reads one byte more than allowed, so that Parse can tell.
func (r *fileReader) read(name string, from io.Reader) {
	data, err := io.ReadAll(io.LimitReader(from, MaxSize+1))
	if err != nil {
		r.fail(name, err)
		return
	}
	r.docs = append(r.docs, Document{File: name, Data: data})
}
