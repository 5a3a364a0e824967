package flight

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Handler serves the files. At the path with which it is mounted, ending with a
// slash, is the list of files, the latest first; below it is each file. Mount it
// with its prefix stripped.
func (r *Recorder) Handler() http.Handler { return http.HandlerFunc(r.serve) }

func (r *Recorder) serve(w http.ResponseWriter, req *http.Request) {
	name := strings.TrimPrefix(req.URL.Path, "/")
	if name == "" {
		r.list(w)
		return
	}
	if !kept(name) {
		http.NotFound(w, req)
		return
	}
	f, err := os.Open(filepath.Join(r.opts.Dir, name))
	if err != nil {
		http.NotFound(w, req) // perhaps it was removed, as the oldest are
		return
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if strings.HasSuffix(name, suffix) {
		w.Header().Set("Content-Type", "application/json")
	}
	http.ServeContent(w, req, "", info.ModTime(), f)
}

func (r *Recorder) list(w http.ResponseWriter) {
	files, err := r.files()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for i, j := 0, len(files)-1; i < j; i, j = i+1, j-1 {
		files[i], files[j] = files[j], files[i]
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(files); err != nil {
		r.opts.Log.Debug("listing slow processes", "error", err)
	}
}
