package trail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

func (s *Store) openWriter() (err error) {
	found := readManifests(s.fs, s.dir).best
	missing := false
	if found != nil {
		if missing, err = s.logMissing(found); err != nil {
			return err
		}
	}
	for _, d := range []string{"", segmentDir, cohortDir, tmpDir, walDir} {
		if err := s.fs.MkdirAll(filepath.Join(s.dir, d)); err != nil {
			return err
		}
	}
	if s.lock, err = lockStore(s.fs, s.dir, s.now(), s.log); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if s.wal != nil {
				err = errors.Join(err, s.wal.Close())
			}
			err = errors.Join(err, s.acked.note.Close(), s.lock.Close())
		}
	}()
	if err := s.readOrMake(); err != nil {
		return err
	}
	s.applyManifest(s.manifest.current, nil)
	if err := s.deleteOrphans(); err != nil {
		return err
	}
	if err := s.openLog(missing); err != nil {
		return err
	}
	s.mu.Lock()
	s.publishLocked()
	s.mu.Unlock()
	s.sweeper.start(s.ctx, &s.wg)
	s.wg.Go(newCommitter(s).run)
	s.wg.Go(s.flushLoop)
	s.wg.Go(s.compactLoop)
	notify(s.wakeFlusher)
	notify(s.wakeCompactor)
	return nil
}

// readOrMake sets the manifest: the one that is there, with both copies made equal,
// or that of a new store.
func (s *Store) readOrMake() error {
	found := readManifests(s.fs, s.dir)
	for i, err := range found.errs {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Error("trail: a copy of the manifest is damaged", "path", filepath.Join(s.dir, manifestNames[i]), "err", err)
		}
	}
	man := found.best
	switch {
	case man != nil:
	case found.none():
		names, err := s.fs.ReadDir(filepath.Join(s.dir, segmentDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if slices.ContainsFunc(names, isSegment) {
			return s.rebuild(errors.New("both are missing, and there are segments"))
		}
		man = &manifest{Version: manifestVersion, Bucket: s.opt.Bucket.Milliseconds()}
	default:
		for _, err := range found.errs {
			if v, ok := errors.AsType[*versionError](err); ok {
				return v
			}
		}
		if slices.ContainsFunc(found.errs[:], isAccessError) {
			return found.err()
		}
		return s.rebuild(found.err())
	}
	s.manifest.current, s.manifest.generation = man, man.Generation
	if found.same() {
		return nil
	}
	err := s.rewriteManifest()
	if err != nil && found.best != nil {
		s.log.Warn("trail: could not repair one copy of the manifest", "err", err)
		return nil
	}
	return err
}

// rewriteManifest writes the manifest as it is, in a new generation.
func (s *Store) rewriteManifest() error {
	s.manifest.generation++
	s.manifest.current.Generation = s.manifest.generation
	return writeManifest(s.fs, s.dir, s.manifest.current)
}

// applyManifest makes the state that a manifest describes. open are the sources that
// are open already.
func (s *Store) applyManifest(man *manifest, open map[string]*source) {
	s.width = man.Bucket
	schema, err := fieldsSchema(man.Schema)
	if err != nil { // decodeManifest has checked it
		s.log.Error("trail: schema of the manifest", "err", err)
	}
	var sources []*source
	for _, e := range man.Segments {
		src := open[e.File]
		if src == nil {
			src = s.openSource(e)
		}
		sources = append(sources, src)
	}
	var cohorts []*cohort
	for _, c := range man.Cohorts {
		cohorts = append(cohorts, &cohort{cohortEntry: c})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.commit, s.mu.visible = man.Commit, man.Commit
	s.mu.sources, s.mu.schema, s.mu.horizon, s.mu.cohorts = sources, schema, man.horizon(), cohorts
	s.mu.tombs = newTombstones(man.Deleted)
	s.mu.marks = man.Marks
	s.nextFile.Store(max(s.nextFile.Load(), man.NextFile))
}

// openSource opens a segment. If that cannot be done, the source says why.
func (s *Store) openSource(e entry) *source {
	src := &source{entry: e}
	path := s.segmentPath(e.File)
	seg, err := openSegment(s.fs, s.mapped, path)
	if err == nil && int64(seg.Rows()) != e.Rows {
		err = errors.Join(&segment.DamageError{Path: path, Section: "footer", Reason: fmt.Sprintf("it has %d rows, and the manifest says %d", seg.Rows(), e.Rows)}, seg.Close())
		seg = nil
	}
	src.seg = seg
	if err != nil {
		src.damage = s.damaged(src, err)
		level := slog.LevelWarn
		if s.opt.ReadOnly {
			level = slog.LevelInfo // queries that fail say so, and Info
		}
		s.log.Log(context.Background(), level, "trail: a segment cannot be read; queries that need it will fail", "err", src.damage)
	}
	return src
}

// deleteOrphans deletes the files that a crash has left and no manifest names.
func (s *Store) deleteOrphans() error {
	if !readManifests(s.fs, s.dir).same() {
		return nil // the other copy may name more
	}
	named := make(map[string]bool)
	for _, e := range s.manifest.current.Segments {
		named[filepath.Join(segmentDir, e.File)] = true
	}
	for _, c := range s.manifest.current.Cohorts {
		named[filepath.Join(cohortDir, c.File)] = true
	}
	next := s.nextFile.Load()
	for _, dir := range []string{segmentDir, cohortDir, tmpDir, lostDir} {
		names, err := s.fs.ReadDir(filepath.Join(s.dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if n, ok := fileNumber(name); ok {
				next = max(next, n+1)
			}
			path := filepath.Join(dir, name)
			if !named[path] && dir != lostDir { // its names stay taken
				s.log.Info("trail: delete a file that no manifest names", "path", path)
				s.discard(filepath.Join(s.dir, path))
			}
		}
	}
	s.nextFile.Store(next)
	return nil
}

// rebuild makes a manifest from the segments, if that is allowed.
func (s *Store) rebuild(why error) error {
	if !s.opt.Rebuild {
		return manifestError(s.dir, why)
	}
	names, err := s.fs.ReadDir(filepath.Join(s.dir, segmentDir))
	if err != nil {
		return err
	}
	man := &manifest{Version: manifestVersion, Bucket: s.opt.Bucket.Milliseconds()}
	var schema event.Schema
	for _, name := range names {
		number, commit, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		man.NextFile = max(man.NextFile, number+1)
		seg, err := openSegment(s.fs, s.mapped, s.segmentPath(name))
		if err != nil {
			s.log.Error("trail: rebuild: a segment is left out", "file", name, "err", err)
			continue
		}
		merged, err := schema.Merge(seg.Schema())
		if err != nil {
			return errors.Join(fmt.Errorf("rebuild: %s: %w", name, err), seg.Close())
		}
		schema = merged
		for i := range schema {
			schema[i].Name = strings.Clone(schema[i].Name) // it may be lent from the map
		}
		man.Segments = append(man.Segments, entryOf(seg, name, bucketOf(seg.MinTime(), man.Bucket), commit, commit))
		man.Commit = max(man.Commit, commit)
		if bucketOf(seg.MinTime(), man.Bucket) != bucketOf(seg.MaxTime(), man.Bucket) {
			return errors.Join(fmt.Errorf("rebuild: %s covers more than a bucket of %v: open the store with the bucket it was made with", name, s.opt.Bucket), seg.Close())
		}
		if err := seg.Close(); err != nil {
			return err
		}
	}
	man.Flushed = man.Commit
	s.discard(filepath.Join(s.dir, ackedName)) // its commit may have left no segment
	man.Schema = schemaFields(schema)
	s.log.Warn("trail: rebuilt the manifest from the segments; deletions, the horizon, marks and cohorts are lost", "why", why, "segments", len(man.Segments))
	s.manifest.current = man
	return s.rewriteManifest()
}
