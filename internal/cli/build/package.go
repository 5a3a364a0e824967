package build

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// A request is a package that has kinds, and where it comes from.
type request struct {
	path    string // of the import
	version string // of its module, as "go get" takes it; empty with a folder
	folder  string // that has its module; empty if it is fetched
	module  string // the path of the module in folder
}

// name is what the package is called, without a major version at its end.
func (r request) name() string {
	if prefix, _, ok := module.SplitPathVersion(r.path); ok {
		return path.Base(prefix)
	}
	return path.Base(r.path)
}

// readRequest reads what a flag --with says.
func readRequest(text string) (request, error) {
	r := request{path: text}
	if at := strings.IndexAny(text, "=@"); at >= 0 {
		rest := text[at+1:]
		if r.path = text[:at]; rest == "" {
			return r, fmt.Errorf("nothing follows %q", text[at])
		}
		if text[at] == '@' {
			r.version = rest
		} else {
			r.folder = rest
		}
	}
	if err := module.CheckImportPath(r.path); err != nil {
		return r, err
	}
	if r.folder == "" {
		if first, _, _ := strings.Cut(r.path, "/"); !strings.Contains(first, ".") {
			return r, fmt.Errorf("%q is not the address of a module: it begins with no domain", r.path)
		}
		if r.version == "" {
			r.version = "latest"
		}
		return r, nil
	}
	return r, r.findModule()
}

// findModule finds the module of the folder, in it or above it.
func (r *request) findModule() error {
	folder, err := filepath.Abs(r.folder)
	if err != nil {
		return err
	}
	if _, err := os.Stat(folder); err != nil {
		return err
	}
	for at := folder; ; at = filepath.Dir(at) {
		data, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if errors.Is(err, os.ErrNotExist) && at != filepath.Dir(at) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s is not in a module of Go: %w", r.folder, err)
		}
		r.folder = at
		if r.module = modfile.ModulePath(data); r.module == "" {
			return fmt.Errorf("%s names no module", filepath.Join(at, "go.mod"))
		}
		below, err := filepath.Rel(at, folder)
		if err != nil {
			return err
		}
		if has := path.Join(r.module, filepath.ToSlash(below)); r.path != has {
			return fmt.Errorf("the folder has the package %s", has)
		}
		return nil
	}
}
