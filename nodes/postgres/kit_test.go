package postgres_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/postgres"
	"github.com/uniflow-labs/uniflow/value"
)

func kinds() []*node.Def {
	return postgres.Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"})
}

// rowOf returns the row of a change.
func rowOf(payload value.Value) value.Value {
	body, _ := payload.Get("body")
	row, _ := body.Get("row")
	return row
}

func TestCDCKit(t *testing.T) {
	cdcKit(t, map[string]any{"snapshot": "never"})
}

// TestCDCSnapshotKit begins with a snapshot in each row.
func TestCDCSnapshotKit(t *testing.T) {
	cdcKit(t, map[string]any{"snapshot": "initial"})
}

func cdcKit(t *testing.T, more map[string]any) {
	apart := map[streamtest.Row]string{streamtest.Bodies: "Columns have types: there is nothing to decode."}
	if more["snapshot"] == "initial" {
		for _, row := range []streamtest.Row{streamtest.Drain, streamtest.Grace} {
			apart[row] = "A snapshot that was interrupted begins again."
		}
	}
	streamtest.Run(t, streamtest.Subject{
		Kinds:   kinds(),
		Source:  true,
		Body:    rowOf,
		Key:     "self.body.row.key",
		Without: apart,
		System: func(t testing.TB) *streamtest.System {
			var s *system
			if strings.HasSuffix(t.Name(), string(streamtest.Restarts)) {
				s = ownSystem(t, append(logical, "synchronous_commit=on")...)
			} else {
				s = newSystem(t)
			}
			s.exec(t, "CREATE TABLE \"Kit\" (n BIGSERIAL PRIMARY KEY, id BIGINT NOT NULL, key TEXT, seq BIGINT, pad TEXT)")
			if more["snapshot"] == "never" {
				s.exec(t, "CREATE PUBLICATION p FOR TABLE \"Kit\"", "SELECT pg_create_logical_replication_slot('"+s.name+"', 'pgoutput')")
			}
			return &streamtest.System{
				Addr:    s.server.Addr,
				Restart: s.restart,
				Source: func(addr string) map[string]any {
					fields := map[string]any{"kind": "postgres_cdc", "source": s.url(addr), "slot": s.name, "publication": "p", "tables": []string{"Kit"}, "checkpoint": map[string]any{"interval": "50ms"}}
					for name, is := range more {
						fields[name] = is
					}
					return fields
				},
				Produce: func(t testing.TB, messages []streamtest.Message) {
					t.Helper()
					var list []string
					for _, m := range messages {
						list = append(list, string(m.Body))
					}
					// A transaction each: one that is not settled as a whole comes again as a whole.
					text := "DO $do$ DECLARE r json; BEGIN FOR r IN SELECT json_array_elements($j$[" + strings.Join(list, ",") + "]$j$) LOOP " +
						"INSERT INTO \"Kit\" (id, key, seq, pad) VALUES ((r->>'id')::bigint, r->>'key', (r->>'seq')::bigint, r->>'pad'); COMMIT; END LOOP; END $do$"
					if _, err := s.conn.Exec(context.Background(), text); err != nil {
						t.Error(err)
					}
				},
				Refuse: wrong,
			}
		},
	})
}

func TestListenKit(t *testing.T) {
	const lost = "PostgreSQL keeps no notification for a program that is not connected: what comes meanwhile, or was not answered at the end, is lost."
	apart := map[streamtest.Row]string{
		streamtest.Bodies: shortTexts, streamtest.Backlog: shortTexts,
	}
	for _, row := range []streamtest.Row{
		streamtest.Acknowledgement, streamtest.Resets, streamtest.Restarts, streamtest.Changes, streamtest.Drain, streamtest.Grace, streamtest.Kill, streamtest.Durable,
	} {
		apart[row] = lost
	}
	streamtest.Run(t, streamtest.Subject{
		Kinds:   kinds(),
		Source:  true,
		Without: apart,
		System: func(t testing.TB) *streamtest.System {
			s := newSystem(t)
			return &streamtest.System{
				Addr: s.server.Addr,
				Source: func(addr string) map[string]any {
					return map[string]any{"kind": "postgres_listen", "source": s.url(addr), "channels": []string{"Kit"}}
				},
				Produce: newNotifier(t, s).add,
				Refuse:  wrong,
			}
		},
	})
}

const shortTexts = "A notification is text of less than 8000 bytes."

// A notifier sends notifications, in order, when there is a program that listens.
type notifier struct{ queue chan []streamtest.Message }

func newNotifier(t testing.TB, s *system) *notifier {
	t.Helper()
	n := &notifier{queue: make(chan []streamtest.Message, 100_000)}
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { n.run(ctx, t, s.conn) })
	t.Cleanup(func() {
		stop()
		work.Wait()
	})
	return n
}

func (n *notifier) add(_ testing.TB, messages []streamtest.Message) { n.queue <- messages }

func (n *notifier) run(ctx context.Context, t testing.TB, conn *pgx.Conn) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case messages := <-n.queue:
			for there := false; !there; {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				err := conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'").Scan(&there)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
			var b pgx.Batch
			for _, m := range messages {
				b.Queue("SELECT pg_notify('Kit', $1)", string(m.Body))
			}
			if err := conn.SendBatch(ctx, &b).Close(); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}
}
