package trail

import (
	"encoding/binary"
	"fmt"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// ackedName is the file that notes the last commit that the store has acknowledged: its
// number, 8 bytes, little endian, 0 for none; see [vfs.Note]. If neither a segment nor the
// log has the commit, acknowledged events are lost.
//
// With Options.NoSync nothing is noted, because appends are answered before they are
// on the disk. The log itself finds what it had noted as durable, within 100 ms of the
// fsync, without this file.
const ackedName = "ACKNOWLEDGED"

const ackedSize = 8

// An ackNote is the file ACKNOWLEDGED of a store. Without it, less is known of a log that
// is damaged later; nothing else goes wrong.
type ackNote struct {
	files *folder
	note  vfs.Note
}

// open opens the note for writing, and makes it if it is missing. If that fails,
// nothing is noted.
func (n *ackNote) open() {
	made, err := n.note.Open(n.files.fs, n.files.path(ackedName))
	if err != nil {
		n.files.log.Warn("trail: open the note of what is acknowledged; nothing is noted", "err", err)
	}
	if made {
		n.write(0)
	}
}

// write notes the last acknowledged commit.
func (n *ackNote) write(commit uint64) {
	var b [ackedSize]byte
	binary.LittleEndian.PutUint64(b[:], commit)
	if err := n.note.Write(b[:]); err != nil {
		n.files.log.Warn("trail: note what is acknowledged", "err", err)
	}
}

// read returns the last commit that was noted, 0 if nothing is known.
func (n *ackNote) read() uint64 {
	b, err := vfs.ReadNote(n.files.fs, n.files.path(ackedName), ackedSize)
	if err != nil {
		n.files.log.Warn("trail: read the note of what is acknowledged", "err", err)
	}
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// endMissing says what is missing at the end of a log whose last record has the
// commit last, "" for nothing. Events up to flushed are in segments.
func endMissing(acked, flushed, last uint64) string {
	if acked <= max(flushed, last) {
		return ""
	}
	return fmt.Sprintf("its end is missing: commit %d was acknowledged, and the last record is of commit %d", acked, last)
}

func lastCommitOf(records []record) uint64 {
	var last uint64
	for _, r := range records {
		last = max(last, r.commit)
	}
	return last
}
