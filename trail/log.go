package trail

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/trail/event"
)

const (
	logSegment   = 16 << 20 // bytes of a file of the log
	replayedRows = 256 << 10
)

// openLog opens the write-ahead log and replays the records that are in no segment.
// missing says that the log is gone.
func (s *Store) openLog(missing bool) error {
	opt := spool.Options{Dir: s.files.path(walDir), SegmentBytes: logSegment, FS: s.opt.fs, Log: s.log, SyncEvery: -1, SyncBytes: -1}
	if s.opt.NoSync {
		opt.SyncEvery, opt.SyncBytes = time.Second, logSegment
	}
	wal, recovery, err := spool.Open(opt)
	if err != nil {
		return err
	}
	s.wal = wal
	var records []record
	var positions []spool.Position
	for pos, r := range wal.Recovered {
		rec, err := decodeRecord(slices.Clone(r.Payload))
		if err != nil {
			return fmt.Errorf("write-ahead log: record at %v: %w", pos, err)
		}
		records = append(records, rec)
		positions = append(positions, pos)
	}
	if err := s.noteLosses(missing, recovery, lastCommitOf(records)); err != nil {
		return fmt.Errorf("note what the write-ahead log has lost: %w", err)
	}
	wanted := wantedRecords(records, s.catalog.current.Flushed)
	var live []record
	for i, rec := range records {
		if !wanted[i] {
			wal.Ack(positions[i])
			continue
		}
		live = append(live, rec)
		s.state.mu.records = append(s.state.mu.records, logRecord{rec.commit, positions[i]})
	}
	if len(live) > 0 {
		s.log.Info("trail: replaying write-ahead log", "commits", len(live))
		s.state.mu.oldest = s.opt.now()
	}
	return s.state.replay(live)
}

// wantedRecords reports which records are to be replayed: all except records that
// are in segments, were refused later, or come a second time.
func wantedRecords(records []record, flushed uint64) []bool {
	known := make(map[uint64]bool)
	for _, r := range records {
		for _, v := range r.voided {
			known[v] = true
		}
	}
	wanted := make([]bool, len(records))
	for i, r := range records {
		if r.commit > flushed && !known[r.commit] {
			wanted[i] = true
			known[r.commit] = true
		}
	}
	return wanted
}

// replay makes runs of records and adds them to the state, which no other goroutine
// changes meanwhile. It does not publish.
func (st *state) replay(records []record) error {
	b := newRunBuilder(st.files.log)
	st.mu.Lock()
	now := st.mu.content
	st.mu.Unlock()
	has := &snapshot{state: st, width: now.width, sources: slices.Clone(now.sources), tombs: now.tombs, horizon: now.horizon}
	marks := maps.Clone(now.marks)
	if marks == nil {
		marks = make(map[string][]byte)
	}
	var runs []*source
	sealed := uint64(0) // the last commit in the builders
	seal := func() error {
		made, err := b.seal(sealed)
		b.reset()
		runs = append(runs, made...)
		has.sources = append(has.sources, made...)
		return err
	}
	for _, rec := range records {
		// No run has commits from both sides of a deletion.
		if b.rows() >= replayedRows || slices.ContainsFunc(now.tombs.all, func(t tombstone) bool { return sealed < t.Commit && t.Commit < rec.commit }) {
			if err := seal(); err != nil {
				return err
			}
		}
		wide, err := recordSchema(now.schema, rec)
		if err != nil {
			return fmt.Errorf("write-ahead log: commit %d: %w", rec.commit, err)
		}
		now.schema = wide
		b.extend(wide)
		kept, err := b.add(rec, wide, has)
		if err != nil {
			return fmt.Errorf("write-ahead log: commit %d: %w", rec.commit, err)
		}
		maps.Copy(marks, kept)
		sealed = rec.commit
		now.commit = max(now.commit, rec.commit)
	}
	if err := seal(); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.mu.schema, st.mu.marks, st.mu.commit, st.mu.visible = now.schema, marks, now.commit, now.commit
	st.replaceLocked(nil, runs...)
	return nil
}

// recordSchema returns the schema with what a record adds to it.
func recordSchema(schema event.Schema, rec record) (event.Schema, error) {
	for _, chunk := range rec.chunks {
		r, err := openChunk(chunk)
		if err != nil {
			return nil, err
		}
		wide, err := widen(schema, r.schema)
		if err != nil {
			return nil, err
		}
		for i := len(schema); i < len(wide); i++ {
			wide[i].Name = strings.Clone(wide[i].Name) // or it would keep the record
		}
		schema = wide
	}
	return schema, nil
}
