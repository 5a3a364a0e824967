package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/value"
)

// A snapshot reads the rows that are there before the changes. It has a slot that ends with the
// connection: the slot of the node is a copy of that, made when all rows are settled. So a slot
// that is there has a complete snapshot, and one that was interrupted leaves nothing behind.
type snapshot struct {
	lsn    pglogrepl.LSN // of its slot
	tables []snapshotTable
	read   bool // all rows

	results *pgconn.MultiResultReader // of the table that is read; nil between two
	rows    *pgconn.ResultReader
	rel     *relation
}

// A snapshotTable is a table that is still to be read.
type snapshotTable struct {
	table
	oid, kind, columns, filter string
}

// temporary is the name of the slot of a snapshot.
func (s *setup) temporary() string { return s.slot[:min(len(s.slot), 54)] + "_snapshot" }

// begin begins a transaction that sees what its slot does not send.
func (sn *snapshot) begin(ctx context.Context, l *link, s *setup) error {
	if _, err := l.query(ctx, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	made, err := pglogrepl.CreateReplicationSlot(ctx, l.PgConn, s.temporary(), "pgoutput", pglogrepl.CreateReplicationSlotOptions{
		Temporary: true, SnapshotAction: "USE_SNAPSHOT", Mode: pglogrepl.LogicalReplication,
	})
	if err != nil {
		return fmt.Errorf("the slot of the snapshot: %w", err)
	}
	if sn.lsn, err = pglogrepl.ParseLSN(made.ConsistentPoint); err != nil {
		return err
	}
	// Columns and conditions of a publication are new in PostgreSQL 15.
	rows, err := l.query(ctx, `SELECT n.nspname, c.relname, c.oid, c.relkind, coalesce(to_jsonb(p)->>'rowfilter', ''), (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
		FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
		AND coalesce(to_jsonb(p)->'attnames' ? a.attname::text, true))
		FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
		WHERE p.pubname = %s ORDER BY 1, 2`, literal(s.publication))
	if err != nil {
		return err
	}
	for _, row := range rows {
		t := snapshotTable{table{row[0], row[1]}, row[2], row[3], row[5], row[4]}
		if s.reads(t.table) {
			sn.tables = append(sn.tables, t)
		}
	}
	return nil
}

// more reads rows until there is no room, or there are no more.
func (sn *snapshot) more(ctx context.Context, l *link, d *decoder, room stream.Room) error {
	for !d.full(room) {
		if sn.results == nil {
			if len(sn.tables) == 0 {
				sn.read = true
				return d.commit(sn.lsn)
			}
			if err := sn.open(ctx, l); err != nil {
				return err
			}
		}
		if !sn.rows.NextRow() {
			if err := sn.results.Close(); err != nil {
				return fmt.Errorf("reading %s: %w", sn.rel.table, err)
			}
			sn.results, sn.tables = nil, sn.tables[1:]
			continue
		}
		row, key := sn.rel.values(sn.rows.Values())
		if err := d.emit(sn.rel, "snapshot", row, value.Null(), nil, key); err != nil {
			return err
		}
	}
	return nil
}

// open begins to read a table. The server sends its rows as fast as they are read.
func (sn *snapshot) open(ctx context.Context, l *link) error {
	t := sn.tables[0]
	keys, err := l.query(ctx, keysQuery, t.oid)
	if err != nil {
		return err
	}
	types, err := l.query(ctx, typesQuery, "SELECT atttypid FROM pg_attribute WHERE attrelid = "+t.oid)
	if err != nil {
		return err
	}
	text := "SELECT " + t.columns + " FROM "
	if t.kind == "r" {
		text += "ONLY " // children have changes of their own
	}
	if text += t.quoted(); t.filter != "" {
		text += " WHERE (" + t.filter + ")"
	}
	sn.results = l.Exec(context.Background(), text) // it lasts longer than one call; Read ends it by a deadline
	if !sn.results.NextResult() {
		err := sn.results.Close()
		if sn.results = nil; err == nil {
			err = errors.New("the server has sent no rows")
		}
		return fmt.Errorf("reading %s: %w", t, err)
	}
	sn.rows = sn.results.ResultReader()
	sn.rel = &relation{table: t.String()}
	for _, f := range sn.rows.FieldDescriptions() {
		elem, _ := data.PostgresElem(f.DataTypeOID)
		sn.rel.columns = append(sn.rel.columns, column{name: f.Name, oid: f.DataTypeOID, elem: elem})
	}
	sn.rel.setKeys(keys)
	sn.rel.setTypes(types)
	return nil
}

// values makes a row of its texts.
func (r *relation) values(texts [][]byte) (row value.Value, key string) {
	fields := make([]value.Field, len(texts))
	var ids []value.Value
	for i, text := range texts {
		c := &r.columns[i]
		fields[i].Name, fields[i].Value = c.name, value.Null()
		if text != nil {
			fields[i].Value = data.PostgresText(text, c.oid, c.elem)
		}
		if c.key {
			ids = append(ids, fields[i].Value)
		}
	}
	return value.UniqueMap(fields), keyOf(ids)
}

// finish makes the slot of the node, when all rows are settled. It waits for no transaction of others,
// and a node that ends meanwhile has to know whether it leaves a slot behind: ctx does not end it.
func (sn *snapshot) finish(ctx context.Context, l *link, s *setup) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sideTimeout)
	defer cancel()
	if _, err := l.query(ctx, "COMMIT"); err != nil {
		return err
	}
	if _, err := l.query(ctx, "SELECT pg_copy_logical_replication_slot(%s, %s, false)", literal(s.temporary()), literal(s.slot)); err != nil {
		return fmt.Errorf("making the slot %s: %w", s.slot, err)
	}
	s.had = true
	if _, err := l.query(ctx, "%s", dropSlot(s.temporary())); err != nil {
		return err
	}
	return s.made(ctx, l)
}

// reads reports whether the changes of a table are read.
func (s *setup) reads(t table) bool {
	for _, one := range s.tables {
		if one == t {
			return true
		}
	}
	return len(s.tables) == 0
}

// snapshotTime is the time of the messages of a snapshot.
func snapshotTime(now time.Time) time.Time { return now.UTC().Truncate(time.Microsecond) }
