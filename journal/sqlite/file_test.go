package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/internal/sqlstore"
	"github.com/uniflow-labs/uniflow/journal/journaltest"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

// refused opens a journal that must be refused.
func refused(t *testing.T, name string, want error, texts ...string) {
	t.Helper()
	s, err := sqlite.Open(name, sqlite.Options{})
	if err == nil {
		shut(t, s)
		t.Fatalf("%s is opened", name)
	}
	if want != nil && !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q in it", err, text)
		}
	}
}

// batch has n runs that have ended, with a record each.
func batch(from, n int) *journal.Batch {
	b := new(journal.Batch)
	for i := from; i < from+n; i++ {
		b.Starts = append(b.Starts, journaltest.NewRun(i))
		b.Records = append(b.Records, journaltest.NewRecord(i, 1))
		b.Ends = append(b.Ends, journal.End{Run: journaltest.ID(i), State: journal.OK, At: journaltest.NewRun(i).Created})
	}
	return b
}

func commit(tb testing.TB, s *sqlite.Store, b *journal.Batch) {
	tb.Helper()
	if err := s.Commit(tb.Context(), b); err != nil {
		tb.Fatal(err)
	}
}

// raw changes a journal that is not open, behind its back.
func raw(t *testing.T, name, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(text); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestSecondOpener(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "j")
	s := open(t, name)
	refused(t, name, journal.ErrLocked, name, "stop it, or use another file")
	commit(t, s, batch(0, 1)) // the first has lost nothing
	if runtime.GOOS != "windows" {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		refused(t, link, journal.ErrLocked, link)
	}
	shut(t, s)
	s = open(t, name)
	shut(t, s)
	shut(t, s) // a second time
}

func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // folders have the rights there
	}
	name := filepath.Join(t.TempDir(), "j")
	s := open(t, name)
	commit(t, s, batch(0, 1))
	files, err := filepath.Glob(name + "*")
	if err != nil || len(files) < 3 {
		t.Errorf("got the files %v, %v", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", f, info.Mode())
		}
	}
	shut(t, s)
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o660, 0o601} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		refused(t, name, sqlite.ErrExposed, fmt.Sprintf("%04o", mode), "chmod 600 "+name)
	}
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	shut(t, open(t, name))
}

func TestSettings(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "j"))
	defer shut(t, s)
	for name, want := range map[string]any{
		"journal_mode": "wal", "synchronous": int64(2), "auto_vacuum": int64(2), "mmap_size": int64(0), "wal_autocheckpoint": int64(0), "journal_size_limit": int64(64 << 20), "page_size": int64(4096),
	} {
		if got, err := s.Pragma(name); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
	}
}

// TestOtherFiles checks that what is not a journal is refused, and stays as it is.
func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	raw(t, other, "CREATE TABLE meta (name, value)")
	if err := os.Chmod(other, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{text, other} {
		before, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, name, sqlite.ErrDamaged, name)
		if after, err := os.ReadFile(name); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s has changed, %v", name, err)
		}
	}
	refused(t, dir, nil, "it is not a file")
	refused(t, filepath.Join(dir, "none", "j"), fs.ErrNotExist, "none")

	// A program that was stopped before the first transaction leaves an empty file.
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shut(t, open(t, empty))
}

// TestDamage destroys the header of each page in turn: Open, Check or a read reports it.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "j")
	s := open(t, name)
	for i := range 20 {
		commit(t, s, batch(i*100, 100))
	}
	shut(t, s)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	pages := len(whole) / page
	if pages < 100 {
		t.Fatalf("the journal has %d pages", pages)
	}
	damage := func(offset, n int) (opened bool) {
		t.Helper()
		damaged := bytes.Clone(whole)
		for i := range n {
			damaged[offset+i] ^= 0xff
		}
		file := filepath.Join(dir, "damaged")
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(file, sqlite.Options{})
		if err != nil {
			if !errors.Is(err, sqlite.ErrDamaged) {
				t.Errorf("byte %d: got %v, want %v", offset, err, sqlite.ErrDamaged)
			}
			return false
		}
		defer shut(t, s)
		found, err := s.Check(t.Context())
		if err != nil || len(found) == 0 {
			t.Errorf("byte %d: Check found %q, %v", offset, found, err)
		}
		return true
	}
	if damage(0, 16) {
		t.Error("a file without the name of its format is opened")
	}
	opened := 0
	for p := 2; p < pages; p += 7 { // page 1 has the tables, page 2 is the first pointer map
		if damage(p*page, 8) {
			opened++
		}
	}
	if opened == 0 {
		t.Error("no damaged journal could be opened")
	}
	// A file that is cut off.
	if err := os.WriteFile(filepath.Join(dir, "damaged"), whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = sqlite.Open(filepath.Join(dir, "damaged"), sqlite.Options{})
	if err != nil {
		if !errors.Is(err, sqlite.ErrDamaged) {
			t.Errorf("half of the file: got %v", err)
		}
		return
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) == 0 {
		t.Errorf("half of the file: Check found %q, %v", found, err)
	}
	if _, err := s.List(t.Context(), journal.Filter{Limit: 10_000}); !errors.Is(err, sqlite.ErrDamaged) {
		t.Errorf("half of the file: List got %v, want %v", err, sqlite.ErrDamaged)
	}
	shut(t, s)
}

// TestOrphans checks that rows without a run are reported.
func TestOrphans(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	s := open(t, name)
	commit(t, s, batch(0, 3))
	shut(t, s)
	raw(t, name, "DELETE FROM runs WHERE id = (SELECT min(id) FROM runs)")
	s = open(t, name)
	defer shut(t, s)
	if found, err := s.Check(t.Context()); err != nil || len(found) != 1 || found[0] != "1 rows of records belong to no run" {
		t.Errorf("got %q, %v", found, err)
	}
}

func TestVersions(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	s := open(t, name)
	commit(t, s, batch(0, 1))
	version := func(want string) {
		t.Helper()
		if got, err := s.Version(); err != nil || got != want {
			t.Errorf("got the version %v, %v, want %s", got, err, want)
		}
		if _, err := s.Get(t.Context(), journaltest.ID(0)); err != nil {
			t.Error(err)
		}
	}
	all, err := sqlstore.Steps(sqlstore.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	newest := all[len(all)-1].Version
	version(newest.String())

	// A later program brings the journal of this one to its version.
	next := sqlstore.Version{Major: newest.Major, Minor: newest.Minor + 1}
	if err := s.Migrate(append(all, sqlstore.Step{Version: next, Text: "ALTER TABLE runs ADD COLUMN later TEXT; CREATE TABLE later (id INTEGER PRIMARY KEY)"})); err != nil {
		t.Fatal(err)
	}
	version(next.String())
	// A step that fails changes nothing.
	bad := sqlstore.Version{Major: newest.Major, Minor: newest.Minor + 2}
	if err := s.Migrate(append(all, sqlstore.Step{Version: bad, Text: "CREATE TABLE half (id INTEGER); CREATE TABLE later (id INTEGER)"})); err == nil {
		t.Error("a step that fails is no error")
	}
	version(next.String())
	shut(t, s)

	// This program goes on with it: a minor version only adds.
	s = open(t, name)
	version(next.String())
	commit(t, s, batch(1, 1))
	shut(t, s)

	raw(t, name, fmt.Sprintf("UPDATE meta SET value = '%d.0' WHERE name = 'version'", newest.Major+1))
	refused(t, name, journal.ErrNewer, name, fmt.Sprintf("%d.0", newest.Major+1), "start the program that wrote it")
	raw(t, name, "DELETE FROM meta")
	refused(t, name, sqlite.ErrDamaged, name)
}

// TestFirstVersion opens a journal with the tables of the first version. Then the statements of
// that version do what they did.
func TestFirstVersion(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	all, err := sqlstore.Steps(sqlstore.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	raw(t, name, "PRAGMA application_id = 0x55464a4c; "+all[0].Text+`;
INSERT INTO meta (name, value) VALUES ('version', '1.0');
INSERT INTO revisions (hash, body) VALUES ('r', x'01');
INSERT INTO runs (id, ns, trigger, revision, level, state, input, input_hash, created) VALUES (x'00000000000000000000000000000001', 'n', 't', 'r', 2, 1, x'02', 3, 4),
(x'00000000000000000000000000000002', 'n', 't', 'r', 2, 3, x'02', 3, 4), (x'00000000000000000000000000000003', 'n', 't', 'r', 2, 2, x'02', 3, 4);
INSERT INTO holds (run, pos, ns, event, key, due) VALUES (x'00000000000000000000000000000003', 5, 'n', 'e', 'k', 6);
INSERT INTO signals (id, ns, event, key, payload, until) VALUES (x'6e0069', 'n', 'e', 'k', x'07', 8)`)
	last := func(b byte) journal.ID { return journal.ID{15: b} }
	for range 2 {
		s := open(t, name)
		if got, err := s.Version(); err != nil || got != all[len(all)-1].Version.String() {
			t.Errorf("got the version %v, %v", got, err)
		}
		if runs, err := s.Unfinished(t.Context()); err != nil || len(runs) < 1 || runs[0].ID != last(1) {
			t.Errorf("got the runs %+v, %v", runs, err)
		}
		if waits, err := s.Waiting(t.Context(), "n", "e", "k"); err != nil || len(waits) != 1 || waits[0].Run != last(3) {
			t.Errorf("got the waits %+v, %v", waits, err)
		}
		if signals, err := s.Signals(t.Context(), "n", "e", "k", time.UnixMilli(7)); err != nil || len(signals) == 0 || signals[0].ID != "i" || string(signals[0].Payload) != "\x07" {
			t.Errorf("got the signals %+v, %v", signals, err)
		}
		if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("Check found %q, %v", found, err)
		}
		shut(t, s)
		raw(t, name, `INSERT OR IGNORE INTO runs (id, ns, trigger, revision, level, state, input, input_hash, created) VALUES (x'00000000000000000000000000000004', 'n', 't', 'r', 2, 1, x'02', 3, 9);
UPDATE runs SET recoveries = recoveries + 1 WHERE id = x'00000000000000000000000000000004';
UPDATE runs SET state = 3, ended = 9 WHERE id = x'00000000000000000000000000000002';
INSERT OR IGNORE INTO signals (id, ns, event, key, payload, until) VALUES (x'6e006a', 'n', 'e', 'k', x'07', 8)`)
	}
	s := open(t, name)
	defer shut(t, s)
	if runs, err := s.Unfinished(t.Context()); err != nil || len(runs) != 2 || runs[1].ID != last(4) || runs[1].Resumed != 2 {
		t.Errorf("got the runs %+v, %v", runs, err)
	}
	if signals, err := s.Untaken(t.Context(), time.UnixMilli(7)); err != nil || len(signals) != 2 {
		t.Errorf("got the signals %+v, %v", signals, err)
	}
	removed := 0
	for more := true; more; { // a call may end early
		var n int
		if n, more, err = s.Trim(t.Context(), journal.Policy{Now: time.UnixMilli(100)}); err != nil {
			t.Fatal(err)
		}
		removed += n
	}
	if removed != 3 {
		t.Errorf("%d are removed, want the run that has ended and two signals", removed)
	}
}

// TestLogIsBounded checks that the write-ahead log is copied and used again.
func TestLogIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	s, err := sqlite.Open(name, sqlite.Options{CheckpointBytes: 512 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	size := func(name string) int64 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for i := range 50 {
		commit(t, s, batch(i*100, 100))
		if log := size(name + "-wal"); log > 1<<20 {
			t.Fatalf("after %d commits the log has %d bytes", i+1, log)
		}
	}
	if n := size(name); n < 1<<20 {
		t.Errorf("the file has %d bytes", n)
	}
}

// TestReaderKeepsTheLog has a reader that does not end: commits go on, and the log is used
// from its start again when the reader is gone.
func TestReaderKeepsTheLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	s, err := sqlite.Open(name, sqlite.Options{CheckpointBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	s.RestartAt(32)
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	commit(t, s, batch(0, 100))
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	runs := func() (n int) {
		if err := tx.QueryRow("SELECT count(*) FROM runs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	runs()
	pages := func() int64 {
		n, err := s.LogPages()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := 1; i < 20; i++ {
		commit(t, s, batch(i*100, 100))
	}
	if n := runs(); n != 100 {
		t.Errorf("the reader sees %d runs, want the 100 of before", n)
	}
	long := pages()
	if long < 300 {
		t.Errorf("the log has %d pages although a reader needs them", long)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for i := 20; i < 23; i++ {
		commit(t, s, batch(i*100, 100))
	}
	if n := pages(); n > long/2 {
		t.Errorf("after the reader the log has %d pages, and %d before", n, long)
	}
}

// TestSnapshotCostsLittle commits to two journals in turns, to one of them while a reader holds a snapshot: with the full
// length that is nearly as fast, and its log grows by what is committed, not by more.
func TestSnapshotCostsLittle(t *testing.T) {
	turns, least := 5, 0.0 // in so short a time one wait for the reader, which is 50 ms, is most of it
	if full() {
		turns, least = 200, 0.7
	}
	var stores [2]*sqlite.Store
	var took [2]time.Duration
	var logs [2]int64 // pages that were written
	for i := range stores {
		name := filepath.Join(t.TempDir(), "j")
		stores[i] = open(t, name)
		defer shut(t, stores[i])
		stores[i].RestartAt(256)
		commit(t, stores[i], batch(0, 40))
		if i == 1 {
			db, err := sql.Open("sqlite", name)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // it has only read
			var n int
			if err := tx.QueryRow("SELECT count(*) FROM runs").Scan(&n); err != nil || n != 40 {
				t.Fatalf("the reader sees %d runs, %v", n, err)
			}
		}
	}
	pages := func(s *sqlite.Store) int64 {
		n, err := s.LogPages()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for turn := range turns {
		for i, s := range stores {
			before, begun := pages(s), time.Now()
			for k := range 20 {
				commit(t, s, batch((1+turn*20+k)*40, 40))
				if now := pages(s); now < before {
					before = 0 // it is used from its start again
				} else {
					logs[i] += now - before
					before = now
				}
			}
			took[i] += time.Since(begun)
		}
	}
	share := took[0].Seconds() / took[1].Seconds()
	t.Logf("%.2f of the throughput; %d pages, and %d without a reader", share, logs[1], logs[0])
	if share < least {
		t.Errorf("with a reader it has %.2f of the throughput, want %.1f", share, least)
	}
	if got := pages(stores[1]); got < 256 || got > logs[0]*3/2+1000 {
		t.Errorf("the log has %d pages, and %d are written without a reader", got, logs[0])
	}
}

// TestTrimGivesBack checks that the file becomes smaller.
func TestTrimGivesBack(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	s := open(t, name)
	for i := range 20 {
		commit(t, s, batch(i*100, 100))
	}
	pages := func() int64 {
		n, err := s.Pragma("page_count")
		if err != nil {
			t.Fatal(err)
		}
		return n.(int64)
	}
	before := pages()
	for more := true; more; {
		var err error
		if _, more, err = s.Trim(t.Context(), journal.Policy{Now: journaltest.NewRun(1_000_000).Created}); err != nil {
			t.Fatal(err)
		}
	}
	if after := pages(); after > before/2 {
		t.Errorf("of %d pages %d are left", before, after)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("Check found %q, %v", found, err)
	}
	shut(t, s)
}

// A scan reads a whole table. That of an index is in an order that a limit cuts.
var scan = regexp.MustCompile(`SCAN (runs|records|blobs|holds|signals)\n`)

// TestPlans checks that what runs often or on large journals uses an index.
func TestPlans(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "j"))
	defer shut(t, s)
	st := sqlstore.NewStatements(sqlstore.SQLite)
	for text, want := range map[string]string{
		st.RunByKey: "runs_key", st.Unfinished: "runs_running", st.CountResumed: "PRIMARY KEY", st.Oldest: "runs_aside", st.ExpiredOK: "runs_aside", st.ExpiredElse: "runs_aside",
		st.DeleteWait: "PRIMARY KEY", st.Waiting: "holds_event", st.Token: "holds_token", st.Due: "holds_due", st.Next: "holds_due", st.Waits: "PRIMARY KEY",
		st.TakeSignal: "PRIMARY KEY", st.Signals: "signals_event", st.Known: "PRIMARY KEY", st.Expired: "signals_until", st.DeleteSignal: "PRIMARY KEY",
		st.NextItems: "runs_items (ns=? AND queue=? AND qkey=? AND priority=? AND due<?)", st.NextDue: "runs_items (ns=? AND queue=? AND qkey=? AND priority=? AND due>?)",
		st.Priority: "runs_items (ns=? AND queue=? AND qkey=? AND priority<?)", st.QueueKey: "runs_items (ns=? AND queue=? AND qkey>?)", st.FirstKey: "runs_items (ns=? AND queue=?)",
		st.Taken: "runs_taken (ns=? AND queue=?)", st.Begun: "runs_begun (ns=? AND queue=? AND begun>?)", st.OldestItem: "runs_due (ns=? AND queue=?)", st.Queues: "runs_taken",
		st.Claim: "PRIMARY KEY", st.Requeue: "PRIMARY KEY", st.Retry: "PRIMARY KEY", st.ForgetHolds: "PRIMARY KEY", st.ForgetBlobs: "sqlite_autoindex_blobs_1",
		st.EndRun: "PRIMARY KEY", st.Records: "PRIMARY KEY", st.DeleteRecords: "PRIMARY KEY", st.DeleteBlobs: "sqlite_autoindex_blobs_1",
	} {
		plan, err := s.Plan(text)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, want) || scan.MatchString(plan) {
			t.Errorf("%s\nis done by\n%swant %s", text, plan, want)
		}
		// What is merged of several states is short, and so are the signals of one key. The live runs
		// are sorted at the start.
		if strings.Contains(plan, "TEMP B-TREE") && text != st.Unfinished && text != st.Signals && !strings.Contains(text, "UNION") {
			t.Errorf("%s\nsorts:\n%s", text, plan)
		}
	}
}
