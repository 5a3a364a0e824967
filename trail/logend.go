package trail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A log that was cut off looks like one whose last write was interrupted, which is
// how a crash leaves it. So the store notes the last commit that it has acknowledged:
// the file ACKNOWLEDGED holds
//
//	0   8   number of the last acknowledged commit of the log, 0 for none
//	8   4   CRC-32C of these 8 bytes
//
// little endian. A commit is noted after its fsync and before it is acknowledged, in
// place and without an fsync of the note. So a note never promises what is not on the
// disk. A kill leaves it exact; after a loss of power it may be some seconds old, as
// the kernel wrote it. A note that is damaged, torn, missing or unreadable says
// nothing.
//
// If neither a segment nor the log has the commit, acknowledged events are lost.
// With Options.NoSync nothing is noted, because appends are answered before they are
// on the disk. The log itself finds what it had noted as durable, within 100 ms of the
// fsync, without this file.
const ackedName = "ACKNOWLEDGED"

const ackedSize = 12

// An ackNote is the file ACKNOWLEDGED of a store.
type ackNote struct {
	fs   vfs.FS
	path string
	log  *slog.Logger
	file vfs.File // nil unless open
}

// open opens the note for writing, and makes it if it is missing. If that fails,
// nothing is noted.
func (n *ackNote) open() {
	f, err := n.fs.Open(n.path)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		f, err = n.fs.Create(n.path)
	}
	if err != nil {
		n.log.Warn("trail: open the note of what is acknowledged; nothing is noted", "err", err)
		return
	}
	n.file = f
	if missing {
		n.write(0)
	}
}

// write notes the last acknowledged commit. Without the note, less is known of a log
// that is damaged later; nothing else goes wrong.
func (n *ackNote) write(commit uint64) {
	if n.file == nil {
		return
	}
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, ackedSize), commit)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := n.file.WriteAt(b, 0); err != nil {
		n.log.Warn("trail: note what is acknowledged", "err", err)
	}
}

// read returns the last commit that was noted, 0 if nothing is known.
func (n *ackNote) read() uint64 {
	b, err := vfs.ReadFile(n.fs, n.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // of a store that an earlier version wrote
		return 0
	case err != nil:
		n.log.Warn("trail: read the note of what is acknowledged", "err", err)
		return 0
	case len(b) < ackedSize || crc32.Checksum(b[:8], castagnoli) != binary.LittleEndian.Uint32(b[8:]):
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (n *ackNote) close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
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
