package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/uniflow-labs/uniflow/journal"
)

// A conn is a connection with the statements that it has prepared. One goroutine at a time
// uses it. It is of the driver, without the pool of database/sql, with which a commit allocates
// 2.6 times as many bytes (see BenchmarkBare).
type conn struct {
	name  string // of the file, for errors
	c     driverConn
	stmts map[string]*stmt
}

type driverConn interface {
	driver.Conn
	driver.ExecerContext
	driver.ConnPrepareContext
}

type stmt struct {
	conn *conn
	st   interface {
		driver.Stmt
		driver.StmtExecContext
		driver.StmtQueryContext
	}
	named []driver.NamedValue // reused
}

// dial opens a connection to a URI of SQLite.
func dial(name, uri string) (*conn, error) {
	c, err := new(sqlite.Driver).Open(uri)
	if err != nil {
		return nil, describe(name, err)
	}
	return &conn{name: name, c: c.(driverConn), stmts: make(map[string]*stmt)}, nil
}

// run executes a text of several statements.
func (c *conn) run(text string) error {
	_, err := c.c.ExecContext(context.Background(), text, nil)
	return describe(c.name, err)
}

// prepare returns a statement, which the connection keeps.
func (c *conn) prepare(text string) (*stmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	st, err := c.c.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, describe(c.name, err)
	}
	s := &stmt{conn: c}
	s.st = st.(interface {
		driver.Stmt
		driver.StmtExecContext
		driver.StmtQueryContext
	})
	c.stmts[text] = s
	return s, nil
}

func (c *conn) exec(text string, args ...any) (changes int64, err error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	return s.exec(args)
}

// query calls f with each row, which is valid until f returns. A context that ends stops it.
func (c *conn) query(ctx context.Context, f func(row []any) error, text string, args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	return s.query(ctx, f, args)
}

// queryOnce is query for one of many texts: the statement is not kept.
func (c *conn) queryOnce(ctx context.Context, f func(row []any) error, text string, args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	delete(c.stmts, text)
	return errors.Join(s.query(ctx, f, args), describe(c.name, s.st.Close()))
}

// one returns the first column of the only row; nil without a row.
func (c *conn) one(text string, args ...any) (v any, err error) {
	err = c.query(context.Background(), func(row []any) error {
		v = row[0]
		return nil
	}, text, args...)
	return v, err
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.st.Close())
	}
	return describe(c.name, errors.Join(append(errs, c.c.Close())...))
}

func (s *stmt) bind(args []any) []driver.NamedValue {
	for len(s.named) < len(args) {
		s.named = append(s.named, driver.NamedValue{Ordinal: len(s.named) + 1})
	}
	named := s.named[:len(args)]
	for i, v := range args {
		named[i].Value = v
	}
	return named
}

// exec runs a statement without rows. No context can stop it: what a commit has done when it
// is stopped in the middle is not known.
func (s *stmt) exec(args []any) (changes int64, err error) {
	named := s.bind(args)
	result, err := s.st.ExecContext(context.Background(), named)
	for i := range named {
		named[i].Value = nil // do not keep payloads alive
	}
	if err != nil {
		return 0, describe(s.conn.name, err)
	}
	return result.RowsAffected()
}

func (s *stmt) query(ctx context.Context, f func(row []any) error, args []any) (err error) {
	rows, err := s.st.QueryContext(ctx, s.bind(args))
	if err != nil {
		return describe(s.conn.name, err)
	}
	defer func() { err = errors.Join(err, describe(s.conn.name, rows.Close())) }()
	values := make([]driver.Value, len(rows.Columns()))
	row := make([]any, len(values))
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return describe(s.conn.name, err)
		}
		for i, v := range values {
			row[i] = v
		}
		if err := f(row); err != nil {
			return err
		}
	}
}

// What codes says of a damaged file.
const corrupt, notADatabase = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB

// codes returns those of an error of SQLite; 0 of another.
func codes(err error) (primary, extended int) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, 0
	}
	return e.Code() & 0xff, e.Code()
}

// describe says what an error of SQLite means for the journal in a file.
func describe(name string, err error) error {
	if err == nil {
		return nil
	}
	primary, extended := codes(err)
	switch {
	case primary == sqlite3.SQLITE_FULL, extended == sqlite3.SQLITE_IOERR_SHMSIZE: // the second: no room for the index of the log
		return fmt.Errorf("journal %s: %w (%w)", name, journal.ErrFull, err)
	case primary == corrupt, primary == notADatabase:
		return fmt.Errorf("journal %s: %w: restore a copy, or move the file away and start with an empty journal (%w)", name, ErrDamaged, err)
	case primary != 0:
		return fmt.Errorf("journal %s: %w", name, err)
	}
	return err
}
