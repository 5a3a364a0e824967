package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestServe(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "events.db")
	make := `CREATE TABLE events AS SELECT 'u' || i % 7 AS "user", TIMESTAMP '2026-01-05 00:00:00' - to_milliseconds(i) AS "time", CASE WHEN i % 2 = 0 THEN 'KR' END AS country
		FROM range(100) t(i) ORDER BY "user", "time"`
	requests := []request{
		{Op: "query", SQL: "SELECT 1"},
		{Op: "open", DB: db, Write: true, Threads: 2},
		{Op: "exec", SQLs: []string{make, "CHECKPOINT"}},
		{Op: "query", SQL: "SELECT user, time, country FROM events LIMIT 2"},
		{Op: "storm", SQLs: []string{"SELECT 1", "SELECT count(*) FROM events"}, Clients: 3, Rounds: 4, Threads: 1},
		{Op: "open", DB: db},
		{Op: "exec", SQLs: []string{"DROP TABLE events"}},
		{Op: "query", SQL: "SELECT count(*), sum(1.5), [1, 2] FROM events", Threads: 1},
		{Op: "dance"},
		{Op: "close"},
		{Op: "query", SQL: "SELECT 1"},
	}
	var in strings.Builder
	for _, r := range requests {
		if err := json.NewEncoder(&in).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := serve(t.Context(), strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"no database is open: send open first",
		"[[v",
		"[]",
		"[[u0 2026-01-04 23:59:59.902 KR] [u0 2026-01-04 23:59:59.909 <nil>]]",
		"12 rows",
		"[[v",
		"Invalid Input Error",
		"[[100 150 [1 2]]]",
		`op is "dance", want open, exec, query, storm or close`,
		"[]",
		"no database is open: send open first",
	}
	answers := json.NewDecoder(strings.NewReader(out.String()))
	for i := range requests {
		var a answer
		if err := answers.Decode(&a); err != nil {
			t.Fatal(err)
		}
		got := a.Error
		switch {
		case got != "":
		case requests[i].Op == "storm":
			got = fmt.Sprint(len(a.Rows), " rows")
		default:
			got = fmt.Sprint(a.Rows)
		}
		if !strings.HasPrefix(got, want[i]) {
			t.Errorf("request %d: got %s, want %s", i, got, want[i])
		}
		if a.Error == "" && a.ElapsedUS < 0 {
			t.Errorf("request %d: got %d µs", i, a.ElapsedUS)
		}
	}
}
