package trail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A reader makes the state of a store that is open for reading: from the manifest, and
// what the log has beyond that. Another process may write to the store meanwhile.
type reader struct {
	files *folder
	state *state
	acked *ackNote

	mu      sync.Mutex // held during I/O; taken before state.mu
	current *manifest
	log     logScan // the log so far
}

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
	return s.call(ctx, func(context.Context) error {
		if err := s.reader.load(); err != nil {
			return fmt.Errorf("refresh store %s: %w", s.files.dir, err)
		}
		return nil
	})
}

// load reads the manifest and the log, and publishes what they say.
func (r *reader) load() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range maxTries {
		err := r.loadOnce()
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return errChanged
}

// loadOnce tries to load once. It returns errChanged if a writer changed the store
// meanwhile.
func (r *reader) loadOnce() error {
	man, err := r.findManifest()
	if err != nil {
		return err
	}
	if r.current != nil && r.current.Generation == man.Generation {
		done, err := r.catchUp(man)
		if done || err != nil {
			return err
		}
	}
	log, lost, err := r.scanLog(man, logScan{})
	if err != nil {
		return err
	}
	st := r.state
	open := make(map[string]*source)
	st.mu.Lock()
	for _, src := range st.mu.sources {
		if !src.memory && src.seg != nil {
			open[src.File] = src
		}
	}
	st.mu.Unlock()
	// The state until it is known to be whole.
	fresh := &state{files: st.files, retention: st.retention, now: st.now}
	if err = fresh.load(man, open); err == nil {
		err = fresh.replay(log.records)
	}
	if again, changed := r.findManifest(); err == nil && (changed != nil || again.Generation != man.Generation) {
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
		if _, err := r.files.users(c); err != nil { // their files may go with the next change
			r.files.log.Error("trail: read a cohort", "err", err)
		}
	}
	r.current = man
	st.update(func() {
		st.mu.content = fresh.mu.content
		r.readLocked(log, lost)
	})
	return nil
}

// catchUp reads what came to the log since the last load, under the same manifest.
// done is false if a full load is necessary.
func (r *reader) catchUp(man *manifest) (done bool, err error) {
	log, lost, err := r.scanLog(man, r.log)
	if err != nil {
		return false, err
	}
	if again, err := r.findManifest(); err != nil || again.Generation != man.Generation {
		return false, errors.Join(err, errChanged)
	}
	st := r.state
	st.mu.Lock()
	last, same := st.mu.commit, len(log.records) == 0 && st.mu.lost == lost
	if same {
		r.readLocked(log, lost)
	}
	st.mu.Unlock()
	if same {
		return true, nil
	}
	for _, rec := range log.records {
		if len(rec.voided) > 0 || rec.commit <= last && len(rec.chunks) > 0 {
			return false, nil
		}
	}
	if err := st.replay(log.records); err != nil {
		return false, err
	}
	st.update(func() { r.readLocked(log, lost) })
	for st.mergeRuns(nil, func(int64) bool { return true }) {
	}
	return true, nil
}

// readLocked notes how far the log is in the state. The caller has state.mu.
func (r *reader) readLocked(log logScan, lost int) {
	r.state.mu.lost, r.state.mu.logBytes, r.state.mu.logRecords = lost, log.bytes, log.count
	log.records = nil // they were replayed
	r.log = log
}

func (r *reader) findManifest() (*manifest, error) {
	found := r.files.readManifests()
	if found.best == nil && found.none() {
		return nil, fmt.Errorf("%w there: it has no manifest", ErrNoStore)
	}
	if found.best != nil {
		return found.best, nil
	}
	if found.refused() != nil {
		return nil, found.err()
	}
	return nil, manifestError(r.files.dir, found.err())
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

// scanLog reads the log on from where an earlier scan under the same manifest ended, and
// counts the places that have lost records.
func (r *reader) scanLog(man *manifest, before logScan) (log logScan, lost int, err error) {
	log = before
	// Before the log: what was acknowledged by now is found in it, or was flushed
	// under another manifest.
	log.acked = r.acked.read()
	var all []record
	var sizes []int64
	log.next, log.broken, err = spool.Scan(r.files.fs, r.files.path(walDir), before.next, func(at spool.Record) error {
		rec, err := decodeRecord(slices.Clone(at.Payload))
		if err != nil {
			return fmt.Errorf("write-ahead log: %w", err)
		}
		all, sizes = append(all, rec), append(sizes, at.Size())
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return log, 0, errChanged
	}
	if err != nil {
		return log, 0, err
	}
	for _, d := range log.broken { // queries warn of this, too
		r.files.log.Info("trail: the write-ahead log is damaged", "path", d.Path, "from", d.Offset, "bytes", d.Length, "reason", d.Reason)
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
	lost, err = r.lostPlaces(man, log)
	return log, lost, err
}

// lostPlaces counts the places of the log that have lost records: the ones that are
// broken now, the ones that a writer has found before, its end, and the whole log.
func (r *reader) lostPlaces(man *manifest, log logScan) (int, error) {
	names, err := r.files.quarantined()
	if err != nil {
		return 0, err
	}
	missing, err := r.files.logMissing(man)
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
