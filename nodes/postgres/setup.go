package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// A setup is what a node needs on the server: a publication, and a slot that reads it.
type setup struct {
	slot, publication string
	tables            []table // none is all that the publication has
	create            bool
	had               bool   // the slot has been there
	timeline          string // of the server, which counts its failovers
}

// A slotState is what the server says of the slot.
type slotState struct {
	there     bool
	failover  bool // it is copied to standbys, new in PostgreSQL 17
	confirmed pglogrepl.LSN
	lag       int64
}

// errLostSlot is the error of a slot that is gone.
var errLostSlot = errors.New("the slot is gone")

// check checks the server, makes the publication if it may, and finds the slot. mine is the
// process of the server that served this reader before.
func (s *setup) check(ctx context.Context, l *link, mine uint32) (state slotState, err error) {
	rows, err := l.query(ctx, "SHOW wal_level")
	if err != nil {
		return state, err
	}
	if rows[0][0] != "logical" {
		return state, refused("source", "the server has wal_level = %s: logical replication needs ALTER SYSTEM SET wal_level = logical, and a restart of the server", rows[0][0])
	}
	noted, err := s.checkPublication(ctx, l)
	if err != nil {
		return state, err
	}
	if err := s.checkIdentity(ctx, l, s.published()); err != nil {
		return state, err
	}
	if state, err = s.find(ctx, l, mine, noted); err != nil {
		return state, err
	}
	timeline, known := noted.of(s.slot)
	switch {
	case state.there && known && timeline != s.timeline && !state.failover:
		return state, refused("slot", "%w: a standby has taken over, and the slot %s was made on it: the changes before that cannot be read. "+
			"To go on without them: %s; to begin again, with a snapshot of all rows, drop the slot as well: %s", errLostSlot, s.slot, s.forget(noted), dropSlot(s.slot))
	case state.there:
		s.had = true
		if s.create && timeline != s.timeline {
			return state, s.note(ctx, l)
		}
	case s.had || known:
		return state, refused("slot", "%w: the server has no slot %s any more, so changes since it was lost cannot be read. "+
			"To begin again, with a snapshot of all rows: %s, then restart the program", errLostSlot, s.slot, s.forget(noted))
	case !s.create:
		return state, refused("slot", "there is no slot %s: SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", s.slot, literal(s.slot))
	default:
		return state, s.checkFree(ctx, l)
	}
	return state, nil
}

// find finds the slot.
func (s *setup) find(ctx context.Context, l *link, mine uint32, noted notes) (state slotState, err error) {
	rows, err := l.query(ctx, `SELECT coalesce(plugin, ''), coalesce(database, ''), current_database(), coalesce(active_pid, 0), confirmed_flush_lsn, wal_status,
		pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, confirmed_flush_lsn), coalesce(to_jsonb(s)->>'failover', '')
		FROM pg_replication_slots s WHERE slot_name = %s`, literal(s.slot))
	if err != nil || len(rows) == 0 {
		return state, err
	}
	row := rows[0]
	switch {
	case row[0] != "pgoutput":
		return state, refused("slot", "%s is not a slot of pgoutput: name another one", s.slot)
	case row[1] != row[2]:
		return state, refused("slot", "%s is a slot of the database %s: name another one", s.slot, row[1])
	case row[5] == "lost":
		return state, refused("slot", "%w: the server has removed WAL that the slot %s still needed (max_slot_wal_keep_size), so changes are lost. "+
			"To begin again, with a snapshot of all rows: %s; %s; then restart the program", errLostSlot, s.slot, dropSlot(s.slot), s.forget(noted))
	}
	state.there, state.failover = true, row[7] == "true"
	state.lag, _ = strconv.ParseInt(row[6], 10, 64) // empty for a slot that is being made
	if row[3] != "0" {
		if row[3] != strconv.FormatUint(uint64(mine), 10) {
			return state, fmt.Errorf("the slot %s is in use by process %s of the server; this node goes on when that has ended", s.slot, row[3])
		}
		// The server has not noticed yet that the connection of this reader is gone.
		if _, err := l.query(ctx, "SELECT pg_terminate_backend(%s, 1000)", row[3]); err != nil {
			return state, err
		}
	}
	if row[4] != "" {
		state.confirmed, err = pglogrepl.ParseLSN(row[4])
	}
	return state, err
}

// dropSlot is the statement that drops a slot.
func dropSlot(slot string) string { return "SELECT pg_drop_replication_slot(" + literal(slot) + ")" }

// checkFree checks that a slot can be made.
func (s *setup) checkFree(ctx context.Context, l *link) error {
	rows, err := l.query(ctx, "SELECT (SELECT count(*) FROM pg_replication_slots) >= current_setting('max_replication_slots')::int, current_setting('max_replication_slots')")
	if err != nil {
		return err
	}
	if rows[0][0] == "t" {
		return refused("slot", "all %s slots of the server are in use: drop one (SELECT slot_name, active FROM pg_replication_slots), or raise max_replication_slots and restart the server", rows[0][1])
	}
	return nil
}

// checkPublication finds the publication or makes it. It returns what its comment notes.
func (s *setup) checkPublication(ctx context.Context, l *link) (noted notes, err error) {
	rows, err := l.query(ctx, "SELECT pg_has_role(pubowner, 'USAGE'), coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = %s", literal(s.publication))
	if err != nil {
		return noted, err
	}
	if len(rows) == 0 {
		return noted, s.makePublication(ctx, l)
	}
	noted = parseNotes(rows[0][1])
	if s.create && rows[0][0] != "t" {
		return noted, refused("publication", "%s belongs to another role, so this node cannot note its slot there: ALTER PUBLICATION %s OWNER TO the role; "+
			"or make the slot (SELECT pg_create_logical_replication_slot(%s, 'pgoutput')) and set create: false", s.publication, ident(s.publication), literal(s.slot))
	}
	missing, err := s.unpublished(ctx, l)
	if err != nil || len(missing) == 0 {
		return noted, err
	}
	statement := "ALTER PUBLICATION " + ident(s.publication) + " ADD TABLE " + quoted(missing)
	if !s.create {
		return noted, refused("tables", "%s is not in the publication: %s", missing[0], statement)
	}
	if err := s.checkIdentity(ctx, l, among(missing)); err != nil {
		return noted, err
	}
	return noted, s.run(ctx, l, "tables", statement)
}

func (s *setup) makePublication(ctx context.Context, l *link) error {
	which := " FOR ALL TABLES"
	if len(s.tables) > 0 {
		which = " FOR TABLE " + quoted(s.tables)
	}
	statement := "CREATE PUBLICATION " + ident(s.publication) + which + " WITH (publish_via_partition_root = true)"
	if !s.create {
		return refused("publication", "there is no publication %s: %s", s.publication, statement)
	}
	all := among(s.tables)
	if len(s.tables) == 0 {
		all = "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
	}
	// With such a publication the server would refuse the changes of others.
	if err := s.checkIdentity(ctx, l, all); err != nil {
		return err
	}
	return s.run(ctx, l, "publication", statement)
}

// run runs a statement that may need rights that the role has not.
func (s *setup) run(ctx context.Context, l *link, field, statement string) error {
	_, err := l.query(ctx, "%s", statement)
	switch code(err) {
	case "":
		return err
	case "42501":
		return refused(field, "%w: let a role with the right run it: %s", err, statement)
	case "42P01", "3F000", "42809":
		return refused("tables", "%w", err)
	}
	return fmt.Errorf("%s: %w", statement, err)
}

// unpublished returns the tables of the node that the publication does not have.
func (s *setup) unpublished(ctx context.Context, l *link) (missing []table, err error) {
	if len(s.tables) == 0 {
		return nil, nil
	}
	rows, err := l.query(ctx, "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", literal(s.publication))
	if err != nil {
		return nil, err
	}
	for _, t := range s.tables {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[0] == t.schema && row[1] == t.name }) {
			missing = append(missing, t)
		}
	}
	return missing, nil
}

// among is a query of the numbers of tables. It finds them by their names in the catalog, as a
// conversion of a name fails on schemas that the role may not use.
func among(tables []table) string {
	var names []string
	for _, t := range tables {
		names = append(names, "("+literal(t.schema)+", "+literal(t.name)+")")
	}
	return "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE (n.nspname, c.relname) IN (" + strings.Join(names, ", ") + ")"
}

// published is a query of the numbers of the tables whose changes are read.
func (s *setup) published() string {
	text := `SELECT c.oid FROM pg_publication u JOIN pg_publication_tables p USING (pubname) JOIN pg_namespace n ON n.nspname = p.schemaname
		JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE (u.pubupdate OR u.pubdelete) AND u.pubname = ` + literal(s.publication)
	if len(s.tables) > 0 {
		text += " AND c.oid IN (" + among(s.tables) + ")"
	}
	return text
}

// checkIdentity checks that the server can tell the rows of tables apart. The changes of a table
// with partitions are those of its partitions.
func (s *setup) checkIdentity(ctx context.Context, l *link, tables string) error {
	rows, err := l.query(ctx, `WITH t AS (%s) SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE (c.oid IN (SELECT oid FROM t) OR c.oid IN (SELECT p.relid FROM t, pg_partition_tree(t.oid) p WHERE p.isleaf)) AND c.relkind = 'r'
		AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)) ORDER BY 1, 2`, tables)
	if err != nil || len(rows) == 0 {
		return err
	}
	t := table{rows[0][0], rows[0][1]}
	return refused("tables", "%s has no replica identity: the server would refuse its updates and deletes. Add a primary key, or ALTER TABLE %s REPLICA IDENTITY FULL; "+
		"a publication that you make with publish = 'insert' needs neither", t, t.quoted())
}

// made notes the slot that was made now.
func (s *setup) made(ctx context.Context, l *link) error {
	s.had = true
	if !s.create {
		return nil
	}
	return s.note(ctx, l)
}

// start begins to send changes from a position on.
func (s *setup) start(ctx context.Context, l *link, from pglogrepl.LSN) error {
	err := pglogrepl.StartReplication(ctx, l.PgConn, s.slot, from, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names " + literal(ident(s.publication))},
	})
	if err != nil && code(err) == "" {
		return fmt.Errorf("%w: %w", stream.ErrLost, err)
	}
	return err
}
