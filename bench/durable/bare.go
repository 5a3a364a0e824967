package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"

	journal "github.com/uniflow-labs/uniflow/journal/sqlite"
)

// The bare loop writes the rows that the engine writes, with the same driver and in the
// tables of the journal, with as many transactions: of a number of runs in step, a transaction
// has the starts of a group, a record each of the next two, and the last record and the end
// of the oldest. It decides nothing, and copies nothing.

const (
	insertRun    = "INSERT INTO runs (id, ns, trigger, revision, level, state, key, key_until, input, input_hash, packed, created) VALUES "
	insertRecord = "INSERT INTO records (run, n, pos, node, type, op, port, payload, input_hash, packed, at) VALUES "
	endRun       = "UPDATE runs SET state = ?, answer = ?, error = ?, packed = ?, ended = ? WHERE id = ?"

	runColumns    = 12
	recordColumns = 11

	settings = "?_pragma=synchronous(FULL)&_pragma=cache_size(-16384)&_pragma=wal_autocheckpoint(4096)"
)

// tables makes the file of a journal, and returns its name for the driver.
func tables(file string) (string, error) {
	s, err := journal.Open(file, journal.Options{})
	if err != nil {
		return "", err
	}
	return "file:" + file + settings, s.Close()
}

// A writer executes statements in transactions.
type writer interface {
	prepare(text string) (exec func(args []any) error, err error)
	begin() error
	commit() error
	close() error
}

// direct is the driver without a pool.
type direct struct {
	conn       driver.Conn
	start, end func([]any) error
}

func newDirect(name string) (w *direct, err error) {
	w = new(direct)
	if w.conn, err = new(sqlite.Driver).Open(name); err != nil {
		return nil, err
	}
	if w.start, err = w.prepare("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	w.end, err = w.prepare("COMMIT")
	return w, err
}

func (w *direct) prepare(text string) (func([]any) error, error) {
	st, err := w.conn.Prepare(text)
	if err != nil {
		return nil, err
	}
	exec := st.(driver.StmtExecContext)
	var named []driver.NamedValue
	return func(args []any) error {
		for len(named) < len(args) {
			named = append(named, driver.NamedValue{Ordinal: len(named) + 1})
		}
		for i, v := range args {
			named[i].Value = v
		}
		_, err := exec.ExecContext(context.Background(), named[:len(args)])
		return err
	}, nil
}

func (w *direct) begin() error  { return w.start(nil) }
func (w *direct) commit() error { return w.end(nil) }
func (w *direct) close() error  { return w.conn.Close() }

// pooled is database/sql.
type pooled struct {
	db *sql.DB
	tx *sql.Tx
}

func newPooled(name string) (*pooled, error) {
	db, err := sql.Open("sqlite", name+"&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &pooled{db: db}, nil
}

func (w *pooled) prepare(text string) (func([]any) error, error) {
	st, err := w.db.Prepare(text)
	if err != nil {
		return nil, err
	}
	return func(args []any) error {
		_, err := w.tx.Stmt(st).Exec(args...)
		return err
	}, nil
}

func (w *pooled) begin() (err error) {
	w.tx, err = w.db.Begin()
	return err
}

func (w *pooled) commit() error { return w.tx.Commit() }
func (w *pooled) close() error  { return w.db.Close() }

func open(file string, pool bool) (writer, error) {
	name, err := tables(file)
	if err != nil {
		return nil, err
	}
	if pool {
		return newPooled(name)
	}
	return newDirect(name)
}

// A bareRun is what a run has of its own.
type bareRun struct{ id, key []byte }

// A loop writes groups of runs.
type loop struct {
	writer
	job
	text             []byte
	start, add, over func([]any) error
	args             []any
	count            uint64
	groups           [effects + 1][]bareRun // the youngest first
}

func newLoop(j job) (l *loop, err error) {
	l = &loop{job: j, text: []byte(strings.Repeat("0123456789", payloadBytes/10))}
	if l.writer, err = open(j.File, j.Pool); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		exec *func([]any) error
		text string
	}{
		{&l.start, insertRun + rows(j.Rows, runColumns)}, {&l.add, insertRecord + rows(j.Rows, recordColumns)}, {&l.over, endRun},
	} {
		if *s.exec, err = l.prepare(s.text); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

// rows are the placeholders of n rows.
func rows(n, columns int) string {
	one := "(?" + strings.Repeat(",?", columns-1) + ")"
	return one + strings.Repeat(","+one, n-1)
}

// group makes the runs that start in a transaction.
func (l *loop) group(now time.Time) []bareRun {
	all := make([]bareRun, l.Batch)
	for i := range all {
		l.count++
		random := l.count * 0x9e3779b97f4a7c15
		id := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())<<16|7<<12)
		all[i].id = binary.BigEndian.AppendUint64(id, random)
		if l.Keyed {
			all[i].key = binary.BigEndian.AppendUint64(nil, random)
		}
	}
	return all
}

// step is one transaction. The number of runs of a group is a multiple of the rows of a statement.
func (l *loop) step() error {
	now := time.Now()
	at := now.UnixMilli()
	copy(l.groups[1:], l.groups[:effects])
	l.groups[0] = l.group(now)
	if err := l.begin(); err != nil {
		return err
	}
	for some := range chunks(l.groups[0], l.Rows) {
		for _, r := range some {
			var key, until any
			if r.key != nil {
				key, until = r.key, at+3_600_000
			}
			l.args = append(l.args, r.id, "default", "0f3a9c5e7b1d2468", "5feceb66ffc86f38d952786c6d696c79", int64(2), int64(1), key, until, l.text, int64(1)<<62, int64(0), at)
		}
		if err := l.exec(l.start); err != nil {
			return err
		}
	}
	for n := 1; n <= effects; n++ {
		for some := range chunks(l.groups[n], l.Rows) {
			for _, r := range some {
				l.args = append(l.args, r.id, int64(n), int64(1)<<62+int64(n), "7b1d24680f3a9c5e", int64(0), int64(0), int64(0), l.text, int64(1)<<62, int64(0), at)
			}
			if err := l.exec(l.add); err != nil {
				return err
			}
		}
	}
	for _, r := range l.groups[effects] {
		l.args = append(l.args, int64(3), l.text, nil, int64(0), at, r.id)
		if err := l.exec(l.over); err != nil {
			return err
		}
	}
	return l.commit()
}

func (l *loop) exec(f func([]any) error) error {
	err := f(l.args)
	l.args = l.args[:0]
	return err
}

func chunks(all []bareRun, n int) func(func([]bareRun) bool) {
	return func(yield func([]bareRun) bool) {
		for len(all) > 0 && yield(all[:n]) {
			all = all[n:]
		}
	}
}

// bareForm writes runs for as long as a job says.
func bareForm(ctx context.Context, j job) (f figures, err error) {
	l, err := newLoop(j)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for range effects { // fill the groups
		if err := l.step(); err != nil {
			return f, err
		}
	}
	watch, done := begun(), 0
	for ; time.Since(watch.start) < j.Span && ctx.Err() == nil; done += l.Batch {
		if err := l.step(); err != nil {
			return f, err
		}
	}
	return watch.figures(done, nil), context.Cause(ctx)
}

// rowForm commits one row at a time.
func rowForm(ctx context.Context, j job) (f figures, err error) {
	j.Batch, j.Rows = 1, 1
	l, err := newLoop(j)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	return repeated(ctx, j, func() error {
		if err := l.begin(); err != nil {
			return err
		}
		r := l.group(time.Now())[0]
		l.args = append(l.args, r.id, int64(1), int64(1)<<62, "7b1d24680f3a9c5e", int64(0), int64(0), int64(0), l.text, int64(1)<<62, int64(0), time.Now().UnixMilli())
		return errors.Join(l.exec(l.add), l.commit())
	})
}

// syncForm appends a page to a file, and waits until the disk has it.
func syncForm(ctx context.Context, j job) (f figures, err error) {
	file, err := os.Create(j.File)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	page := make([]byte, 4096)
	return repeated(ctx, j, func() error {
		_, err := file.Write(page)
		return errors.Join(err, file.Sync())
	})
}

// repeated calls do for as long as a job says.
func repeated(ctx context.Context, j job, do func() error) (figures, error) {
	var took []time.Duration
	watch := begun()
	for now := watch.start; now.Sub(watch.start) < j.Span && ctx.Err() == nil; {
		if err := do(); err != nil {
			return figures{}, err
		}
		end := time.Now()
		took = append(took, end.Sub(now))
		now = end
	}
	return watch.figures(len(took), took), context.Cause(ctx)
}
