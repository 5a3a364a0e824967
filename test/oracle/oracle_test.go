package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/leak"
	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/trail/trailtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// tolerance is how far numbers may be apart, relative to the larger.
const tolerance = 1e-9

// seeds returns how many cases are drawn.
func seeds(t *testing.T) uint64 {
	if s := os.Getenv("TRAIL_SEEDS"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TRAIL_SEEDS: %v", err)
		}
		return n
	}
	return 60
}

// TestDuckDB compares the answers of DuckDB to random questions with those of the
// reference.
func TestDuckDB(t *testing.T) {
	asked, refused := map[string]int{}, map[string]int{}
	for seed := range seeds(t) {
		c := trailtest.Draw(seed, trailtest.DrawOptions{Users: 30, Events: 400, Queries: 10})
		db := load(t, c)
		for i, q := range c.Queries {
			if err := q.Check(); err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			s, err := dialect.Compile(dialect.DuckDB, q, c.Schema)
			if unsupported := (*dialect.UnsupportedError)(nil); errors.As(err, &unsupported) {
				refused[unsupported.Construct]++
				continue
			} else if err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			asked[kind(q)]++
			os.WriteFile("/tmp/dk/last.sql", []byte(s.SQL+";"), 0o666)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			rows, err := db.Query(ctx, s.SQL)
			cancel()
			if err != nil {
				t.Errorf("seed %d, query %d: %v\n%s", seed, i, err, s.SQL)
				continue
			}
			got, err := s.Answer(rows)
			if err != nil {
				t.Errorf("seed %d, query %d: %v\n%s", seed, i, err, s.SQL)
				continue
			}
			want, err := trailtest.Answer(c.Events, c.Schema, q, c.Cohorts)
			if err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			if err := trailtest.Equal(want, got, tolerance); err != nil {
				t.Errorf("seed %d, query %d (%s): want and got: %v\n%s", seed, i, kind(q), err, s.SQL)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d seeds: asked %v, refused %v", seeds(t), asked, refused)
}

func kind(q *query.Query) string {
	switch {
	case q.Funnel != nil:
		return "funnel"
	case q.Retention != nil:
		return "retention"
	case q.Segment != nil:
		return "segment"
	case q.Cohort != nil:
		return "cohort"
	}
	return "paths"
}

// load makes a database of the events of a case. What may be so or so in the table
// is drawn: whether strings are ENUM, and whether missing ones are empty or NULL.
func load(t *testing.T, c trailtest.Case) *DB {
	t.Helper()
	db, err := Open(t.Context(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(c.Seed, 1))
	do := func(statement string) {
		t.Helper()
		if err := db.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%v\n%s", err, statement)
		}
	}
	do("SET GLOBAL threads = 2")
	enum := func(name string, values []string) string {
		slices.Sort(values)
		values = slices.Compact(values)
		if len(values) == 0 || r.IntN(2) == 0 {
			return "VARCHAR"
		}
		for i := range values {
			values[i] = quote(values[i])
		}
		do(`CREATE TYPE "values of ` + name + `" AS ENUM (` + strings.Join(values, ", ") + ")")
		return `"values of ` + name + `"`
	}
	var names []string
	for _, e := range c.Events {
		names = append(names, e.Name)
	}
	columns := []string{`"user" VARCHAR`, `"time" TIMESTAMP`, "event " + enum("event", names)}
	empty := make([]string, len(c.Schema))
	for i, f := range c.Schema {
		kind := map[event.Type]string{event.Int: "BIGINT", event.Float: "DOUBLE", event.Bool: "BOOLEAN"}[f.Type]
		empty[i] = "NULL"
		if f.Type == event.String {
			var values []string
			if r.IntN(2) == 0 {
				empty[i] = "''"
				values = append(values, "")
			}
			for _, e := range c.Events {
				for _, p := range e.Properties {
					if p.Name == f.Name && !p.Value.Missing() {
						values = append(values, p.Value.Text())
					}
				}
			}
			kind = enum(f.Name, values)
		}
		columns = append(columns, fmt.Sprintf("%q %s", f.Name, kind))
	}
	do("CREATE TABLE events (" + strings.Join(columns, ", ") + ")")
	rows := tuples(c, empty)
	if len(rows) > 0 {
		do("INSERT INTO events VALUES\n" + strings.Join(rows, ",\n"))
	}
	return db
}

// tuples returns the events of a case as SQL, each once.
func tuples(c trailtest.Case, empty []string) []string {
	type key struct {
		user string
		time int64
		id   string
	}
	seen := map[key]bool{}
	var rows []string
	for _, e := range c.Events {
		if k := (key{e.User, e.Time, e.ID}); e.ID != "" {
			if seen[k] {
				continue
			}
			seen[k] = true
		}
		row := []string{quote(e.User), "TIMESTAMP '" + time.UnixMilli(e.Time).UTC().Format("2006-01-02 15:04:05.000") + "'", quote(e.Name)}
		for i, f := range c.Schema {
			value := empty[i]
			for _, p := range e.Properties {
				if p.Name != f.Name {
					continue
				}
				value = empty[i]
				switch v, _ := p.Value.As(f.Type); v.Type() {
				case event.String:
					value = quote(v.Text())
				case event.Float:
					value = strconv.FormatFloat(v.Float(), 'e', -1, 64) + "::DOUBLE"
				case event.Int, event.Bool:
					value = v.String()
				}
			}
			row = append(row, value)
		}
		rows = append(rows, "("+strings.Join(row, ", ")+")")
	}
	return rows
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
