package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/uniflow-labs/uniflow/diag"
)

// Read reads documents from files, from folders and the folders in them, and from
// stdin for the path "-". In folders it reads files named .yaml, .yml and .json, in
// the order of their names, except for hidden ones. It reads a file once, even if it
// finds it twice; it reads only regular files, and follows no link out of its folder.
// An error is a [diag.List]; the documents that could be read are returned with it.
func Read(paths []string, stdin io.Reader) ([]Document, error) {
	r := &fileReader{seen: make(map[string]bool), piped: stdin != nil}
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
	mounted bool // files of folders with other extensions are variables
	piped   bool // there is a standard input
	docs    []Document
	seen    map[string]bool
	list    diag.List
}

func (r *fileReader) report(file string, d *diag.Diagnostic) {
	r.list.Add(d.At(diag.Pos{File: file}, ""))
}

func (r *fileReader) fail(file string, err error) {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = fmt.Errorf("%s: %w", path.Op, path.Err) // the place has the name
	}
	if errors.Is(err, fs.ErrNotExist) {
		hint := "paths are relative to the working folder"
		if r.piped {
			hint += "; \"-\" is standard input"
		}
		r.report(file, diag.Errorf(diag.CodeRead, "there is no file or folder of that name").WithHint("%s", hint))
		return
	}
	r.report(file, diag.Errorf(diag.CodeRead, "%w", err))
}

// Stdin is the file of a document that was read from standard input.
const Stdin = "<stdin>"

func (r *fileReader) stdin(stdin io.Reader) {
	if r.seen[Stdin] {
		return
	}
	r.seen[Stdin] = true
	if stdin == nil {
		r.fail(Stdin, errors.New("there is no standard input"))
		return
	}
	r.read(Stdin, stdin)
}

// path reads a folder, or a file with any extension.
func (r *fileReader) path(path string) {
	info, err := os.Stat(path)
	if err != nil {
		r.fail(path, err)
		return
	}
	folder, name := filepath.Dir(path), filepath.Base(path)
	if info.IsDir() {
		folder, name = path, ""
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		r.fail(path, err)
		return
	}
	if name != "" {
		r.file(root, name, path, "")
	} else {
		r.folder(root, path)
	}
	if err := root.Close(); err != nil {
		r.fail(path, err)
	}
}

func (r *fileReader) folder(root *os.Root, path string) {
	found := false
	before := len(r.list)
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		file := filepath.Join(path, filepath.FromSlash(name))
		if err != nil {
			r.fail(file, err)
			return nil
		}
		if name != "." && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		variable := name
		switch strings.ToLower(filepath.Ext(file)) {
		case ".yaml", ".yml", ".json":
			variable = ""
		}
		if variable != "" && !r.mounted {
			return nil
		}
		if info, err := root.Stat(name); err == nil && info.IsDir() {
			return nil
		}
		found = true
		r.file(root, name, file, variable)
		return nil
	})
	if err != nil {
		r.fail(path, err)
	}
	if !found && len(r.list) == before {
		what := ".yaml, .yml or .json files"
		if r.mounted {
			what = "files, apart from hidden ones"
		}
		r.report(path, diag.Errorf(diag.CodeRead, "the folder has no %s", what))
	}
}

// file reads a regular file of a folder, which is the data of a variable unless that is
// empty. The folder may be hostile: file follows no link out of it, and opens nothing
// that would block or have an effect.
func (r *fileReader) file(root *os.Root, name, path, variable string) {
	if same, err := filepath.EvalSymlinks(path); err == nil {
		if absolute, err := filepath.Abs(same); err == nil {
			absolute += "\x00" + variable // several names may lead to a mounted file
			if r.seen[absolute] {
				return
			}
			r.seen[absolute] = true
		}
	}
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		d := diag.Errorf(diag.CodeRead, "it is not a regular file").WithHint("name a file")
		if r.piped {
			d.Hint = "write \"-\" to read from a pipe: standard input"
		}
		r.report(path, d)
		return
	}
	var f *os.File
	if err == nil {
		f, err = root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have replaced it
	}
	if err != nil {
		if link, lerr := root.Lstat(name); lerr == nil && link.Mode()&fs.ModeSymlink != 0 {
			r.report(path, diag.Errorf(diag.CodeRead, "the link leads out of its folder, or nowhere").
				WithHint("name the file that it leads to; links are followed within the folder, if they are relative"))
			return
		}
		r.fail(path, err)
		return
	}
	if variable == "" {
		r.read(path, f)
	} else if data, err := readBounded(f); err != nil {
		r.fail(path, err)
	} else {
		r.docs = append(r.docs, Document{File: path, Data: data, Variable: variable})
	}
	if err := f.Close(); err != nil {
		r.fail(path, err)
	}
}

// read reads one byte more than allowed, so that Parse reports it.
func (r *fileReader) read(name string, from io.Reader) {
	data, err := io.ReadAll(io.LimitReader(from, MaxSize+1))
	if err != nil {
		r.fail(name, err)
		return
	}
	r.docs = append(r.docs, Document{File: name, Data: data})
}
