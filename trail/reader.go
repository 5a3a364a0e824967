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

// maxTries bounds the reads of a store that has a writer: files vanish and the
// manifest changes meanwhile, so a reader tries until the manifest stays the same.
const maxTries = 20

var errChanged = errors.New("the store keeps changing")

// Refresh makes a store that is open for reading see what was written since it was
// opened or refreshed. Running queries keep their snapshot. In a store that is open
// for writing it does nothing, because such a store always sees everything.
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
	s.manifest.Lock()
	defer s.manifest.Unlock()
	for range maxTries {
		err := s.loadOnce()
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return errChanged
}

// loadOnce tries to load once. It returns errChanged if a writer changed the store
// meanwhile.
func (s *Store) loadOnce() error {
	man, err := s.findManifest()
	if err != nil {
		return err
	}
	if before := s.manifest.current; before != nil && before.Generation == man.Generation {
		done, err := s.catchUp(man)
		if done || err != nil {
			return err
		}
	}
	log, err := s.scanLog(man, logScan{})
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
	fresh.applyManifest(man, open)
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
	s.manifest.current, s.manifest.log = man, log.read()
	s.width = fresh.width
	s.mu.Lock()
	s.mu.commit, s.mu.visible = fresh.mu.commit, fresh.mu.visible
	s.mu.sources, s.mu.schema = fresh.mu.sources, fresh.mu.schema
	s.mu.horizon, s.mu.tombs, s.mu.cohorts, s.mu.marks = fresh.mu.horizon, fresh.mu.tombs, fresh.mu.cohorts, fresh.mu.marks
	s.mu.rows, s.mu.lost = fresh.mu.rows, lost
	s.mu.logBytes, s.mu.logRecords = log.bytes, log.count
	s.memory.Store(fresh.memory.Load())
	s.publish()
	return nil
}

// catchUp reads what came to the log since the last load, under the same manifest.
// done is false if a full load is necessary.
func (s *Store) catchUp(man *manifest) (done bool, err error) {
	log, err := s.scanLog(man, s.manifest.log)
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
	s.manifest.log = log.read()
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
	for s.mergeOnce(func(int64) bool { return true }) {
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

func (s *Store) findManifest() (*manifest, error) {
	found := readManifests(s.fs, s.dir)
	if found.best == nil && found.none() {
		return nil, fmt.Errorf("%w there: it has no manifest", ErrNoStore)
	}
	if found.best != nil {
		return found.best, nil
	}
	err := found.err()
	if _, newer := errors.AsType[*versionError](err); newer || slices.ContainsFunc(found.errs[:], isAccessError) {
		return nil, err
	}
	return nil, manifestError(s.dir, err)
}

// A logScan is what a reader has found in the log under one manifest.
type logScan struct {
	records []record     // that are in no segment, of the last scan
	count   int64        // of such records, in all scans
	bytes   int64        // of such records in the log
	last    uint64       // the highest commit of all records; 0 without records
	acked   uint64       // the last commit that was acknowledged, when the scan began
	next    spool.Cursor // where the next scan begins
	broken  []spool.Damage
}

// read returns the scan without its records, after they were replayed.
func (l logScan) read() logScan {
	l.records = nil
	return l
}

// scanLog reads the log on from where an earlier scan under the same manifest ended.
func (s *Store) scanLog(man *manifest, before logScan) (log logScan, err error) {
	log = before
	// Before the log: what was acknowledged by now is found in it, or was flushed
	// under another manifest.
	log.acked = s.acked.read()
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
	for _, d := range log.broken { // queries warn of this, too
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
func (s *Store) lostPlaces(man *manifest, log logScan) (int, error) {
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
