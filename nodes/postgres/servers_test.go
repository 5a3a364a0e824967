package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/servertest"
)

func TestMain(m *testing.M) {
	leak.Main(m, func() {
		if shared.server != nil {
			shared.server.Close()
		}
	})
}

const (
	rightPassword = "right-horse"
	wrongPassword = "wrong-horse"
)

var shared struct {
	sync.Once
	server *servertest.Server
	err    error
}

var names atomic.Int32

// logical are the settings of a server that has logical replication.
var logical = []string{"wal_level=logical", "max_replication_slots=60", "max_wal_senders=60", "max_connections=150", "wal_sender_timeout=20s"}

// A system is a database of a server, which the user kit owns, with a name for its slot.
type system struct {
	server *servertest.Server
	name   string
	conn   *pgx.Conn // of the superuser
}

// newSystem makes a database on the server of all tests.
func newSystem(t testing.TB) *system {
	t.Helper()
	shared.Do(func() { shared.server, shared.err = servertest.StartPostgres(logical...) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return on(t, shared.server)
}

// ownSystem makes a server for a test alone.
func ownSystem(t testing.TB, settings ...string) *system {
	t.Helper()
	server, err := servertest.StartPostgres(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return on(t, server)
}

func on(t testing.TB, server *servertest.Server) *system {
	t.Helper()
	s := &system{server: server, name: fmt.Sprintf("d%d_%d", os.Getpid(), names.Add(1))}
	admin := connect(t, server.PostgresURL())
	role := "kit" + s.name
	var file string
	if err := admin.QueryRow(context.Background(), "SHOW hba_file").Scan(&file); err != nil {
		t.Fatal(err)
	}
	hba.Lock()
	rules, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append([]byte("host all "+role+" 127.0.0.1/32 scram-sha-256\n"), rules...), 0o600)
	}
	hba.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"CREATE USER " + role + " REPLICATION PASSWORD '" + rightPassword + "'", "CREATE DATABASE " + s.name + " OWNER " + role, "SELECT pg_reload_conf()",
	} {
		if _, err := admin.Exec(context.Background(), text); err != nil {
			t.Fatal(err)
		}
	}
	s.conn = connect(t, s.database())
	return s
}

// database is where the superuser connects to.
func (s *system) database() string {
	return strings.Replace(s.server.PostgresURL(), "/postgres?", "/"+s.name+"?", 1)
}

var hba sync.Mutex // rows make systems at the same time

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may have gone
	return conn
}

// url is where the owner of the database connects to.
func (s *system) url(addr string) string {
	return "postgres://kit" + s.name + ":" + rightPassword + "@" + addr + "/" + s.name + "?sslmode=disable"
}

func (s *system) exec(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := s.conn.Exec(context.Background(), "SET ROLE kit"+s.name+";"+text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// restart ends the server as a crash does, and starts it.
func (s *system) restart(t testing.TB) {
	t.Helper()
	s.server.Kill(t)
	s.server.Restart(t)
	s.conn = connect(t, s.database())
}

// wrong changes the password.
func wrong(fields map[string]any) (field, secret string) {
	fields["source"] = strings.Replace(fields["source"].(string), rightPassword, wrongPassword, 1)
	return "source", wrongPassword
}
