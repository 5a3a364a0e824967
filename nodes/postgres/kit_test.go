package postgres_test

import (
	"context"
	stdjson "encoding/json"
	"strings"
	"testing"

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

// kitRow is a row of the kit's messages.
type kitRow struct {
	ID  int64  `json:"id"`
	Key string `json:"key"`
	Seq int64  `json:"seq"`
	Pad string `json:"pad"`
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
	streamtest.Run(t, streamtest.Subject{
		Kinds:  kinds(),
		Source: true,
		Body:   rowOf,
		Key:    "self.body.row.key",
		Without: map[streamtest.Row]string{
			streamtest.Bodies: "Columns have types: there is nothing to decode.",
		},
		System: func(t testing.TB) *streamtest.System {
			var s *system
			if strings.HasSuffix(t.Name(), string(streamtest.Restarts)) {
				s = ownSystem(t, logical...)
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
					rows := make([][]any, len(messages))
					for i, m := range messages {
						var r kitRow
						if err := stdjson.Unmarshal(m.Body, &r); err != nil {
							t.Fatal(err)
						}
						rows[i] = []any{r.ID, r.Key, r.Seq, r.Pad}
					}
					if _, err := s.conn.CopyFrom(context.Background(), pgx.Identifier{"Kit"}, []string{"id", "key", "seq", "pad"}, pgx.CopyFromRows(rows)); err != nil {
						t.Error(err)
					}
				},
				Refuse: wrong,
			}
		},
	})
}

func TestListenKit(t *testing.T) {
	apart := map[streamtest.Row]string{
		streamtest.Acknowledgement: keepsNothing, streamtest.Kill: keepsNothing, streamtest.Resets: keepsNothing,
		streamtest.Restarts: keepsNothing, streamtest.Grace: keepsNothing, streamtest.Late: keepsNothing,
		streamtest.Bodies: "A notification is text of at most 8000 bytes.",
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
				Produce: func(t testing.TB, messages []streamtest.Message) {
					t.Helper()
					var b pgx.Batch
					for _, m := range messages {
						b.Queue(`SELECT pg_notify('Kit', $1)`, string(m.Body))
					}
					if err := s.conn.SendBatch(context.Background(), &b).Close(); err != nil {
						t.Error(err)
					}
				},
				Refuse: wrong,
			}
		},
	})
}

const keepsNothing = "PostgreSQL keeps no notification for a program that is not connected."
