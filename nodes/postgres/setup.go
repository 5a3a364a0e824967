package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

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
