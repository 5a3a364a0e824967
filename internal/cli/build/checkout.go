package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// host is the module of this product.
const host = "github.com/uniflow-labs/uniflow"

// released reports whether a version of the program is one of its module.
func released(version string) bool { return semver.IsValid(version) && semver.Build(version) == "" }

// A checkout is the source of this product in a folder.
type checkout struct {
	folder  string
	modules map[string]string // the folders of its modules, by path
	sums    []byte            // what modules that it needs must hash to
}

// readCheckout reads which modules a folder has: the host, and those that its workspace
// replaces, as they are released together.
func readCheckout(folder string) (*checkout, error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	c := &checkout{folder: abs}
	mod, err := os.ReadFile(filepath.Join(abs, "go.mod"))
	if err == nil && modfile.ModulePath(mod) != host {
		err = fmt.Errorf("its module is %q, not %s", modfile.ModulePath(mod), host)
	}
	if err != nil {
		return nil, hinted("name the folder that has go.mod and go.work of uniflow", "--source %s is not a checkout of uniflow: %w", folder, err)
	}
	c.modules = map[string]string{host: abs}
	work := filepath.Join(abs, "go.work")
	data, err := os.ReadFile(work)
	if err != nil {
		return nil, hinted("name a whole checkout", "--source %s: %w", folder, err)
	}
	file, err := modfile.ParseWork(work, data, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range file.Replace {
		c.modules[r.Old.Path] = filepath.Join(abs, filepath.FromSlash(r.New.Path))
	}
	for _, name := range []string{"go.sum", "go.work.sum"} {
		sums, err := os.ReadFile(filepath.Join(abs, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		c.sums = append(c.sums, sums...)
	}
	return c, nil
}
