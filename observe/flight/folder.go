package flight

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stamp returns the beginning of a file name, which sorts by time.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405.000000") }

// write writes a file atomically.
func (r *Recorder) write(name string, fill func(*bufio.Writer) error) (err error) {
	f, err := os.CreateTemp(r.opts.Dir, partPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriter(f)
	err = fill(w)
	if err == nil {
		err = w.Flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(r.opts.Dir, name))
}

// trim removes the oldest files until the folder is within its bounds, and parts that
// a killed program has left. Several programs may share the folder.
func (r *Recorder) trim() error {
	files, err := r.files()
	if err != nil {
		return err
	}
	var bytes int64
	for _, f := range files {
		bytes += f.Bytes
	}
	var errs []error
	for i := 0; i < len(files) && (bytes > r.opts.Bytes || len(files)-i > maxFiles); i++ {
		bytes -= files[i].Bytes
		errs = append(errs, r.remove(files[i].Name))
	}
	parts, err := filepath.Glob(filepath.Join(r.opts.Dir, partPrefix+"*"))
	errs = append(errs, err)
	for _, part := range parts {
		if info, err := os.Stat(part); err == nil && time.Since(info.ModTime()) > partAge {
			errs = append(errs, r.remove(filepath.Base(part)))
		}
	}
	return errors.Join(errs...)
}

// A part is a file that is being written, which takes seconds. A part older than
// partAge is left over.
const (
	partPrefix = ".part-"
	partAge    = time.Hour
)

func (r *Recorder) remove(name string) error {
	err := os.Remove(filepath.Join(r.opts.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

type file struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// files lists the files of the recorder, the oldest first. It skips other files.
func (r *Recorder) files() ([]file, error) {
	entries, err := os.ReadDir(r.opts.Dir)
	if err != nil {
		return nil, err
	}
	files := []file{}
	for _, e := range entries {
		if !kept(e.Name()) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file{e.Name(), info.Size()})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// kept reports whether a name begins with a stamp.
func kept(name string) bool {
	const layout = "20060102T150405.000000"
	if len(name) < len(layout) || !strings.HasSuffix(name, suffix) && !strings.HasSuffix(name, traced) {
		return false
	}
	_, err := time.Parse(layout, name[:len(layout)])
	return err == nil && filepath.Base(name) == name
}
