package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/test/oracle"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestServe(t *testing.T) {
	dir := t.TempDir()
	parquet, db := filepath.Join(dir, "events.parquet"), filepath.Join(dir, "events.db")
	maker, err := oracle.Open(t.Context(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	err = maker.Exec(t.Context(), `COPY (SELECT 'u' || i % 7 AS "user", TIMESTAMPTZ '2026-01-05 00:00:00+00' - to_milliseconds(i) AS "time", 'view' AS event, CASE WHEN i % 2 = 0 THEN 'KR' END AS country
		FROM range(100) t(i)) TO '`+parquet+`' (FORMAT parquet)`)
	if err != nil {
		t.Fatal(err)
	}
	if err := maker.Close(); err != nil {
		t.Fatal(err)
	}
	requests := []request{
		{Op: "query", SQL: "SELECT 1"},
		{Op: "load", Parquet: parquet, DB: db, Threads: 2},
		{Op: "query", SQL: "SELECT user, time, country FROM events LIMIT 2"},
		{Op: "query", SQL: "SELECT column_type LIKE 'ENUM%' FROM (DESCRIBE events) WHERE column_name = 'country'"},
		{Op: "storm", SQLs: []string{"SELECT 1", "SELECT count(*) FROM events"}, Clients: 3, Rounds: 4, Threads: 1},
		{Op: "load", Parquet: parquet, DB: db},
		{Op: "open", DB: db},
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
		"no database is open: send load or open first",
		"[[100",
		"[[u0 2026-01-04 23:59:59.902 KR] [u0 2026-01-04 23:59:59.909 <nil>]]",
		"[[true]]",
		"12 rows",
		db + " is already there",
		"[[100",
		"[[100 150 [1 2]]]",
		`op is "dance", want load, open, query, storm or close`,
		"[]",
		"no database is open: send load or open first",
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
