package data

import (
	"context"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A Database runs statements for a kind that keeps something of its own in a database.
// Make one in the function New of the kind, open it in Open, and close it in Close. Nodes
// with the same driver and source share connections, also with other generations. Any
// goroutine may call Run while it is open.
type Database struct{ sql *sqlNode }

// Times of a [Database].
const (
	databaseTimeout = 10 * time.Second // of a statement, with the wait for a connection
	databaseConnect = 30 * time.Second
	databaseConns   = 10
)

// NewDatabase returns the database that the fields driver and source of a config name;
// the driver is sqlite, postgres or mysql. It does not connect. The error is placed at the
// field, and does not quote the source.
//
// What was written to a database in a file of SQLite survives the end of the program, and
// a power cut may lose the last of it, unless the source sets the pragma synchronous.
func NewDatabase(init *node.Init, c schema.Config) (*Database, error) {
	name, source := c.String("driver"), c.String("source")
	n := &sqlNode{
		pools: init.Pool, clock: init.Clock, log: init.Log,
		key:      "database " + name + " " + source,
		maxConns: databaseConns, timeout: databaseTimeout, connect: databaseConnect,
	}
	var err error
	if n.driver, err = openDriver(c, n.timeout, n.connect, cancelGrace); err != nil {
		return nil, err
	}
	if d, ok := n.driver.(*sqliteDriver); ok && !strings.Contains(strings.ToLower(source), "_pragma=synchronous") {
		d.prepare = append(d.prepare, "PRAGMA synchronous = NORMAL")
	}
	return &Database{n}, nil
}

// Open connects, for at most 30 s.
func (d *Database) Open(ctx context.Context) error { return d.sql.Open(ctx) }

// Close lets go of the connections.
func (d *Database) Close() error { return d.sql.Close() }

// Run runs one statement by itself, outside of the transactions of processes, and returns
// its rows, as maps, or how many rows it has changed. Placeholders are $1, $2 and so on. It
// takes at most 10 s. The errors are the same as of the kind sql.
func (d *Database) Run(ctx context.Context, text string, args ...value.Value) (rows []value.Value, affected int64, err error) {
	p := d.sql.pool
	if p == nil {
		return nil, 0, node.ErrNotOpen
	}
	script, err := p.texts.get(text, false)
	if err != nil {
		return nil, 0, badQuery("%w", err)
	}
	if len(script.statements) != 1 {
		return nil, 0, badQuery("want one statement, got %d", len(script.statements))
	}
	st := script.statements[0]
	row, err := byPosition(script, st, value.List(args...))
	if err != nil {
		return nil, 0, err
	}
	ctx, stop := withTimeout(ctx, p.clock, d.sql.timeout)
	defer stop()
	if st.effect != reads {
		if err := p.lockWriter(ctx, "statement"); err != nil {
			return nil, 0, err
		}
		defer p.unlockWriter()
	}
	var r result
	if err := p.run(ctx, st, [][]value.Value{row}, &r); err != nil {
		return nil, 0, p.failed(ctx, err)
	}
	return r.rows, r.affected, nil
}
