package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
)

// Commit implements [journal.Store]. A context that ends while it runs does not stop it.
//
// A start whose id or key exists already is left out, and so are the records, the waits and the
// end of its id, unless the run that exists has the same id. Whether a key has expired is decided by
// the time at which the new run was created.
func (s *Store) Commit(ctx context.Context, b *journal.Batch) error {
	s.write.Lock()
	defer s.write.Unlock()
	switch {
	case s.write.closed:
		return journal.ErrClosed
	case s.write.broken != nil:
		return s.write.broken
	}
	if err := ctx.Err(); err != nil {
		return s.fail(err)
	}
	// What earlier commits have left in the log is copied now, and not after them: then they
	// would have been answered later.
	if err := s.checkpoint(); err != nil {
		return s.fail(err)
	}
	err := s.transact(func() error { return s.apply(b) })
	if errors.Is(err, journal.ErrFull) {
		b.Existing = nil
		var again bool
		if again, err = s.makeRoom(err); again {
			err = s.transact(func() error { return s.apply(b) })
		}
	}
	if err != nil {
		b.Existing = nil
		return s.fail(err)
	}
	s.write.unseen += sizeOf(b)
	for i := range b.Records {
		if len(s.write.resumed) == 0 {
			break
		}
		delete(s.write.resumed, b.Records[i].Run)
	}
	for i := range b.Ends {
		if len(s.write.resumed) == 0 {
			break
		}
		if b.Ends[i].State == journal.Waiting {
			delete(s.write.resumed, b.Ends[i].Run)
		}
	}
	return nil
}

// fail returns an error, and refuses all that is written from now on, unless a later try
// may work.
func (s *Store) fail(err error) error {
	if !errors.Is(err, journal.ErrFull) {
		s.write.broken = fmt.Errorf("journal %s: nothing is written after an error: %w", s.name, err)
	}
	return err
}

// transact runs f in a transaction. It is called with the lock.
func (s *Store) transact(f func() error) error {
	c := s.write.conn
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f()
	kill.At(kill.InCommit, err == nil)
	if err == nil {
		if _, err = c.exec("COMMIT"); err == nil {
			return nil
		}
	}
	err = s.explain(err)
	// A full disk may have rolled it back already; then ROLLBACK is a plain error.
	if _, failed := c.exec("ROLLBACK"); failed != nil {
		if primary, _ := codes(failed); primary != sqlite3.SQLITE_ERROR {
			return errors.Join(fmt.Errorf("%v", err), failed) // not ErrFull: a transaction is open still
		}
	}
	return err
}

// explain finds out whether a write that failed would work with more space. Of the errors of
// a full disk SQLite tells ENOSPC alone from others, and not EDQUOT of a quota or EFBIG of a
// limit of file sizes. After each of them it rolls back in the same way.
func (s *Store) explain(err error) error {
	if _, extended := codes(err); extended != sqlite3.SQLITE_IOERR_WRITE || errors.Is(err, journal.ErrFull) {
		return err
	}
	if full := s.probe(); vfs.IsFull(full) {
		return fmt.Errorf("journal %s: %w (%w: %w)", s.name, journal.ErrFull, err, full)
	}
	return err
}

// probe writes as much as a small commit to another file, at the end of the log.
func (s *Store) probe() (err error) {
	var size int64
	if info, err := os.Stat(s.path + "-wal"); err == nil {
		size = info.Size()
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".probe-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	_, err = f.WriteAt(make([]byte, 64<<10), size)
	return err
}

// checkpoint copies the log to the file once it is long. Readers are not waited for: what
// they need stays in the log for the next time.
func (s *Store) checkpoint() error {
	if s.write.limit < 0 || s.write.unseen < s.write.look {
		return nil
	}
	s.write.unseen = 0
	l, err := s.log("NOOP")
	if err != nil {
		return err
	}
	limit, restart := s.write.limit, s.write.restart
	s.write.look = lookAfter
	if free := vfs.FreeBytes(filepath.Dir(s.path)); free < lowDisk { // the file must have room for what is copied
		s.write.look = lookLow
		limit, restart = min(limit, free/4/pageSize), min(restart, free/4/pageSize)
	}
	if l.all-l.copied < limit && l.all < restart {
		return nil
	}
	l, err = s.log("PASSIVE")
	if err = s.explain(err); errors.Is(err, journal.ErrFull) {
		return nil // the log has all; the disk's space is asked for again after the next commit
	}
	if err != nil || l.all < restart {
		return err
	}
	return s.restartLog()
}

// makeRoom lets the next commit write to the start of the log, after one that found no room at its end: the log may be
// what has filled the disk, as it has each page as often as that was written. It reports whether another try may
// work, or else why not: full, which is why that commit failed, unless nothing can be written any more.
func (s *Store) makeRoom(full error) (again bool, err error) {
	if s.write.limit < 0 {
		return false, full
	}
	if err := s.write.run("PRAGMA busy_timeout = " + strconv.Itoa(restartTimeout)); err != nil {
		return false, err
	}
	l, err := s.log("RESTART")
	if err = s.explain(err); err != nil && !errors.Is(err, journal.ErrFull) {
		return false, err
	}
	again = err == nil && !l.busy && l.all > 0 && l.copied == l.all
	if err := s.write.run("PRAGMA busy_timeout = " + strconv.Itoa(busyTimeout)); err != nil {
		return false, err
	}
	return again, full
}

// restartLog waits a moment for readers, so that the next commit writes to the start of the
// log: while there is always one that reads, a log that is only copied grows without end.
func (s *Store) restartLog() error {
	if err := s.write.run("PRAGMA busy_timeout = " + strconv.Itoa(restartTimeout)); err != nil {
		return err
	}
	l, err := s.log("RESTART")
	if err = s.explain(err); err != nil && !errors.Is(err, journal.ErrFull) {
		return err
	}
	s.write.restart = logLimit / pageSize
	if l.busy || err != nil { // later, and not after each commit
		s.write.restart = max(l.all, s.write.restart) + checkpointBytes/pageSize
	}
	return s.write.run("PRAGMA busy_timeout = " + strconv.Itoa(busyTimeout))
}

// lookAfter is after how many bytes, approximately, the length of the log is asked for again: to ask at
// each commit took 4 % of the time of commits.
const lookAfter = 1 << 20

// On a disk with little room, the log is kept short: one that fills the disk cannot be copied to the file, and so the
// disk stays full.
const (
	lowDisk = 2 * logLimit
	lookLow = 16 << 10 // in place of lookAfter
)

// rowSize is what a row takes besides its payload, approximately, with its share of indexes and pages.
const rowSize = 512

func sizeOf(b *journal.Batch) (size int) {
	for _, r := range b.Starts {
		size += rowSize + len(r.Input)
	}
	for i := range b.Records {
		size += rowSize + len(b.Records[i].Payload)
	}
	for i := range b.Signals {
		size += rowSize + len(b.Signals[i].Payload)
	}
	for i := range b.Ends {
		size += rowSize + len(b.Ends[i].Answer)
	}
	for i := range b.Requeues {
		size += rowSize + len(b.Requeues[i].Input)
	}
	return size + rowSize*(len(b.Claims)+len(b.Pauses)+len(b.Waits)+len(b.Over)+len(b.Taken))
}

// A log is what a checkpoint tells of the write-ahead log.
type log struct {
	busy        bool  // readers have kept it from being used again
	all, copied int64 // pages
}

// log runs a checkpoint of some mode.
func (s *Store) log(mode string) (l log, err error) {
	err = s.write.query(context.Background(), func(row []any) error {
		l.busy = row[0] != int64(0)
		l.all, _ = row[1].(int64) // -1 without a log
		l.copied, _ = row[2].(int64)
		return nil
	}, "PRAGMA wal_checkpoint("+mode+")")
	return l, err
}

// apply writes a batch, a row a statement: statements of 8 and of 32 rows were not faster (see
// BenchmarkBare).
func (s *Store) apply(b *journal.Batch) error {
	for i := range b.Revisions {
		if _, err := s.write.exec(s.statements.PutRevision, b.Revisions[i].Hash, b.Revisions[i].Body, nil); err != nil {
			return err
		}
	}
	b.Existing = slices.Grow(b.Existing[:0], len(b.Starts))[:len(b.Starts)]
	clear(b.Existing)
	var dropped map[journal.ID]bool // ids of starts that other runs stand for
	ends := s.endsOf(b)
	for i, r := range b.Starts {
		old, err := s.start(r, ends[r.ID])
		if err != nil {
			return err
		}
		if old != nil {
			delete(ends, r.ID)
		}
		if b.Existing[i] = old; old != nil && old.ID != r.ID {
			if dropped == nil {
				dropped = make(map[journal.ID]bool)
			}
			dropped[r.ID] = true
		}
	}
	for _, id := range b.Resumed {
		if _, err := s.write.exec(s.statements.CountResumed, id[:]); err != nil {
			return err
		}
		s.write.resumed[id] = struct{}{}
	}
	for i := range b.Retried {
		if err := s.put(s.statements.Retry, sqlstore.RetryArgs(s.write.args[:0], &b.Retried[i])); err != nil {
			return err
		}
	}
	for i := range b.Claims {
		if err := s.put(s.statements.Claim, sqlstore.ClaimArgs(s.write.args[:0], &b.Claims[i])); err != nil {
			return err
		}
	}
	for i := range b.Records {
		if r := &b.Records[i]; dropped == nil || !dropped[r.Run] {
			if err := s.record(r); err != nil {
				return err
			}
		}
	}
	for i := range b.Waits {
		if w := &b.Waits[i]; dropped == nil || !dropped[w.Run] {
			s.write.waits = true
			if err := s.put(s.statements.PutWait, sqlstore.WaitArgs(s.write.args[:0], w)); err != nil {
				return err
			}
		}
	}
	for _, id := range b.Over {
		if dropped == nil || !dropped[id.Run] {
			if _, err := s.write.exec(s.statements.DeleteWait, id.Run[:], int64(id.Pos)); err != nil {
				return err
			}
		}
	}
	for i := range b.Signals {
		s.write.came = max(s.write.came+1, time.Now().UnixMicro())
		if err := s.put(s.statements.PutSignal, sqlstore.SignalArgs(s.write.args[:0], &b.Signals[i], s.write.came)); err != nil {
			return err
		}
	}
	for _, id := range b.Taken {
		if _, err := s.write.exec(s.statements.TakeSignal, sqlstore.SignalKey(id.Namespace, id.ID)); err != nil {
			return err
		}
	}
	for i := range b.Requeues {
		if r := &b.Requeues[i]; dropped == nil || !dropped[r.Run] {
			if err := s.requeue(r); err != nil {
				return err
			}
		}
	}
	for i := range b.Ends {
		if e := &b.Ends[i]; dropped == nil || !dropped[e.Run] {
			if err := s.end(e, ends[e.Run] == e); err != nil {
				return err
			}
		}
	}
	for _, p := range b.Pauses {
		paused := int64(0)
		if p.Paused {
			paused = 1
		}
		if _, err := s.write.exec(s.statements.Pause, p.Queue.Namespace, p.Queue.Name, paused); err != nil {
			return err
		}
	}
	return nil
}

// requeue puts an item into its queue again, without what it has recorded if that is to be forgotten.
func (s *Store) requeue(r *journal.Requeue) error {
	args, blob := sqlstore.RequeueArgs(s.write.args[:0], r, s.packer)
	if err := s.put(s.statements.Requeue, args); err != nil {
		return err
	}
	delete(s.write.resumed, r.Run)
	if r.Forget {
		if _, err := s.write.exec(s.statements.ForgetHolds, r.Run[:], r.Run[:]); err != nil {
			return err
		}
	}
	if len(r.Input) > 0 { // one that has not begun, so the blob is of its input
		if _, err := s.write.exec(s.statements.ForgetBlobs, r.Run[:]); err != nil {
			return err
		}
	}
	return s.putBlob(blob)
}

// endsOf returns the first end of each run that begins in a batch and ends there: the insert of its
// row has it, which takes less than half of an insert and an update. An item is claimed between them.
func (s *Store) endsOf(b *journal.Batch) map[journal.ID]*journal.End {
	clear(s.write.ends)
	if len(b.Starts) == 0 || len(b.Ends) == 0 || len(b.Starts) > maxMerged {
		return nil
	}
	for _, r := range b.Starts {
		if r.Queue == "" {
			s.write.ends[r.ID] = nil
		}
	}
	for i := range b.Ends {
		e := &b.Ends[i]
		if first, ok := s.write.ends[e.Run]; ok && first == nil {
			s.write.ends[e.Run] = e
		}
	}
	return s.write.ends
}

// maxMerged bounds the map of endsOf, which is cleared for each commit.
const maxMerged = 4096

// start inserts a run, with its end if that is known, or returns the one that stands for it.
func (s *Store) start(r *journal.Run, end *journal.End) (*journal.Run, error) {
	for {
		args, blob, answer := sqlstore.RunArgs(s.write.args[:0], r, end, s.packer)
		s.write.args = args
		inserted, err := s.write.startRun.exec(args)
		if err != nil {
			return nil, err
		}
		if inserted == 1 {
			if err := s.putTick(r); err != nil {
				return nil, err
			}
			return nil, errors.Join(s.putBlob(blob), s.putBlob(answer))
		}
		old, err := s.find(s.statements.RunByID, r.ID[:])
		if err != nil || old != nil {
			return old, err
		}
		if old, err = s.find(s.statements.RunByKey, r.Namespace, r.Trigger, r.Key); err != nil {
			return nil, err
		}
		switch {
		case old == nil:
			return nil, fmt.Errorf("journal %s: run %x is refused, and neither its id nor its key exists", s.name, r.ID)
		case old.KeyUntil.IsZero() || old.KeyUntil.UnixMilli() > r.Created.UnixMilli():
			return old, nil
		}
		if _, err := s.write.exec(s.statements.ReleaseKey, old.ID[:]); err != nil {
			return nil, err
		}
	}
}

// putTick keeps the tick of a start, if it is the latest of its plan.
func (s *Store) putTick(r *journal.Run) error {
	if r.Tick.At.IsZero() {
		return nil
	}
	for _, text := range []string{s.statements.PutTick, s.statements.DropTick} {
		if _, err := s.write.exec(text, r.Namespace, r.Tick.Plan, r.Tick.At.UnixMilli()); err != nil {
			return err
		}
	}
	return nil
}

// find reads a run on the connection that writes, which sees what the transaction has done.
func (s *Store) find(text string, args ...any) (r *journal.Run, err error) {
	err = s.write.query(context.Background(), func(row []any) error {
		r, err = sqlstore.RunOf(row, s.packer)
		return err
	}, text, args...)
	return r, err
}

func (s *Store) record(r *journal.Record) error {
	args, blob := sqlstore.RecordArgs(s.write.args[:0], r, s.packer)
	s.write.args = args
	if _, err := s.write.addRecord.exec(args); err != nil {
		return err
	}
	if err := s.clearResumed(&r.Run); err != nil {
		return err
	}
	return s.putBlob(blob)
}

func (s *Store) clearResumed(run *journal.ID) error {
	if len(s.write.resumed) == 0 {
		return nil
	}
	if _, ok := s.write.resumed[*run]; !ok {
		return nil
	}
	_, err := s.write.exec(s.statements.ClearResumed, run[:])
	return err
}

// put executes a statement with arguments that may be those of the next one.
func (s *Store) put(text string, args []any) error {
	s.write.args = args
	_, err := s.write.exec(text, args...)
	return err
}

// end ends a run whose row does not have the end already.
func (s *Store) end(e *journal.End, has bool) error {
	if !has {
		args, blob := sqlstore.EndArgs(s.write.args[:0], e, s.packer)
		s.write.args = args
		if _, err := s.write.endRun.exec(args); err != nil {
			return err
		}
		if err := s.putBlob(blob); err != nil {
			return err
		}
	}
	switch {
	case e.State == journal.Waiting, e.State == journal.Paused:
		// Unfinished does not find it: what it counts would not be known after a restart.
		if err := s.clearResumed(&e.Run); err != nil {
			return err
		}
	case e.State.Ended() && s.write.waits:
		if _, err := s.write.exec(s.statements.DeleteHolds, e.Run[:]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) putBlob(b *sqlstore.Blob) error {
	if b == nil {
		return nil
	}
	_, err := s.write.exec(s.statements.PutBlob, sqlstore.BlobArgs(nil, b)...)
	return err
}

// Trim implements [journal.Store]. Expiry is by the time of the policy; a call ends after
// most of its runs and signals, or after 20 ms, since commits wait for it.
func (s *Store) Trim(ctx context.Context, p journal.Policy) (removed int, more bool, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	switch {
	case s.write.closed:
		return 0, false, journal.ErrClosed
	case s.write.broken != nil:
		return 0, false, s.write.broken
	}
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	most := p.Most
	if most <= 0 || most > maxTrim {
		most = maxTrim
	}
	err = s.transact(func() error {
		removed, more, err = s.trim(p, most, time.Now().Add(trimTime))
		kill.At(kill.InRetention, removed > 0)
		return err
	})
	if err != nil {
		return 0, false, s.fail(err)
	}
	if err := s.vacuum(); err != nil {
		return removed, more, s.fail(err)
	}
	return removed, more, nil
}
