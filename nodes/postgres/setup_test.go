package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/uniflow-labs/uniflow/value"
)

const item = "CREATE TABLE item (id bigint PRIMARY KEY, round int)"

// refused starts a document, and checks the error at its start.
func refused(t *testing.T, doc string, wants ...string) {
	t.Helper()
	k := &taken{keys: make(map[string]int)}
	text := fmt.Sprint(k.start(t, doc))
	k.stop()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %s in it", text, want)
		}
	}
	if strings.Contains(text, rightPassword) {
		t.Errorf("the password is in %s", text)
	}
}

// TestCDCRefusals: what a server lacks is an error at the start, with the field, and with what helps.
func TestCDCRefusals(t *testing.T) {
	t.Parallel()
	t.Run("slot", func(t *testing.T) {
		s := newSystem(t)
		s.exec(t, item, "CREATE PUBLICATION p FOR TABLE item")
		refused(t, s.cdc("create: false"), "slot", "there is no slot "+s.name, "pg_create_logical_replication_slot")
	})
	t.Run("publication", func(t *testing.T) {
		s := newSystem(t)
		s.exec(t, item)
		refused(t, s.cdc("create: false"), "publication", "there is no publication p", `CREATE PUBLICATION "p"`)
	})
	t.Run("table of the publication", func(t *testing.T) {
		s := newSystem(t)
		s.exec(t, item, "CREATE TABLE other (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE other")
		refused(t, s.cdc("create: false"), "tables", "public.item is not in the publication", "ADD TABLE")
	})
	t.Run("table", func(t *testing.T) { refused(t, newSystem(t).cdc(), "tables", "item") })
	t.Run("replica identity", func(t *testing.T) {
		s := newSystem(t)
		s.exec(t, "CREATE TABLE item (id int)")
		refused(t, s.cdc(), "tables", "public.item has no replica identity", "REPLICA IDENTITY FULL")
		s.exec(t, "UPDATE item SET id = 1") // the tables are as before
	})
	t.Run("replication", func(t *testing.T) {
		s := newSystem(t)
		if _, err := s.conn.Exec(t.Context(), "ALTER ROLE kit"+s.name+" NOREPLICATION"); err != nil {
			t.Fatal(err)
		}
		refused(t, s.cdc(), "source", "ALTER ROLE \"kit"+s.name+"\" REPLICATION")
	})
	t.Run("owner", func(t *testing.T) {
		s := newSystem(t)
		if _, err := s.conn.Exec(t.Context(), item); err != nil { // of the superuser
			t.Fatal(err)
		}
		refused(t, s.cdc(), "publication", "let a role with the right run it: CREATE PUBLICATION")
	})
	t.Run("wal_level", func(t *testing.T) {
		s := ownSystem(t)
		s.exec(t, item)
		refused(t, s.cdc(), "source", "wal_level = replica", "ALTER SYSTEM SET wal_level = logical")
	})
	t.Run("all slots", func(t *testing.T) {
		s := ownSystem(t, "wal_level=logical", "max_replication_slots=1")
		s.exec(t, item, "SELECT pg_create_logical_replication_slot('other', 'pgoutput')")
		refused(t, s.cdc(), "slot", "all 1 slots of the server are in use", "max_replication_slots")
	})
}

// TestCDCLostSlot: a slot that was dropped while the program was away is an error, and what the
// user has written about the publication stays; with the statement of the error it begins again.
func TestCDCLostSlot(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, item, "INSERT INTO item VALUES (1, 1)", "CREATE PUBLICATION p FOR TABLE item", "COMMENT ON PUBLICATION p IS 'For the search.\nOwner: Ann'")
	k := newTaken(t, s.cdc())
	k.until(t, "the snapshot", func() bool { return k.keys["1"] == 1 })
	s.exec(t, "INSERT INTO item VALUES (2, 1)")
	k.until(t, "a change", func() bool { return k.keys["2"] == 1 })
	k.stop()
	if got, want := s.comment(t), "For the search.\nOwner: Ann\nuniflow slots: "+s.name+"@1"; got != want {
		t.Errorf("the comment is %q, want %q", got, want)
	}
	// The server notices a little later that the program has gone.
	s.exec(t, "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_replication_slots WHERE active AND slot_name = '"+s.name+"') LOOP PERFORM pg_sleep(0.01); END LOOP; END $$")
	s.exec(t, "INSERT INTO item VALUES (3, 1)", "SELECT pg_drop_replication_slot('"+s.name+"')")
	refused(t, s.cdc(), "the slot is gone", `COMMENT ON PUBLICATION "p" IS 'For the search.`)
	s.exec(t, "COMMENT ON PUBLICATION p IS 'For the search.\nOwner: Ann'")
	k = newTaken(t, s.cdc())
	k.until(t, "the snapshot of all", func() bool { return len(k.keys) == 3 })
}

// TestCDCSlotOfAnotherTimeline: a slot that was made by hand on a standby that has taken over does
// not have the changes before that.
func TestCDCSlotOfAnotherTimeline(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, item, "CREATE PUBLICATION p FOR TABLE item", "COMMENT ON PUBLICATION p IS 'uniflow slots: "+s.name+"@0'", "SELECT pg_create_logical_replication_slot('"+s.name+"', 'pgoutput')")
	refused(t, s.cdc(), "slot", "a standby has taken over", "To go on without them: COMMENT ON PUBLICATION")
	s.exec(t, "COMMENT ON PUBLICATION p IS NULL")
	newTaken(t, s.cdc()).connected(t)
}

// TestCDCNotesTogether: slots that are noted at the same time are all noted.
func TestCDCNotesTogether(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, item, "CREATE PUBLICATION p FOR TABLE item")
	var work sync.WaitGroup
	for i := range 8 {
		s.exec(t, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s_%d', 'pgoutput')", s.name, i))
	}
	for i := range 8 {
		doc := strings.Replace(s.cdc(), "slot: "+s.name, fmt.Sprintf("slot: %s_%d", s.name, i), 1)
		work.Go(func() {
			k := &taken{keys: make(map[string]int)}
			if err := k.start(t, doc); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	comment := s.comment(t)
	for i := range 8 {
		if name := fmt.Sprintf("%s_%d@1", s.name, i); !strings.Contains(comment, name) {
			t.Errorf("the comment is %q, want %s in it", comment, name)
		}
	}
}

func (s *system) comment(t testing.TB) (text string) {
	t.Helper()
	if err := s.conn.QueryRow(context.Background(), "SELECT coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication").Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// lsn asks for a position, as a number.
func (s *system) lsn(t testing.TB, what string) (at int64) {
	t.Helper()
	err := s.conn.QueryRow(context.Background(), "SELECT coalesce(("+what+") - '0/0'::pg_lsn, 0)::bigint").Scan(&at)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return at
}

func (s *system) confirmed() string {
	return "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '" + s.name + "'"
}

// TestCDCIdle: the slot moves although only other tables change, and a message that waits holds it.
func TestCDCIdle(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, item, "CREATE TABLE other (id bigint PRIMARY KEY)")
	gate := make(chan struct{})
	k := &taken{clock: brisk{}, keys: make(map[string]int), hold: func(v value.Value) {
		if key, _ := v.Get("key"); key.String() == "2" {
			<-gate
		}
	}}
	if err := k.start(t, s.cdc("checkpoint: {interval: 10ms}", "max_lag: 1")); err != nil {
		t.Fatal(err)
	}
	k.connected(t)
	s.exec(t, "INSERT INTO item VALUES (1, 1)")
	k.until(t, "a change", func() bool { return k.keys["1"] == 1 })
	s.exec(t, "INSERT INTO other SELECT generate_series(1, 10000)")
	at := s.lsn(t, "SELECT pg_current_wal_lsn()")
	k.until(t, "the slot moves", func() bool { return s.lsn(t, s.confirmed()) >= at })

	s.exec(t, "INSERT INTO item VALUES (2, 1)")
	before := s.lsn(t, "SELECT pg_current_wal_insert_lsn()")
	s.exec(t, "INSERT INTO other SELECT generate_series(10001, 20000)")
	k.until(t, "the program is not ready: the lag is more than max_lag", func() bool {
		reasons := k.engine.Ready()
		return len(reasons) == 1 && strings.Contains(reasons[0].Error(), fmt.Sprintf("keeps %.0f bytes of WAL on the disk of the server, more than max_lag", k.lag()))
	})
	if got := s.lsn(t, s.confirmed()); got > before {
		t.Errorf("the slot is at %d, behind the message that waits (%d)", got, before)
	}
	close(gate)
	at = s.lsn(t, "SELECT pg_current_wal_lsn()")
	k.until(t, "the slot moves again", func() bool { return s.lsn(t, s.confirmed()) >= at })
}

// lag is the metric of the bytes that the slot keeps.
func (k *taken) lag() float64 {
	for _, figure := range k.engine.Metrics().Figures {
		if figure.Metric.Name == "source_lag_bytes" {
			return figure.Metric.Value
		}
	}
	return -1
}

// TestCDCTakeover: a second program waits for the slot, and goes on when the connection of the first is gone.
func TestCDCTakeover(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, item)
	first := newTaken(t, s.cdc())
	first.connected(t)
	s.exec(t, "INSERT INTO item VALUES (1, 1)")
	first.until(t, "a change", func() bool { return first.keys["1"] == 1 })
	second := newTaken(t, s.cdc())
	second.until(t, "the second waits", func() bool {
		reasons := second.engine.Ready()
		return len(reasons) == 1 && strings.Contains(reasons[0].Error(), "is in use by process")
	})
	first.stop()
	s.exec(t, "INSERT INTO item VALUES (2, 1)")
	second.until(t, "the second goes on", func() bool { return second.keys["2"] == 1 })
	if second.keys["1"] != 0 {
		t.Error("a change came again that was settled")
	}
}
