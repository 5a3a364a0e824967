package loader

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// A journal is the truth about what was taken: events that no record vouches for
// were never promised to anybody. Its files are journal-000001.log and so on;
// those without a key that is still remembered are removed. All fields are owned
// by the committer.
type journal struct {
	series
	log    *slog.Logger
	synced func(time.Duration) // told how long each fsync took
	rotate int64

	f      *os.File // nil while mend cannot make one
	bad    bool     // an append failed: the file ends in something unknown
	number uint64   // of f
	size   int64    // of f: what was synced
	empty  bool     // f has a header only
	buf    []byte
	live   map[uint64]int // remembered keys by journal; files without are missing
	files  []uint64       // that are there, but for the newest

	base totals // what the next header says
}

// totals are what a journal says about all that came before.
type totals struct {
	end     Position // of what is vouched for
	events  uint64
	batches uint64
}

// add counts a record.
func (t *totals) add(r *record) {
	if r.header {
		if t.end.before(r.span.Position) {
			t.end = r.span.Position
		}
		t.events, t.batches = max(t.events, r.accepted), max(t.batches, r.batches)
		return
	}
	if end := r.span.end(); t.end.before(end) {
		t.end = end
	}
	t.events += r.accepted
	t.batches++
}

func newJournal(dir string, rotate int64, log *slog.Logger, synced func(time.Duration)) *journal {
	return &journal{
		series: series{dir, "journal-", ".log"}, log: log, synced: synced, rotate: rotate, live: make(map[uint64]int),
	}
}

// read reads what is there, in order, and cuts a torn end off. Each record is
// shown with the number of its file, and shares memory that is written to later.
// Found is false if nothing vouches for anything.
func (j *journal) read(show func(r *record, number uint64)) (found bool, err error) {
	all, err := j.list()
	if err != nil {
		return false, err
	}
	for i, n := range all {
		s, err := scanJournal(j.path(n), func(r *record) {
			found = true
			j.base.add(r)
			show(r, n)
		})
		if err != nil {
			return false, err
		}
		if s.damaged > 0 {
			// The events are there; what is lost is that their keys came before.
			j.log.Error("lines of a journal are damaged: batches of theirs would be taken again", "file", j.path(n), "lines", s.damaged)
		}
		j.number = n
		if i < len(all)-1 {
			j.files = append(j.files, n)
			continue
		}
		if s.records == 0 {
			j.size, j.empty = 0, true
			continue // made anew, below
		}
		if s.torn {
			j.log.Info("the end of a journal was torn: what nobody was told is taken back", "file", j.path(n), "kept", s.end)
		}
		if _, err := cutFile(j.path(n), s.end); err != nil {
			return false, err
		}
		j.size, j.empty = s.end, s.records == 1
	}
	return found, nil
}

// scanned is what a journal file was found to be.
type scanned struct {
	end     int64 // after the last good line
	records int
	damaged int  // bad lines before that
	torn    bool // there is something after that
}

// scanJournal shows the records of a file. A line that cannot be read is skipped:
// lines after it are whole, whatever has happened to it.
func scanJournal(path string, show func(*record)) (s scanned, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return scanRecords(f, show)
}

// scanRecords is scanJournal of a stream.
func scanRecords(from io.Reader, show func(*record)) (s scanned, err error) {
	in := bufio.NewReaderSize(from, 1<<16)
	var at int64
	bad := 0
	var long []byte
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			continue
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return s, err
		}
		if len(line) == 0 {
			break
		}
		at += int64(len(line))
		body, whole := bytes.CutSuffix(line, []byte{'\n'})
		if r, ok := parseRecord(body); ok && whole {
			s.damaged += bad
			s.end, s.records, bad = at, s.records+1, 0
			show(&r)
		} else {
			bad++
		}
		long = long[:0]
		if err != nil {
			break
		}
	}
	s.torn = at > s.end
	return s, nil
}

// start makes the journal ready for records.
func (j *journal) start() error {
	if j.number > 0 && !j.empty {
		f, err := os.OpenFile(j.path(j.number), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		j.f = f
		return nil
	}
	return j.create(max(j.number, 1))
}

// create begins a file. Its name appears with its header, and the header is
// durable: a journal without one is no journal.
func (j *journal) create(number uint64) error {
	r := record{header: true, span: Span{Position: j.base.end}, accepted: j.base.events, batches: j.base.batches}
	j.buf = r.append(j.buf[:0])
	temp := j.path(number) + ".new"
	if err := remove(temp); err != nil { // of a process that was killed
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(j.buf); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil { // not every system renames open files
		err = os.Rename(temp, j.path(number))
	}
	if err == nil {
		err = syncFolder(j.dir)
	}
	if err == nil {
		f, err = os.OpenFile(j.path(number), os.O_WRONLY, 0)
	}
	if err != nil {
		return errors.Join(err, remove(temp))
	}
	if number != j.number && j.number > 0 {
		j.files = append(j.files, j.number)
	}
	j.f, j.number, j.size, j.empty = f, number, int64(len(j.buf)), true
	return nil
}

// append writes records and returns when they are durable. After an error the
// journal must be mended.
func (j *journal) append(records []record) error {
	j.buf = j.buf[:0]
	for i := range records {
		j.buf = records[i].append(j.buf)
	}
	j.bad = true // until all went well
	if _, err := j.f.WriteAt(j.buf, j.size); err != nil {
		return err
	}
	began := time.Now()
	if err := j.f.Sync(); err != nil {
		return err
	}
	j.synced(time.Since(began))
	j.size += int64(len(j.buf))
	j.empty, j.bad = false, false
	for i := range records {
		j.base.add(&records[i])
	}
	if cap(j.buf) > 1<<20 {
		j.buf = nil
	}
	return nil
}

// mend takes back what an append that failed may have left, and begins a new
// file: a descriptor whose fsync failed is not to be trusted.
func (j *journal) mend() error {
	if !j.bad {
		return nil
	}
	if j.f != nil {
		if err := j.f.Close(); err != nil {
			j.log.Warn("a journal could not be closed", "error", err) // it is cut below all the same
		}
		j.f = nil
	}
	if _, err := cutFile(j.path(j.number), j.size); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	next := j.number
	if !j.empty {
		next++
	}
	if err := j.create(next); err != nil {
		return err
	}
	j.bad = false
	return nil
}

// turn begins a new file if the newest is large enough, and removes those that
// no remembered key is in. Nothing is lost if it fails: it is tried again.
func (j *journal) turn() error {
	if j.size >= j.rotate {
		old := j.f
		if err := j.create(j.number + 1); err != nil {
			return fmt.Errorf("begin a journal: %w", err)
		}
		if err := old.Close(); err != nil {
			return fmt.Errorf("close a journal: %w", err) // all of it was synced
		}
	}
	kept := j.files[:0]
	var errs []error
	for _, n := range j.files {
		if j.live[n] > 0 {
			kept = append(kept, n)
		} else if err := remove(j.path(n)); err != nil {
			errs = append(errs, fmt.Errorf("remove a journal: %w", err))
			kept = append(kept, n)
		}
	}
	j.files = kept
	return errors.Join(errs...)
}

// remember counts a key that a file has.
func (j *journal) remember(number uint64) { j.live[number]++ }

// forget counts one less.
func (j *journal) forget(number uint64) {
	if j.live[number]--; j.live[number] == 0 {
		delete(j.live, number)
	}
}

// close closes the file.
func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	return j.f.Close()
}
