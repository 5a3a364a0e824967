package data

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A tableWriter writes rows into one table. One goroutine at a time uses it.
type tableWriter struct {
	driver string
	table  string // quoted
	mode   string
	keys   []string
	texts  map[string]*statement // by columns and number of rows
}

const (
	modeInsert = "insert"
	modeUpsert = "upsert"
	modeCopy   = "copy"
)

// Limits of one statement. Fewer arguments than the databases take keep it small, and
// powers of two keep few different statements.
const (
	mostArgs   = 16384
	mostInsert = 512 // rows
	mostTexts  = 256
	mostBuffer = 2 << 20 // bytes; a larger one is not kept
)

// quote writes a name, with its schema, as the database reads it exactly.
func quote(driver, name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = quoteColumn(driver, part)
	}
	return strings.Join(parts, ".")
}

func quoteColumn(driver, name string) string {
	mark := `"`
	if driver == "mysql" {
		mark = "`"
	}
	return mark + strings.ReplaceAll(name, mark, mark+mark) + mark
}

func (w *tableWriter) names(columns []string) string {
	quoted := make([]string, len(columns))
	for i, column := range columns {
		quoted[i] = quoteColumn(w.driver, column)
	}
	return strings.Join(quoted, ", ")
}

// write writes rows of the same columns, all or none, in a transaction of their own.
func (w *tableWriter) write(ctx context.Context, c conn, columns []string, rows [][]value.Value) error {
	if w.mode == modeCopy {
		return c.(*postgresConn).copyRows(ctx, w.table, w.names(columns), rows)
	}
	if w.mode == modeUpsert {
		rows = w.last(columns, rows)
	}
	if err := c.begin(ctx, ""); err != nil {
		return err
	}
	err := w.insert(ctx, c, columns, rows)
	if err == nil {
		return c.commit(ctx)
	}
	if c.state() == stateOpen {
		ctx, end := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer end()
		_ = c.rollback(ctx) // to release the connection ends the transaction otherwise
	}
	return err
}

func (w *tableWriter) insert(ctx context.Context, c conn, columns []string, rows [][]value.Value) error {
	most := 1
	for 2*most <= mostInsert && 2*most*max(len(columns), 1) <= mostArgs {
		most *= 2
	}
	var r result
	for done := 0; done < len(rows); {
		n := most
		for n > len(rows)-done {
			n /= 2
		}
		st := w.statement(columns, n)
		args := rows[done]
		if n > 1 {
			args = slices.Concat(rows[done : done+n]...)
		}
		if err := c.run(ctx, st, [][]value.Value{args}, &r); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// last returns the rows without those whose key a later row has: a statement may change a
// row once, and each of them would set all columns.
func (w *tableWriter) last(columns []string, rows [][]value.Value) [][]value.Value {
	var at []int
	for _, key := range w.keys {
		if i := slices.Index(columns, key); i >= 0 {
			at = append(at, i)
		}
	}
	seen := make(map[string]bool, len(rows))
	kept := make([][]value.Value, 0, len(rows))
	var key []byte
	for _, row := range slices.Backward(rows) {
		key = key[:0]
		for _, i := range at {
			text := row[i].String()
			key = append(append(strconv.AppendInt(key, int64(len(text)), 10), ':'), text...)
		}
		if seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		kept = append(kept, row)
	}
	slices.Reverse(kept)
	return kept
}

// statement returns the one that writes n rows of the columns.
func (w *tableWriter) statement(columns []string, n int) *statement {
	key := strconv.Itoa(n) + " " + strings.Join(columns, "\x00")
	if st, ok := w.texts[key]; ok {
		return st
	}
	var text strings.Builder
	text.WriteString("INSERT INTO " + w.table + " (" + w.names(columns) + ") VALUES ")
	arg := 0
	for row := range n {
		if row > 0 {
			text.WriteString(", ")
		}
		text.WriteByte('(')
		for column := range columns {
			if column > 0 {
				text.WriteString(", ")
			}
			if arg++; w.driver == "postgres" {
				text.WriteString("$" + strconv.Itoa(arg))
			} else {
				text.WriteByte('?')
			}
		}
		text.WriteByte(')')
	}
	if w.mode == modeUpsert {
		text.WriteString(w.conflict(columns))
	}
	st := &statement{text: text.String(), binds: make([]bind, arg), effect: writes, counts: true}
	if len(w.texts) >= mostTexts {
		clear(w.texts)
	}
	w.texts[key] = st
	return st
}

// conflict says what is done with a row that is there.
func (w *tableWriter) conflict(columns []string) string {
	var sets []string
	for _, column := range columns {
		if slices.Contains(w.keys, column) {
			continue
		}
		name := w.names([]string{column})
		if w.driver == "mysql" {
			sets = append(sets, name+" = VALUES("+name+")")
		} else {
			sets = append(sets, name+" = excluded."+name)
		}
	}
	if w.driver == "mysql" {
		if len(sets) == 0 {
			name := w.names(w.keys[:1])
			sets = []string{name + " = " + name}
		}
		return " ON DUPLICATE KEY UPDATE " + strings.Join(sets, ", ")
	}
	target := " ON CONFLICT (" + w.names(w.keys) + ") DO "
	if len(sets) == 0 {
		return target + "NOTHING"
	}
	return target + "UPDATE SET " + strings.Join(sets, ", ")
}

// ofRow reports whether an error may be caused by one row among many: by what is in it, not by
// the table, the connection or another transaction.
func ofRow(err error) bool {
	var refused *node.Error
	if errors.As(err, &refused) {
		return refused.Code == codeBadQuery
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return rowClass(pg.Code)
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return rowClass(string(my.SQLState[:])) || my.Number == mysqlNoDefault || my.Number == mysqlBadText
	}
	switch primary, _ := sqliteCode(err); primary {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return true
	}
	return false
}

// rowClass knows the classes of SQLSTATE: cardinality, data, constraint, check option, and
// what triggers raise.
func rowClass(state string) bool {
	return len(state) == 5 && slices.Contains([]string{"21", "22", "23", "44", "45", "P0"}, state[:2])
}
