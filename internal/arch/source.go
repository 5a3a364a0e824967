package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

const module = "github.com/uniflow-labs/uniflow"

// A file is a parsed Go file of the repository.
type file struct {
	path string // with slashes, from the root
	pkg  string // its folder, "" for the root
	ast  *ast.File
	set  *token.FileSet
	test bool
}

// lines returns the length of the file.
func (f file) lines() int { return f.set.Position(f.ast.FileEnd).Line - 1 }

// read parses all Go files below a folder, in the order of their paths.
func read(root string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "dist" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files = append(files, file{rel, parent(rel), parsed, set, strings.HasSuffix(rel, "_test.go")})
		return nil
	})
	return files, err
}
