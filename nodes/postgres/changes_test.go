package postgres_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

// at returns what a path of names leads to; null if nothing.
func at(v value.Value, path ...string) value.Value {
	for _, name := range path {
		v, _ = v.Get(name)
	}
	return v
}

// rows returns the row of each message, as JSON, without its column id.
func (k *taken) rows(t *testing.T) (all []string) {
	t.Helper()
	for _, m := range k.messages {
		all = append(all, at(m, "body", "op").String()+" "+jsonOf(t, at(m, "body", "row")))
	}
	return all
}

func jsonOf(t *testing.T, v value.Value) string {
	t.Helper()
	text, err := v.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// every is a table with a column for each type, and rows of ordinary values, limits and nulls.
var every = []string{
	`CREATE TYPE mood AS ENUM ('good', 'so so')`, `CREATE DOMAIN positive AS int CHECK (value > 0)`, `CREATE DOMAIN small AS positive`, `CREATE DOMAIN moods AS mood[]`,
	`CREATE TABLE item (id bigint PRIMARY KEY, i2 smallint, i4 int, i8 bigint, f4 real, f8 double precision, num numeric, yes boolean, t text, vc varchar(9), c char(4),
	 raw bytea, d date, tm time, ts timestamp, tz timestamptz, iv interval, u uuid, j json, jb jsonb, ip inet, m mood, p small, ms moods, ints int[], texts text[], times timestamptz[], money money, xml xml, bits bit(3), range int4range, pt point)`,
}

const everyRow = `INSERT INTO item (id) VALUES (2); INSERT INTO item VALUES
(1, -32768, 2147483647, 9223372036854775807, 1.5, 0.1, 123456789012345678901234567890.5, true, 'é"\', 'v', 'ab', '\x00ff', '2026-11-29', '12:30:00.5', '2026-11-29 12:30:00.123456', '2026-11-29 12:30:00+09',
 '1 day 2 hours', '00000000-0000-0000-0000-00000000000a', '{"a": [1, 1.50]}', '{"b": null}', '10.0.0.0/8', 'so so', 5, '{good,NULL}', '{1,NULL,3}', '{"a,b","",NULL,"q\""}', '{2026-01-01 00:00:00+00}', 12.5, '<a/>', B'101', '[1,5)', '(1,2)'),
(3, 0, 0, 0, 'NaN', '-Infinity', 'NaN', false, '', '', '', '', '0001-01-01', '00:00', '1970-01-01', '1970-01-01Z', '0', '00000000-0000-0000-0000-000000000000', '[]', '"text"', '::1', 'good', 1, '{}', '{}', '{}', '{}', 0, '', B'000', 'empty', '(0,0)')`

// more is a table of types that are read as text, of arrays, and of limits.
var more = []string{
	`CREATE TYPE pair AS (a int, b text)`, `CREATE TYPE mood AS ENUM ('good')`,
	`CREATE TABLE item (id bigint PRIMARY KEY, time1 timestamp, time2 timestamptz, time3 timestamp, day date, f real,
	 o oid, n name, tt timetz, cd cidr, mac macaddr, ts tsvector, tq tsquery, multi int4multirange, jp jsonpath, comp pair, ch "char", vb varbit,
	 bs boolean[], i2s smallint[], i8s bigint[], f4s real[], f8s double precision[], nums numeric[], us uuid[], ds date[], tms time[], tss timestamp[], ivs interval[],
	 js json[], jbs jsonb[], raws bytea[], ips inet[], comps pair[], moods mood[], vcs varchar[], square int[], based int[])`,
}

const moreRow = `INSERT INTO item (id, time1, time2, time3, day, f) VALUES
(1, '-infinity', 'infinity', '0044-03-15 12:00:00 BC', 'infinity', 'Infinity'),
(2, '12026-11-29', '294276-12-31 23:59:59.999999Z', '4713-01-01 00:00:00 BC', '4713-01-01 BC', 3.4028235e38),
(3, '0001-01-01', '0001-12-31 23:59:59.5Z BC', '1582-10-10', '5874897-12-31', 1e-45),
(4, '1969-12-31 23:59:59.999999', '2026-03-29 01:30:00+01', '2000-01-01', '2000-02-29', 16777216);
INSERT INTO item (id, o, n, tt, cd, mac, ts, tq, multi, jp, comp, ch, vb, bs, i2s, i8s, f4s, f8s, nums, us, ds, tms, tss, ivs, js, jbs, raws, ips, comps, moods, vcs, square, based) VALUES
(5, 4294967295, 'name', '12:00:00+09', '10.0.0.0/8', '08:00:2b:01:02:03', 'fat:2 rat:3A', 'a & b', '{[1,2),[5,7)}', '$."a"', '(1,"x,y")', 'c', B'10110',
 '{t,f,NULL}', '{-32768}', '{9223372036854775807}', '{0.1,NaN}', '{0.1,Infinity,1e300}', '{1.50,NaN}', '{00000000-0000-0000-0000-00000000000a}', '{2026-11-29,infinity}', '{12:30:00}',
 '{"2026-11-29 12:30:00.5",infinity,"0044-03-15 00:00:00 BC"}', '{"1 day"}', '{"{\"a\": 1}"}', '{"{\"b\": [1.50]}"}', '{"\\x00ff",NULL}', '{10.0.0.1}',
 '{"(1,\"x\")",NULL}', '{good}', '{"NULL",NULL,""}', '{{1,2},{3,NULL}}', '[5:6]={1,2}')`

// TestCDCValues: the values of a snapshot, and of changes, are those that sql gives for the same row.
func TestCDCValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tables         []string
		first, changes string
		ids            [2][]string
	}{
		"types": {
			every, strings.NewReplacer("(1, -32768", "(11, -32768", "(2)", "(12)", "(3, 0", "(13, 0").Replace(everyRow), everyRow,
			[2][]string{{"11", "12", "13"}, {"1", "2", "3"}},
		},
		"limits and arrays": {more, "INSERT INTO item (id) VALUES (6)", moreRow, [2][]string{{"6"}, {"1", "2", "3", "4", "5"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			s.exec(t, c.tables...)
			s.exec(t, c.first)
			k := newTaken(t, fmt.Sprintf(`
- {kind: postgres_cdc, name: source, source: '%[1]s', slot: %[2]s, publication: p, tables: item, snapshot: initial, ports: {out: [{name: take}, {name: select}]}}
- {kind: snippet, name: select, language: cel, code: '["SELECT * FROM item WHERE id = :id", {"id": self.body.row.id}]', ports: {out: [{name: sql}]}}
- {kind: sql, name: sql, driver: postgres, source: '%[1]s', ports: {out: [{name: take}]}}
- {kind: take, name: take}
`, s.url(s.server.Addr), s.name))
			k.until(t, "the snapshot", func() bool { return len(k.messages) == 2*len(c.ids[0]) })
			s.exec(t, c.changes)
			ids := slices.Concat(c.ids[0], c.ids[1])
			k.until(t, "the changes", func() bool { return len(k.messages) == 2*len(ids) })
			changed, selected := map[string]value.Value{}, map[string]value.Value{}
			for _, m := range k.messages {
				if m.Kind() == value.KindList {
					selected[at(m.At(0), "id").String()] = m.At(0)
				} else {
					changed[at(m, "key").String()] = at(m, "body", "row")
				}
			}
			for _, id := range ids {
				got, want := changed[id], selected[id]
				if got.Len() != want.Len() || got.Len() == 0 {
					t.Errorf("row %s: got %s, sql gives %s", id, got, want)
					continue
				}
				for name, w := range want.Fields() {
					if g := at(got, name); g.Kind() != w.Kind() || g.String() != w.String() {
						t.Errorf("row %s, %s: got %s %s, sql gives %s %s", id, name, g.Kind(), g, w.Kind(), w)
					}
				}
			}
		})
	}
}

// TestCDCUnchanged: a large value that an update leaves alone is named, not made null, and the whole
// row comes with REPLICA IDENTITY FULL.
func TestCDCUnchanged(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, "CREATE TABLE item (id bigint PRIMARY KEY, n int, large text)", "ALTER TABLE item ALTER large SET STORAGE EXTERNAL")
	k := newTaken(t, s.cdc("snapshot: never"))
	k.connected(t)
	large := strings.Repeat("x", 8<<20)
	if _, err := s.conn.Exec(t.Context(), "INSERT INTO item VALUES (1, 1, $1), (2, 1, '')", large); err != nil {
		t.Fatal(err)
	}
	s.exec(t, "UPDATE item SET n = 2", "UPDATE item SET id = 3 WHERE id = 2", "ALTER TABLE item REPLICA IDENTITY FULL", "UPDATE item SET n = 3 WHERE id = 1", "DELETE FROM item WHERE id = 3")
	k.until(t, "seven changes", func() bool { return len(k.messages) == 7 })
	var got []string
	for _, m := range k.messages {
		body := at(m, "body")
		text := strings.ReplaceAll(jsonOf(t, body), large, "LARGE")
		got = append(got, text)
	}
	want := []string{
		`{"op":"insert","table":"public.item","row":{"id":1,"n":1,"large":"LARGE"},"old":null}`,
		`{"op":"insert","table":"public.item","row":{"id":2,"n":1,"large":""},"old":null}`,
		`{"op":"update","table":"public.item","row":{"id":1,"n":2},"old":null,"unchanged":["large"]}`,
		`{"op":"update","table":"public.item","row":{"id":2,"n":2,"large":""},"old":null}`,
		`{"op":"update","table":"public.item","row":{"id":3,"n":2,"large":""},"old":{"id":2}}`,
		`{"op":"update","table":"public.item","row":{"id":1,"n":3,"large":"LARGE"},"old":{"id":1,"n":2,"large":"LARGE"}}`,
		`{"op":"delete","table":"public.item","row":null,"old":{"id":3,"n":2,"large":""}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCDCDefinitions: a table that is altered between changes gives rows of its columns at that time.
func TestCDCDefinitions(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, "CREATE TABLE item (id bigint PRIMARY KEY, a int)")
	k := newTaken(t, s.cdc("snapshot: never"))
	k.connected(t)
	s.exec(t,
		"INSERT INTO item VALUES (1, 1)", "ALTER TABLE item ADD b text", "INSERT INTO item VALUES (2, 2, 'y')", "ALTER TABLE item DROP a", "INSERT INTO item VALUES (3, 'z')",
		"ALTER TABLE item RENAME b TO c", "BEGIN; INSERT INTO item VALUES (4, 'in'); ALTER TABLE item ALTER c TYPE bytea USING '\\x01'; INSERT INTO item VALUES (5, '\\x02'); COMMIT", "TRUNCATE item")
	k.until(t, "six changes", func() bool { return len(k.messages) == 6 })
	want := []string{
		`insert {"id":1,"a":1}`, `insert {"id":2,"a":2,"b":"y"}`, `insert {"id":3,"b":"z"}`, `insert {"id":4,"c":"in"}`, `insert {"id":5,"c":"Ag=="}`, `truncate null`,
	}
	if got := k.rows(t); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCDCPartitions: changes of partitions have the name of the table, also of one that is added later.
func TestCDCPartitions(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, "CREATE TABLE item (id bigint, day int, PRIMARY KEY (id, day)) PARTITION BY LIST (day)", "CREATE TABLE item_1 PARTITION OF item FOR VALUES IN (1)")
	k := newTaken(t, s.cdc("snapshot: never"))
	k.connected(t)
	s.exec(t, "INSERT INTO item VALUES (1, 1)", "CREATE TABLE item_2 PARTITION OF item FOR VALUES IN (2)", "INSERT INTO item VALUES (2, 2)", "UPDATE item SET day = 2 WHERE id = 1")
	k.until(t, "four changes", func() bool { return len(k.messages) == 4 })
	for _, m := range k.messages {
		if got := at(m, "table").String(); got != "public.item" {
			t.Errorf("got the table %s in %s", got, jsonOf(t, m))
		}
	}
	want := []string{`insert {"id":1,"day":1}`, `insert {"id":2,"day":2}`, `delete null`, `insert {"id":1,"day":2}`} // moved to another partition
	if got := k.rows(t); !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestCDCTransactions: a transaction is a message, also with an empty row and a large value that was not changed.
func TestCDCTransactions(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.exec(t, "CREATE TABLE item (id bigint PRIMARY KEY, pad text)", "ALTER TABLE item ALTER pad SET STORAGE EXTERNAL", "CREATE TABLE nothing ()", "ALTER TABLE nothing REPLICA IDENTITY FULL", "CREATE PUBLICATION p FOR TABLE item, nothing")
	k := newTaken(t, strings.Replace(s.cdc("snapshot: never", "message: transaction"), "tables: item", "tables: [item, nothing]", 1))
	k.connected(t)
	s.exec(t, "BEGIN; INSERT INTO item VALUES (1, 'a'), (2, NULL); DELETE FROM item WHERE id = 1; INSERT INTO nothing DEFAULT VALUES; COMMIT",
		"INSERT INTO item VALUES (3, repeat('x', 10000))", "BEGIN; UPDATE item SET id = 4 WHERE id = 3; TRUNCATE item; COMMIT")
	k.until(t, "three messages", func() bool { return len(k.messages) == 3 })
	for i, want := range []string{
		`[{"op":"insert","table":"public.item","row":{"id":1,"pad":"a"},"old":null,"key":"1"},{"op":"insert","table":"public.item","row":{"id":2,"pad":null},"old":null,"key":"2"},` +
			`{"op":"delete","table":"public.item","row":null,"old":{"id":1},"key":"1"},{"op":"insert","table":"public.nothing","row":{},"old":null}]`,
		`[{"op":"insert","table":"public.item","row":{"id":3,"pad":"` + strings.Repeat("x", 10000) + `"},"old":null,"key":"3"}]`,
		`[{"op":"update","table":"public.item","row":{"id":4},"old":{"id":3},"unchanged":["pad"],"key":"4"},{"op":"truncate","table":"public.item","row":null,"old":null}]`,
	} {
		m := k.messages[i]
		if got := jsonOf(t, at(m, "body")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if partial, ok := at(m, "partial").AsBool(); !ok || partial || at(m, "part").String() != "1" {
			t.Errorf("got part %s, partial %s", at(m, "part"), at(m, "partial"))
		}
	}
}

// TestCDCLargeTransaction reads 100,000 rows of one transaction, of 60 MB and more as values, and
// never holds much of them. It is not parallel, as it measures memory.
func TestCDCLargeTransaction(t *testing.T) {
	const rows, most, bound = 100_000, 2_000, 20 << 20
	for _, mode := range []string{"change", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			s := newSystem(t)
			s.exec(t, "CREATE TABLE item (id bigint PRIMARY KEY, pad text)")
			count, messages, ended, held, begin := 0, 0, false, uint64(0), heap()
			row := func(v value.Value) {
				count++
				if id, _ := at(v, "row", "id").AsInt(); int(id) != count {
					t.Errorf("got the row %d, want %d", id, count)
				}
				if count%10_000 == 0 {
					held = max(held, heap())
				}
			}
			k := &taken{forget: true, hold: func(m value.Value) {
				messages++
				body := at(m, "body")
				if mode == "change" {
					row(body)
					ended = count == rows
					return
				}
				part, _ := at(m, "part").AsInt()
				partial, _ := at(m, "partial").AsBool()
				if int(part) != messages || body.Len() > most || body.Size() > 1<<20 {
					t.Errorf("message %d is part %d, with %d changes of %d bytes", messages, part, body.Len(), body.Size())
				}
				for i := range body.Len() {
					row(body.At(i))
				}
				ended = !partial
			}}
			if err := k.start(t, s.cdc("snapshot: never", "message: "+mode, fmt.Sprint("max_in_flight: ", most), "bytes: 4MiB")); err != nil {
				t.Fatal(err)
			}
			k.connected(t)
			s.exec(t, fmt.Sprintf("INSERT INTO item SELECT n, repeat('x', 500) FROM generate_series(1, %d) AS n", rows))
			k.until(t, "the last row", func() bool { return ended })
			if count != rows {
				t.Errorf("got %d rows, want %d", count, rows)
			}
			if held > begin+bound {
				t.Errorf("%d MB were held at once, want at most %d", (held-begin)>>20, bound>>20)
			}
			t.Logf("%d messages, %d MB", messages, (held-begin)>>20)
		})
	}
}

// heap returns how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
