package dialect_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// parse reads a query document.
func parse(t testing.TB, doc string) *query.Query {
	t.Helper()
	q, err := query.Parse("q.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestErrors(t *testing.T) {
	schema := event.Schema{{Name: "n", Type: event.Int}, {Name: "paid", Type: event.Bool}, {Name: "country", Type: event.String}, {Name: "event", Type: event.String}, {Name: "step", Type: event.Int}}
	f := func(d dialect.Dialect, doc, want string) {
		t.Helper()
		_, err := dialect.Compile(d, parse(t, doc), schema)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s of %s: got error %v, want %q", d, doc, err, want)
		}
	}
	for _, d := range []dialect.Dialect{dialect.ClickHouse, dialect.DuckDB} {
		f(d, `segment: {where: {n: x}}`, `1:22: property "n" is of type integer, which "x" is not`)
		f(d, `segment: {where: {paid: 1}}`, `property "paid" is of type boolean, which "1" is not`)
		f(d, `segment: {where: {n: {contains: "1"}}}`, `property "n" is of type integer, not a string`)
		f(d, `segment: {where: {paid: {gt: true}}}`, `property "paid" is a boolean, which has no order`)
		f(d, `funnel: {steps: [a, {event: b, where: {step: 1}}], by: n}`, "a funnel of this form with a property called step")
		f(d, `segment: {measure: sum(country)}`, `property "country" is of type string, which cannot be measured`)
		f(d, `segment: {where: [{cohort: loyal}]}`, "a filter by cohort (loyal) cannot be expressed in SQL of "+d.String())
		f(d, `segment: {by: [event]}`, "a property called event")
		f(d, `{users: {group: x}, segment: {by: [n]}}`, `1:17: property "n" is of type integer, which "x" is not`)
		f(d, `{users: {step: 1, group: [x, 2]}, funnel: {steps: [a], by: [country, paid]}}`, `property "paid" is of type boolean, which "2" is not`)
	}
	f(dialect.ClickHouse, `funnel: {steps: [a, [a, b]], mode: [strict_once], by: country}`, "strict_once with")
}

func TestUnknownProperty(t *testing.T) {
	s, err := dialect.Compile(dialect.DuckDB, parse(t, `segment: {where: {colour: {ne: red}, size: missing}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "SELECT count(*) AS value\nFROM events\n"; s.SQL != want {
		t.Errorf("got %s, want %s", s.SQL, want)
	}
	if len(s.Warnings) != 2 {
		t.Errorf("got warnings %q, want two", s.Warnings)
	}
}

// TestInjection has names and texts that try to be SQL.
func TestInjection(t *testing.T) {
	hostile := []string{`'; DROP TABLE events; --`, `\'; DROP TABLE events; --`, `\`, `"`, "`", "a\x00b", "a\nb", `x" FROM events --`, "'' OR ''=''", "/*", "é'"}
	for _, text := range hostile {
		q := &query.Query{Segment: &query.Segment{
			Match: query.Match{Events: []string{text}, Where: &query.Filter{Test: &query.Test{
				Property: text, Op: query.Eq, Literals: []query.Literal{{Value: event.StringOf(text), Text: text}},
			}}},
			By: []string{text},
		}}
		for _, d := range []dialect.Dialect{dialect.ClickHouse, dialect.DuckDB} {
			s, err := dialect.Compile(d, q, event.Schema{{Name: text, Type: event.String}})
			if err != nil {
				t.Fatal(err)
			}
			bare := strings.Join(strings.Fields(unquoted(t, d, s.SQL)), " ")
			want := "SELECT #, count(*) AS value FROM events WHERE event = # AND # = # GROUP BY # ORDER BY value DESC NULLS LAST, # NULLS FIRST"
			if d == dialect.DuckDB {
				want = "SELECT nullif(#, #) AS group_1, sum(part)::BIGINT AS value FROM ( SELECT #, count(*) AS part FROM events WHERE event = # AND # = # GROUP BY # ) GROUP BY group_1 ORDER BY value DESC NULLS LAST, group_1 NULLS FIRST"
				bare = strings.ReplaceAll(bare, "(E# || chr(0) || E#)", "#")
				bare = strings.ReplaceAll(bare, "E#", "#")
			}
			if bare != want {
				t.Errorf("%s, %q: got\n%s\nwhich is %s, want %s", d, text, s.SQL, bare, want)
			}
		}
	}
}

// unquoted returns SQL with # instead of every literal and quoted name, read by
// the rules of the dialect.
func unquoted(t testing.TB, d dialect.Dialect, sql string) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(sql); i++ {
		quote := sql[i]
		if quote != '\'' && quote != '"' {
			b.WriteByte(quote)
			continue
		}
		escapes := d == dialect.ClickHouse || i > 0 && sql[i-1] == 'E' && quote == '\''
		for i++; ; i++ {
			if i >= len(sql) {
				t.Fatalf("%s: a quote without an end in\n%s", d, sql)
			}
			if escapes && sql[i] == '\\' {
				i++
				continue
			}
			if sql[i] < ' ' && d == dialect.ClickHouse {
				t.Errorf("a control character in a literal: %q", sql)
			}
			if sql[i] == quote {
				if i+1 < len(sql) && sql[i+1] == quote {
					i++
					continue
				}
				break
			}
		}
		b.WriteByte('#')
	}
	return b.String()
}

// FuzzText checks that no text leaves its quotes.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "a", `'`, `\'`, "\x00'", "a\\", "é\xff'", `''`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q := &query.Query{Paths: &query.Paths{Anchor: query.Match{Events: []string{text, "b"}}, Steps: 1}}
		for _, d := range []dialect.Dialect{dialect.ClickHouse, dialect.DuckDB} {
			s, err := dialect.Compile(d, q, nil)
			if unsupported := (*dialect.UnsupportedError)(nil); errors.As(err, &unsupported) {
				continue // not UTF-8
			}
			if err != nil {
				t.Fatal(err)
			}
			bare := unquoted(t, d, s.SQL)
			if strings.Count(bare, "event IN (") != 1 || !strings.Contains(bare, ", #) THEN 1 ELSE 0 END AS anchor\n        FROM events") {
				t.Errorf("%s of %q: got\n%s", d, text, s.SQL)
			}
		}
	})
}

// FuzzCompile compiles whatever is a query.
func FuzzCompile(f *testing.F) {
	f.Add(`funnel: {steps: [a, {event: b, where: {n: {gt: 1.5}}}], by: s, exclude: [{event: c}]}`)
	f.Add(`retention: {start: {event: a}, return: {}, every: month, periods: 3, timezone: Asia/Seoul}`)
	f.Add(`segment: {where: {any: [{s: {matches: "a.*"}}, {b: true}]}, bucket: hour, by: [n, f], measure: p50(f), fill: true}`)
	f.Add(`cohort: {did: [{event: a}], did_not: [{event: b, times: {at_least: 2}}]}`)
	f.Add(`paths: {anchor: a, direction: previous, gap: 1m}`)
	f.Add(`funnel: {steps: [a, [a, b], c], by: [s, b], by_step: last, other: true, limit: 2, times: first, mode: [strict_once]}`)
	f.Add(`{users: {step: 1, bucket: 2026-01-04}, funnel: {steps: [a, b], bucket: week_sunday, timezone: Asia/Seoul}}`)
	f.Add(`{users: {cohort: 2026-01-05, period: 2}, retention: {start: a, return: b, every: week, periods: 3}}`)
	f.Add(`{users: {bucket: 2026-01-05T10:00:00Z, other: true}, segment: {bucket: hour, by: [n, s], limit: 2, other: true}}`)
	f.Add(`segment: {where: {s: {not_contains: a, not_matches: "b+"}}, by: [s], bucket: month, limit: 1, measure: p50(f), fill: true}`)
	schema := event.Schema{{Name: "n", Type: event.Int}, {Name: "f", Type: event.Float}, {Name: "s", Type: event.String}, {Name: "b", Type: event.Bool}}
	f.Fuzz(func(t *testing.T, doc string) {
		q, err := query.Parse("", []byte(doc))
		if err != nil {
			return
		}
		for _, d := range []dialect.Dialect{dialect.ClickHouse, dialect.DuckDB} {
			s, err := dialect.Compile(d, q, schema)
			if err != nil {
				continue
			}
			if !strings.HasSuffix(s.SQL, "\n") || strings.Contains(unquoted(t, d, s.SQL), ";") {
				t.Errorf("got %q, want one statement", s.SQL)
			}
		}
	})
}

func TestAnswer(t *testing.T) {
	schema := event.Schema{{Name: "n", Type: event.Int}, {Name: "f", Type: event.Float}, {Name: "b", Type: event.Bool}}
	f := func(doc string, rows [][]any, want string) {
		t.Helper()
		s, err := dialect.Compile(dialect.ClickHouse, parse(t, doc), schema)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if a, err := s.Answer(rows); err != nil {
			got = err.Error()
		} else {
			a.Stats = query.Stats{}
			text, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ = strings.Cut(string(text), `,"stats"`)
		}
		if got != want {
			t.Errorf("%s of %v:\ngot  %s\nwant %s", doc, rows, got, want)
		}
	}
	day := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	f(`funnel: {steps: [a, b]}`, [][]any{{uint64(3), "2"}}, `{"steps":[{"event":"a","users":3},{"event":"b","users":2}]`)
	f(`funnel: {steps: [a, b]}`, nil, `{"steps":[{"event":"a","users":0},{"event":"b","users":0}]`)
	f(`funnel: {steps: [a, b]}`, [][]any{{1}}, `a row of 1 columns, want 2 or more`)
	f(`funnel: {steps: [a], by: b}`, [][]any{{1, nil, 5}, {0, true, 3}, {0, nil, json.Number("2")}}, `{"steps":[{"event":"a","users":5}],"groups":[{"b":true,"steps":[{"event":"a","users":3}]},{"b":"","steps":[{"event":"a","users":2}]}]`)
	f("funnel: {steps: [a, b], times: first}", [][]any{{5, 3, 60000, json.Number("7200000"), []any{0, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}}},
		`{"steps":[{"event":"a","users":5},{"event":"b","users":3,"time":{"median_ms":60000,"p90_ms":7200000,"histogram":[{"below":"5m","users":2},{"below":"15m","users":0},{"below":"30m","users":0},{"below":"1h","users":0},{"below":"3h","users":1}]}}]`)
	f("funnel: {steps: [a, b], times: first}", [][]any{{5, 0, nil, nil, []any{}}}, `{"steps":[{"event":"a","users":5},{"event":"b","users":0}]`)
	f("funnel: {steps: [a, b], times: first}", [][]any{{5, 1, 1, 1, []any{1}}}, `times are [1], want a list of 16`)
	f("funnel: {steps: [a], by: [b, n], limit: 1, other: true}", [][]any{{1, 0, nil, nil, 5}, {0, 2, true, 7, 3}, {0, 1, nil, 4, 2}},
		`{"steps":[{"event":"a","users":5}],"groups":[{"b":"","n":4,"steps":[{"event":"a","users":2}]},{"other":true,"steps":[{"event":"a","users":3}]}]`)
	f("funnel: {steps: [a], bucket: week_sunday}", [][]any{{1, "1970-01-01", 5}, {0, "2026-01-04", 3}},
		`{"steps":[{"event":"a","users":5}],"trend":[{"bucket":"2026-01-04","steps":[{"event":"a","users":3}]}]`)
	f("funnel: {steps: [a], bucket: hour}", nil, `{"steps":[{"event":"a","users":0}],"trend":[]`)
	f("segment: {by: [b], bucket: day, limit: 1, fill: true}", [][]any{{day, true, 0, 2}, {"2026-01-07", nil, 1, 9}},
		`{"rows":[{"bucket":"2026-01-05","b":true,"value":2},{"bucket":"2026-01-06","b":true,"value":0},{"bucket":"2026-01-07","b":true,"value":0}]`)
	f("segment: {by: [b], limit: 1, other: true}", [][]any{{nil, 1, 9}, {true, 0, 2}}, `{"rows":[{"b":true,"value":2},{"other":true,"value":9}]`)
	f("name: late\nusers: {step: 1}\nfunnel: {steps: [a]}", [][]any{{"u2"}, {"u1"}}, `{"cohort":"late","users":2,"ids":["u1","u2"]`)
	f("users: {step: 1}\nfunnel: {steps: [a]}", [][]any{{7}}, `7 (int) is not text`)
	f(`segment: {bucket: day, measure: sum(n)}`, [][]any{{day, big.NewInt(7)}, {"2026-01-06", nil}}, `{"rows":[{"bucket":"2026-01-05","value":7},{"bucket":"2026-01-06","value":null}]`)
	f(`segment: {measure: sum(n)}`, [][]any{{json.Number("18446744073709551614")}}, `{"rows":[{"value":1.8446744073709552e+19}]`)
	f(`segment: {measure: avg(f)}`, [][]any{{"half"}}, `half (string): strconv.ParseFloat: parsing "half": invalid syntax`)
	f("sample: 0.25\ncohort: {did: [{event: a}]}", [][]any{{100}}, `{"cohort":"","users":400,"ci":[337,474]`)
	f(`paths: {anchor: a}`, [][]any{{[]any{"a", "b"}, 2}}, `{"paths":[{"path":["a","b"],"users":2}]`)
	f(`paths: {anchor: a}`, [][]any{{"a", 2}}, `a path is string, want a list`)
	f(`retention: {start: {event: a}, return: {event: b}, every: week, periods: 1}`, [][]any{{"2026-01-05", 1, 7, 1}}, `period 7 of 1`)
}
