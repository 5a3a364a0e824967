package dialect_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

func TestMain(m *testing.M) { leak.Main(m) }

var update = flag.Bool("update", false, "write testdata/clickhouse/*.sql and testdata/duckdb/*.sql again")

// A document is a query of testdata/queries.txt.
type document struct{ name, yaml string }

func documents(t *testing.T) []document {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "queries.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var list []document
	for _, part := range strings.Split(string(src), "\n== ")[1:] {
		name, yaml, _ := strings.Cut(part, "\n")
		list = append(list, document{name, yaml})
	}
	return list
}

// shop returns the events of the small shop. Purchases have two properties more:
// quantity, an integer, and paid, a boolean.
func shop(t *testing.T) ([]event.Event, event.Schema) {
	t.Helper()
	text, err := os.ReadFile("../../examples/shop.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	schema := event.Schema{{Name: "quantity", Type: event.Int}, {Name: "paid", Type: event.Bool}}
	for _, name := range lines[0][3:] {
		kind := event.String
		if name == "price" {
			kind = event.Float
		}
		schema = append(schema, event.Field{Name: name, Type: kind})
	}
	var events []event.Event
	for i, line := range lines[1:] {
		at, err := time.Parse(time.RFC3339, line[1])
		if err != nil {
			t.Fatal(err)
		}
		e := event.Event{User: line[0], Time: at.UnixMilli(), Name: line[2]}
		for k, name := range lines[0][3:] {
			value := event.StringOf(line[3+k])
			if name == "price" && line[3+k] != "" {
				f, err := strconv.ParseFloat(line[3+k], 64)
				if err != nil {
					t.Fatal(err)
				}
				value = event.FloatOf(f)
			}
			e.Properties = append(e.Properties, event.Property{Name: name, Value: value})
		}
		if e.Name == "purchase" {
			if i%7 != 0 {
				e.Properties = append(e.Properties, event.Property{Name: "quantity", Value: event.IntOf(int64(1 + i%3))})
			}
			if i%5 != 0 {
				e.Properties = append(e.Properties, event.Property{Name: "paid", Value: event.BoolOf(i%2 == 0)})
			}
		}
		events = append(events, e)
	}
	return events, schema
}

func TestGolden(t *testing.T) {
	_, schema := shop(t)
	for _, d := range []dialect.Dialect{dialect.ClickHouse, dialect.DuckDB} {
		golden(t, d, "table", dialect.Table(d, schema))
	}
	for _, doc := range documents(t) {
		q, err := query.Parse(doc.name, []byte(doc.yaml))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []dialect.Dialect{dialect.ClickHouse, dialect.DuckDB} {
			s, err := dialect.Compile(d, q, schema)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, d, doc.name, s.SQL)
		}
	}
}

// golden compares SQL with the file that has it.
func golden(t *testing.T, d dialect.Dialect, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", strings.ToLower(d.String()), name+".sql")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s of %s: got\n%s\nwant %s:\n%s", d, name, got, path, want)
	}
}

// TestRecorded reads the rows that ClickHouse has answered.
func TestRecorded(t *testing.T) {
	events, schema := shop(t)
	read := 0
	for _, doc := range documents(t) {
		q, err := query.Parse(doc.name, []byte(doc.yaml))
		if err != nil {
			t.Fatal(err)
		}
		among := events
		if q.Sample < 1 {
			// The sample is the one that trail takes; the reference takes none.
			among = slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return event.Hash(e.User) > uint64(q.Sample*(1<<63)*2) })
			q.Sample = 1
		}
		s, err := dialect.Compile(dialect.ClickHouse, q, schema)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(filepath.Join("testdata", "clickhouse", doc.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(file)
		dec.UseNumber()
		var rows [][]any
		err = dec.Decode(&rows)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatalf("%s: %v", doc.name, err)
		}
		got, err := s.Answer(rows)
		if err != nil {
			t.Errorf("%s: %v", doc.name, err)
			continue
		}
		read++
		want, err := trailtest.Answer(among, schema, q, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := trailtest.Equal(want, got, 1e-9); err != nil {
			t.Errorf("%s: want and got: %v", doc.name, err)
		}
	}
	if read < 40 {
		t.Errorf("%d answers were read, want 40 or more", read)
	}
}
