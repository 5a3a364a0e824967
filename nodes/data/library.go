package data

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/uniflow-labs/uniflow/value"
)

// A library is a connection of a client with the interfaces of package database/sql/driver. The
// connections to SQLite and MySQL have one.
type library struct {
	conn       libraryConn
	dialect    dialect
	statements statements[*libraryStatement]
	args       []driver.NamedValue
	dest       []driver.Value
	types      []string // of the columns
}

// A dialect is what libraries do differently.
type dialect interface {
	// argument returns what an argument of some kinds is for the library; nil leaves it to the
	// others.
	argument(v value.Value) (driver.Value, error)

	// column makes a value of a column of a declared type. The bytes of v are not kept.
	column(v driver.Value, typ string, texts *arena) value.Value

	// isID reports whether a number that an INSERT has made is an id.
	isID(id int64) bool

	// unprepared reports whether an error says that a statement runs without being prepared.
	unprepared(err error) bool
}

type libraryConn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
}

// A libraryStatement is a prepared statement; without a Stmt it cannot be prepared.
type libraryStatement struct {
	driver.Stmt
	query driver.StmtQueryContext
	exec  driver.StmtExecContext
}

func (s *libraryStatement) close() {
	if s.Stmt != nil {
		s.Close()
	}
}

// statements are the prepared statements of a connection, by their text: those that were used
// last.
type statements[S any] struct {
	*simplelru.LRU[string, S]
}

func newStatements[S any]() statements[S] { return statements[S]{newLRU[string, S](keptStatements)} }

// put adds a statement. The one that makes room for it is to be closed.
func (s statements[S]) put(text string, st S) (old S, evicted bool) {
	if s.Len() == keptStatements {
		_, old, evicted = s.RemoveOldest()
	}
	s.Add(text, st)
	return old, evicted
}

func newLibrary(c libraryConn, d dialect) *library {
	return &library{conn: c, dialect: d, statements: newStatements[*libraryStatement]()}
}

// prepared returns a statement of the connection.
func (l *library) prepared(ctx context.Context, text string) (*libraryStatement, error) {
	if st, ok := l.statements.Get(text); ok {
		return st, nil
	}
	st := new(libraryStatement)
	made, err := l.conn.PrepareContext(ctx, text)
	switch {
	case err == nil:
		st = &libraryStatement{made, made.(driver.StmtQueryContext), made.(driver.StmtExecContext)}
	case !l.dialect.unprepared(err):
		return nil, &unpreparedError{err}
	}
	if old, evicted := l.statements.put(text, st); evicted {
		old.close()
	}
	return st, nil
}

// run runs a statement once for each row of arguments.
func (l *library) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	prepared, err := l.prepared(ctx, st.text)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if prepared.Stmt != nil && prepared.NumInput() >= 0 && prepared.NumInput() != len(row) {
			return badQuery("the statement has %d arguments, got %d", prepared.NumInput(), len(row))
		}
		if err := l.bind(row); err != nil {
			return err
		}
		if st.rows {
			err = l.query(ctx, st, prepared, to)
		} else {
			err = l.exec(ctx, st, prepared, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bind sets the arguments of the next call.
func (l *library) bind(row []value.Value) (err error) {
	l.args = l.args[:0]
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
		case value.KindUint, value.KindTime:
			if arg.Value, err = l.dialect.argument(v); err != nil {
				return badQuery("argument %d: %w", i+1, err)
			}
		default:
			s, ok := text(v)
			if !ok {
				return badQuery("argument %d cannot be written as JSON", i+1)
			}
			arg.Value = s
		}
		l.args = append(l.args, arg)
	}
	return nil
}

func (l *library) exec(ctx context.Context, st *statement, prepared *libraryStatement, to *result) (err error) {
	var res driver.Result
	if prepared.Stmt == nil {
		res, err = l.conn.ExecContext(ctx, st.text, l.args)
	} else {
		res, err = prepared.exec.ExecContext(ctx, l.args)
	}
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
		if l.dialect.isID(id) {
			to.lastID = value.Int(id)
		}
	}
	return nil
}

func (l *library) query(ctx context.Context, st *statement, prepared *libraryStatement, to *result) (err error) {
	var rows driver.Rows
	if prepared.Stmt == nil {
		rows, err = l.conn.QueryContext(ctx, st.text, l.args)
	} else {
		rows, err = prepared.query.QueryContext(ctx, l.args)
	}
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
	l.types = l.types[:0]
	for i := range columns {
		l.types = append(l.types, named.ColumnTypeDatabaseTypeName(i))
	}
	maker := newRowMaker(columns)
	if cap(l.dest) < len(columns) {
		l.dest = make([]driver.Value, len(columns))
	}
	dest := l.dest[:len(columns)]
	var texts arena
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
			fields[maker.field(i)].Value = l.dialect.column(dest[i], l.types[i], &texts)
		}
		to.rows = append(to.rows, value.UniqueMap(fields))
	}
}
