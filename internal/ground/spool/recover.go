package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// Recovery describes what Open found.
type Recovery struct {
	Records uint64 // not acknowledged; Recovered returns them
	Events  uint64 // in these records
	Bytes   int64  // of these records, with headers
	// Corrupt is the number of damaged places. Interrupted writes do not count.
	Corrupt int
	// LostEvents is the number of events in damaged places, as far as it follows
	// from the checkpoint or the numbers of neighbouring records.
	LostEvents uint64
	// Truncated is how many bytes of an interrupted write were cut off.
	Truncated int64
	// Quarantined are the paths of the files with damaged bytes.
	Quarantined []string
	// Untouched are the paths of files of a newer version, and unreadable ones.
	Untouched []string
	// Problems are messages about what was wrong, up to 100.
	Problems []string
}

const (
	maxProblems   = 100
	quarantineDir = "quarantine"
	lockName      = "lock"

	// maxCounter is above all epochs, generations and numbers that a spool uses. A
	// higher one is ignored, because there must always be a next one.
	maxCounter = 1 << 63
)

// segmentFiles are the files with records. 0000000000000001.seg is the first.
var segmentFiles = vfs.Series{Suffix: ".seg", Base: 16, Digits: 16}

// segmentNumbers returns the numbers of the segments among the files of a folder,
// sorted.
func segmentNumbers(names []string) []uint64 {
	return slices.DeleteFunc(segmentFiles.Numbers(names), func(n uint64) bool { return n == 0 || n >= maxCounter })
}

// Open opens the spool of a folder and reads what the last one left there. It fails if
// the folder is in use (vfs.ErrLocked) or cannot be used at all, but never because of
// its content.
func Open(opt Options) (*Spool, Recovery, error) {
	opt = opt.withDefaults()
	if opt.Dir == "" {
		return nil, Recovery{}, errors.New("open spool: the folder is missing")
	}
	fail := func(err error) (*Spool, Recovery, error) {
		return nil, Recovery{}, fmt.Errorf("open spool %s: %w (it needs a folder of its own that this process can write)", opt.Dir, err)
	}
	if err := opt.FS.MkdirAll(opt.Dir); err != nil {
		return fail(err)
	}
	s := &Spool{opt: opt, fs: opt.FS, log: opt.Log, wake: make(chan struct{}, 1)}
	unlock, err := s.fs.Lock(s.join(lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, Recovery{}, fmt.Errorf("open spool %s: %w: stop the other process, or give each its own folder", opt.Dir, vfs.ErrLocked)
	}
	if err != nil {
		return fail(err)
	}
	s.lock = unlock
	names, err := s.fs.ReadDir(opt.Dir)
	if err != nil {
		return fail(errors.Join(err, unlock.Close()))
	}
	r := &recovering{s: s, gaps: gaps{lanes: make(map[laneKey]lane)}}
	r.readCheckpoints()
	r.readSegments(names)
	s.epoch = max(r.epoch+1, uint64(time.Now().UnixNano()))
	r.rep.LostEvents = uint64(max(r.gaps.lost, 0))
	s.mu.corrupt = r.rep.Corrupt
	s.mu.changed = true
	s.writeCheckpoint(true)
	if err := s.loop.checkpointErr; err != nil && !isFull(err) {
		for _, f := range s.loop.slots {
			if f != nil {
				err = errors.Join(err, f.Close())
			}
		}
		return fail(errors.Join(err, unlock.Close()))
	}
	// On a full disk the epoch, which is the time, is new all the same, and sending
	// what is recovered gives space back.
	for _, p := range r.rep.Problems {
		s.log.Warn("spool: recovery", "problem", p)
	}
	s.wg.Go(s.syncLoop)
	s.wakeLoop() // to delete acknowledged segments
	return s, r.rep, nil
}

// A recovering is the state of Open.
type recovering struct {
	s     *Spool
	rep   Recovery
	saved checkpoint
	whole bool   // saved is the last checkpoint that was written
	epoch uint64 // the highest seen
	gaps  gaps
}

func (r *recovering) problem(format string, args ...any) {
	if len(r.rep.Problems) < maxProblems {
		r.rep.Problems = append(r.rep.Problems, fmt.Sprintf(format, args...))
	}
}

func (r *recovering) sawEpoch(epoch uint64) {
	if epoch < maxCounter {
		r.epoch = max(r.epoch, epoch)
	}
}

// readCheckpoints reads both checkpoints and keeps the newer valid one.
func (r *recovering) readCheckpoints() {
	r.whole = true
	for _, name := range slots {
		path := r.s.join(name)
		b, err := vfs.ReadFile(r.s.fs, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			r.problem("%s: %v", path, err)
			r.whole = false
			continue
		}
		c, wrong := parseCheckpoint(b)
		if wrong != "" {
			r.problem("%s: %s; acknowledged records may come back", path, wrong)
			r.whole = false
			continue
		}
		r.sawEpoch(c.epoch)
		r.s.mu.next = max(r.s.mu.next, c.next)
		if c.generation >= r.saved.generation {
			r.saved = c
		}
	}
	r.s.loop.generation = r.saved.generation
}

// readSegments recovers all segments, the oldest first.
func (r *recovering) readSegments(names []string) {
	numbers := segmentNumbers(names)
	s := r.s
	s.mu.next = max(s.mu.next, 1)
	for _, n := range numbers {
		s.mu.next = max(s.mu.next, n+1)
		r.segment(n, s.join(segmentFiles.Name(n)))
	}
	s.w.next = s.mu.next
	s.old = slices.Clone(s.mu.segments)
	for _, st := range r.saved.segments {
		if !slices.Contains(numbers, st.number) {
			r.missing(st)
		}
	}
}

// missing counts the events of a missing file that has unacknowledged records in the
// last checkpoint: another program has removed it. An earlier checkpoint proves
// nothing, since the spool itself may have deleted the file after it.
func (r *recovering) missing(st state) {
	needed := st.events
	if needed == unknown && st.mark >= st.synced {
		needed = 0
	}
	if needed == 0 || !r.whole {
		return
	}
	r.rep.Corrupt++
	if needed == unknown {
		r.problem("%s: the file is missing, with unacknowledged records", r.s.join(segmentFiles.Name(st.number)))
		return
	}
	r.problem("%s: the file is missing, with %d events", r.s.join(segmentFiles.Name(st.number)), needed)
	r.gaps.lost += int64(min(needed, maxGap))
}

// segment recovers one segment and adds it to the spool.
func (r *recovering) segment(number uint64, path string) {
	f, err := r.s.fs.Open(path)
	if err != nil {
		r.untouched(path, err.Error())
		return
	}
	size, err := f.Size()
	if err != nil {
		r.untouched(path, err.Error())
	} else {
		l := &segmentRecovery{r: r, path: path, f: f, sc: newScanner(f, size), g: &segment{number: number, path: path, sealed: true, entered: true}}
		l.segment()
		if l.sc.r.err != nil {
			r.problem("%s: %d blocks cannot be read: %v", path, len(l.sc.r.bad), l.sc.r.err)
		}
	}
	r.s.closeFile(f, path)
}

func (r *recovering) untouched(path, why string) {
	r.problem("%s: not touched: %s", path, why)
	r.rep.Untouched = append(r.rep.Untouched, path)
}

// A segmentRecovery is the recovery of one segment.
type segmentRecovery struct {
	r     *recovering
	path  string
	f     vfs.File
	sc    *scanner
	g     *segment
	saved state // of the checkpoint
	known bool  // the checkpoint has the segment

	records uint64
	bytes   int64
	found   uint64 // events in records that the checkpoint counts
	damage  []span // sorted
	end     int64  // of the last record
	torn    bool   // the bytes after end are cut off
}

func (l *segmentRecovery) segment() {
	size := l.sc.size
	l.saved.mark = segmentHeader
	for _, st := range l.r.saved.segments {
		if st.number == l.g.number {
			l.saved, l.known = st, true
			l.saved.mark = max(l.saved.mark, segmentHeader)
		}
	}
	head := l.sc.bytes(0, min(segmentHeader, size))
	ver, number, epoch, ok := parseSegmentHeader(head)
	switch {
	case ok && ver != version:
		l.r.untouched(l.path, fmt.Sprintf("it is of version %d, this program knows %d", ver, version))
		return
	case ok:
		l.r.sawEpoch(epoch)
		if number != l.g.number {
			l.r.problem("%s: it was written as segment %d", l.path, number)
		}
	case l.sc.content(0, size) == 0 && l.sc.r.err == nil && (!l.known || l.saved.synced <= segmentHeader):
		// It was made when the power was lost, and never had a record.
		if err := l.r.s.fs.Remove(l.path); err != nil {
			l.r.problem("%v", err)
		}
		return
	default:
		l.r.rep.Corrupt++
		l.r.problem("%s: its header is damaged", l.path)
	}
	l.walk()
	l.count()
	if l.records == 0 && len(l.damage) > 0 && l.saved.mark == segmentHeader && len(l.saved.acked) == 0 && l.sc.r.err == nil && l.moveAway() {
		return
	}
	l.adopt()
}

// walk finds records and damaged places.
func (l *segmentRecovery) walk() {
	acked, size := l.saved.acked, l.sc.size
	off := min(l.saved.mark, size)
	l.end = off
	for {
		for len(acked) > 0 && acked[0].to <= off {
			acked = acked[1:]
		}
		quiet, limit := false, size
		if len(acked) > 0 {
			quiet = acked[0].from <= off
			limit = min(limit, acked[0].from)
			if quiet {
				limit = min(size, acked[0].to)
			}
		}
		f, ok := l.sc.next(off, limit)
		switch {
		case !ok:
			l.torn = l.end < size
			return
		case f.ok && quiet:
			l.r.gaps.record(f.record)
		case f.ok:
			l.addRecord(f)
		case quiet: // it is acknowledged
		case f.last && limit == size:
			l.readEnd(f.span)
			return
		default:
			l.addDamage(f.span)
		}
		off, l.end = f.to, f.to
	}
}

// addRecord counts a record that is not acknowledged.
func (l *segmentRecovery) addRecord(f found) {
	l.records++
	l.bytes += f.to - f.from
	l.g.events += uint64(f.record.Count)
	if f.to <= l.saved.synced {
		l.found += uint64(f.record.Count)
	}
	l.r.sawEpoch(f.record.Epoch)
	l.r.gaps.record(f.record)
}

// exact reports whether the checkpoint counts the events at an offset.
func (l *segmentRecovery) exact(off int64) bool {
	return l.known && l.saved.events != unknown && off < l.saved.synced
}

// addDamage notes a damaged place.
func (l *segmentRecovery) addDamage(at span) {
	l.damage = append(l.damage, at)
	l.r.rep.Corrupt++
	l.r.problem("%s: bytes %d to %d are damaged", l.path, at.from, at.to)
	if l.exact(at.from) {
		l.r.gaps.exact++
		return
	}
	var head Record
	if at.to-at.from >= recordHeader {
		b := l.sc.bytes(at.from, recordHeader)
		if n, ok := recordLength(b); ok && n == at.to-at.from {
			head = headerFields(b)
		}
	}
	l.r.gaps.damage(head, at.to-at.from-recordHeader)
}

// readEnd decides what the bytes after the last record are: reserved space, an
// interrupted write, or, if they were durable at the checkpoint, damage.
func (l *segmentRecovery) readEnd(at span) {
	content := l.sc.content(at.from, at.to)
	if synced := min(l.saved.synced, at.to); synced > at.from {
		at.to = max(content, synced)
		l.addDamage(at)
		return
	}
	if l.sc.r.unreadable(at) { // they read as zeros, but may be records
		l.addDamage(at)
		return
	}
	l.torn = true
	if content > at.from {
		l.r.rep.Truncated += content - at.from
		l.r.problem("%s: %d bytes of an interrupted write are cut off", l.path, content-at.from)
	}
}

// count adds the figures of the segment to the report.
func (l *segmentRecovery) count() {
	rep := &l.r.rep
	rep.Records += l.records
	rep.Events += l.g.events
	rep.Bytes += l.bytes
	if !l.known {
		return
	}
	if l.saved.synced > l.sc.size && len(l.damage) == 0 {
		missing := l.saved.synced - max(l.sc.size, l.saved.mark)
		for _, a := range l.saved.acked {
			missing -= max(0, min(a.to, l.saved.synced)-max(a.from, l.sc.size))
		}
		if missing > 0 {
			rep.Corrupt++
			l.r.gaps.exact++
			l.r.problem("%s: the last %d bytes are missing", l.path, missing)
		}
	}
	if l.saved.events != unknown && l.saved.events > l.found && l.saved.events-l.found < maxGap {
		l.r.gaps.lost += int64(l.saved.events - l.found)
	}
}

// moveAway moves a file without any valid record to the quarantine.
func (l *segmentRecovery) moveAway() bool {
	s := l.r.s
	dir := s.join(quarantineDir)
	to := fmt.Sprintf("%s/%s", dir, segmentFiles.Name(l.g.number))
	err := s.fs.MkdirAll(dir)
	if err == nil {
		err = s.fs.Rename(l.path, to)
	}
	if err == nil {
		err = errors.Join(s.fs.SyncDir(dir), s.fs.SyncDir(s.opt.Dir))
		l.r.rep.Quarantined = append(l.r.rep.Quarantined, to)
	}
	if err != nil {
		l.r.problem("%s: move it to the quarantine: %v", l.path, err)
		return false
	}
	return true
}

// adopt adds the segment to the spool. Damaged places count as acknowledged if there
// is a copy, so that the file can be deleted later.
func (l *segmentRecovery) adopt() {
	s, g := l.r.s, l.g
	g.end = l.end
	g.acks.mark = min(l.saved.mark, l.sc.size)
	for _, a := range l.saved.acked {
		if a.from < l.sc.size {
			g.acks.add(span{a.from, min(a.to, l.sc.size)})
		}
	}
	for _, d := range l.damage {
		copied := l.quarantine(d)
		switch {
		case copied && d.from >= l.end: // at the end, and the file can be shortened
			l.torn = true
		case copied:
			g.acks.add(d)
		default:
			l.torn = l.torn && d.from < l.end
			g.end = max(g.end, d.to)
		}
	}
	g.damaged = l.damage
	g.acks.mark = min(g.acks.mark, g.end)
	if l.torn {
		if err := l.f.Truncate(g.end); err != nil {
			l.r.problem("%v", err) // the next start ignores it again
		}
	}
	g.synced, g.syncedEvents = g.end, g.events
	if l.records > 0 && l.saved.synced < g.end {
		// A process that was killed may leave records that no fsync has covered, in
		// a file whose folder entry is not durable.
		err := l.f.Sync()
		if err == nil {
			err = s.fs.SyncDir(s.opt.Dir)
		}
		if err != nil {
			g.synced, g.syncedEvents = l.saved.synced, l.found
			g.failed = &SyncError{g.path, err}
			l.r.problem("%v", g.failed)
		}
	}
	s.mu.segments = append(s.mu.segments, g)
	s.mu.bytes += g.end
	s.mu.live += l.bytes
	s.mu.records += l.records
	if g.deadLocked() {
		s.mu.dead = append(s.mu.dead, g)
	}
}

// quarantine copies a damaged place into a file of its own.
func (l *segmentRecovery) quarantine(d span) bool {
	if l.sc.r.unreadable(d) {
		l.r.problem("%s: bytes %d to %d cannot be read; the file is kept", l.path, d.from, d.to)
		return false
	}
	s := l.r.s
	dir := s.join(quarantineDir)
	path := fmt.Sprintf("%s/%016x-%d.bytes", dir, l.g.number, d.from)
	if err := l.copyTo(dir, path, d); err != nil {
		l.r.problem("%s: copy bytes %d to %d to the quarantine: %v; the file is kept", l.path, d.from, d.to, err)
		return false
	}
	l.r.rep.Quarantined = append(l.r.rep.Quarantined, path)
	return true
}

func (l *segmentRecovery) copyTo(dir, path string, d span) error {
	s := l.r.s
	if err := s.fs.MkdirAll(dir); err != nil {
		return err
	}
	// A start that was interrupted may have left one.
	if err := s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	for off := d.from; off < d.to && err == nil; {
		b := l.sc.bytes(off, min(window, d.to-off))
		_, err = f.WriteAt(b, off-d.from)
		off += int64(len(b))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return errors.Join(s.fs.SyncDir(dir), s.fs.SyncDir(s.opt.Dir))
}

type laneKey struct {
	lane  uint16
	epoch uint64
}

// A lane is the state of the event numbers of a lane.
type lane struct {
	next           uint64 // the number after the last record
	guess          uint64 // events before next that belong to a damaged record
	damages, exact int    // of gaps, at the last record
}

// gaps counts the lost events in damaged places that no checkpoint counts, by the
// numbers of the records around them. A gap without damage does not count: the writer
// left it.
type gaps struct {
	lanes          map[laneKey]lane
	damages, exact int // damaged places so far: without and with a checkpoint that counts their events
	lost           int64
}

// maxGap is more than one damaged place can hold.
const maxGap = 1 << 32

func (g *gaps) record(r Record) {
	if r.Kind != Data {
		return
	}
	k := laneKey{r.Lane, r.Epoch}
	if l, ok := g.lanes[k]; ok && g.damages > l.damages && g.exact == l.exact {
		if before := l.next - l.guess; r.Seq >= before && r.Seq-before < maxGap {
			g.lost += int64(r.Seq-before) - int64(l.guess)
		}
	}
	g.lanes[k] = lane{next: r.Seq + uint64(r.Count), damages: g.damages, exact: g.exact}
}

// damage counts a damaged place. A header that fits the record before is taken as right
// for now: when nothing follows, there is no gap.
func (g *gaps) damage(head Record, payload int64) {
	g.damages++
	if head.Kind != Data || int64(head.Count) > payload {
		return
	}
	k := laneKey{head.Lane, head.Epoch}
	if l, ok := g.lanes[k]; ok && l.next == head.Seq {
		l.next += uint64(head.Count)
		l.guess += uint64(head.Count)
		g.lost += int64(head.Count)
		g.lanes[k] = l
	}
}
