// Package glob has the patterns of paths that kinds take: * is any characters of one name, ?
// is one, [a-z] is one of a set, and ** between slashes is any number of folders, also none.
//
// Links to folders are followed where a pattern names them or has them for a *, and not for **, so
// that a link cannot lead in circles. The cost of finding files grows with what is in the folders that
// a pattern leads to. The package must not know what is done with the files.
package glob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/spell"
)

// IsPattern reports whether a path may match several files.
func IsPattern(path string) bool { return strings.ContainsAny(path, "*?[") }

// Check returns what is wrong with a pattern.
func Check(pattern string) error {
	if pattern == "" {
		return errors.New("a path is empty")
	}
	if _, err := filepath.Match(pattern, ""); err != nil {
		return fmt.Errorf("the pattern %q is not complete", pattern)
	}
	return nil
}

// Match reports whether a pattern matches a path, whether there is such a file or not.
func Match(pattern, path string) bool {
	if !isDeep(pattern) {
		ok, err := filepath.Match(pattern, path)
		return ok && err == nil
	}
	p := deep(split(pattern))
	at := p.start()
	for _, name := range split(path) {
		at = p.next(at, name, true)
	}
	return p.ends(at)
}

// Expand returns the paths that a pattern matches now, in order; with **, no folders. A path that is
// no pattern is itself, whether it is there or not. Folders that cannot be read have nothing.
func Expand(pattern string) (paths []string) {
	switch {
	case !IsPattern(pattern):
		return []string{pattern}
	case !isDeep(pattern):
		paths, _ = filepath.Glob(pattern) // the only error is a pattern that is not complete
		return paths
	}
	walk(pattern, func(path string, folder bool) {
		if !folder {
			paths = append(paths, path)
		}
	})
	slices.Sort(paths)
	return paths
}

// Folder returns the pattern of the folders that files of a pattern are in. A ** at the end stands for files
// as well as for folders.
func Folder(pattern string) string {
	if filepath.Base(pattern) == "**" {
		return pattern
	}
	return filepath.Dir(pattern)
}

// Folders returns the folders that files of patterns are in now, each once.
func Folders(patterns []string) (folders []string) {
	seen := make(map[string]bool)
	add := func(dir string, folder bool) {
		if folder && !seen[dir] {
			seen[dir] = true
			folders = append(folders, dir)
		}
	}
	for _, pattern := range patterns {
		if dir := Folder(pattern); isDeep(dir) {
			walk(dir, add)
		} else {
			for _, path := range Expand(dir) {
				add(path, true)
			}
		}
	}
	return folders
}

// isDeep reports whether a pattern has ** between slashes.
func isDeep(pattern string) bool {
	return strings.Contains(pattern, "**") && slices.Contains(split(pattern), "**")
}

func split(path string) []string { return strings.Split(filepath.ToSlash(filepath.Clean(path)), "/") }

// deep is a pattern, by the names between its slashes. A state of it is how many of these have
// matched; all states that a path may be in are followed together, so each path is seen once,
// however many ** there are.
type deep []string

// start returns the states in front of the first name.
func (p deep) start() []int { return p.add(nil, 0) }

// add adds a state, and those after a ** that stands for none.
func (p deep) add(states []int, at int) []int {
	for ; !slices.Contains(states, at); at++ {
		states = append(states, at)
		if at == len(p) || p[at] != "**" {
			break
		}
	}
	return states
}

// next returns the states after a name. into says that ** may be it.
func (p deep) next(states []int, name string, into bool) (after []int) {
	for _, at := range states {
		if at == len(p) {
			continue
		}
		if p[at] == "**" {
			if into {
				after = p.add(after, at)
			}
		} else if ok, err := filepath.Match(p[at], name); ok && err == nil {
			after = p.add(after, at+1)
		}
	}
	return after
}

func (p deep) ends(states []int) bool { return slices.Contains(states, len(p)) }

// walk calls f for what a pattern with ** matches. It goes only into folders in which there may
// be some.
func walk(pattern string, f func(path string, folder bool)) {
	base := fixed(pattern)
	names := len(split(base))
	switch base {
	case ".":
		names = 0
	case string(filepath.Separator):
		names = 1
	}
	p := deep(split(pattern)[names:])
	p.walk(base, p.start(), f)
}

// walk calls f for what is in a folder, and for the folder, given the states after it.
func (p deep) walk(dir string, states []int, f func(path string, folder bool)) {
	if p.ends(states) {
		f(dir, true)
	}
	if len(states) == 0 || len(states) == 1 && p.ends(states) {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path, folder, link := filepath.Join(dir, e.Name()), e.IsDir(), e.Type()&fs.ModeSymlink != 0
		if link {
			info, err := os.Stat(path)
			folder = err == nil && info.IsDir()
		}
		if after := p.next(states, e.Name(), !folder || !link); folder {
			p.walk(path, after, f)
		} else if p.ends(after) {
			f(path, false)
		}
	}
}

// Missing says why a path leads to no file now, and what to write; not ok if there is one, or
// if one may still come: with later, that is so if its folder is there.
func Missing(path string, later bool) (why, hint string, ok bool) {
	if at := strings.Index(path, "**"); at >= 0 && !isDeep(path) {
		dir, name := path[:at], strings.TrimLeft(path[at:], "*")
		return fmt.Sprintf("the ** of %q is one *: it stands for folders only between slashes", path), fmt.Sprintf("write %s**/*%s for files of any depth", dir, name), true
	}
	if strings.HasPrefix(path, "~") {
		return fmt.Sprintf("%q begins with ~, which only a shell replaces", path), "write the whole path, or bind HOME in env: {{ .HOME }}" + strings.TrimPrefix(path, "~"), true
	}
	found := Expand(path)
	if IsPattern(path) && len(found) > 0 {
		return "", "", false
	}
	const from = "; paths count from the folder that the program runs in"
	if dir := fixed(path); dir != "." {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Sprintf("the folder of %q is not there", path), near(dir, "make the folder "+dir+" first"+from), true
		}
	}
	if IsPattern(path) {
		switch {
		case later:
			return "", "", false
		case strings.Contains(path, "{"):
			return fmt.Sprintf("no file matches %q: braces are themselves here", path), "write a pattern for each, such as ['*.csv', '*.tsv']", true
		}
		return fmt.Sprintf("no file matches %q now", path), "check the pattern" + from, true
	}
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return fmt.Sprintf("%q is a folder", path), "write " + filepath.Join(path, "*") + " for the files in it", true
	case err != nil && !later:
		return fmt.Sprintf("there is no file %q now", path), near(path, "check the path"+from), true
	}
	return "", "", false
}

// fixed returns the folder of a path in front of its first pattern.
func fixed(path string) string {
	dir := filepath.Dir(path)
	for IsPattern(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// near suggests another name of what is in the folder of a path.
func near(path, otherwise string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) > 1000 {
		return otherwise
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if name, ok := spell.Nearest(filepath.Base(path), names); ok {
		return fmt.Sprintf("did you mean %q?", filepath.Join(filepath.Dir(path), name))
	}
	return otherwise
}
