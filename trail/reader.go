package trail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/spool"
)

// A writer may be at work while a store is opened for reading: files vanish and the
// manifest changes between one look and the next. So a reader looks until it finds
// the manifest unchanged.
const maxLooks = 20

var errChanged = errors.New("the store keeps changing")

// Refresh has a store that is open for reading see what was written since it was
// opened or refreshed. Queries that run go on with what they have. Of a store that
// is open for writing it does nothing, since that sees everything at once.
func (s *Store) Refresh(ctx context.Context) error {
	if !s.opt.ReadOnly {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.mu.closed
	if !closed {
		s.calls.Add(1)
	}
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	defer s.calls.Done()
	if err := s.load(); err != nil {
		return fmt.Errorf("refresh store %s: %w", s.dir, err)
	}
	return nil
}

// load reads the manifest and the log, and publishes what they say.
func (s *Store) load() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	for range maxLooks {
		err := s.look()
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return errChanged
}

// look tries to load once. errChanged says that the writer was faster.
func (s *Store) look() error {
	man, err := s.findManifest()
	if err != nil {
		return err
	}
	if before := s.turn.man; before != nil && before.Generation == man.Generation {
		done, err := s.catchUp(man)
		if done || err != nil {
			return err
		}
	}
	records, next, broken, err := s.scanLog(man.Flushed, spool.Cursor{})
	if err != nil {
		return err
	}
	lost, err := s.lostPlaces(man, broken)
	if err != nil {
		return err
	}
	open := make(map[string]*source)
	s.mu.Lock()
	for _, src := range s.mu.sources {
		if !src.memory && src.seg != nil {
			open[src.File] = src
		}
	}
	s.mu.Unlock()
	fresh := newStore(s.dir, s.opt) // the state until it is known to be whole
	defer fresh.cancel()
	fresh.adopt(man, open)
	err = fresh.replay(records)
	if again, changed := s.findManifest(); err == nil && (changed != nil || again.Generation != man.Generation) {
		err = errChanged
	}
	if err != nil {
		for _, src := range fresh.mu.sources {
			if open[src.File] == nil && src.seg != nil {
				err = errors.Join(err, src.seg.Close())
			}
		}
		return err
	}
	for _, c := range fresh.mu.cohorts {
		if _, err := s.users(c); err != nil { // their files may go with the next change
			s.log.Error("trail: read a cohort", "err", err)
		}
	}
	s.turn.man, s.turn.cursor, s.turn.broken = man, next, broken
	s.width = fresh.width
	s.mu.Lock()
	s.mu.commit, s.mu.shown = fresh.mu.commit, fresh.mu.shown
	s.mu.sources, s.mu.schema = fresh.mu.sources, fresh.mu.schema
	s.mu.horizon, s.mu.tombs, s.mu.cohorts, s.mu.marks = fresh.mu.horizon, fresh.mu.tombs, fresh.mu.cohorts, fresh.mu.marks
	s.mu.rows, s.mu.lost = fresh.mu.rows, lost
	s.memory.Store(fresh.memory.Load())
	s.publish()
	return nil
}

// catchUp takes in what came to the log since the last look, under the same
// manifest. It is not done if that does not suffice.
func (s *Store) catchUp(man *manifest) (done bool, err error) {
	records, next, broken, err := s.scanLog(man.Flushed, s.turn.cursor)
	if err != nil {
		return false, err
	}
	for _, d := range s.turn.broken {
		if !slices.Contains(broken, d) {
			broken = append(broken, d)
		}
	}
	lost, err := s.lostPlaces(man, broken)
	if err != nil {
		return false, err
	}
	if again, err := s.findManifest(); err != nil || again.Generation != man.Generation {
		return false, errors.Join(err, errChanged)
	}
	s.mu.Lock()
	last := s.mu.commit
	s.mu.Unlock()
	for _, r := range records {
		if len(r.voided) > 0 || r.commit <= last && len(r.chunks) > 0 {
			return false, nil
		}
	}
	s.turn.cursor, s.turn.broken = next, broken
	s.mu.Lock()
	same := s.mu.lost == lost
	s.mu.lost = lost
	s.mu.Unlock()
	if len(records) == 0 && same {
		return true, nil
	}
	if err := s.replay(records); err != nil {
		return false, err
	}
	s.mu.Lock()
	s.publish()
	for s.mergeAny() {
	}
	return true, nil
}

// publish makes the state visible and gives back mu, which the caller has.
func (s *Store) publish() {
	old := s.publishLocked()
	s.mu.Unlock()
	if old != nil {
		old.unpin()
	}
}

// findManifest reads the manifest of a store that is there.
func (s *Store) findManifest() (*manifest, error) {
	found := readManifests(s.fs, s.dir)
	if found.best == nil && found.none() {
		return nil, fmt.Errorf("%w there: it has no manifest", ErrNoStore)
	}
	if found.best != nil {
		return found.best, nil
	}
	err := found.err()
	if _, newer := errors.AsType[*versionError](err); newer || slices.ContainsFunc(found.errs[:], unread) {
		return nil, err
	}
	return nil, manifestError(s.dir, err)
}

// scanLog reads the records of the log after a commit that count, from a place on.
func (s *Store) scanLog(flushed uint64, from spool.Cursor) (records []record, next spool.Cursor, damages []spool.Damage, err error) {
	var all []record
	next, damages, err = spool.Scan(s.fs, filepath.Join(s.dir, walDir), from, func(r spool.Record) error {
		rec, err := decodeRecord(slices.Clone(r.Payload))
		if err != nil {
			return fmt.Errorf("write-ahead log: %w", err)
		}
		all = append(all, rec)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, next, nil, errChanged
	}
	if err != nil {
		return nil, next, nil, err
	}
	for _, d := range damages { // queries warn of it
		s.log.Info("trail: the write-ahead log is damaged", "path", d.Path, "from", d.Offset, "bytes", d.Length, "reason", d.Reason)
	}
	for i, wanted := range wantedRecords(all, flushed) {
		if wanted {
			records = append(records, all[i])
		}
	}
	return records, next, damages, nil
}

// lostPlaces counts the places of the log that have lost records: those that are
// broken now, those that a writer has found before, and the whole log.
func (s *Store) lostPlaces(man *manifest, broken []spool.Damage) (int, error) {
	names, err := s.quarantined()
	if err != nil {
		return 0, err
	}
	missing, err := s.logMissing(man)
	if err != nil {
		return 0, err
	}
	n := len(names)
	for _, d := range broken {
		if !strings.HasPrefix(filepath.Base(d.Path), checkpointName) {
			n++
		}
	}
	if missing {
		n++
	}
	return n, nil
}

// mergeAny merges runs in memory of any size, once, and tells whether there were
// any.
func (s *Store) mergeAny() bool {
	s.mu.Lock()
	runs := s.crowdedLocked(func(int64) bool { return true }, func(int64) bool { return true })
	s.mu.Unlock()
	return runs != nil && s.mergeRuns(runs)
}
