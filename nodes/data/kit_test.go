package data_test

import (
	"database/sql"
	stdjson "encoding/json"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/value"
)

// rowsApart are the rows that a file without a server has no use for.
func rowsApart() map[streamtest.Row]string {
	apart := map[streamtest.Row]string{
		streamtest.Password: "SQLite has no passwords. The tests on PostgreSQL have wrong ones.",
	}
	for _, row := range []streamtest.Row{streamtest.Resets, streamtest.BlackHole, streamtest.Slow, streamtest.Restarts, streamtest.Late, streamtest.Outage} {
		apart[row] = "SQLite is a file."
	}
	return apart
}

// kitRow is a row of the kit's messages.
type kitRow struct {
	ID  int64  `json:"id"`
	Key string `json:"key"`
	Seq int64  `json:"seq"`
	Pad string `json:"pad"`
}

// kitTable makes a file with a table m, and returns its path.
func kitTable(t testing.TB) (*sql.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kit.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // what was not closed does not hinder the test
	for _, text := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA busy_timeout = 10000",
		"CREATE TABLE m (n INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, key TEXT, seq INTEGER, pad TEXT)",
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	db.SetMaxOpenConns(1) // the pragma is of the connection
	return db, path
}

func TestSQLSourceKit(t *testing.T) {
	apart := rowsApart()
	apart[streamtest.Bodies] = "Columns have types: there is nothing to decode."
	streamtest.Run(t, streamtest.Subject{
		Kinds:   data.Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"}),
		Source:  true,
		Without: apart,
		System: func(t testing.TB) *streamtest.System {
			db, path := kitTable(t)
			return &streamtest.System{
				Source: func(string) map[string]any {
					return map[string]any{
						"kind": "sql_source", "driver": "sqlite", "source": path,
						"table": "m", "cursor": "n", "track": "positions", "interval": "10ms", "rows": 500,
					}
				},
				Produce: func(t testing.TB, messages []streamtest.Message) {
					t.Helper()
					tx, err := db.Begin()
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range messages {
						var r kitRow
						if err := stdjson.Unmarshal(m.Body, &r); err != nil {
							t.Fatal(err)
						}
						if _, err := tx.Exec("INSERT INTO m (id, key, seq, pad) VALUES (?, ?, ?, ?)", r.ID, r.Key, r.Seq, r.Pad); err != nil {
							t.Fatal(err)
						}
					}
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
				},
			}
		},
	})
}

func TestSQLSinkKit(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:   data.Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"}),
		Sink:    true,
		Without: rowsApart(),
		System: func(t testing.TB) *streamtest.System {
			db, path := kitTable(t)
			return &streamtest.System{
				Sink: func(string) map[string]any {
					return map[string]any{"kind": "sql_sink", "driver": "sqlite", "source": path, "table": "m"}
				},
				Consume: func(t testing.TB) (bodies [][]byte) {
					t.Helper()
					rows, err := db.Query("SELECT id, key, seq, pad FROM m ORDER BY n")
					if err != nil {
						t.Fatal(err)
					}
					defer rows.Close()
					for rows.Next() {
						var r kitRow
						if err := rows.Scan(&r.ID, &r.Key, &r.Seq, &r.Pad); err != nil {
							t.Fatal(err)
						}
						raw, err := stdjson.Marshal(r)
						if err != nil {
							t.Fatal(err)
						}
						bodies = append(bodies, raw)
					}
					if err := rows.Err(); err != nil {
						t.Fatal(err)
					}
					return bodies
				},
				Reject: func() value.Value { // without a value for id
					return value.Map(value.Field{Name: "body", Value: value.Map(value.Field{Name: "pad", Value: value.String("x")})})
				},
			}
		},
	})
}
