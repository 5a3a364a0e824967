package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// dist has the files of the page, which cmd/assets makes, all but fonts compressed.
//
//go:embed dist
var dist embed.FS

// policy lets the page load what this server has, and nothing else run in it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Page serves the page.
func Page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	serve(w, r, "index.html", "no-cache")
}

// Asset serves a file of the page. Its name changes with what is in it.
func Asset(w http.ResponseWriter, r *http.Request) {
	serve(w, r, r.PathValue("file"), "public, max-age=31536000, immutable")
}

func serve(w http.ResponseWriter, r *http.Request, name, cache string) {
	data, packed, err := read(path.Base(name), strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		api.Fail(w, http.StatusNotFound, "the console has no such file", "load the page again")
		return
	case err != nil:
		api.Fail(w, http.StatusInternalServerError, err.Error(), "")
		return
	case packed:
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", types[path.Ext(name)])
	w.Header().Set("Cache-Control", cache)
	_, _ = w.Write(data) // the client has left
}

// types are those of the files: a machine's own list may have others.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".woff2": "font/woff2",
}

// read returns a file, packed as it is kept if that may be.
func read(name string, mayPack bool) (data []byte, packed bool, err error) {
	data, err = dist.ReadFile("dist/" + name)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, false, err
	}
	if data, err = dist.ReadFile("dist/" + name + ".gz"); err != nil || mayPack {
		return data, true, err
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, false, err
	}
	data, err = io.ReadAll(r)
	return data, false, err
}
