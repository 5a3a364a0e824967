package dialogue_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/value"
)

// counter is a workflow that counts the visits of a user, and sends them to the probe "end".
func counter(fields string) string {
	return fmt.Sprintf(`
- {kind: session, name: s, key: self.user, init: {visits: 0}, %s, ports: {out: [{name: load}], error: [{name: failed}]}}
- {kind: recall, name: load, ports: {out: [{name: count}]}}
- {kind: remember, name: count, set: {visits: "${session.visits + 1}", last: "${input.user}"}, ports: {out: [{name: after}]}}
- {kind: recall, name: after, ports: {out: [{name: end}]}}
`, fields)
}

// stores are the fields of each store, for one run of a test.
func stores(t testing.TB) map[string]string {
	table := "t" + strings.ToLower(rand.Text()) // it stays when the test runs again
	return map[string]string{
		"memory":   "store: {table: t}",
		"sqlite":   fmt.Sprintf("store: {driver: sqlite, source: '%s'}", filepath.Join(t.TempDir(), "db")),
		"redis":    fmt.Sprintf("store: {driver: redis, source: 'redis://%s'}", servertest.StartRedis(t, servertest.RedisOptions{}).Addr()),
		"postgres": fmt.Sprintf("store: {driver: postgres, source: 'postgres://postgres@%s/postgres', table: %s}", servertest.Postgres(t).Addr, table),
	}
}

// visits sends as a user, and returns how many visits the workflow counted.
func visits(f *flowtest.Flow, user string) string {
	resp := f.Send("s", value.Map(value.Field{Name: "user", Value: value.String(user)}))
	if resp.IsError() {
		return flowtest.Show(resp)
	}
	session, _ := resp.Payload.Get("session")
	n, _ := session.Get("visits")
	return n.String()
}

func TestSession(t *testing.T) {
	for name, fields := range stores(t) {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.Load(counter("ttl: 1h, " + fields))
			for i, step := range []struct{ user, want string }{{"ann", "1"}, {"ann", "2"}, {"bob", "1"}, {"ann", "3"}} {
				if got := visits(f, step.user); got != step.want {
					t.Fatalf("step %d: got %s, want %s", i, got, step.want)
				}
			}
			f.Probe("end").Do(flowtest.Fail(errors.New("no")))
			visits(f, "ann")
			f.Probe("end").Do(flowtest.Answer(value.Map(value.Field{Name: "status", Value: value.Int(404)})))
			visits(f, "ann")
			f.Probe("end").Do(flowtest.Panic)
			visits(f, "ann")
			f.Probe("end").Do(flowtest.Echo)
			if got := visits(f, "ann"); got != "4" {
				t.Errorf("after processes that failed: got %s visits, want 4", got)
			}
			f.Load(counter("ttl: 1h, max: 100, "+fields) + "- {kind: nop, name: more}\n")
			if got := visits(f, "ann"); !strings.Contains(got, "max is 100") {
				t.Errorf("a session that is too large: got %s", got)
			}
			f.Load(counter("ttl: 1h, " + fields))
			if got := visits(f, "ann"); got != "5" {
				t.Errorf("after a reload: got %s visits, want 5", got)
			}
			f.Sleep(50 * time.Minute)
			if got := visits(f, "ann"); got != "6" {
				t.Errorf("got %s visits, want 6", got)
			}
			f.Sleep(50 * time.Minute)
			if got := visits(f, "ann"); got != "7" {
				t.Errorf("got %s visits, want 7: use renews a session", got)
			}
			f.Sleep(time.Hour)
			if got := visits(f, "ann"); got != "1" {
				t.Errorf("after the ttl: got %s visits, want 1", got)
			}
		})
	}
}

// TestSessionTidy saves a session although those that have expired cannot be removed.
func TestSessionTidy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	f := newFlow(t)
	f.Load(counter(fmt.Sprintf("ttl: 1h, store: {driver: sqlite, source: '%s'}", file)))
	visits(f, "ann")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TRIGGER keep BEFORE DELETE ON uniflow_sessions BEGIN SELECT RAISE(ABORT, 'it stays'); END"); err != nil {
		t.Fatal(err)
	}
	f.Sleep(2 * time.Hour)
	for _, want := range []string{"1", "2"} {
		if got := visits(f, "bob"); got != want {
			t.Errorf("got %s visits, want %s", got, want)
		}
	}
	if !strings.Contains(f.Log(), "it stays") {
		t.Errorf("the log does not say why: %s", f.Log())
	}
}

// TestSessionTurns lets ten processes of one session run concurrently: they take turns, in
// order.
func TestSessionTurns(t *testing.T) {
	for name, fields := range stores(t) {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.Load(counter("queue: 9, " + fields))
			hold := make(chan struct{})
			f.Probe("end").Do(f.Until(hold, flowtest.Echo))
			var calls []*flowtest.Call
			for range 10 {
				calls = append(calls, f.Start("s", value.Map(value.Field{Name: "user", Value: value.String("ann")})))
			}
			f.Probe("end").Wait(1)
			close(hold)
			for i, call := range calls {
				if resp := call.Response(); resp.IsError() {
					t.Errorf("process %d: %s", i, flowtest.Show(resp))
				}
			}
			if got := visits(f, "ann"); got != "11" {
				t.Errorf("got %s visits, want 11: processes have run concurrently", got)
			}
		})
	}
}
