package trail

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// Events that the write-ahead log has lost were acknowledged, so the loss stays
// visible. The log copies damaged records to its folder "quarantine" when it is
// opened; for records that left no bytes the store puts a note there. Until the user
// removes the folder, Verify names what is in it, and queries carry a warning.

// quarantineDir is where the log keeps damaged records, within walDir.
const quarantineDir = "quarantine"

// checkpointName begins the names of the log's checkpoints. Without them nothing is
// lost.
const checkpointName = "checkpoint."

// quarantined returns the names of what the log has lost, sorted.
func (d *folder) quarantined() ([]string, error) {
	names, err := d.names(walDir, quarantineDir)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".tmp") }), err
}

// logMissing reports whether a store with a manifest has no log. Open makes its folder
// before the first manifest, and the log before anything is committed.
func (d *folder) logMissing(m *manifest) (bool, error) {
	names, err := d.fs.ReadDir(d.path(walDir))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	own := func(name string) bool { return isSegment(name) || strings.HasPrefix(name, checkpointName) }
	return err == nil && m.Commit > 0 && !slices.ContainsFunc(names, own), err
}

const reasonLogMissing = "it is missing; events that were in no segment yet are lost with it"

func (d *folder) noteLoss(text string) error {
	dir := d.path(walDir, quarantineDir)
	if err := d.fs.MkdirAll(dir); err != nil {
		return err
	}
	name := fmt.Sprintf("loss-%08x.txt", crc32.ChecksumIEEE([]byte(text))) // so that the same loss is noted once
	if err := d.replace(filepath.Join(dir, name), []byte(text+"\n")); err != nil {
		return err
	}
	return d.fs.SyncDir(d.path(walDir))
}

// noteLosses notes the losses of the log that left no bytes, and counts the places.
// last is the last commit in the log. From then on its end is where it is now.
func (s *Store) noteLosses(missing bool, rec spool.Recovery, last uint64) error {
	end := endMissing(s.acked.read(), s.catalog.current.Flushed, last)
	var err error
	switch {
	case missing:
		err = s.files.noteLoss("the write-ahead log was missing")
	case rec.Corrupt > len(rec.Quarantined):
		err = s.files.noteLoss(strings.Join(rec.Problems, "\n"))
	case end != "" && rec.Corrupt == 0:
		err = s.files.noteLoss("the write-ahead log: " + end)
	}
	if err != nil {
		return err
	}
	s.acked.open()
	if end != "" {
		s.acked.write(last)
	}
	lost, err := s.files.quarantined()
	if s.state.mu.lost = len(lost); s.state.mu.lost > 0 {
		s.log.Warn("trail: " + lossWarning(s.state.mu.lost))
	}
	return err
}

// lossWarning returns the warning of queries about places lost from the log, "" for
// none.
func lossWarning(places int) string {
	if places == 0 {
		return ""
	}
	return fmt.Sprintf("events are missing: the write-ahead log has lost records in %d places, which trail verify names", places)
}
