package serve

import (
	"io/fs"
	"net/url"
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

// FuzzPlaceOf checks that what a target gets begins with a slash, means what the workflow
// has seen, and has no part that leads up.
func FuzzPlaceOf(f *testing.F) {
	for _, target := range []string{"/", "/api/x", "/api/../x", "/api/%2e%2e/x", "/api%2fx", "/api/a%2Fb", "/api/..%5cx", "/api//x", "/a/..;b/c", "/api", "/%61pi/x", "*", "/api/%252e%252e"} {
		f.Add(target, "/api")
		f.Add(target, "")
	}
	f.Fuzz(func(t *testing.T, target, strip string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strip != "" && (strip[0] != '/' || strings.HasSuffix(strip, "/") || strings.ContainsAny(strip, "%?#*:\x00\\")) {
			return
		}
		got, err := placeOf(u.Path, u.EscapedPath(), strip)
		if err != nil {
			return
		}
		path, raw := got.on(&url.URL{Path: "/base"})
		out := url.URL{Path: path, RawPath: raw}
		decoded, err := url.PathUnescape(out.EscapedPath())
		if err != nil || decoded != "/base"+got.path || out.RawPath != "" && out.EscapedPath() != out.RawPath {
			t.Errorf("%q without %q is %+v, sent as %q", target, strip, got, out.EscapedPath())
		}
		if want := strip + got.path; want != u.Path && want != u.Path+"/" {
			t.Errorf("%q without %q is %q", target, strip, got.path)
		}
		for _, part := range strings.FieldsFunc(decoded, func(r rune) bool { return r == '/' || r == '\\' }) {
			if part == ".." || part == "." || strings.HasPrefix(part, "..;") {
				t.Errorf("%q has the part %q", target, part)
			}
		}
	})
}
