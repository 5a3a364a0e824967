package data_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// sink is a spec of a sql_sink on a database.
func (d database) sink(name string, fields ...string) string {
	return fmt.Sprintf("- {kind: sql_sink, name: %s, driver: %s, source: '%s'%s}\n", name, d.driver, d.source, strings.Join(append([]string{""}, fields...), ", "))
}

// TestSinkModes writes rows in each mode to each database.
func TestSinkModes(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		modes := []string{"insert", "upsert, keys: [id]"}
		if d.driver == "postgres" {
			modes = append(modes, "copy")
		}
		for _, mode := range modes {
			e := engine(t, d.node("n")+d.sink("sink", "table: item", "mode: "+mode))
			must(t, e, "n", "DROP TABLE IF EXISTS item", "CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(200) DEFAULT 'none', n DOUBLE PRECISION)")
			f := func(in, want string) {
				t.Helper()
				if got := send(t, e, "sink", json(t, in)); !strings.HasPrefix(got, want) {
					t.Errorf("%s: %s: got %s, want %s", mode, in, got, want)
				}
			}
			f(`{"id": 1, "name": "a\tb\\n\nc", "n": 1.5}`, "null")
			f(`{"body": {"id": 2, "name": "b"}}`, "null")
			f(`[{"id": 3}, {"body": {"id": 4, "n": null}}]`, "null")
			f(`"text"`, "error: want a map with a field for each column, got a string [bad_query]")
			f(`{}`, "error: the body has no fields")
			f(`{"id": 5, "no_such": 1}`, "error: ")
			f(`{"id": 5, "n": "text"}`, map[bool]string{true: "null", false: "error: "}[d.driver == "sqlite"])
			got := send(t, e, "n", value.String("SELECT id, name, n FROM item WHERE id < 5 ORDER BY id"))
			want := `[{"id":1,"name":"a\tb\\n\nc","n":1.5},{"id":2,"name":"b","n":null},{"id":3,"name":"none","n":null},{"id":4,"name":"none","n":null}]`
			if got != want {
				t.Errorf("%s: got  %s\nwant %s", mode, got, want)
			}
			if mode == "insert" || mode == "copy" {
				f(`{"id": 1, "name": "z"}`, "error: ")
				continue
			}
			f(`[{"id": 1, "name": "x"}, {"id": 1, "name": "y"}, {"id": 6, "name": "six"}]`, "null")
			f(`{"id": 6}`, "null") // the key alone
			got = send(t, e, "n", value.String("SELECT id, name, n FROM item WHERE id IN (1, 6) ORDER BY id"))
			if want := `[{"id":1,"name":"y","n":1.5},{"id":6,"name":"six","n":null}]`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})
}

// TestSinkColumns writes the columns that are named, with NULL for what is missing.
func TestSinkColumns(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		e := engine(t, d.node("n")+d.sink("sink", "table: wide", "columns: [b, a]"))
		must(t, e, "n", "DROP TABLE IF EXISTS wide", "CREATE TABLE wide (a VARCHAR(20), b VARCHAR(20), c VARCHAR(20) DEFAULT 'c')")
		for _, in := range []string{`{"a": "1", "b": "2", "c": "3", "d": "4"}`, `{"b": "5"}`, `{}`} {
			if got := send(t, e, "sink", json(t, in)); got != "null" {
				t.Errorf("%s: got %s", in, got)
			}
		}
		got := send(t, e, "n", value.String("SELECT a, b, c FROM wide"))
		if want := `[{"a":"1","b":"2","c":"c"},{"a":null,"b":"5","c":"c"},{"a":null,"b":null,"c":"c"}]`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// TestSinkHalves finds the rows that a database refuses among many.
func TestSinkHalves(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		modes := []string{"insert", "upsert, keys: [id]"}
		if d.driver == "postgres" {
			modes = append(modes, "copy")
		}
		for _, mode := range modes {
			e := engine(t, d.node("n")+d.sink("sink", "table: strict", "batch: {count: 1000, linger: 50ms}", "mode: "+mode))
			must(t, e, "n", "DROP TABLE IF EXISTS strict", "CREATE TABLE strict (id INTEGER PRIMARY KEY, name VARCHAR(10) NOT NULL)")
			var refused atomic.Int64
			var all sync.WaitGroup
			for i := range 1000 {
				all.Go(func() {
					bad := i == 17 || i == 990
					name := value.String("ok")
					if bad {
						name = value.Null()
					}
					_, _, err := e.Run(t.Context(), "sink", value.Map(value.Field{Name: "id", Value: value.Int(int64(i))}, value.Field{Name: "name", Value: name}))
					switch {
					case (err != nil) != bad:
						t.Errorf("%s: row %d: got error %v", mode, i, err)
					case err != nil && node.Describe(err).Code == "not_null":
						refused.Add(1)
					}
				})
			}
			all.Wait()
			got := send(t, e, "n", value.String("SELECT count(*) AS n FROM strict"))
			if refused.Load() != 2 || got != `[{"n":998}]` {
				t.Errorf("%s: %d refused, and %s rows written; want 2 and 998", mode, refused.Load(), got)
			}
		}
	})
}

// TestSinkTypes copies values into columns of PostgreSQL as arguments would go there.
func TestSinkTypes(t *testing.T) {
	d := postgres(t)
	e := engine(t, d.node("n")+d.sink("sink", "table: typed", "mode: copy"))
	must(t, e, "n", "DROP TABLE IF EXISTS typed", "CREATE TABLE typed (a int[], b jsonb, c timestamptz, d numeric, e bool, f bytea, g text, h int)")
	in := `{"a": [1, null, 3], "b": {"x": ["a\tb", "\\"]}, "c": "2024-02-29T10:00:00Z", "d": "12345678901234567890.5", "e": true, "g": "\\N", "h": 5.0}`
	if got := send(t, e, "sink", json(t, in).With("f", value.Binary([]byte{0, '\\', '\n'}))); got != "null" {
		t.Fatal(got)
	}
	got := send(t, e, "n", value.String("SELECT * FROM typed"))
	if want := `[{"a":[1,null,3],"b":{"x":["a\tb","\\"]},"c":"2024-02-29T10:00:00Z","d":"12345678901234567890.5","e":true,"f":"AFwK","g":"\\N","h":5}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for in, want := range map[string]string{
		`{"h": "x"}`:         "invalid input syntax for type integer: \"x\" (SQLSTATE 22P02) [data]",
		`{"h": 99999999999}`: "is out of range for type integer (SQLSTATE 22003) [data]",
		`{"g": "a\u0000b"}`:  "invalid byte sequence for encoding \"UTF8\": 0x00 (SQLSTATE 22021) [data]",
	} {
		if got := send(t, e, "sink", json(t, in)); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// TestSinkCopyForms copies the same values in the binary form and, next to a column that it
// does not know, as texts.
func TestSinkCopyForms(t *testing.T) {
	d := postgres(t)
	e := engine(t, d.node("n")+d.sink("binary", "table: forms", "mode: copy")+d.sink("text", "table: forms_text", "mode: copy"))
	const columns = "a smallint, b int, c bigint, d double precision, e bool, f bytea, g text, h varchar(5)"
	must(t, e, "n", "DROP TABLE IF EXISTS forms, forms_text", "CREATE TABLE forms ("+columns+")", "CREATE TABLE forms_text ("+columns+", i numeric)")
	for i, in := range []string{
		`{"a": -32768, "b": 2147483647, "c": 9223372036854775807, "d": 0.1, "e": true, "g": "", "h": "é"}`,
		`{"a": 3.0, "b": null, "c": -1, "d": 9007199254740993, "e": false, "g": "\\.\n", "h": "abc  "}`,
		`{"a": "7", "b": -2147483648, "c": 1e3, "d": "1e300", "e": "yes", "g": 1.5, "h": {}}`,
		`{"a": 32768, "b": 1, "c": 1, "d": 1, "e": true, "g": "a", "h": "a"}`,
		`{"a": 1, "b": 1, "c": 1.5, "d": 1, "e": true, "g": "a", "h": "a"}`,
		`{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "g": "a", "h": "abcdef"}`,
	} {
		row := json(t, in).With("f", value.Binary([]byte{0, 255}))
		got, want := send(t, e, "binary", row), send(t, e, "text", row.With("i", value.Int(1)))
		if got != want || (got == "null") != (i < 3) {
			t.Errorf("%s: binary: %s, text: %s", in, got, want)
		}
	}
	got := send(t, e, "n", value.String("SELECT * FROM forms"))
	if want := send(t, e, "n", value.String("SELECT a, b, c, d, e, f, g, h FROM forms_text")); got != want || strings.Count(got, "{") < 3 {
		t.Errorf("binary: %s\ntext: %s", got, want)
	}
}

// TestSinkCopyChangedTable copies into a column whose type changes to one of the same size.
func TestSinkCopyChangedTable(t *testing.T) {
	d := postgres(t)
	e := engine(t, d.node("n")+d.sink("sink", "table: changed", "mode: copy"))
	must(t, e, "n", "DROP TABLE IF EXISTS changed", "CREATE TABLE changed (a bigint)")
	for i, change := range []string{"", "ALTER TABLE changed ALTER a TYPE double precision", "ALTER TABLE changed ALTER a TYPE text"} {
		if change != "" {
			must(t, e, "n", change)
		}
		if got := send(t, e, "sink", json(t, fmt.Sprintf(`{"a": %d}`, i+1))); got != "null" {
			t.Fatalf("%s: %s", change, got)
		}
	}
	if got := send(t, e, "n", value.String("SELECT a FROM changed")); got != `[{"a":"1"},{"a":"2"},{"a":"3"}]` {
		t.Errorf("got %s", got)
	}
}

// TestSinkLostConnection goes on when the server has ended the connection.
func TestSinkLostConnection(t *testing.T) {
	d := postgres(t)
	source := strings.Replace(d.source, "?", "?application_name=lost_sink&", 1)
	e := engine(t, d.node("n")+database{d.driver, source}.sink("sink", "table: lossy", "mode: copy"))
	must(t, e, "n", "DROP TABLE IF EXISTS lossy", "CREATE TABLE lossy (id int)")
	if got := send(t, e, "sink", json(t, `{"id": 1}`)); got != "null" {
		t.Fatal(got)
	}
	must(t, e, "n", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lost_sink'")
	if got := send(t, e, "sink", json(t, `{"id": 2}`)); got != "null" && !strings.HasSuffix(got, "[lost]") {
		t.Errorf("got %s", got)
	}
	if got := send(t, e, "sink", json(t, `{"id": 3}`)); got != "null" {
		t.Errorf("got %s", got)
	}
}

// TestSinkMistakes reports what cannot be, at its field and without the source.
func TestSinkMistakes(t *testing.T) {
	f := func(fields, want string) {
		t.Helper()
		list := check(t, "- {kind: sql_sink, name: sink, table: t, "+fields+"}\n")
		if !strings.Contains(list, want) || strings.Contains(list, "s3cret") {
			t.Errorf("%s: got %s, want %s", fields, list, want)
		}
	}
	f("driver: sqlite, source: ':memory:', mode: copy", "mode: copy is for postgres")
	f("driver: sqlite, source: ':memory:', mode: upsert", "keys: is missing")
	f("driver: sqlite, source: ':memory:', keys: [a]", "keys: is for upsert")
	f("driver: sqlite, source: ':memory:', mode: upsert, keys: [a], columns: [b]", "keys: names \"a\"")
	f("driver: sqlite, source: ':memory:', columns: [b, b]", "columns: names \"b\" twice")
	f("driver: postgres, source: 'postgres://u:s3cret@[', mode: copy", "source: is not one of postgres")
}

// check returns what is wrong with a document.
func check(tb testing.TB, doc string) string {
	tb.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		tb.Fatal(err)
	}
	defer e.Shutdown(tb.Context())
	list, err := e.Apply(tb.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
	return fmt.Sprint(list, err)
}

// TestSinkCopyJoins lets lists wait for a COPY that waits for a lock. They join the next one,
// and a row that is refused fails its list alone: all other rows are there, once.
func TestSinkCopyJoins(t *testing.T) {
	d := postgres(t)
	// The table counts the transactions that have added rows.
	e := engine(t, d.node("n")+d.sink("sink", "table: joined", "mode: copy", "batch: {linger: 1ms}"))
	must(t, e, "n", "DROP TABLE IF EXISTS joined", "CREATE TABLE joined (id INTEGER, tx BIGINT DEFAULT txid_current(), CHECK (id % 1000 <> 13))")
	conn, err := pgx.Connect(t.Context(), d.source)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	run := func(text string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), text).Scan(&n); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("%s: %v", text, err)
		}
		return n
	}
	run("BEGIN")
	run("LOCK TABLE joined IN ACCESS EXCLUSIVE MODE")
	const lists, size = 40, 100
	var all sync.WaitGroup
	begin := func(i int) {
		all.Go(func() {
			rows := make([]value.Value, size)
			for j := range rows {
				id := i*1000 + 100 + j
				if i%10 == 4 && j == 50 {
					id = i*1000 + 13
				}
				rows[j] = value.Map(value.Field{Name: "id", Value: value.Int(int64(id))})
			}
			_, _, err := e.Run(t.Context(), "sink", value.List(rows...))
			if (err != nil) != (i%10 == 4) || err != nil && !strings.HasPrefix(node.Message(err), "message 50: ") {
				t.Errorf("list %d: got error %v", i, err)
			}
		})
	}
	begin(0)
	for run("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'joined'::regclass") == 0 {
		runtime.Gosched()
	}
	for i := range lists - 1 {
		begin(i + 1)
	}
	for pending(t, e) < lists*size {
		runtime.Gosched()
	}
	run("COMMIT")
	all.Wait()
	if n := run("SELECT count(*) FROM joined"); n != lists*size-4 {
		t.Errorf("%d rows were written, want %d", n, lists*size-4)
	}
	if n := run("SELECT count(DISTINCT id) FROM joined"); n != lists*size-4 {
		t.Errorf("%d different rows were written, want %d", n, lists*size-4)
	}
	if n := run("SELECT max(n) FROM (SELECT count(*) AS n FROM joined GROUP BY tx) AS t"); n <= size {
		t.Errorf("at most %d rows were written together", n)
	}
}

// pending is how many messages wait at sinks.
func pending(t *testing.T, e *uniflow.Engine) (n int) {
	t.Helper()
	for _, m := range e.Metrics().Figures {
		if m.Metric.Name == "sink_pending" {
			n += int(m.Metric.Value)
		}
	}
	return n
}

// TestSinkCopyOfCSV loads a random file of CSV, with quotes, empty fields and texts that are no
// numbers, by COPY and by INSERT: the tables have what encoding/csv reads, and what cannot be
// mapped is alone in the dead letters.
func TestSinkCopyOfCSV(t *testing.T) {
	d := postgres(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "rows.csv")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := csv.NewWriter(f)
	const rows = 3000
	var want, dead []string
	texts := []string{"", "plain", `"quoted"`, "a,b", "line\nend", " space ", "é☺\t", `\N`}
	errs := []error{w.Write([]string{"id", "text", "n"})}
	for i := range rows {
		id, text, n := strconv.Itoa(i), texts[r.IntN(len(texts))], strconv.FormatFloat(float64(r.IntN(1e6))/64, 'g', -1, 64)
		shown := n
		if r.IntN(10) == 0 {
			n, shown = "", "NULL"
		}
		if r.IntN(200) == 0 {
			n = "none"
		}
		errs = append(errs, w.Write([]string{id, text, n}))
		if n == "none" {
			dead = append(dead, id)
		} else {
			want = append(want, fmt.Sprintf("%s|%q|%s", id, text, shown))
		}
	}
	w.Flush()
	if err := errors.Join(append(errs, w.Error(), f.Close())...); err != nil {
		t.Fatal(err)
	}
	e := engine(t, d.node("n"))
	doc := d.node("n")
	for _, mode := range []string{"copy", "insert"} {
		must(t, e, "n", "DROP TABLE IF EXISTS csv_"+mode+", csv_dead_"+mode, "CREATE TABLE csv_"+mode+" (id BIGINT, text TEXT, n DOUBLE PRECISION)", "CREATE TABLE csv_dead_"+mode+" (id TEXT)")
		doc += fmt.Sprintf(`- {kind: file_source, name: rows_%[1]s, paths: [%[2]q], format: csv, batch: {count: 50}, retry: {threshold: 0}, max_in_flight: 2000, ports: {out: [{name: map_%[1]s}], error: [{name: dead_%[1]s}]}}
- {kind: snippet, name: map_%[1]s, language: cel, code: 'self.map(m, {"id": int(m.body.id), "text": m.body.text, "n": m.body.n == "" ? null : double(m.body.n)})', ports: {out: [{name: load_%[1]s}]}}
- {kind: snippet, name: dead_%[1]s, language: cel, code: '{"id": self.data.body.id}', ports: {out: [{name: keep_%[1]s}]}}
`, mode, path) + d.sink("load_"+mode, "table: csv_"+mode, "mode: "+mode) + d.sink("keep_"+mode, "table: csv_dead_"+mode)
	}
	apply(t, e, doc)
	conn, err := pgx.Connect(t.Context(), d.source)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	read := func(text string) (lines []string) {
		t.Helper()
		found, err := conn.Query(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if lines, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (line string, err error) {
			var id string
			var word *string
			var n *float64
			if len(row.FieldDescriptions()) == 1 {
				return line, row.Scan(&line)
			}
			if err := row.Scan(&id, &word, &n); err != nil {
				return "", err
			}
			shown := "NULL"
			if n != nil {
				shown = strconv.FormatFloat(*n, 'g', -1, 64)
			}
			return fmt.Sprintf("%s|%q|%s", id, *word, shown), nil
		}); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	for _, mode := range []string{"copy", "insert"} {
		for len(read("SELECT id::text FROM csv_"+mode))+len(read("SELECT id FROM csv_dead_"+mode)) < rows {
			runtime.Gosched()
		}
		if got := read("SELECT id::text, text, n FROM csv_" + mode + " ORDER BY csv_" + mode + ".id"); !slices.Equal(got, want) {
			t.Errorf("%s: got %d rows, want %d: %.300q, want %.300q", mode, len(got), len(want), got, want)
		}
		if got := read("SELECT id FROM csv_dead_" + mode + " ORDER BY id::int"); !slices.Equal(got, dead) || len(dead) == 0 {
			t.Errorf("%s: got the dead letters %v, want %v", mode, got, dead)
		}
	}
}
