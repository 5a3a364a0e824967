package trail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
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
	log, err := s.scanLog(man, scanned{})
	if err != nil {
		return err
	}
	lost, err := s.lostPlaces(man, log)
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
	err = fresh.replay(log.records)
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
	s.turn.man, s.turn.log = man, log.read()
	s.width = fresh.width
	s.mu.Lock()
	s.mu.commit, s.mu.shown = fresh.mu.commit, fresh.mu.shown
	s.mu.sources, s.mu.schema = fresh.mu.sources, fresh.mu.schema
	s.mu.horizon, s.mu.tombs, s.mu.cohorts, s.mu.marks = fresh.mu.horizon, fresh.mu.tombs, fresh.mu.cohorts, fresh.mu.marks
	s.mu.rows, s.mu.lost = fresh.mu.rows, lost
	s.mu.logBytes, s.mu.logRecords = log.bytes, log.count
	s.memory.Store(fresh.memory.Load())
	s.publish()
	return nil
}

// catchUp takes in what came to the log since the last look, under the same
// manifest. It is not done if that does not suffice.
func (s *Store) catchUp(man *manifest) (done bool, err error) {
	log, err := s.scanLog(man, s.turn.log)
	if err != nil {
		return false, err
	}
	lost, err := s.lostPlaces(man, log)
	if err != nil {
		return false, err
	}
	if again, err := s.findManifest(); err != nil || again.Generation != man.Generation {
		return false, errors.Join(err, errChanged)
	}
	s.mu.Lock()
	last := s.mu.commit
	s.mu.Unlock()
	for _, r := range log.records {
		if len(r.voided) > 0 || r.commit <= last && len(r.chunks) > 0 {
			return false, nil
		}
	}
	s.turn.log = log.read()
	s.mu.Lock()
	same := s.mu.lost == lost
	s.mu.lost = lost
	s.mu.logBytes, s.mu.logRecords = log.bytes, log.count
	s.mu.Unlock()
	if len(log.records) == 0 && same {
		return true, nil
	}
	if err := s.replay(log.records); err != nil {
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

// A scanned log is what one who reads has found in it under one manifest.
type scanned struct {
	records []record     // that are in no segment, of the last scan
	count   int64        // of such records, of all scans
	bytes   int64        // that they take in the log
	last    uint64       // the highest commit of all records, 0 of none
	acked   uint64       // the last commit that was acknowledged, when the scan began
	next    spool.Cursor // where the next scan begins
	broken  []spool.Damage
}

// read returns what is kept of a scan when its records were taken in.
func (l scanned) read() scanned {
	l.records = nil
	return l
}

// scanLog reads the log on from where an earlier scan under the same manifest ended.
func (s *Store) scanLog(man *manifest, before scanned) (log scanned, err error) {
	log = before
	// Before the log: what was acknowledged by now is found in it, or was flushed
	// under another manifest.
	log.acked = s.readAcked()
	var all []record
	var sizes []int64
	log.next, log.broken, err = spool.Scan(s.fs, filepath.Join(s.dir, walDir), before.next, func(r spool.Record) error {
		rec, err := decodeRecord(slices.Clone(r.Payload))
		if err != nil {
			return fmt.Errorf("write-ahead log: %w", err)
		}
		all, sizes = append(all, rec), append(sizes, r.Size())
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return log, errChanged
	}
	if err != nil {
		return log, err
	}
	for _, d := range log.broken { // queries warn of it
		s.log.Info("trail: the write-ahead log is damaged", "path", d.Path, "from", d.Offset, "bytes", d.Length, "reason", d.Reason)
	}
	for _, d := range before.broken {
		if !slices.Contains(log.broken, d) {
			log.broken = append(log.broken, d)
		}
	}
	log.last = max(before.last, lastCommitOf(all))
	for i, wanted := range wantedRecords(all, man.Flushed) {
		if wanted {
			log.records = append(log.records, all[i])
			log.count++
			log.bytes += sizes[i]
		}
	}
	return log, nil
}

// lostPlaces counts the places of the log that have lost records: those that are
// broken now, those that a writer has found before, its end, and the whole log.
func (s *Store) lostPlaces(man *manifest, log scanned) (int, error) {
	names, err := s.quarantined()
	if err != nil {
		return 0, err
	}
	missing, err := s.logMissing(man)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, d := range log.broken {
		if !strings.HasPrefix(filepath.Base(d.Path), checkpointName) {
			n++
		}
	}
	if missing || n == 0 && endMissing(log.acked, man.Flushed, log.last) != "" {
		n++
	}
	return n + len(names), nil
}

// mergeAny merges runs in memory of any size, once, and tells whether there were
// any.
func (s *Store) mergeAny() bool {
	s.mu.Lock()
	runs := s.crowdedLocked(func(int64) bool { return true }, func(int64) bool { return true })
	s.mu.Unlock()
	return runs != nil && s.mergeRuns(runs)
}
