package data

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
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
	_, query, memory := splitSQLite(source)
	d := &sqliteDriver{name: source, memory: memory}
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

// splitSQLite returns the parts of a source, and whether each connection has a database of its
// own, in memory.
func splitSQLite(source string) (path, query string, memory bool) {
	path, query, _ = strings.Cut(source, "?")
	path = strings.TrimPrefix(path, "file:")
	return path, query, path == "" || strings.Contains(path, ":memory:") || strings.Contains(query, "mode=memory")
}

// sameSQLite returns a text that is the same for all ways to name one file of SQLite. Nodes
// with a pool each would wait for the transaction of their own process.
func sameSQLite(source string) string {
	path, query, memory := splitSQLite(source)
	if rest, ok := strings.CutPrefix(path, "//"); ok { // file:///…, or file://localhost/…
		path = strings.TrimPrefix(rest, "localhost")
	}
	if memory || path == "" {
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
	c := &sqliteConn{library: newLibrary(opened.(libraryConn), d)}
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
	code, ok := sqliteCodes[extended]
	if !ok {
		code = sqliteCodes[primary]
	}
	return failure(err, code, strconv.Itoa(extended))
}

// sqliteCodes are the codes of the errors that a node knows, by their extended number or by
// their primary one.
var sqliteCodes = map[int]string{
	sqlite3.SQLITE_CONSTRAINT_UNIQUE:     codeUnique,
	sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: codeUnique,
	sqlite3.SQLITE_CONSTRAINT_ROWID:      codeUnique,
	sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY: codeForeign,
	sqlite3.SQLITE_CONSTRAINT_NOTNULL:    codeNotNull,
	sqlite3.SQLITE_CONSTRAINT:            codeCheck,
	sqlite3.SQLITE_BUSY_SNAPSHOT:         codeConflict,
	sqlite3.SQLITE_BUSY:                  codeBusy,
	sqlite3.SQLITE_LOCKED:                codeBusy,
	sqlite3.SQLITE_FULL:                  codeFull,
	sqlite3.SQLITE_CANTOPEN:              codeConnection,
	sqlite3.SQLITE_IOERR:                 codeConnection,
}

// A sqliteConn is one connection.
type sqliteConn struct {
	*library
	now state
}

func (c *sqliteConn) state() state { return c.now }

func (c *sqliteConn) ping(context.Context) error { return nil }

func (c *sqliteConn) close() {
	for _, st := range c.statements.Values() {
		st.close()
	}
	// Its error is of no use: nothing is left to write.
	c.conn.Close()
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
	err := c.library.run(ctx, st, rows, to)
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

// argument implements [dialect].
func (d *sqliteDriver) argument(v value.Value) (driver.Value, error) {
	t, ok := v.AsTime()
	if !ok {
		return nil, fmt.Errorf("%s is beyond the integers of SQLite", v)
	}
	return t.UTC().Format("2006-01-02 15:04:05.999999999Z07:00"), nil
}

func (d *sqliteDriver) isID(int64) bool { return true }

func (d *sqliteDriver) unprepared(error) bool { return false }

// column implements [dialect]. Some declared types are more than what SQLite stores.
func (d *sqliteDriver) column(v driver.Value, typ string, _ *arena) value.Value {
	switch v := v.(type) {
	case int64:
		if (v == 0 || v == 1) && (typ == "BOOLEAN" || typ == "BOOL") {
			return value.Bool(v == 1)
		}
		return value.Int(v)
	case float64:
		return value.Float(v)
	case string:
		if typ == "JSON" {
			return parseJSON([]byte(v))
		}
		return value.String(v)
	case []byte:
		return value.Binary(v)
	case time.Time:
		if typ == "DATE" && v.Equal(v.Truncate(24*time.Hour)) {
			return value.String(v.Format(time.DateOnly))
		}
		return value.Time(v)
	}
	return value.Null()
}
