package data_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/value"
)

// A database is one that tests run on.
type database struct {
	driver, source string
}

func (d database) node(name string, fields ...string) string {
	return fmt.Sprintf("- {kind: sql, name: %s, driver: %s, source: '%s', connect_timeout: 10s%s}\n", name, d.driver, d.source, strings.Join(append([]string{""}, fields...), ", "))
}

// arg is the placeholder of an argument by position.
func (d database) arg(n int) string {
	if d.driver == "postgres" {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

func postgres(tb testing.TB) database {
	return database{"postgres", servertest.Postgres(tb).PostgresURL()}
}

func mariadb(tb testing.TB) database {
	return database{"mysql", "root@tcp(" + servertest.MariaDB(tb).Addr + ")/test"}
}

func sqlite(tb testing.TB) database {
	return database{"sqlite", tb.TempDir() + "/test.db"}
}

// onEach runs a test on each database.
func onEach(t *testing.T, f func(t *testing.T, d database)) {
	t.Run("sqlite", func(t *testing.T) { f(t, sqlite(t)) })
	t.Run("postgres", func(t *testing.T) { f(t, postgres(t)) })
	t.Run("mariadb", func(t *testing.T) { f(t, mariadb(t)) })
}

// must runs statements that are expected to work.
func must(tb testing.TB, e *uniflow.Engine, to string, statements ...string) {
	tb.Helper()
	for _, st := range statements {
		if got := send(tb, e, to, value.String(st)); strings.HasPrefix(got, "error:") {
			tb.Fatalf("%s: %s", st, got)
		}
	}
}

func json(tb testing.TB, text string) value.Value {
	tb.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// TestDatabases runs what must be the same on each database.
func TestDatabases(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		e := engine(t, d.node("n"))
		must(t, e, "n", "DROP TABLE IF EXISTS item", "CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(200) UNIQUE)")
		f := func(in, want string) {
			t.Helper()
			if got := send(t, e, "n", json(t, in)); !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %s, want %s", in, got, want)
			}
		}
		f(`["INSERT INTO item VALUES (:id, :name)", [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]]`, `{"affected":2,"last_id":`)
		f(`["SELECT id, name FROM item WHERE name = :n OR name = :n ORDER BY id", {"n": "b"}]`, `[{"id":2,"name":"b"}]`)
		f(`["SELECT id, name FROM item WHERE id = `+d.arg(1)+`", [1]]`, `[{"id":1,"name":"a"}]`)
		f(`"SELECT id FROM item WHERE id = 99"`, `[]`)
		f(`["INSERT INTO item VALUES (:id, :name) RETURNING id, name", [{"id": 3, "name": "c"}, {"id": 4, "name": null}]]`, `[{"id":3,"name":"c"},{"id":4,"name":null}]`)
		f(`["UPDATE item SET name = name WHERE id IN (:a, :b)", {"a": 1, "b": 2}]`, `{"affected":2,"last_id":null}`)
		f(`["INSERT INTO item VALUES (:id, :name)", {"id": 9, "name": "a"}]`, `error: `)
		f(`"INSERT INTO item VALUES (9, 'z'); DELETE FROM item WHERE id = 9"`, `{"affected":1,"last_id":null}`)
		f(`["INSERT INTO item VALUES (:id, :name)", []]`, `{"affected":0,"last_id":null}`)
		f(`["SELECT name FROM item WHERE name = `+d.arg(1)+`", ["x", "y"]]`, `error: the statement has 1 arguments, got 2 [bad_query]`)
		f(`"COMMIT"`, `error: COMMIT: the node begins`)
		f(`"SELECT * FROM missing"`, `error: `)
		f(`"SELECT '; :x @y ? ''' AS a -- ; :z"`, `[{"a":"; :x @y ? '"}]`)
	})
}

// TestHostileArguments expects texts back as they were.
func TestHostileArguments(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		e := engine(t, d.node("n"))
		if d.driver == "mysql" {
			must(t, e, "n", "ALTER DATABASE test CHARACTER SET utf8mb4")
		}
		must(t, e, "n", "DROP TABLE IF EXISTS hostile", "CREATE TABLE hostile (a TEXT)")
		for _, text := range []string{
			"'; DROP TABLE hostile; --", `"`, "\\", "\\'", "`", "$1", "?", ":a", "@a", "$$", "$a$ $a$", "/*", "--", "#", "%s", "\r\n\t", "\u2028", "🙂", "ʼ", "＇", `\x27`, "", " ",
			strings.Repeat("'", 1000), "{\"a\":1}", "[1,2]", "{1,2}", "NULL", "0x27", "1; SELECT 2",
		} {
			for _, args := range []value.Value{
				query("INSERT INTO hostile VALUES ("+d.arg(1)+")", value.String(text)),
				value.List(value.String("INSERT INTO hostile VALUES (:a)"), value.Map(value.Field{Name: "a", Value: value.String(text)})),
			} {
				must(t, e, "n", "DELETE FROM hostile")
				if got := send(t, e, "n", args); strings.HasPrefix(got, "error: ") {
					t.Errorf("%q: %s", text, got)
				}
				got, _, err := e.Run(t.Context(), "n", value.String("SELECT a FROM hostile"))
				if err != nil || got.Len() != 1 {
					t.Fatalf("%q: got %v, error %v", text, got, err)
				}
				back, _ := got.At(0).Get("a")
				if s, ok := back.AsString(); !ok || s != text {
					t.Errorf("%q: got %v", text, back)
				}
			}
		}
	})
}

// TestPostgresTypes reads each type of column.
func TestPostgresTypes(t *testing.T) {
	e := engine(t, postgres(t).node("n"))
	must(t, e, "n", "DROP TYPE IF EXISTS mood", "CREATE TYPE mood AS ENUM ('sad', 'ok')")
	f := func(expression, want string) {
		t.Helper()
		if got := send(t, e, "n", value.String("SELECT "+expression+" AS v")); got != `[{"v":`+want+`}]` {
			t.Errorf("%s: got %s, want %s", expression, got, want)
		}
	}
	f("NULL", "null")
	f("1::int2", "1")
	f("-1::int4", "-1")
	f("9223372036854775807::int8", "9223372036854775807")
	f("0.1::float4", "0.1")
	f("0.1::float8", "0.1")
	f("12345678901234567890.123456789::numeric", `"12345678901234567890.123456789"`)
	f("true", "true")
	f("'a'::text", `"a"`)
	f("''::varchar(3)", `""`)
	f("'a'::char(3)", `"a  "`)
	f("'\\x00ff'::bytea", `"AP8="`)
	f("'{\"a\": [1, null, \"x\"]}'::json", `{"a":[1,null,"x"]}`)
	f("'{\"a\": 9007199254740993}'::jsonb", `{"a":9007199254740993}`)
	f("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`)
	f("'2024-02-29 12:00:00.123456+02'::timestamptz", `"2024-02-29T10:00:00.123456Z"`)
	f("'1969-12-31 23:59:59.5'::timestamp", `"1969-12-31T23:59:59.5Z"`)
	f("'infinity'::timestamptz", `"infinity"`)
	f("'2024-02-29'::date", `"2024-02-29"`)
	f("'12:30'::time", `"12:30:00"`)
	f("'1 month 2 days 03:00'::interval", `"1 mon 2 days 03:00:00"`)
	f("'10.0.0.1/8'::inet", `"10.0.0.1/8"`)
	f("'ok'::mood", `"ok"`)
	f("'[1,5)'::int4range", `"[1,5)"`)
	f("ARRAY[1,NULL,3]", "[1,null,3]")
	f("ARRAY[[1,2],[3,4]]", "[[1,2],[3,4]]")
	f("'{}'::int[]", "[]")
	f("'[0:1]={5,6}'::int[]", "[5,6]")
	f("ARRAY['a,b', 'c\"d\\', 'NULL', NULL, '']", `["a,b","c\"d\\","NULL",null,""]`)
	f("ARRAY[1.5, 2]::numeric[]", `["1.5","2"]`)
	f("ARRAY['ok'::mood, 'sad']", `["ok","sad"]`)
	f("ARRAY['{\"a\":1}'::jsonb]", `[{"a":1}]`)
	f("ARRAY['2024-02-29 12:00:00+02'::timestamptz]::timestamptz[]", `["2024-02-29T10:00:00Z"]`)
	f("ARRAY[true, false]", "[true,false]")
	f("ROW(1, 'a')", `"(1,a)"`)
}

// TestPostgresArguments sends each type of argument.
func TestPostgresArguments(t *testing.T) {
	e := engine(t, postgres(t).node("n"))
	f := func(expression, arg, want string) {
		t.Helper()
		got := send(t, e, "n", value.List(value.String("SELECT "+expression+" AS v"), value.List(json(t, arg))))
		if want = `[{"v":` + want + `}]`; got != want {
			t.Errorf("%s of %s: got %s, want %s", expression, arg, got, want)
		}
	}
	f("$1::int4", "5", "5")
	f("$1::int4", "5.0", "5")
	f("$1::int8 + 1", "9223372036854775806", "9223372036854775807")
	f("$1::numeric", `"12345678901234567890.5"`, `"12345678901234567890.5"`)
	f("$1::numeric", "18446744073709551615", `"18446744073709551615"`)
	f("$1::float8", "1e300", "1e+300")
	f("$1::bool", "true", "true")
	f("$1::text", `"x"`, `"x"`)
	f("$1::jsonb", `{"a": [1]}`, `{"a":[1]}`)
	f("$1::jsonb", `[1, "a"]`, `[1,"a"]`)
	f("$1::int[]", `[1, null, 3]`, `[1,null,3]`)
	f("$1::int[]", `[[1, 2], [3, 4]]`, `[[1,2],[3,4]]`)
	f("$1::text[]", `["a,b", "c\"d\\", null, "NULL", ""]`, `["a,b","c\"d\\",null,"NULL",""]`)
	f("3 = ANY($1::int[])", `[1, 3]`, `true`)
	f("$1::timestamptz", `"2024-02-29T10:00:00Z"`, `"2024-02-29T10:00:00Z"`)
	f("$1::uuid", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`)
	f("$1::int IS NULL", `null`, `true`)
	if got := send(t, e, "n", json(t, `["SELECT $1::int AS v", ["x"]]`)); !strings.Contains(got, "invalid input syntax") {
		t.Errorf("text for an integer: got %s", got)
	}
	got := send(t, e, "n", json(t, `["SELECT (ARRAY[1,2,3])[1:n] AS v, :x::int AS w, '{\"a\":1}'::jsonb @> '{}' AS c, @ -5 AS d FROM (SELECT 2 AS n) s", {"x": 7}]`))
	if want := `[{"v":[1,2],"w":7,"c":true,"d":5}]`; got != want {
		t.Errorf("operators that look like names: got %s, want %s", got, want)
	}
}

// TestMariaTypes reads each type of column.
func TestMariaTypes(t *testing.T) {
	e := engine(t, mariadb(t).node("n"))
	must(t, e, "n", "DROP TABLE IF EXISTS kinds", `CREATE TABLE kinds (a TINYINT, b BIGINT UNSIGNED, c DECIMAL(30,10), d DOUBLE, e FLOAT, f DATETIME(6), g TIMESTAMP(3) NULL, h DATE, i TIME, j YEAR,
		k VARCHAR(10), l TEXT, m BLOB, n BIT(9), o ENUM('x','y'), p BOOLEAN, q VARBINARY(4))`,
		`INSERT INTO kinds VALUES (-1, 18446744073709551615, 12345678901234567890.1234567890, 0.1, 0.1, '2024-02-29 12:00:00.123456', '2024-02-29 12:00:00.5', '2024-02-29', '-12:30:00', 2024,
		'k', 'l', x'00ff', b'100000001', 'y', true, x'01')`, "INSERT INTO kinds (a) VALUES (NULL)")
	want := `[{"a":-1,"b":18446744073709551615,"c":"12345678901234567890.1234567890","d":0.1,"e":0.1,"f":"2024-02-29T12:00:00.123456Z","g":"2024-02-29T12:00:00.5Z","h":"2024-02-29","i":"-12:30:00","j":2024,` +
		`"k":"k","l":"l","m":"AP8=","n":257,"o":"y","p":1,"q":"AQ=="},{"a":null,"b":null,"c":null,"d":null,"e":null,"f":null,"g":null,"h":null,"i":null,"j":null,"k":null,"l":null,"m":null,"n":null,"o":null,"p":null,"q":null}]`
	if got := send(t, e, "n", value.String("SELECT * FROM kinds")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := send(t, e, "n", json(t, "[\"SELECT `a``:x` FROM (SELECT 1 AS `a``:x`) t WHERE 'it\\\\'s :y' <> :x # :z\\n\", {\"x\": 1}]")); got != "[{\"a`:x\":1}]" {
		t.Errorf("quotes: got %s", got)
	}
}
