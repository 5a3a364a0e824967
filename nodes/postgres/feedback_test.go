package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// TestCDCFeedback holds a message for longer than the server waits for a program, while it has more
// to send than there is room for: nothing is read, and the server hears of the program all the same.
func TestCDCFeedback(t *testing.T) {
	t.Parallel()
	const patience = 4 * time.Second // of the server, of 60 s by default
	s := newSystem(t)
	s.exec(t, item)
	if _, err := connect(t, s.database()).Exec(t.Context(), "ALTER ROLE kit"+s.name+" SET wal_sender_timeout = '"+patience.String()+"'"); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	k := &taken{clock: brisk{}, keys: make(map[string]int), hold: func(v value.Value) {
		if key, _ := v.Get("key"); key.String() == "1" {
			<-gate
		}
	}}
	if err := k.start(t, s.cdc("snapshot: never", "max_in_flight: 1")); err != nil {
		t.Fatal(err)
	}
	open := func() { close(gate) }
	defer func() { open() }()
	k.connected(t)
	s.exec(t, "INSERT INTO item SELECT i, 1 FROM generate_series(1, 50000) i")
	const sender = "FROM pg_stat_replication r JOIN pg_replication_slots p ON p.active_pid = r.pid WHERE p.slot_name = "
	process := s.number(t, "SELECT r.pid "+sender+"'"+s.name+"'")
	begun := s.number(t, "SELECT extract(epoch FROM clock_timestamp())::bigint")
	k.until(t, "the server has heard of the program after its patience", func() bool {
		return s.number(t, "SELECT extract(epoch FROM r.reply_time)::bigint "+sender+"'"+s.name+"'") > begun+int64(patience/time.Second)
	})
	if got := s.number(t, "SELECT r.pid "+sender+"'"+s.name+"'"); got != process || process == 0 {
		t.Errorf("the server has the process %d for the slot, want %d: the connection broke", got, process)
	}
	close(gate)
	open = func() {}
	k.until(t, "all rows", func() bool { return len(k.keys) == 50000 })
	for key, n := range k.keys {
		if n != 1 {
			t.Errorf("the row %s has come %d times", key, n)
		}
	}
}

// number asks for one, as the superuser; 0 if there is no row.
func (s *system) number(t testing.TB, query string) (n int64) {
	t.Helper()
	if _, err := s.conn.Exec(context.Background(), "RESET ROLE"); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.QueryRow(context.Background(), "SELECT coalesce(("+query+"), 0)").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCDCRemoved: when the node is removed, the log says what drops its slot, also of one that is just being made.
func TestCDCRemoved(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, item)
	k := newTaken(t, s.cdc())
	drop := "SELECT pg_drop_replication_slot('" + s.name + "')"
	k.until(t, "there is a slot", func() bool {
		return s.number(t, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+s.name+"'") == 1
	})
	if strings.Contains(k.log.String(), drop) {
		t.Errorf("the log says how to drop a slot that is in use: %s", k.log.String())
	}
	list, err := k.engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte("- {kind: take, name: take}\n")}}})
	if err != nil || list.HasErrors() {
		t.Fatal(err, list)
	}
	k.until(t, "the log says how to drop the slot", func() bool { return strings.Contains(k.log.String(), drop) })
	k.until(t, "the slot is free", func() bool {
		return s.number(t, "SELECT count(*) FROM pg_replication_slots WHERE NOT active AND slot_name = '"+s.name+"'") == 1
	})
	s.exec(t, drop)
}
