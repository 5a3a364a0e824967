// Package sqlite keeps a journal in a file of SQLite.
//
// Read [Open], then Commit of [Store]. One connection writes and copies the write-ahead log
// to the file; a few others read. A commit is one transaction, which the disk has when Commit
// returns.
//
// Invariants: one program at a time has a journal open; a batch is in the file as a whole or
// not at all; after a failure that leaves the state of the file unknown, nothing is written
// until the file is opened again.
//
// The package must not know what a run is for: tables, statements and the form of rows are
// in sqlstore.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
)

// What errors say, in addition to those of package journal.
var (
	ErrDamaged = errors.New("the file is damaged or is not a journal")
	ErrExposed = errors.New("other users may read the file")
)

// Options change how a journal is kept. The zero value is for a server.
type Options struct {
	// CheckpointBytes is the size of the write-ahead log from which it is copied to the file
	// after a commit; 0 is 16 MiB. Negative: never, for a program that ships the log.
	CheckpointBytes int64

	// Readers is how many reads run at a time; 0 is 4.
	Readers int
}

const (
	checkpointBytes = 16 << 20
	logLimit        = 64 << 20 // to which a longer log is cut once it is copied
	readers         = 4
	busyTimeout     = 10_000 // ms; another program, such as the shell of SQLite, may have the file
	restartTimeout  = 50     // ms that a commit waits for readers of a log that is too long
	pageSize        = 4096
	application     = 0x55464a4c // "UFJL", in the header of the file
)

// A Store is a journal in a file. It implements [journal.Store].
type Store struct {
	name       string // as it was given, for messages
	path       string // without symbolic links
	lock       io.Closer
	statements *sqlstore.Statements
	packer     *sqlstore.Packer
	readers    chan *conn // capacity: Readers; nil for one that is not open yet
	uri        string     // of readers
	done       chan struct{}
	close      sync.Once
	closed     error // of Close

	write struct {
		sync.Mutex
		*conn
		startRun, addRecord, endRun *stmt

		closed  bool
		broken  error                   // why nothing can be written any more
		resumed map[journal.ID]struct{} // runs that count how often they were resumed, which their next record clears
		waits   bool                    // there may be some
		came    int64                   // of the last signal
		limit   int64                   // pages of the log from which it is copied; negative: never
		unseen  int                     // bytes that were committed since the length of the log was asked for
		look    int                     // of them, after which it is asked for again
		restart int64                   // pages of the log from which it waits for readers
		args    []any                   // reused, as is ends
		ends    map[journal.ID]*journal.End
	}
}

// Open opens the journal in a file, or makes one that only its owner may read. A newer
// version is [journal.ErrNewer], a journal that another program has open is
// [journal.ErrLocked].
func Open(name string, o Options) (s *Store, err error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	// Two names of one file need one lock.
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	s = &Store{name: name, path: path, statements: sqlstore.NewStatements(sqlstore.SQLite), done: make(chan struct{})}
	s.write.resumed, s.write.ends = make(map[journal.ID]struct{}), make(map[journal.ID]*journal.End)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
			s = nil
		}
	}()

	// The lock is on a file of its own: closing a second descriptor of the database would
	// drop the locks that SQLite has on it (https://www.sqlite.org/howtocorrupt.html, 2.2).
	s.lock, err = vfs.OS{}.Lock(path + ".lock")
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return s, fmt.Errorf("journal %s: %w: stop it, or use another file (the lock is %s.lock)", name, journal.ErrLocked, path)
	case err != nil:
		return s, fmt.Errorf("journal %s: %w", name, err)
	}
	if err := create(name, path); err != nil {
		return s, err
	}
	if s.packer, err = sqlstore.NewPacker(); err != nil {
		return s, err
	}
	if s.write.conn, err = dial(name, uri(path, "rw")); err != nil {
		return s, err
	}
	if err := s.prepare(); err != nil {
		return s, err
	}
	s.write.restart = logLimit / pageSize
	switch {
	case o.CheckpointBytes < 0:
		s.write.limit = -1
	case o.CheckpointBytes == 0:
		s.write.limit = checkpointBytes / pageSize
	default:
		s.write.limit = o.CheckpointBytes / pageSize
	}
	n := o.Readers
	if n <= 0 {
		n = readers
	}
	s.uri = uri(path, "ro")
	s.readers = make(chan *conn, n)
	for range n {
		s.readers <- nil
	}
	return s, nil
}

// uri names a file for SQLite, whatever characters are in its path.
func uri(path, mode string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: "mode=" + mode}
	return u.String()
}

// create makes the file if there is none, and refuses one that others may read.
func create(name, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("journal %s: %w", name, err)
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("journal %s: it is not a file", name)
		}
		if perm := info.Mode().Perm(); perm&0o077 != 0 && runtime.GOOS != "windows" {
			return fmt.Errorf("journal %s: %w, its mode is %04o: chmod 600 %s", name, ErrExposed, perm, name)
		}
		return nil
	case err != nil:
		return fmt.Errorf("journal %s: %w", name, err)
	}
	if err := errors.Join(f.Close(), vfs.OS{}.SyncDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("journal %s: %w", name, err)
	}
	return nil
}

// prepare sets up the connection that writes, and brings the tables to this version.
func (s *Store) prepare() error {
	c := s.write.conn
	if err := c.run("PRAGMA busy_timeout = " + strconv.Itoa(busyTimeout)); err != nil {
		return err
	}
	// Before anything is written: the file may be another program's.
	id, err := c.one("PRAGMA application_id")
	if err != nil {
		return err
	}
	tables, err := c.one("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	if id != int64(application) && (id != int64(0) || tables != int64(0)) {
		return fmt.Errorf("journal %s: %w: it is a database of another program", s.name, ErrDamaged)
	}
	// auto_vacuum must be set before the first page is written. A setting that returns a row
	// is read, since SQLite refuses some without an error.
	if err := c.run("PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
		return err
	}
	mode, err := c.one("PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal %s: the file system does not support a write-ahead log: use a local disk", s.name)
	}
	if err := c.run(`PRAGMA synchronous = FULL; PRAGMA mmap_size = 0; PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY;
PRAGMA cell_size_check = ON; PRAGMA cache_size = -16384; PRAGMA journal_size_limit = ` + strconv.Itoa(logLimit)); err != nil {
		return err
	}
	all, err := sqlstore.Steps(sqlstore.SQLite)
	if err != nil {
		return err
	}
	if err := s.transact(func() error { return s.migrate(all, id == int64(0)) }); err != nil {
		return err
	}
	if s.write.startRun, err = c.prepare(s.statements.InsertRuns(1)); err != nil {
		return err
	}
	if s.write.addRecord, err = c.prepare(s.statements.InsertRecords(1)); err != nil {
		return err
	}
	if s.write.endRun, err = c.prepare(s.statements.EndRun); err != nil {
		return err
	}
	first, err := c.one(s.statements.AnyWait)
	s.write.waits = first != nil
	return err
}

// migrate runs the steps that the tables lack.
func (s *Store) migrate(all []sqlstore.Step, empty bool) error {
	c := s.write.conn
	var have sqlstore.Version
	if !empty {
		text, err := c.one(s.statements.Version)
		if err != nil {
			return err
		}
		known, _ := text.(string) // one that is missing is refused as an empty text
		if have, err = sqlstore.ParseVersion(known); err != nil {
			return fmt.Errorf("journal %s: %w: %w", s.name, ErrDamaged, err)
		}
	}
	pending, err := sqlstore.Pending(all, have)
	if err != nil {
		return fmt.Errorf("journal %s: %w", s.name, err)
	}
	if empty {
		if err := c.run("PRAGMA application_id = " + strconv.Itoa(application)); err != nil {
			return err
		}
	}
	for _, step := range pending {
		if err := c.run(step.Text); err != nil {
			return fmt.Errorf("to version %s: %w", step.Version, err)
		}
		if _, err := c.exec(s.statements.PutVersion, step.Version.String()); err != nil {
			return err
		}
	}
	return nil
}

// Close waits for what runs, copies the log to the file, and lets another program open it.
// It may be called more than once.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.done)
		s.write.Lock()
		s.write.closed = true
		s.write.Unlock()
		s.closed = s.release()
	})
	return s.closed
}

// release closes all that is open. The connection that writes is the last of them: SQLite
// then copies the log.
func (s *Store) release() error {
	var errs []error
	for range cap(s.readers) {
		if c := <-s.readers; c != nil {
			errs = append(errs, c.close())
		}
	}
	if s.write.conn != nil {
		errs = append(errs, s.write.conn.close())
	}
	if s.packer != nil {
		errs = append(errs, s.packer.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// read calls f with a connection for reading.
func (s *Store) read(ctx context.Context, f func(c *conn) error) (err error) {
	select {
	case <-s.done:
		return journal.ErrClosed
	default:
	}
	select {
	case <-s.done:
		return journal.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case c := <-s.readers:
		defer func() { s.readers <- c }()
		if c == nil {
			if c, err = dial(s.name, s.uri); err != nil {
				return err
			}
			if err := c.run("PRAGMA query_only = ON; PRAGMA mmap_size = 0; PRAGMA busy_timeout = " + strconv.Itoa(busyTimeout)); err != nil {
				failed := c
				c = nil
				return errors.Join(err, failed.close())
			}
		}
		return f(c)
	}
}
