package data

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed sql_sink.md
var sqlSinkPage string

func sinkDef() stream.Sink {
	return stream.Sink{
		Kind:    "sql_sink",
		Summary: "Writes rows into a table of SQLite, PostgreSQL or MySQL, many at a time.",
		Page:    node.ReadPage(sqlSinkPage),
		Config: streamFields(
			schema.String("table").Required().Doc("The table, such as `orders` or `shop.orders`, in the letters that the database has."),
			schema.Enum("mode", modeInsert, modeUpsert, modeCopy).Default(modeInsert).Doc("`insert` adds rows, `upsert` changes those whose keys are there, and `copy` adds them as `COPY` of PostgreSQL does, which is the fastest."),
			schema.Strings("columns").Doc("The columns to write; a body without one of them writes NULL, and its other fields are left out. Without it, each body writes its own fields."),
			schema.Strings("keys").Doc("The columns that tell rows apart, for `upsert`. The table has a unique index on them."),
		),
		Batches: true,
		Raw:     true,
		Bodies:  true,
		Joins:   func(c schema.Config) bool { return c.String("mode") == modeCopy },
		Open:    openSink,
	}
}

// streamFields are the fields of sources and sinks, in front of their own.
func streamFields(own ...*schema.Field) schema.Object {
	return schema.Fields(append([]*schema.Field{
		schema.Enum("driver", "sqlite", "postgres", "mysql").Required().Doc("The database. `mysql` is for MariaDB, too."),
		schema.String("source").Required().Secret().Doc("Where the database is, as for `sql`."),
	}, own...)...)
}

// A sinkWriter writes rows. Its pool has one connection.
type sinkWriter struct {
	pool    *pool
	columns []string
	check   string // a statement that checks whether there is such a table
	table   tableWriter
	layout  atomic.Pointer[layout] // of the last COPY
	rows    [][]value.Value        // of the last call, to be used again
	values  []value.Value          // of the rows
}

func openSink(init *node.Init) (stream.Writer, error) {
	c := init.Config
	timeout := c.Duration("timeout")
	driver, err := openDriver(c, timeout, timeout, streamCancelGrace)
	if err != nil {
		return nil, err
	}
	name := c.String("driver")
	w := &sinkWriter{
		columns: c.Strings("columns"), pool: newPool(driver, 1, init.Clock, init.Log),
		table: tableWriter{driver: name, table: quote(name, c.String("table")), mode: c.String("mode"), keys: c.Strings("keys"), texts: map[string]*statement{}},
	}
	switch {
	case w.table.mode == modeCopy && name != "postgres":
		return nil, c.Errorf("mode", diag.CodeBadValue, "copy is for postgres").WithHint("write insert")
	case w.table.mode == modeUpsert && len(w.table.keys) == 0:
		return nil, c.Errorf("keys", diag.CodeBadValue, "is missing, which upsert needs").WithHint("write the columns of the primary key")
	case w.table.mode != modeUpsert && len(w.table.keys) > 0:
		return nil, c.Errorf("keys", diag.CodeBadValue, "is for upsert").WithHint("write mode: upsert, or remove keys")
	}
	for i, column := range w.columns {
		if slices.Contains(w.columns[:i], column) {
			return nil, c.Errorf("columns", diag.CodeBadValue, "names %q twice", column)
		}
	}
	for _, key := range w.table.keys {
		if len(w.columns) > 0 && !slices.Contains(w.columns, key) {
			return nil, c.Errorf("keys", diag.CodeBadValue, "names %q, which columns do not have", key).WithHint("add it to columns")
		}
	}
	names := "*"
	if len(w.columns) > 0 {
		names = w.table.names(w.columns)
	}
	w.check = "SELECT " + names + " FROM " + w.table.table + " WHERE 1 = 0"
	return w, nil
}

// Connect implements [stream.Writer].
func (w *sinkWriter) Connect(ctx context.Context) error {
	return w.pool.reach(ctx, w.check)
}

// reach returns when a statement that reads has worked. A reason that will not go away is
// a [*stream.RefusedError].
func (p *pool) reach(ctx context.Context, text string) error {
	err := p.run(ctx, &statement{text: text, rows: true}, [][]value.Value{nil}, new(result))
	var fatal *fatalError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fatal):
		return &stream.RefusedError{Field: "source", Err: err}
	}
	return p.failed(ctx, err)
}

// Write implements [stream.Writer]. It returns when the rows are written.
func (w *sinkWriter) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	var b rowBatch
	free := w.values
	defer func() {
		clear(w.values)
		clear(w.rows)
		if len(w.values) > mostKept {
			w.values, w.rows = nil, nil
		}
	}()
	flush := func() {
		if b.whole = len(b.rows) == len(records); len(b.rows) > 0 {
			w.write(ctx, b, done)
		}
	}
	for i := range records {
		body := records[i].Body
		switch {
		case body.Kind() != value.KindMap:
			done(i, value.Null(), badQuery("want a map with a field for each column, got %s", what(body)))
			continue
		case len(w.columns) > 0:
			b.columns = w.columns
		case body.Len() == 0:
			done(i, value.Null(), badQuery("the body has no fields"))
			continue
		case !b.fits(body):
			flush()
			b = rowBatch{}
			for name := range body.Fields() {
				b.columns = append(b.columns, name)
			}
		}
		if b.rows == nil {
			if cap(w.rows) < len(records) {
				w.rows = make([][]value.Value, len(records))
			}
			b.rows, b.at = w.rows[:0], make([]int, 0, len(records)-i)
		}
		b.at = append(b.at, i)
		n := len(b.columns)
		if len(free) < n { // one array for the rows of many records
			free = make([]value.Value, n*(len(records)-i))
			w.values = free
		}
		row := free[:n:n]
		free = free[n:]
		j := 0
		if len(w.columns) == 0 {
			for _, v := range body.Fields() {
				row[j] = v
				j++
			}
		}
		for ; j < n; j++ {
			row[j], _ = body.Get(b.columns[j])
		}
		b.rows = append(b.rows, row)
	}
	flush()
}

// mostKept is how many values of rows a sink has room for when it is idle.
const mostKept = 64 << 10

// A rowBatch is rows of the same columns.
type rowBatch struct {
	columns []string
	rows    [][]value.Value
	at      []int // the record of each row
	whole   bool  // they are all records of the call
}

// fits reports whether the fields of a map are the columns, in order.
func (b *rowBatch) fits(body value.Value) bool {
	if body.Len() != len(b.columns) {
		return false
	}
	i := 0
	for name := range body.Fields() {
		if b.columns[i] != name {
			return false
		}
		i++
	}
	return true
}

// write writes rows, and those that are refused in halves.
func (w *sinkWriter) write(ctx context.Context, b rowBatch, done func(i int, receipt value.Value, err error)) {
	rows, err := w.attempt(ctx, func(c conn) error {
		err := w.table.write(ctx, c, b.columns, b.rows)
		if pg, ok := c.(*postgresConn); ok && err == nil && w.table.mode == modeCopy {
			w.remember(pg, b.columns)
		}
		return err
	})
	if err == nil && b.whole {
		done(stream.Rest, value.Null(), nil)
		return
	}
	if n := len(b.rows); n > 1 && rows && ctx.Err() == nil {
		w.write(ctx, rowBatch{columns: b.columns, rows: b.rows[:n/2], at: b.at[:n/2]}, done)
		w.write(ctx, rowBatch{columns: b.columns, rows: b.rows[n/2:], at: b.at[n/2:]}, done)
		return
	}
	for _, i := range b.at {
		done(i, value.Null(), err)
	}
}

// attempt writes rows once. rows reports that what is in them may be why it failed.
func (w *sinkWriter) attempt(ctx context.Context, write func(conn) error) (rows bool, err error) {
	c, err := w.pool.acquire(ctx)
	if err != nil {
		return false, lost(w.pool.failed(ctx, err))
	}
	defer w.pool.release(c)
	if err = write(c); err == nil {
		return false, nil
	}
	rows = ofRow(err)
	err = w.pool.failed(ctx, err)
	switch e := node.Describe(err); {
	case rows && e.Status == 0:
		bad := node.Unusable(codeData, err)
		bad.Data = e.Data
		return true, bad
	case c.state() == stateLost && ctx.Err() == nil:
		return false, fmt.Errorf("%w: %w", stream.ErrLost, err)
	}
	return rows, lost(err)
}

const codeData = "data"

// lost marks an error of a connection.
func lost(err error) error {
	if node.Describe(err).Code == codeConnection {
		return fmt.Errorf("%w: %w", stream.ErrLost, err)
	}
	return err
}

// Close closes the connection. Write has returned.
func (w *sinkWriter) Close(context.Context) error { return w.pool.Close() }
