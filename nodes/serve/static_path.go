package serve

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"syscall"
)

// A target is a file of the folder, by its path from the root.
type target struct {
	name   string // as io/fs has it; "." is the root
	folder bool   // the path ends with a slash, so it must be one
}

var errNotFound = errors.New("not found")

// fileOf returns the file that a path of a request, which is decoded, stands for. A path
// with empty parts, parts of dots alone, backslashes or NUL is not the path of a file: so
// each file has one path, and no two rules of a router can disagree about it.
func fileOf(urlPath, strip string) (t target, ok bool) {
	rest, ok := strings.CutPrefix(urlPath, strip)
	if !ok || rest != "" && rest[0] != '/' {
		return target{}, false
	}
	if rest == "" || rest == "/" {
		return target{".", rest != ""}, true
	}
	rest = rest[1:]
	if trimmed, is := strings.CutSuffix(rest, "/"); is {
		rest, t.folder = trimmed, true
	}
	if !fs.ValidPath(rest) || rest == "." || strings.ContainsAny(rest, "\\\x00") || hidden(rest) {
		return target{}, false
	}
	t.name = rest
	return t, true
}

// hidden reports whether a part of a path begins with a dot. That of RFC 8615 is public.
func hidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part[0] == '.' && part != ".well-known" {
			return true
		}
	}
	return false
}

// find opens the file that answers a request.
func (n *static) find(r *http.Request, urlPath string) (*fileAnswer, error) {
	t, ok := fileOf(urlPath, n.strip)
	if !ok {
		return nil, refusal(http.StatusNotFound, "")
	}
	a, err := n.open(r, t)
	if errors.Is(err, errNotFound) && n.spa && isRoute(t.name) {
		a, err = n.open(r, target{name: n.index})
	}
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, errNotFound):
		return nil, refusal(http.StatusNotFound, "")
	case errors.Is(err, fs.ErrPermission):
		return nil, refusal(http.StatusForbidden, "")
	}
	return nil, err
}

// isRoute reports whether a path may be a route of an application in the browser, rather
// than the path of a file which is missing.
func isRoute(name string) bool { return name == "." || !strings.Contains(path.Base(name), ".") }

// open opens a file, or the index of a folder. The error is errNotFound if there is none.
func (n *static) open(r *http.Request, t target) (*fileAnswer, error) {
	f, info, err := n.stat(t.name)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		if err := f.Close(); err != nil {
			return nil, err
		}
		if n.index == "" {
			return nil, errNotFound
		}
		name := path.Join(t.name, n.index)
		if f, info, err = n.stat(name); err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, errors.Join(errNotFound, f.Close())
		}
		if !strings.HasSuffix(r.URL.Path, "/") { // relative links of the page need the slash
			return &fileAnswer{redirect: slashed(r.URL)}, f.Close()
		}
		t.name = name
	case t.folder, !info.Mode().IsRegular():
		return nil, errors.Join(errNotFound, f.Close())
	}
	return n.answer(r, t.name, f, info)
}

// A file is an open file or folder.
type file interface {
	io.ReadSeekCloser
	Stat() (fs.FileInfo, error)
}

// stat opens what has a name.
func (n *static) stat(name string) (file, fs.FileInfo, error) {
	f, err := n.root.open(name)
	if err != nil {
		return nil, nil, missing(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(missing(err), f.Close())
	}
	return f, info, nil
}

// missing returns errNotFound for each error that says that there is no such file within
// the folder. What other errors say is not for a client.
func missing(err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid),
		errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENXIO):
		return errNotFound
	case errors.As(err, &at):
		var number syscall.Errno
		if !errors.As(at.Err, &number) { // of os.Root: the path, or a link in it, leads out
			return errNotFound
		}
	}
	return err
}

// slashed returns where a folder is that was asked for without a slash at the end: relative
// to the page, so that it leads to no other host.
func slashed(u *url.URL) string {
	to := url.URL{Path: "./" + path.Base(u.Path) + "/", RawQuery: u.RawQuery}
	return to.String()
}
