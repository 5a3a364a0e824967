package trail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A DamagedError reports that a segment of the store is damaged or missing. Discard
// gives the segment up.
type DamagedError struct {
	Dir  string // of the store
	File string // the segment, in the folder "segments"
	Err  error  // what is wrong
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v; %s", e.Err, discardHint(e.Dir, e.File))
}

func (e *DamagedError) Unwrap() error { return e.Err }

func discardHint(dir, file string) string {
	return fmt.Sprintf("to give the segment up: uniflow trail discard --db %s --segment %s", shellWord(dir), file)
}

func shellWord(path string) string {
	if strings.ContainsAny(path, " \t\n'\"$&|;()<>*?") {
		return strconv.Quote(path)
	}
	return path
}

func (d *folder) damaged(src *source, err error) error {
	return &DamagedError{Dir: d.dir, File: src.File, Err: err}
}

// asDamaged makes a *DamagedError of an error about the segment file of a source. An
// error about an image in memory stays as it is.
func (sn *snapshot) asDamaged(err error) error {
	damage, ok := errors.AsType[*segment.DamageError](err)
	if _, done := errors.AsType[*DamagedError](err); !ok || done {
		return err
	}
	for _, src := range sn.sources {
		if !src.memory && sn.state.files.segmentPath(src.File) == damage.Path {
			return sn.state.files.damaged(src, err)
		}
	}
	return err
}

// lostDir is where Discard puts segments. Nothing reads it.
const lostDir = "lost"

// Discard gives up a damaged or missing segment, durably: its events are gone, and
// queries and compactions do not fail for it any more. The file moves to the folder
// "lost" of the store, which nothing reads; it may still have events of deleted
// users. rows is how many events the segment had. A segment that is not damaged is
// refused. file is a name as in Info and in errors; a folder before it is ignored.
func (s *Store) Discard(ctx context.Context, file string) (rows int64, err error) {
	err = s.change(ctx, func(ctx context.Context) error {
		file = filepath.Base(file)
		err := s.compactor.do(ctx, func() (err error) {
			rows, err = s.discardSegment(file)
			return err
		})
		if err != nil {
			return fmt.Errorf("discard segment %s: %w", file, err)
		}
		return nil
	})
	return rows, err
}

func (s *Store) discardSegment(file string) (rows int64, err error) {
	sn, err := s.state.view()
	if err != nil {
		return 0, err
	}
	defer sn.unpin()
	i := slices.IndexFunc(sn.sources, func(src *source) bool { return !src.memory && src.File == file })
	if i < 0 {
		return 0, errors.New("the store has no such segment")
	}
	src := sn.sources[i]
	if sound, err := s.files.sound(src); sound || err != nil {
		if err == nil {
			err = errors.New("it is not damaged, and stays")
		}
		return 0, err
	}
	// The file first: what no manifest names is deleted at the next Open, and a file
	// that is missing can be given up as well.
	back, err := s.files.moveToLost(file)
	if err != nil {
		return 0, err
	}
	err = s.catalog.commit(func(m *manifest) error {
		before := len(m.Segments)
		m.Segments = slices.DeleteFunc(m.Segments, func(e entry) bool { return e.File == file })
		if len(m.Segments) == before {
			return errors.New("the store has no such segment any more")
		}
		return nil
	}, func() []*source {
		s.state.replaceLocked([]*source{src})
		return nil // its file stays
	})
	if err != nil {
		if !mayBeCommitted(err) {
			err = errors.Join(err, back())
		}
		return 0, err
	}
	return src.Rows, nil
}

// sound reads a segment file as it is now on the disk.
func (d *folder) sound(src *source) (bool, error) {
	path := d.segmentPath(src.File)
	seg, err := d.openSegment(path)
	if err != nil {
		if !isAccessError(err) {
			err = nil // it is damaged, which is the answer
		}
		return false, err
	}
	damages := 0
	err = guarded(func() error {
		damages = len(seg.Verify())
		return nil
	})
	sound := err == nil && damages == 0 && int64(seg.Rows()) == src.Rows
	return sound, seg.Close()
}

// moveToLost moves a segment file, if it is there, and returns what moves it back.
func (d *folder) moveToLost(file string) (back func() error, err error) {
	from, to := d.segmentPath(file), d.path(lostDir, file)
	if err := d.fs.MkdirAll(filepath.Dir(to)); err != nil {
		return nil, err
	}
	err = d.fs.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	back = func() error { return d.fs.Rename(to, from) }
	if err := errors.Join(d.fs.SyncDir(d.dir), d.fs.SyncDir(filepath.Dir(to)), d.fs.SyncDir(d.segmentPath(""))); err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}
