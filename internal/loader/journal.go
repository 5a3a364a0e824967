package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A journal remembers which batches were taken. It is a write-ahead log in the
// folder journal: a spool with one record for each [group]. A record is durable
// before its batches are answered, and acknowledged when all keys of it are
// forgotten; the newest stays. The committer owns all fields.
type journal struct {
	log    *slog.Logger
	synced func(time.Duration) // gets the duration of each fsync
	spool  *spool.Spool
	note   vfs.Note         // of the totals that were acknowledged
	acked  totals           // what the note held at the start; zero if nothing is known
	totals totals           // after the newest group
	noted  [ackedSize]byte  // scratch
	failed bool             // a group could not be made durable, and may come back after a crash
	groups uint64           // that replay must show
	live   queue[liveGroup] // groups that are not acknowledged
}

// totals are the sums over all groups so far.
type totals struct {
	end     position // of the events
	events  uint64
	batches uint64
}

// ackedName is the file of the journal that notes the totals after the newest group that
// was answered, see [vfs.Note]: the file and the offset where the events end, events,
// batches, 8 bytes each, little endian.
const ackedName = "acknowledged"

const ackedSize = 32

func (t *totals) append(dst []byte) []byte {
	for _, v := range []uint64{t.end.File, uint64(t.end.Offset), t.events, t.batches} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

func totalsOf(b []byte) totals {
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return totals{end: position{number(0), int64(number(1))}, events: number(2), batches: number(3)}
}

// A liveGroup is a group in the spool.
type liveGroup struct {
	at   spool.Position
	keys uint32 // of the group that are in the window
}

// checkpointEvery is how often the spool notes what is acknowledged. Groups that
// come back after a crash cost nothing: the window forgets their keys again.
const checkpointEvery = 10 * time.Second

// earlier is how files of the journal were called in earlier versions.
func earlier() vfs.Series {
	return vfs.Series{Prefix: "journal-", Suffix: ".log", Base: 10, Digits: 6}
}

// openJournal opens the journal of a folder. The error is [ErrInUse], among others.
func openJournal(fsys vfs.FS, dir string, segmentBytes int64, log *slog.Logger, synced func(time.Duration)) (*journal, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if old := earlier().Numbers(names); len(old) > 0 {
		return nil, fmt.Errorf("%s: the journal (%s) is of an earlier version of the loader, and this version cannot read it: "+
			"stop the earlier version, then move the files journal-*.log to another folder. "+
			"The events stay, but a batch that is sent again after that is taken again", dir, earlier().Name(old[0]))
	}
	s, found, err := spool.Open(spool.Options{
		Dir: filepath.Join(dir, "journal"), SegmentBytes: segmentBytes, FS: fsys, Log: log,
		SyncEvery: -1, SyncBytes: -1, CheckpointEvery: checkpointEvery, // append calls Sync
	})
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	if err != nil {
		return nil, err
	}
	if len(found.Untouched) > 0 {
		// Without these the end of the events is not known.
		return nil, errors.Join(fmt.Errorf("the journal cannot be read: %s", found.Problems[0]), s.Close())
	}
	if found.Corrupt > 0 {
		log.Error("the journal is damaged: lost batches that are sent again are taken again", "batches", found.LostEvents)
	}
	j := &journal{log: log, synced: synced, spool: s, groups: found.Records}
	if err := j.openNote(fsys, filepath.Join(dir, "journal", ackedName)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return j, nil
}

// openNote reads the note, and opens it for the next one.
func (j *journal) openNote(fsys vfs.FS, path string) error {
	b, err := vfs.ReadNote(fsys, path, ackedSize)
	if err != nil {
		return err
	}
	if b != nil {
		j.acked = totalsOf(b)
	}
	_, err = j.note.Open(fsys, path)
	return err
}

// restore makes up for groups that were acknowledged and are missing at the end of the
// journal: their events stay, and only their keys are lost.
func (j *journal) restore() error {
	if j.acked.batches <= j.totals.batches {
		return nil
	}
	j.log.Error("the end of the journal is damaged: lost batches that are sent again are taken again",
		"batches", j.acked.batches-j.totals.batches, "events", j.acked.events-j.totals.events)
	g := group{events: j.acked.events, batches: j.acked.batches, end: j.acked.end}
	return j.append(&g, g.append(nil))
}

// replay shows the groups, the oldest first. Found is false if there are none.
//
// A group that was not durable when it was written may be there all the same. Its
// batches were answered 503, so it does not count. The group after it shows this: it
// does not include the batches of the one before.
func (j *journal) replay(show func(g *group)) (found bool, err error) {
	var before, next group
	var payload []byte // of before
	var at spool.Position
	read := uint64(0)
	for p, r := range j.spool.Recovered {
		read++
		if err := next.decode(r.Payload); err != nil {
			return false, fmt.Errorf("the journal cannot be read: %w", err)
		}
		if found {
			if before.after().batches > next.batches {
				j.spool.Ack(at)
			} else {
				j.push(&before, at)
				show(&before)
			}
		}
		payload, at, found = append(payload[:0], r.Payload...), p, true
		if err := before.decode(payload); err != nil {
			return false, err
		}
	}
	if read != j.groups { // the end of the events may be in one that is missing
		return false, fmt.Errorf("the journal cannot be read: %d of its %d records are missing", j.groups-read, j.groups)
	}
	if !found {
		return false, nil
	}
	// Keys of the group are answered from now on, so it must be durable. Those before
	// it were made durable before it was written.
	durable := make(chan error, 1)
	j.spool.Durable(at, func(err error) { durable <- err })
	if err := <-durable; err == nil {
		j.push(&before, at)
	} else {
		j.spool.Ack(at)
		if err := j.append(&before, payload); err != nil {
			return true, err
		}
	}
	show(&before)
	return true, nil
}

// append writes a group, and returns when it is durable. Encoded is what
// group.append returns.
func (j *journal) append(g *group, encoded []byte) error {
	at, err := j.spool.Append(spool.Record{
		Kind: spool.Data, Epoch: j.spool.Epoch(), Seq: g.batches, Count: uint32(len(g.records)), Payload: encoded,
	})
	if err != nil {
		return err
	}
	began := time.Now()
	if err := j.spool.Sync(); err != nil {
		j.failed = true
		j.spool.Ack(at)
		return err
	}
	j.synced(time.Since(began))
	j.push(g, at)
	if err := j.note.Write(j.totals.append(j.noted[:0])); err != nil {
		j.log.Warn("what was acknowledged cannot be noted", "error", err)
	}
	return nil
}

func (j *journal) close() error { return errors.Join(j.spool.Close(), j.note.Close()) }

// push adds the newest group, of which no key is remembered yet.
func (j *journal) push(g *group, at spool.Position) {
	j.totals = g.after()
	j.live.push(liveGroup{at: at})
	j.trim()
}

// repair makes sure that a group that could not be made durable does not count,
// should it come back. It must return before events are cut.
func (j *journal) repair() error {
	if !j.failed {
		return nil
	}
	g := group{events: j.totals.events, batches: j.totals.batches, end: j.totals.end}
	if err := j.append(&g, g.append(nil)); err != nil {
		return err
	}
	j.failed = false
	return nil
}

// remember counts a key of the newest group that is in the window.
func (j *journal) remember() { j.live.at(j.live.end-1).keys++ }

// forget counts keys, the oldest ones, that the window has forgotten.
func (j *journal) forget(keys int) {
	for ; keys > 0; keys-- {
		j.live.at(j.live.begin).keys--
		j.trim()
	}
}

// trim acknowledges the oldest groups that have no key in the window, but not the
// newest group, which has the totals.
func (j *journal) trim() {
	for j.live.len() > 1 && j.live.at(j.live.begin).keys == 0 {
		j.spool.Ack(j.live.at(j.live.begin).at)
		j.live.pop()
	}
}
