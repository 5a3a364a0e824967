package data

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// An internalDriver answers what the engine runs, by a database in memory that is
// filled for each statement.
type internalDriver struct{ system node.System }

// systemTables are the tables and their columns.
var systemTables = map[string]string{
	"specs":     "id TEXT, kind TEXT, namespace TEXT, name TEXT, file TEXT, line INTEGER, config JSON, links JSON",
	"symbols":   "id TEXT, kind TEXT, namespace TEXT, name TEXT, file TEXT, line INTEGER, links INTEGER, generation INTEGER, since TEXT",
	"processes": "id TEXT, generation INTEGER, frames INTEGER",
	"frames":    "process TEXT, node_id TEXT, kind TEXT, namespace TEXT, name TEXT",
	"values":    "id TEXT, namespace TEXT, name TEXT, secret BOOLEAN, data JSON",
}

func (d *internalDriver) syntax() syntax { return syntax{brackets: true} }

func (d *internalDriver) limits() (conns, transactions int) { return 1, 0 }

func (d *internalDriver) lacks(error) bool { return false }

func (d *internalDriver) describe(err error) *node.Error { return new(sqliteDriver).describe(err) }

func (d *internalDriver) connect(ctx context.Context) (conn, error) {
	if d.system == nil {
		return nil, &fatalError{errors.New("there is nothing that runs")}
	}
	memory, err := newSQLite(":memory:", time.Second)
	if err != nil {
		return nil, &fatalError{err}
	}
	c, err := memory.connect(ctx)
	if err != nil {
		return nil, err
	}
	made := &internalConn{sqliteConn: c.(*sqliteConn), system: d.system}
	for table, columns := range systemTables {
		if err := made.plain(ctx, `CREATE TABLE "`+table+`" (`+columns+")"); err != nil {
			made.close()
			return nil, &fatalError{err}
		}
	}
	return made, nil
}

// An internalConn is a connection to the tables of the system.
type internalConn struct {
	*sqliteConn
	system node.System
}

// valuesTable finds the table whose name is a word of SQL.
var valuesTable = regexp.MustCompile(`(?i)\b(FROM|JOIN)\s+values\b`)

var errReadOnly = node.Unusable(codeBadQuery, errors.New("driver internal is read only: it answers SELECT"))

func (c *internalConn) begin(context.Context, string) error { return errReadOnly }

func (c *internalConn) run(ctx context.Context, st *statement, rows [][]value.Value, to *result) error {
	if st.effect != reads {
		return errReadOnly
	}
	quoted := *st
	quoted.text = valuesTable.ReplaceAllString(st.text, `$1 "values"`)
	st = &quoted
	named := strings.ToLower(st.text)
	for table, columns := range systemTables {
		if strings.Contains(named, table) {
			if err := c.fill(ctx, table, columns); err != nil {
				return err
			}
		}
	}
	if err := c.plain(ctx, "PRAGMA query_only = 1"); err != nil {
		return err
	}
	err := c.sqliteConn.run(ctx, st, rows, to)
	return errors.Join(err, c.plain(context.WithoutCancel(ctx), "PRAGMA query_only = 0"))
}

// fill replaces the rows of a table.
func (c *internalConn) fill(ctx context.Context, table, columns string) error {
	if err := c.plain(ctx, `DELETE FROM "`+table+`"`); err != nil {
		return err
	}
	var names []string
	for column := range strings.SplitSeq(columns, ", ") {
		name, _, _ := strings.Cut(column, " ")
		names = append(names, name)
	}
	var rows [][]value.Value
	for _, v := range c.system.Rows(table) {
		row := make([]value.Value, len(names))
		for i, name := range names {
			row[i], _ = v.Get(name)
			if strings.HasSuffix(strings.Split(columns, ", ")[i], " JSON") { // texts are quoted there
				data, err := row[i].AppendJSON(nil)
				if err != nil {
					return err
				}
				row[i] = value.String(string(data))
			}
		}
		rows = append(rows, row)
	}
	insert := &statement{text: `INSERT INTO "` + table + `" VALUES (?` + strings.Repeat(", ?", len(names)-1) + ")", effect: writes}
	return c.library.run(ctx, insert, rows, new(result))
}
