package data_test

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/data"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	rightPassword = "right-horse"
	wrongPassword = "wrong-horse"
)

// overNetwork are the rows that do not depend on the database.
func overNetwork() map[streamtest.Row]string {
	apart := map[streamtest.Row]string{
		streamtest.Restarts: "Tests share the server.",
		streamtest.Bodies:   "Columns have types: there is nothing to decode.",
	}
	for _, row := range []streamtest.Row{
		streamtest.Errors, streamtest.Order, streamtest.OrderOfBatches, streamtest.Backlog, streamtest.Drain, streamtest.Poison, streamtest.Kill,
	} {
		apart[row] = "The tests on SQLite have it."
	}
	return apart
}

var (
	kitTables atomic.Int32
	kitUser   sync.Once
)

// A kitServer is a table of PostgreSQL, and a user who needs a password.
type kitServer struct {
	conn  *pgx.Conn
	addr  string
	table string
}

func newKitServer(t testing.TB) *kitServer {
	t.Helper()
	s := &kitServer{addr: servertest.Postgres(t).Addr, table: fmt.Sprintf("kit_%d", kitTables.Add(1))}
	ctx := context.Background()
	var err error
	if s.conn, err = pgx.Connect(ctx, postgres(t).source); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.conn.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	kitUser.Do(func() { s.needPassword(t) })
	s.exec(t, "CREATE TABLE "+s.table+" (n BIGSERIAL PRIMARY KEY, id BIGINT NOT NULL, key TEXT, seq BIGINT, pad TEXT)")
	s.exec(t, "GRANT ALL ON "+s.table+" TO kit; GRANT ALL ON SEQUENCE "+s.table+"_n_seq TO kit")
	return s
}

func (s *kitServer) exec(t testing.TB, text string, args ...any) pgconn.CommandTag {
	t.Helper()
	tag, err := s.conn.Exec(context.Background(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return tag
}

// needPassword makes a user that the server asks for a password.
func (s *kitServer) needPassword(t testing.TB) {
	t.Helper()
	s.exec(t, "CREATE USER kit PASSWORD '"+rightPassword+"'")
	s.exec(t, "GRANT ALL ON SCHEMA public TO kit")
	var file string
	if err := s.conn.QueryRow(context.Background(), "SHOW hba_file").Scan(&file); err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("host all kit 127.0.0.1/32 scram-sha-256\n"), rules...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.exec(t, "SELECT pg_reload_conf()")
}

func (s *kitServer) url(addr string) string {
	return "postgres://kit:" + rightPassword + "@" + addr + "/postgres?sslmode=disable"
}

// wrong changes the password.
func wrong(fields map[string]any) (field, secret string) {
	fields["source"] = strings.Replace(fields["source"].(string), rightPassword, wrongPassword, 1)
	return "source", wrongPassword
}

func TestPostgresSourceKit(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:   data.Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"}),
		Source:  true,
		Without: overNetwork(),
		System: func(t testing.TB) *streamtest.System {
			s, dir := newKitServer(t), t.TempDir()
			return &streamtest.System{
				Addr: s.addr,
				Source: func(addr string) map[string]any {
					return map[string]any{
						"kind": "sql_source", "driver": "postgres", "source": s.url(addr),
						"table": s.table, "cursor": "n", "interval": "10ms", "rows": 500,
						"checkpoint": map[string]any{"file": filepath.Join(dir, "positions"), "interval": "50ms"},
					}
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
					if _, err := s.conn.CopyFrom(context.Background(), pgx.Identifier{s.table}, []string{"id", "key", "seq", "pad"}, pgx.CopyFromRows(rows)); err != nil {
						t.Fatal(err)
					}
				},
				Refuse: wrong,
			}
		},
	})
}

func TestPostgresSinkKit(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds:   data.Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"}),
		Sink:    true,
		Without: overNetwork(),
		System: func(t testing.TB) *streamtest.System {
			s := newKitServer(t)
			return &streamtest.System{
				Addr: s.addr,
				Sink: func(addr string) map[string]any {
					return map[string]any{"kind": "sql_sink", "driver": "postgres", "source": s.url(addr), "table": s.table, "mode": "copy", "timeout": "5s"}
				},
				Consume: func(t testing.TB) (bodies [][]byte) {
					t.Helper()
					rows, err := s.conn.Query(context.Background(), "SELECT id, key, seq, pad FROM "+s.table+" ORDER BY n")
					if err != nil {
						t.Fatal(err)
					}
					all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[kitRow])
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range all {
						raw, err := stdjson.Marshal(r)
						if err != nil {
							t.Fatal(err)
						}
						bodies = append(bodies, raw)
					}
					return bodies
				},
				Reject: func() value.Value { // without a value for id
					return value.Map(value.Field{Name: "body", Value: value.Map(value.Field{Name: "pad", Value: value.String("x")})})
				},
				Refuse: wrong,
			}
		},
	})
}

// TestStreamsRefused stops the start with the place of the field, if the database refuses to
// be connected to, and shows no secret.
func TestStreamsRefused(t *testing.T) {
	maria := mariadb(t)
	e := engine(t, maria.node("n"))
	must(t, e, "n", "CREATE OR REPLACE USER kit IDENTIFIED BY '"+rightPassword+"'")
	of := newKitServer(t)
	mine := "kit:" + wrongPassword + "@" + strings.TrimPrefix(maria.source, "root@")
	for what, d := range map[string]database{
		"a wrong password of PostgreSQL": {"postgres", strings.Replace(of.url(of.addr), rightPassword, wrongPassword, 1)},
		"a wrong password of MariaDB":    {"mysql", mine},
		"a folder in place of a file":    {"sqlite", t.TempDir()},
	} {
		for _, document := range []string{d.sink("s", "table: t"), d.rows("table: t", "cursor: id")} {
			kind, _, _ := strings.Cut(document[2:], ",")
			log, _, err := served(t, document)
			if got := fmt.Sprint(err); !strings.Contains(got, "w.yaml:1:") || !strings.Contains(got, "source: ") || strings.Contains(got+log, "horse") {
				t.Errorf("%s: %s: got %s, and the log %s", kind, what, got, log)
			}
		}
	}
}

// served applies a document, and returns what it has logged, and why it is not ready.
func served(t *testing.T, document string) (log, reasons string, failed error) {
	t.Helper()
	var k taken
	var out syncbuffer.Buffer
	e, err := uniflow.New(uniflow.Options{Kinds: append(std.Defs(""), k.def()), Log: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(document)}}})
	if list.HasErrors() {
		err = errors.Join(list, err)
	}
	reasons = fmt.Sprint(e.Ready())
	if err := e.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	return out.String(), reasons, err
}

// TestStreamsUnreachable starts without the database, which the log reports without the
// password, and is not ready.
func TestStreamsUnreachable(t *testing.T) {
	addr := freeport.Addr(t)
	for _, d := range []database{
		{"postgres", "postgres://kit:" + rightPassword + "@" + addr + "/shop?sslmode=disable"},
		{"mysql", "kit:" + rightPassword + "@tcp(" + addr + ")/shop"},
	} {
		for _, document := range []string{d.sink("s", "table: t"), d.rows("table: t", "cursor: id"), d.rows("table: t", "cursor: id", "track: p")} {
			kind, _, _ := strings.Cut(document[2:], ",")
			log, reasons, err := served(t, document)
			if err != nil {
				t.Errorf("%s of %s: %v", kind, d.driver, err)
			}
			if all := log + reasons; !strings.Contains(log, "level=WARN") || !strings.Contains(log, addr) || !strings.Contains(reasons, "w.yaml:1:") || strings.Contains(all, "horse") {
				t.Errorf("%s of %s: got log %s and reasons %s", kind, d.driver, log, reasons)
			}
		}
	}
}
