package loader

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A position is a place in the files of events. The zero value is before
// everything.
type position struct {
	File   uint64 // numbered from 1
	Offset int64  // bytes
}

// before reports whether a position comes before another.
func (p position) before(q position) bool {
	return p.File < q.File || p.File == q.File && p.Offset < q.Offset
}

// files keep events as NDJSON: events-000001.ndjson and so on. A batch is in one
// file. The committer owns all fields.
//
// After an error of append or sync the next call must be cut.
type files struct {
	fs     vfs.FS
	dir    string
	rotate int64
	log    *slog.Logger

	end    position // where the next event goes
	f      vfs.File // nil until something is appended
	fresh  bool     // the next event begins a file
	failed bool     // since the last cut
	dirty  bool     // something was appended since the last fsync
	count  int
}

func series() vfs.Series {
	return vfs.Series{Prefix: "events-", Suffix: ".ndjson", Base: 10, Digits: 6}
}

// newFiles returns the files of a folder that exists. The first call must be cut.
func newFiles(fsys vfs.FS, dir string, rotate int64, log *slog.Logger) *files {
	return &files{fs: fsys, dir: dir, rotate: rotate, log: log}
}

func (s *files) path(n uint64) string { return filepath.Join(s.dir, series().Name(n)) }

// list returns the numbers of the files that are there, in order.
func (s *files) list() ([]uint64, error) {
	names, err := s.fs.ReadDir(s.dir)
	return series().Numbers(names), err
}

// append adds the lines of a batch.
func (s *files) append(lines []byte) (err error) {
	defer func() { s.failed = s.failed || err != nil }()
	size := int64(len(lines))
	if s.end.Offset > 0 && (s.fresh || s.end.Offset+size > s.rotate) {
		if err := s.sync(); err != nil {
			return err
		}
		if err := s.close(); err != nil {
			return err
		}
		s.end = position{s.end.File + 1, 0}
	}
	if s.f == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	s.fresh = false
	s.dirty = true
	if _, err := s.f.WriteAt(lines, s.end.Offset); err != nil {
		return err
	}
	s.end.Offset += size
	return nil
}

// open opens the file for the next event.
func (s *files) open() (err error) {
	if s.end.Offset > 0 {
		s.f, err = s.fs.Open(s.path(s.end.File))
		return err // for example, the file has just been moved away: then cut begins another
	}
	for s.end.File = max(s.end.File, 1); ; s.end.File++ {
		path := s.path(s.end.File)
		s.f, err = s.fs.Create(path)
		if err == nil {
			s.count++
			return s.fs.SyncDir(s.dir)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// An empty file is ours, from a write that failed. Any other is not touched.
		if f, err := s.fs.Open(path); err == nil {
			if size, err := f.Size(); err == nil && size == 0 {
				s.f = f
				return nil
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
}

// sync makes durable what was appended.
func (s *files) sync() error {
	if !s.dirty {
		return nil
	}
	if err := s.f.Sync(); err != nil {
		s.failed = true
		return err
	}
	s.dirty = false
	return nil
}

// cut removes all events after a position: it shortens the file of the position,
// and removes the files after it. After an error the next event begins a new file: a
// file that could not be written or synced is not trusted with more, and one that
// is as large as the system allows takes no more.
func (s *files) cut(p position) error {
	if err := s.close(); err != nil {
		s.log.Warn("a file of events could not be closed", "error", err) // it is cut below all the same
	}
	s.dirty = false
	all, err := s.list()
	if err != nil {
		return err
	}
	s.end, s.count = p, 0
	for _, n := range all {
		if n > p.File {
			if err := remove(s.fs, s.path(n)); err != nil {
				return err
			}
			continue
		}
		s.count++
	}
	switch size, err := s.cutFile(p); {
	case errors.Is(err, fs.ErrNotExist):
		s.fresh = true // it was moved away, or nothing was written yet
	case err != nil:
		return err
	case size < p.Offset:
		s.log.Error("events are missing at the end of a file", "file", s.path(p.File), "bytes", size, "want", p.Offset)
		s.fresh = true
	default:
		s.fresh = s.failed
	}
	s.failed = false
	return s.fs.SyncDir(s.dir)
}

// cutFile shortens the file of a position, durably, and returns its size before.
// It opens the file again: a descriptor whose fsync has failed is not reliable. It
// shortens the file even if that seems to be done: an fsync that failed may have
// dropped the new length.
func (s *files) cutFile(p position) (size int64, err error) {
	f, err := s.fs.Open(s.path(p.File))
	if err != nil {
		return 0, err
	}
	size, err = f.Size()
	if err == nil && size >= p.Offset {
		err = f.Truncate(p.Offset)
	}
	if err == nil {
		err = f.Sync()
	}
	return size, errors.Join(err, f.Close())
}

// next returns the beginning of the file after the newest, the zero position if
// there are no files.
func (s *files) next() (position, error) {
	all, err := s.list()
	if err != nil || len(all) == 0 {
		return position{}, err
	}
	return position{all[len(all)-1] + 1, 0}, nil
}

func (s *files) close() error {
	if s.f == nil {
		return nil
	}
	f := s.f
	s.f = nil
	return f.Close()
}

// remove removes a file if it is there.
func remove(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
