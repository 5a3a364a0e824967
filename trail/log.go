package trail

import (
	"fmt"
	"maps"
	"path/filepath"
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
	opt := spool.Options{Dir: filepath.Join(s.dir, walDir), SegmentBytes: logSegment, FS: s.opt.fs, Log: s.log, SyncEvery: -1, SyncBytes: -1}
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
	wanted := wantedRecords(records, s.manifest.current.Flushed)
	var live []record
	for i, rec := range records {
		if !wanted[i] {
			wal.Ack(positions[i])
			continue
		}
		live = append(live, rec)
		s.mu.records = append(s.mu.records, logRecord{rec.commit, positions[i]})
	}
	if len(live) > 0 {
		s.log.Info("trail: replaying write-ahead log", "commits", len(live))
		s.mu.oldest = s.now()
	}
	return s.replay(live)
}

// wantedRecords reports which records are to be replayed: not those that are in
// segments, were refused later, or come a second time.
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
func (s *Store) replay(records []record) error {
	c := newCommitter(s)
	s.mu.Lock()
	schema, sources, tombs, horizon := s.mu.schema, slices.Clone(s.mu.sources), s.mu.tombs, s.horizonAt(s.mu.horizon)
	marks := maps.Clone(s.mu.marks)
	last := s.mu.commit
	s.mu.Unlock()
	if marks == nil {
		marks = make(map[string][]byte)
	}
	var runs []*source
	sealed := uint64(0) // the last commit in the builders
	seal := func() error {
		made, err := c.seal(sealed)
		c.resetBuilders()
		runs = append(runs, made...)
		sources = append(sources, made...)
		return err
	}
	for _, rec := range records {
		// No run has commits from both sides of a deletion.
		if c.rows() >= replayedRows || slices.ContainsFunc(tombs.all, func(t tombstone) bool { return sealed < t.Commit && t.Commit < rec.commit }) {
			if err := seal(); err != nil {
				return err
			}
		}
		wide, err := recordSchema(schema, rec)
		if err != nil {
			return fmt.Errorf("write-ahead log: commit %d: %w", rec.commit, err)
		}
		schema = wide
		for _, b := range c.used {
			c.builders[b].Extend(schema)
		}
		kept, err := c.add(rec, schema, sources, tombs, horizon)
		if err != nil {
			return fmt.Errorf("write-ahead log: commit %d: %w", rec.commit, err)
		}
		maps.Copy(marks, kept)
		sealed = rec.commit
		last = max(last, rec.commit)
	}
	if err := seal(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.schema, s.mu.marks, s.mu.commit, s.mu.visible = schema, marks, last, last
	s.mu.sources = append(slices.Clone(s.mu.sources), runs...)
	s.countLocked(runs)
	return nil
}

func (c *committer) rows() int {
	n := 0
	for _, b := range c.used {
		n += c.builders[b].Rows()
	}
	return n
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
