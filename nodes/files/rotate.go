package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// full reports whether a record of some bytes belongs into another file.
func (out *output) full(now time.Time, bytes int64) bool {
	return out.size > 0 && (out.o.bytes > 0 && out.size+bytes > out.o.bytes || out.o.interval > 0 && period(now, out.o.interval).After(out.since))
}

// period returns when the period began that t is in.
func period(t time.Time, d time.Duration) time.Time {
	return time.Unix(0, t.UnixNano()/int64(d)*int64(d))
}

// rotatedTime is how the time of rotation stands in a name, so that names sort by it.
const rotatedTime = "20060102T150405.000Z"

// rotate gives the file another name, and deletes old ones.
func (out *output) rotate(now time.Time) error {
	if err := errors.Join(out.syncLocked(), out.close()); err != nil {
		return err
	}
	ext := filepath.Ext(out.path)
	stem := strings.TrimSuffix(out.path, ext)
	for t := now.UTC(); ; t = t.Add(time.Millisecond) {
		to := stem + "." + t.Format(rotatedTime) + ext
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := os.Rename(out.path, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		break
	}
	if out.o.keep > 0 {
		if err := out.drop(stem, ext); err != nil {
			out.o.log.Warn("old files were not deleted", "path", out.path, "err", err)
		}
	}
	return nil
}

var rotatedName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z$`)

// drop deletes the oldest files that were rotated.
func (out *output) drop(stem, ext string) error {
	dir := filepath.Dir(stem)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), filepath.Base(stem)+".")
		if ok {
			name, ok = strings.CutSuffix(name, ext)
		}
		if ok && rotatedName.MatchString(name) {
			old = append(old, e.Name())
		}
	}
	slices.Sort(old)
	var errs []error
	for _, name := range old[:max(0, len(old)-out.o.keep)] {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
