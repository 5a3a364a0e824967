package trail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
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

func (s *Store) segmentPath(name string) string { return filepath.Join(s.dir, segmentDir, name) }

// isAccessError reports whether an error, such as that of a permission or of too many
// open files, does not mean that the file is damaged: the next try, or another user,
// may find it sound.
func isAccessError(err error) bool {
	_, of := errors.AsType[*fs.PathError](err)
	return of && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EIO)
}

// replaceFile writes a file durably, or leaves the one that is there.
func replaceFile(fsys vfs.FS, path string, content []byte) error {
	tmp := path + ".tmp"
	w, err := createFile(context.Background(), fsys, tmp)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	if err = w.finish(err); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return &renameError{errors.Join(err, fsys.Remove(tmp))}
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
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

// createFile makes a file. It replaces one that an earlier try has left.
func createFile(ctx context.Context, fsys vfs.FS, path string) (*fileWriter, error) {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := fsys.Create(path)
	if err != nil {
		return nil, err
	}
	return &fileWriter{ctx: ctx, fs: fsys, path: path, f: f}, nil
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
func openSegment(fsys vfs.FS, mapped bool, path string) (*segment.Segment, error) {
	if mapped {
		return segment.Open(path)
	}
	b, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	return segment.FromBytes(path, b)
}

// merge writes one segment of several to a file in the folder for temporary
// files, durable. It returns its path, "" if no rows are left.
func (s *Store) merge(ctx context.Context, name string, inputs []segment.Input) (path string, sum segment.Summary, err error) {
	path = filepath.Join(s.dir, tmpDir, name)
	w, err := createFile(ctx, s.fs, path)
	if err != nil {
		return "", sum, err
	}
	err = guarded(func() error {
		sum, err = segment.Merge(w, inputs)
		return err
	})
	if err = w.finish(err); err != nil {
		return "", sum, err
	}
	if sum.Rows == 0 {
		return "", sum, s.fs.Remove(path)
	}
	return path, sum, nil
}

func mergeImage(inputs []segment.Input) (*segment.Segment, error) {
	var buf bytes.Buffer
	if _, err := segment.Merge(&buf, inputs); err != nil {
		return nil, err
	}
	return segment.FromBytes("memory", buf.Bytes())
}

func entryOf(seg *segment.Segment, file string, bucket int64, commit, applied uint64) entry {
	return entry{
		File: file, Bucket: bucket, Commit: commit, Applied: applied,
		Rows: int64(seg.Rows()), Users: int64(seg.Users()), MinTime: seg.MinTime(), MaxTime: seg.MaxTime(),
		Bytes: seg.Size(), IDs: seg.HasIDs(),
	}
}

// segmentName returns a new name: a number that was never used, and the last commit
// in the segment, for rebuild.
func (s *Store) segmentName(commit uint64) string {
	return fmt.Sprintf("%012d-%d.seg", s.nextFile.Add(1)-1, commit)
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
