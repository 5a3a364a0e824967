package loader

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
)

// files is the sink that keeps events as NDJSON: events-000001.ndjson and so on.
// A batch is in one file. All fields but count are owned by the committer.
type files struct {
	series
	rotate int64
	log    *slog.Logger

	at     Position // where the next event goes
	f      *os.File // nil until something is appended
	fresh  bool     // the next event begins a file
	failed bool     // since the last Cut
	dirty  bool     // something was appended since the last fsync
	count  int
}

// newFiles returns a sink in a folder that exists. It must be cut first.
func newFiles(dir string, rotate int64, log *slog.Logger) *files {
	return &files{series: series{dir, "events-", ".ndjson"}, rotate: rotate, log: log}
}

// Append adds lines.
func (s *files) Append(lines []byte) (span Span, err error) {
	defer func() { s.failed = s.failed || err != nil }()
	size := int64(len(lines))
	if s.at.Offset > 0 && (s.fresh || s.at.Offset+size > s.rotate) {
		if err := s.Sync(); err != nil {
			return Span{}, err
		}
		if err := s.close(); err != nil {
			return Span{}, err
		}
		s.at = Position{s.at.File + 1, 0}
	}
	if s.f == nil {
		if err := s.open(); err != nil {
			return Span{}, err
		}
	}
	s.fresh = false
	s.dirty = true
	if _, err := s.f.WriteAt(lines, s.at.Offset); err != nil {
		return Span{}, err
	}
	span = Span{s.at, size}
	s.at.Offset += size
	return span, nil
}

// open opens the file that the next event goes to.
func (s *files) open() (err error) {
	if s.at.Offset > 0 {
		s.f, err = os.OpenFile(s.path(s.at.File), os.O_WRONLY, 0)
		return err // of a file that has just been moved away, say: then Cut begins another
	}
	for s.at.File = max(s.at.File, 1); ; s.at.File++ {
		s.f, err = os.OpenFile(s.path(s.at.File), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			s.count++
			return syncFolder(s.dir)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A file that is there and has nothing is one of ours, from a write that
		// failed. Any other is not touched.
		if info, statErr := os.Stat(s.path(s.at.File)); statErr == nil && info.Size() == 0 {
			s.f, err = os.OpenFile(s.path(s.at.File), os.O_WRONLY, 0)
			return err
		}
	}
}

// Sync makes durable what was appended.
func (s *files) Sync() error {
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

// Cut shortens the file of a position, and removes those after it. After an error
// the next event begins a new file: one that could not be written or synced is
// not trusted with more, and one that is as large as the system allows takes no
// more.
func (s *files) Cut(p Position) error {
	if err := s.close(); err != nil {
		s.log.Warn("a file of events could not be closed", "error", err) // it is cut below all the same
	}
	s.dirty = false
	all, err := s.list()
	if err != nil {
		return err
	}
	s.at, s.count = p, 0
	for _, n := range all {
		if n > p.File {
			if err := remove(s.path(n)); err != nil {
				return err
			}
			continue
		}
		s.count++
	}
	switch size, err := cutFile(s.path(p.File), p.Offset); {
	case errors.Is(err, fs.ErrNotExist):
		s.fresh = true // it was moved away, or nothing was written yet
	case err != nil:
		return err
	case size < p.Offset:
		s.log.Error("events are missing at the end of a file", "file", s.path(p.File), "bytes", size, "vouched", p.Offset)
		s.fresh = true
	default:
		s.fresh = s.failed
	}
	s.failed = false
	return syncFolder(s.dir)
}

// End returns the beginning of the file after the newest.
func (s *files) End() (Position, error) {
	all, err := s.list()
	if err != nil || len(all) == 0 {
		return Position{}, err
	}
	return Position{all[len(all)-1] + 1, 0}, nil
}

// Files returns how many files there are.
func (s *files) Files() int { return s.count }

// Close closes the file that is open.
func (s *files) Close() error { return s.close() }

func (s *files) close() error {
	if s.f == nil {
		return nil
	}
	f := s.f
	s.f = nil
	return f.Close()
}
