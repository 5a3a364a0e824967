package console

import (
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// dist has the files of the page, which web/bundle makes, all but fonts compressed.
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
	data, err := fs.ReadFile(dist, path.Join("dist", path.Base(name)+".gz"))
	switch {
	case err == nil && !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		http.Error(w, "the page is sent with gzip only: curl --compressed", http.StatusNotAcceptable)
		return
	case err == nil:
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Vary", "Accept-Encoding")
	default:
		if data, err = fs.ReadFile(dist, path.Join("dist", path.Base(name))); err != nil {
			http.NotFound(w, r)
			return
		}
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".woff2" {
		kind = "font/woff2"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", cache)
	_, _ = w.Write(data) // the client has left
}
