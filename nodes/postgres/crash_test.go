package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestCDCServerCrashes kills the server 20 times at random moments, while transactions of up to
// 500 rows are committed and read. In the end each row of the table has come, once: the server
// sends only what is on its disk, and the reader knows each transaction that comes again.
func TestCDCServerCrashes(t *testing.T) {
	t.Parallel()
	for _, commit := range []string{"on", "off"} { // off loses commits of the client, which the reader must not have seen
		t.Run("synchronous_commit="+commit, func(t *testing.T) {
			t.Parallel()
			s := ownSystem(t, append(logical, "synchronous_commit="+commit)...)
			s.exec(t, "CREATE TABLE item (id bigint PRIMARY KEY, round int)")
			k := newTaken(t, s.cdc("snapshot: never", "max_in_flight: 64", "checkpoint: {interval: 20ms}"))
			k.connected(t)
			random, next := rand.New(rand.NewPCG(29, 1)), 1
			for round := range 20 {
				deadline := time.Now().Add(time.Duration(random.IntN(250)) * time.Millisecond)
				var work sync.WaitGroup
				work.Go(func() {
					for {
						first := next
						next += 1 + random.IntN(500) // numbers of a commit that failed are not used again
						if _, err := s.conn.Exec(context.Background(), "INSERT INTO item SELECT i, $3 FROM generate_series($1::bigint, $2::bigint) i", first, next-1, round); err != nil {
							return
						}
					}
				})
				for time.Now().Before(deadline) {
					<-k.tick.C
				}
				s.server.Kill(t)
				work.Wait()
				s.server.Restart(t)
				s.conn = connect(t, s.database())
			}
			k.all(t, s)
		})
	}
}

// all waits until all rows of item have come, and checks that each came once.
func (k *taken) all(t testing.TB, s *system) {
	t.Helper()
	want := make(map[string]int)
	rows, err := s.conn.Query(context.Background(), "SELECT id::text FROM item")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		want[id]++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	s.exec(t, "INSERT INTO item VALUES (0, 0)") // the last of all
	want["0"]++
	k.until(t, "the last row", func() bool { return k.keys["0"] > 0 })
	k.Lock()
	defer k.Unlock()
	if maps.Equal(k.keys, want) {
		return
	}
	var lost, more []string
	for id := range want {
		if k.keys[id] == 0 {
			lost = append(lost, id)
		}
	}
	for id, n := range k.keys {
		if n > want[id] {
			more = append(more, fmt.Sprintf("%s x %d, want %d", id, n, want[id]))
		}
	}
	slices.Sort(lost)
	slices.Sort(more)
	t.Errorf("of %d rows, %d are lost: %v; %d came more often: %v", len(want), len(lost), lost[:min(len(lost), 10)], len(more), more[:min(len(more), 10)])
}
