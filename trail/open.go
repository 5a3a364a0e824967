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
	found := s.files.readManifests().best
	missing := false
	if found != nil {
		if missing, err = s.files.logMissing(found); err != nil {
			return err
		}
	}
	for _, d := range []string{"", segmentDir, cohortDir, tmpDir, walDir} {
		if err := s.files.fs.MkdirAll(s.files.path(d)); err != nil {
			return err
		}
	}
	if s.lock, err = s.files.lock(s.opt.now()); err != nil {
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
	if err := s.catalog.open(s.opt); err != nil {
		return err
	}
	s.files.next.Store(s.catalog.current.NextFile)
	if err := s.state.load(s.catalog.current, nil); err != nil {
		return err
	}
	if err := s.catalog.deleteOrphans(); err != nil {
		return err
	}
	if err := s.openLog(missing); err != nil {
		return err
	}
	s.state.update(func() {})
	s.state.sweeper.start(s.ctx, &s.wg)
	s.start()
	return nil
}

func (s *Store) openReader() error {
	if err := s.reader.load(); err != nil {
		return err
	}
	s.state.sweeper.start(s.ctx, &s.wg)
	return nil
}

// open sets the manifest: the one on disk, with both copies made equal, or the first
// manifest of a new store.
func (c *catalog) open(opt Options) error {
	found := c.files.readManifests()
	for i, err := range found.errs {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.files.log.Error("trail: a copy of the manifest is damaged", "path", c.files.path(manifestNames[i]), "err", err)
		}
	}
	man := found.best
	switch {
	case man != nil:
	case found.none():
		names, err := c.files.names(segmentDir)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(names, isSegment) {
			return c.rebuild(opt, errors.New("both are missing, and there are segments"))
		}
		man = &manifest{Version: manifestVersion, Bucket: opt.Bucket.Milliseconds()}
	default:
		if err := found.refused(); err != nil {
			return err
		}
		return c.rebuild(opt, found.err())
	}
	c.current, c.generation = man, man.Generation
	if found.same() {
		return nil
	}
	err := c.rewrite()
	if err != nil && found.best != nil {
		c.files.log.Warn("trail: could not repair one copy of the manifest", "err", err)
		return nil
	}
	return err
}

// rewrite writes the manifest as it is, in a new generation.
func (c *catalog) rewrite() error {
	c.generation++
	c.current.Generation = c.generation
	return c.files.writeManifest(c.current)
}

// openSource opens a segment. If that cannot be done, the source says why.
func (d *folder) openSource(e entry) *source {
	src := &source{entry: e}
	path := d.segmentPath(e.File)
	seg, err := d.openSegment(path)
	if err == nil && int64(seg.Rows()) != e.Rows {
		err = errors.Join(&segment.DamageError{Path: path, Section: "footer", Reason: fmt.Sprintf("it has %d rows, and the manifest says %d", seg.Rows(), e.Rows)}, seg.Close())
		seg = nil
	}
	src.seg = seg
	if err != nil {
		src.damage = d.damaged(src, err)
		level := slog.LevelWarn
		if d.readOnly {
			level = slog.LevelInfo // queries that fail say so, and Info
		}
		d.log.Log(context.Background(), level, "trail: a segment cannot be read; queries that need it will fail", "err", src.damage)
	}
	return src
}

// deleteOrphans deletes the files that a crash has left and no manifest names.
func (c *catalog) deleteOrphans() error {
	if !c.files.readManifests().same() {
		return nil // the other copy may name more
	}
	named := make(map[string]bool)
	for _, e := range c.current.Segments {
		named[filepath.Join(segmentDir, e.File)] = true
	}
	for _, e := range c.current.Cohorts {
		named[filepath.Join(cohortDir, e.File)] = true
	}
	next := c.files.next.Load()
	for _, dir := range []string{segmentDir, cohortDir, tmpDir, lostDir} {
		names, err := c.files.names(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if n, ok := fileNumber(name); ok {
				next = max(next, n+1)
			}
			path := filepath.Join(dir, name)
			if !named[path] && dir != lostDir { // its names stay taken
				c.files.log.Info("trail: delete a file that no manifest names", "path", path)
				c.files.discard(c.files.path(path))
			}
		}
	}
	c.files.next.Store(next)
	return nil
}

// rebuild makes a manifest from the segments, if that is allowed.
func (c *catalog) rebuild(opt Options, why error) error {
	if !opt.Rebuild {
		return manifestError(c.files.dir, why)
	}
	names, err := c.files.fs.ReadDir(c.files.path(segmentDir))
	if err != nil {
		return err
	}
	man := &manifest{Version: manifestVersion, Bucket: opt.Bucket.Milliseconds()}
	var schema event.Schema
	for _, name := range names {
		number, commit, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		man.NextFile = max(man.NextFile, number+1)
		seg, err := c.files.openSegment(c.files.segmentPath(name))
		if err != nil {
			c.files.log.Error("trail: rebuild: a segment is left out", "file", name, "err", err)
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
		man.Segments = append(man.Segments, entry{File: name, Bucket: bucketOf(seg.MinTime(), man.Bucket), Commit: commit, Applied: commit}.of(seg))
		man.Commit = max(man.Commit, commit)
		if bucketOf(seg.MinTime(), man.Bucket) != bucketOf(seg.MaxTime(), man.Bucket) {
			return errors.Join(fmt.Errorf("rebuild: %s covers more than a bucket of %v: open the store with the bucket it was made with", name, opt.Bucket), seg.Close())
		}
		if err := seg.Close(); err != nil {
			return err
		}
	}
	man.Flushed = man.Commit
	c.files.discard(c.files.path(ackedName)) // its commit may have left no segment
	man.Schema = schemaFields(schema)
	c.files.log.Warn("trail: rebuilt the manifest from the segments; deletions, the horizon, marks and cohorts are lost", "why", why, "segments", len(man.Segments))
	c.current = man
	return c.rewrite()
}
