package lsp

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const (
	maxFiles = 2000    // of the folders of an editor
	maxSize  = 4 << 20 // of a file in them, in bytes
)

// fileOf returns the path of a URI; the URI itself if it is not of a file.
func fileOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	path := u.Path
	if runtime.GOOS == "windows" { // file:///c:/folder
		path = strings.TrimPrefix(path, "/")
	}
	return filepath.FromSlash(path)
}

// uriOf returns the URI of a path.
func uriOf(file string) string {
	if strings.Contains(file, "://") || strings.HasPrefix(file, "untitled:") {
		return file
	}
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

var (
	kindField = regexp.MustCompile(`(?m)^[-{\[ \t]{0,6}"?kind"?[ \t]*:`)
	otherKind = regexp.MustCompile(`(?m)^[-{ \t]{0,4}"?(apiVersion|\$schema)"?[ \t]*:`) // of Kubernetes, of JSON Schema
)

// isWorkflow reports whether a text is a workflow document, which other YAML in the same folders is not: it
// has the field kind where specs have it, or the name of the file says so.
func isWorkflow(file string, text []byte) bool {
	name := filepath.Base(file)
	if strings.HasSuffix(name, ".flow.yaml") || strings.HasSuffix(name, ".flow.yml") || name == "flow.yaml" {
		return true
	}
	return kindField.Match(text) && !otherKind.Match(text)
}

// isDocument reports whether a file can be a workflow document by its name.
func isDocument(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(filepath.Base(name), ".")
	}
	return false
}

// walk calls visit for the workflow documents in a folder and the folders in it, except hidden ones and
// those of packages. What cannot be read is left out: it is not open in the editor.
func walk(folder string, visit func(file string, text []byte)) {
	seen := 0
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error { // visit has no errors
		switch {
		case err != nil:
			return fs.SkipDir
		case seen > maxFiles:
			return fs.SkipAll
		case entry.IsDir():
			if name := entry.Name(); path != folder && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "vendor") {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !isDocument(path):
			return nil
		}
		seen++
		if text, ok := read(path); ok && isWorkflow(path, text) {
			visit(path, text)
		}
		return nil
	})
}

// read reads a file that may be a document.
func read(file string) ([]byte, bool) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSize {
		return nil, false
	}
	text, err := os.ReadFile(file)
	return text, err == nil
}
