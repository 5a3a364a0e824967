package data

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A sqliteDriver opens one database of SQLite.
type sqliteDriver struct {
	name    string // for the library
	memory  bool   // each connection would have a database of its own
	prepare []string
}

func newSQLite(source string, timeout time.Duration) (dbDriver, error) {
	path, query, _ := strings.Cut(source, "?")
	path = strings.TrimPrefix(path, "file:")
	d := &sqliteDriver{
		name:   source,
		memory: path == "" || strings.Contains(path, ":memory:") || strings.Contains(query, "mode=memory"),
	}
	if timeout <= 0 || timeout > 24*time.Hour {
		timeout = 24 * time.Hour // the context ends the wait before
	}
	defaults := []string{fmt.Sprintf("busy_timeout(%d)", timeout.Milliseconds()), "foreign_keys(1)"}
	if !d.memory && !strings.Contains(query, "mode=ro") && !strings.Contains(query, "immutable") {
		defaults = append(defaults, "journal_mode(wal)")
	}
	for _, pragma := range defaults {
		name, _, _ := strings.Cut(pragma, "(")
		if !strings.Contains(strings.ToLower(query), "_pragma="+name) {
			d.prepare = append(d.prepare, "PRAGMA "+strings.NewReplacer("(", " = ", ")", "").Replace(pragma))
		}
	}
	return d, nil
}

// sameSQLite returns a text that is the same for all ways to name one file of SQLite. Nodes
// with a pool each would wait for the transaction of their own process.
func sameSQLite(source string) string {
	path, query, _ := strings.Cut(source, "?")
	path = strings.TrimPrefix(path, "file:")
	if rest, ok := strings.CutPrefix(path, "//"); ok { // file:///…, or file://localhost/…
		path = strings.TrimPrefix(rest, "localhost")
	}
	if path == "" || strings.Contains(path, ":memory:") || strings.Contains(query, "mode=memory") {
		return source
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return source
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil { // the file is made later
		path = filepath.Join(folder, filepath.Base(path))
	}
	return path + "?" + query
}

func (d *sqliteDriver) syntax() syntax { return syntax{brackets: true} }

func (d *sqliteDriver) limits() (conns, transactions int) {
	if d.memory {
		return 1, 0
	}
	return 0, 1
}

func (d *sqliteDriver) connect(ctx context.Context) (conn, error) {
	opened, err := new(sqlite.Driver).Open(d.name)
	if err != nil {
		return nil, &fatalError{err}
	}
	c := &sqliteConn{conn: opened.(sqliteLibrary)}
	for _, pragma := range d.prepare {
		if _, err := c.conn.ExecContext(ctx, pragma, nil); err != nil {
			c.close()
			if code, _ := sqliteCode(err); code == sqlite3.SQLITE_BUSY {
				return nil, err
			}
			return nil, &fatalError{err}
		}
	}
	return c, nil
}

func sqliteCode(err error) (primary, extended int) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, 0
	}
	return e.Code() & 0xff, e.Code()
}

func (d *sqliteDriver) lacks(err error) bool {
	primary, _ := sqliteCode(err)
	return primary == sqlite3.SQLITE_ERROR
}

func (d *sqliteDriver) describe(err error) *node.Error {
	primary, extended := sqliteCode(err)
	if primary == 0 {
		return nil
	}
	own := fmt.Sprint(extended)
	switch extended {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return failure(err, http.StatusConflict, codeUnique, own)
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return failure(err, http.StatusConflict, codeForeign, own)
	case sqlite3.SQLITE_CONSTRAINT_NOTNULL:
		return failure(err, http.StatusUnprocessableEntity, codeNotNull, own)
	case sqlite3.SQLITE_BUSY_SNAPSHOT:
		return failure(err, http.StatusServiceUnavailable, codeConflict, own)
	}
	switch primary {
	case sqlite3.SQLITE_CONSTRAINT:
		return failure(err, http.StatusUnprocessableEntity, codeCheck, own)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return failure(err, http.StatusServiceUnavailable, codeBusy, own)
	case sqlite3.SQLITE_FULL:
		return failure(err, http.StatusServiceUnavailable, codeFull, own)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR:
		return failure(err, http.StatusServiceUnavailable, codeConnection, own)
	}
	return failure(err, 0, "", own)
}

// A sqliteLibrary is a connection of the library.
type sqliteLibrary interface {
	driver.Conn
	driver.ExecerContext
	driver.ConnPrepareContext
}

type sqliteConn struct {
	conn       sqliteLibrary
	now        state
	statements lru[string, *sqliteStatement]
	args       []driver.NamedValue
	dest       []driver.Value
}

// A sqliteStatement is a prepared statement.
type sqliteStatement struct {
	driver.Stmt
	query driver.StmtQueryContext
	exec  driver.StmtExecContext
}

func (c *sqliteConn) state() state { return c.now }

func (c *sqliteConn) ping(context.Context) error { return nil }

func (c *sqliteConn) close() {
	for e := c.statements.order.Front(); e != nil; e = e.Next() {
		e.Value.(*lruEntry[string, *sqliteStatement]).value.Close()
	}
	// Its error is of no use: nothing is left to write.
	c.conn.Close()
}

// prepared returns a statement of the connection.
func (c *sqliteConn) prepared(ctx context.Context, text string) (*sqliteStatement, error) {
	if st, ok := c.statements.get(text); ok {
		return st, nil
	}
	made, err := c.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, &unpreparedError{err}
	}
	st := &sqliteStatement{made, made.(driver.StmtQueryContext), made.(driver.StmtExecContext)}
	c.statements.put(text, st, keptStatements, func(old *sqliteStatement) { old.Close() })
	return st, nil
}

// mark is the savepoint at the begin of each transaction. It is gone if SQLite has
// rolled back by itself, as it does when it is interrupted.
const mark = "uniflow"

func (c *sqliteConn) begin(ctx context.Context, _ string) error {
	if err := c.plain(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	c.now = stateOpen
	return c.plain(ctx, "SAVEPOINT "+mark)
}

func (c *sqliteConn) commit(ctx context.Context) error {
	err := c.plain(ctx, "COMMIT")
	if err != nil { // such as a foreign key that is checked at the end
		if c.rollback(context.WithoutCancel(ctx)) != nil {
			c.now = stateLost
		}
		return err
	}
	c.now = stateIdle
	return nil
}

func (c *sqliteConn) rollback(ctx context.Context) error {
	err := c.plain(ctx, "ROLLBACK")
	if c.now = stateIdle; err != nil {
		c.now = stateLost
	}
	return err
}

// plain runs a statement without arguments and results.
func (c *sqliteConn) plain(ctx context.Context, text string) error {
	st, err := c.prepared(ctx, text)
	if err != nil {
		return err
	}
	_, err = st.exec.ExecContext(ctx, nil)
	return err
}

func (c *sqliteConn) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	open := c.now == stateOpen
	many := open && len(rows) > 1
	if many {
		if err := c.plain(ctx, "SAVEPOINT uniflow_rows"); err != nil {
			return err
		}
	}
	err := c.runRows(ctx, st, rows, to)
	if many && err == nil {
		return c.plain(ctx, "RELEASE uniflow_rows")
	}
	if err == nil || !open {
		return err
	}
	after := context.WithoutCancel(ctx)
	if many {
		// An error means that nothing is left to undo, which the next lines find out.
		_ = c.plain(after, "ROLLBACK TO uniflow_rows")
		_ = c.plain(after, "RELEASE uniflow_rows")
	}
	if c.plain(after, "RELEASE "+mark) != nil || c.plain(after, "SAVEPOINT "+mark) != nil {
		c.now = stateIdle
	}
	return err
}

func (c *sqliteConn) runRows(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	prepared, err := c.prepared(ctx, st.text)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := c.bind(row); err != nil {
			return err
		}
		if st.rows {
			err = c.query(ctx, st, prepared, to)
		} else {
			err = c.exec(ctx, st, prepared, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bind sets the arguments of the next call.
func (c *sqliteConn) bind(row []value.Value) error {
	c.args = c.args[:0]
	for i, v := range row {
		arg := driver.NamedValue{Ordinal: i + 1}
		switch v.Kind() {
		case value.KindNull:
		case value.KindBool:
			arg.Value, _ = v.AsBool()
		case value.KindInt:
			arg.Value, _ = v.AsInt()
		case value.KindFloat:
			arg.Value, _ = v.AsFloat()
		case value.KindBinary:
			b, _ := v.AsBinary()
			if b == nil {
				b = []byte{}
			}
			arg.Value = b
		case value.KindUint:
			return badQuery("argument %d: %s is beyond the integers of SQLite", i+1, v)
		case value.KindTime:
			t, _ := v.AsTime()
			arg.Value = t.UTC().Format("2006-01-02 15:04:05.999999999Z07:00")
		default:
			s, ok := text(v)
			if !ok {
				return badQuery("argument %d cannot be written as JSON", i+1)
			}
			arg.Value = s
		}
		c.args = append(c.args, arg)
	}
	return nil
}

func (c *sqliteConn) exec(ctx context.Context, st *statement, prepared *sqliteStatement, to *result) error {
	res, err := prepared.exec.ExecContext(ctx, c.args)
	if err != nil || res == nil || !st.counts {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	to.affected += n
	if st.inserts && n > 0 {
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		to.lastID = value.Int(id)
	}
	return nil
}

// The declared types of columns that are more than what SQLite stores.
type declared uint8

const (
	declaredNone declared = iota
	declaredDate
	declaredBool
	declaredJSON
)

func (c *sqliteConn) query(ctx context.Context, st *statement, prepared *sqliteStatement, to *result) (err error) {
	rows, err := prepared.query.QueryContext(ctx, c.args)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	columns := rows.Columns()
	if len(columns) == 0 {
		return nil // such as a PRAGMA that sets something
	}
	to.isRows = true
	named := rows.(driver.RowsColumnTypeDatabaseTypeName)
	var types []declared
	for i := range columns {
		t := declaredNone
		switch named.ColumnTypeDatabaseTypeName(i) {
		case "DATE":
			t = declaredDate
		case "BOOLEAN", "BOOL":
			t = declaredBool
		case "JSON":
			t = declaredJSON
		}
		if t != declaredNone && types == nil {
			types = make([]declared, len(columns))
		}
		if types != nil {
			types[i] = t
		}
	}
	maker := newRowMaker(columns)
	if cap(c.dest) < len(columns) {
		c.dest = make([]driver.Value, len(columns))
	}
	dest := c.dest[:len(columns)]
	for {
		if err := rows.Next(dest); err != nil {
			clear(dest)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		fields := maker.row()
		for i := range dest {
			t := declaredNone
			if types != nil {
				t = types[i]
			}
			fields[maker.field(i)].Value = sqliteValue(dest[i], t)
		}
		to.rows = append(to.rows, value.UniqueMap(fields))
	}
}

func sqliteValue(v driver.Value, t declared) value.Value {
	switch v := v.(type) {
	case int64:
		if t == declaredBool && (v == 0 || v == 1) {
			return value.Bool(v == 1)
		}
		return value.Int(v)
	case float64:
		return value.Float(v)
	case string:
		if t == declaredJSON {
			return parseJSON([]byte(v))
		}
		return value.String(v)
	case []byte:
		return value.Binary(v)
	case time.Time:
		if t == declaredDate && v.Equal(v.Truncate(24*time.Hour)) {
			return value.String(v.Format(time.DateOnly))
		}
		return value.Time(v)
	}
	return value.Null()
}
