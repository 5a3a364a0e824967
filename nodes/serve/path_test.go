package serve

import (
	"io/fs"
	"strings"
	"testing"
)

// FuzzFileOf checks that no path leads out of the folder, or to what is hidden.
func FuzzFileOf(f *testing.F) {
	for _, path := range []string{"/", "/a", "/a/", "/../x", "/.env", "/a//b", "/a\\b", "/\x00", "", "a", "/a/./b", "/.well-known/x", "/app", "/application", "/é"} {
		f.Add(path, "")
		f.Add(path, "/app")
	}
	f.Fuzz(func(t *testing.T, path, strip string) {
		got, ok := fileOf(path, strip)
		if !ok {
			if got != (target{}) {
				t.Errorf("%q is not a file, but %+v", path, got)
			}
			return
		}
		if !fs.ValidPath(got.name) || strings.ContainsAny(got.name, "\\\x00") || strings.Contains("/"+got.name, "/..") {
			t.Errorf("%q is the file %q", path, got.name)
		}
		if got.name == "." {
			return
		}
		for part := range strings.SplitSeq(got.name, "/") {
			if strings.HasPrefix(part, ".") && part != ".well-known" {
				t.Errorf("%q is the hidden file %q", path, got.name)
			}
		}
		again := strip + "/" + got.name
		if got.folder {
			again += "/"
		}
		if again != path {
			t.Errorf("%q is written as %q, too: two paths of one file", path, again)
		}
	})
}
