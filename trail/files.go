package trail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// The folders of a store.
const (
	segmentDir = "segments"
	cohortDir  = "cohorts"
	walDir     = "wal"
	tmpDir     = "tmp"
	lockName   = "LOCK"
)

// A folder is the files of a store, and which names are free. Its methods can be called
// concurrently.
type folder struct {
	dir      string
	readOnly bool
	fs       vfs.FS
	mapped   bool // segments are mapped, being files of the real file system
	log      *slog.Logger
	next     atomic.Uint64 // no segment or cohort has this number or a higher one
}

func newFolder(dir string, opt Options) *folder {
	d := &folder{dir: dir, readOnly: opt.ReadOnly, fs: opt.fs, log: opt.Log}
	if d.fs == nil {
		d.fs, d.mapped = vfs.OS{ReadOnly: opt.ReadOnly}, true
	}
	return d
}

// path returns the path of a file of the store.
func (d *folder) path(elem ...string) string {
	return filepath.Join(d.dir, filepath.Join(elem...))
}

// names returns the names in a folder of the store, none if it is missing.
func (d *folder) names(elem ...string) ([]string, error) {
	names, err := d.fs.ReadDir(d.path(elem...))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

func (d *folder) segmentPath(name string) string { return d.path(segmentDir, name) }

// isAccessError reports whether an error, such as a missing permission or too many open
// files, does not mean that the file is damaged: the next try, or another user,
// may find it sound.
func isAccessError(err error) bool {
	_, of := errors.AsType[*fs.PathError](err)
	return of && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EIO)
}

// replace writes a file durably, or leaves the one that is there.
func (d *folder) replace(path string, content []byte) error {
	tmp := path + ".tmp"
	w, err := d.create(context.Background(), tmp)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	if err = w.finish(err); err != nil {
		return err
	}
	if err := d.fs.Rename(tmp, path); err != nil {
		return &renameError{errors.Join(err, d.fs.Remove(tmp))}
	}
	if err := d.fs.SyncDir(filepath.Dir(path)); err != nil {
		return &renameError{err}
	}
	return nil
}

// A renameError means that the new file may or may not be in place.
type renameError struct{ error }

func (e *renameError) Unwrap() error { return e.error }

// A fileWriter writes a new file from the beginning to the end.
type fileWriter struct {
	ctx  context.Context
	fs   vfs.FS
	path string
	f    vfs.File
	off  int64
}

// create makes a file. It replaces one that an earlier try has left.
func (d *folder) create(ctx context.Context, path string) (*fileWriter, error) {
	if err := d.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := d.fs.Create(path)
	if err != nil {
		return nil, err
	}
	return &fileWriter{ctx: ctx, fs: d.fs, path: path, f: f}, nil
}

// Write appends to the file; it fails once the context is done.
func (w *fileWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.f.WriteAt(p, w.off)
	w.off += int64(n)
	return n, err
}

// finish makes the file durable and closes it. If err is not nil, the error of a
// write, it deletes the file.
func (w *fileWriter) finish(err error) error {
	if err == nil {
		err = w.f.Sync()
	}
	err = errors.Join(err, w.f.Close())
	if err != nil {
		err = errors.Join(err, w.fs.Remove(w.path))
	}
	return err
}

// openSegment opens a segment file: mapped, or in tests read from their file
// system.
func (d *folder) openSegment(path string) (*segment.Segment, error) {
	if d.mapped {
		return segment.Open(path)
	}
	b, err := vfs.ReadFile(d.fs, path)
	if err != nil {
		return nil, err
	}
	return segment.FromBytes(path, b)
}

// merge writes one segment of several to a file in the folder for temporary files,
// durable. It returns its path, "" if no rows are left.
func (d *folder) merge(ctx context.Context, name string, inputs []segment.Input) (path string, err error) {
	path = d.path(tmpDir, name)
	w, err := d.create(ctx, path)
	if err != nil {
		return "", err
	}
	var sum segment.Summary
	err = guarded(func() (err error) {
		sum, err = segment.Merge(w, inputs)
		return err
	})
	if err = w.finish(err); err != nil {
		return "", err
	}
	if sum.Rows == 0 {
		return "", d.fs.Remove(path)
	}
	return path, nil
}

// install moves a temporary segment into its place and opens it. Its name there is not
// durable yet.
func (d *folder) install(path string, e entry) (*source, error) {
	to := d.segmentPath(e.File)
	if err := d.fs.Rename(path, to); err != nil {
		return nil, err
	}
	seg, err := d.openSegment(to)
	if err != nil {
		d.discard(to)
		return nil, err
	}
	return &source{entry: e.of(seg), seg: seg}, nil
}

func (d *folder) syncSegments() error { return d.fs.SyncDir(d.segmentPath("")) }

// dropUncommitted closes segments that were not committed, and deletes them unless the
// next Open may need them.
func (d *folder) dropUncommitted(made []*source, why error) {
	for _, src := range made {
		src.obsolete.Store(!mayBeCommitted(why))
		src.refs.Store(1)
		d.release(src)
	}
}

// release drops the reference of a snapshot to a source.
func (d *folder) release(src *source) {
	if src.refs.Add(-1) > 0 {
		return
	}
	d.close(src)
	if src.obsolete.Load() {
		d.discard(d.segmentPath(src.File))
	}
}

func (d *folder) close(src *source) {
	if src.seg == nil {
		return
	}
	if err := src.seg.Close(); err != nil {
		d.log.Warn("trail: unmap a segment", "file", src.File, "err", err)
	}
}

// discard deletes a file that nothing needs.
func (d *folder) discard(path string) {
	if err := d.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("trail: delete an obsolete file", "path", path, "err", err)
	}
}

// of returns an entry with what its segment says.
func (e entry) of(seg *segment.Segment) entry {
	e.Rows, e.Users, e.MinTime, e.MaxTime = int64(seg.Rows()), int64(seg.Users()), seg.MinTime(), seg.MaxTime()
	e.Bytes, e.IDs = seg.Size(), seg.HasIDs()
	return e
}

// segmentName returns a new name: a number that was never used, and the last commit
// in the segment, for rebuild.
func (d *folder) segmentName(commit uint64) string {
	return fmt.Sprintf("%012d-%d.seg", d.next.Add(1)-1, commit)
}

func isSegment(name string) bool { return strings.HasSuffix(name, ".seg") }

func parseSegmentName(name string) (number, commit uint64, ok bool) {
	_, err := fmt.Sscanf(name, "%d-%d.seg", &number, &commit)
	return number, commit, err == nil && isSegment(name)
}

// epochMonday is the Monday that weeks, and so buckets, are counted from.
const epochMonday = 4 * 24 * 60 * 60 * 1000

func bucketOf(millis, width int64) int64 {
	d := millis - epochMonday
	b := d / width
	if d%width < 0 {
		b--
	}
	return b
}
