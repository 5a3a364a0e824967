package events_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/value"
)

// ask asks the node n and returns the answer without its stats.
func ask(t *testing.T, e *uniflow.Engine, in string) string {
	t.Helper()
	got := send(t, e, in)
	if strings.HasPrefix(got, "error: ") {
		return got
	}
	var answer map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got), &answer); err != nil {
		t.Fatalf("got %s: %v", got, err)
	}
	if len(answer["stats"]) == 0 {
		t.Errorf("got no stats: %s", got)
	}
	delete(answer, "stats")
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// payload reads JSON.
func payload(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// count returns the rows of a segment of a store.
func count(t *testing.T, dir, doc string) string {
	t.Helper()
	s, err := trail.Open(dir, trail.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	q, err := query.Parse("q", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Query(t.Context(), q, trail.QueryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range a.Segment.Rows {
		var group []string
		for _, v := range r.Group {
			group = append(group, v.String())
		}
		rows = append(rows, strings.TrimSpace(fmt.Sprintf("%s %s %d", r.Bucket, strings.Join(group, ","), r.Value.Int)))
	}
	return strings.Join(rows, "; ")
}

// TestTrailAppend adds one event and many, and answers how many.
func TestTrailAppend(t *testing.T) {
	dir := t.TempDir()
	e := serve(t, `{kind: trail_append, name: n, db: %s}`, dir)
	f := func(in, want string) {
		t.Helper()
		if got := send(t, e, in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	f(`{"user":"ann","time":"2026-01-05T10:00:00Z","event":"view","country":"KR","price":10}`, `{"appended":1}`)
	f(`[{"user":"ann","time":1767607260,"event":"buy","country":"KR","price":10.5},{"user":7,"time":"2026-01-06T00:00:00Z","event":"view","item":{"price":3}}]`, `{"appended":2}`)
	f(`[]`, `{"appended":0}`)
	f(`{"user":"now","event":"open"}`, `{"appended":1}`)
	if got, want := count(t, dir, `{segment: {by: [country], bucket: day, to: 2026-02-01}}`), "2026-01-05 KR 2; 2026-01-06  1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := count(t, dir, `{segment: {where: {item.price: 3}, by: [item.price]}}`), "3 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	// None of a list is added if one cannot be.
	refused := func(in, why, data string) {
		t.Helper()
		got := send(t, e, in)
		if !strings.HasPrefix(got, "error: "+why) || !strings.HasSuffix(got, "[refused 422 "+data+"]") {
			t.Errorf("%s: got %s, want %s, of %s", in, got, why, data)
		}
	}
	good := `{"user":"bad","time":"2026-03-01T00:00:00Z","event":"bad"}`
	refused(`{"event":"view"}`, "user: is missing", `{"event":"view"}`)
	refused(`[`+good+`,{"user":"x"}]`, "event 1: event: is missing", `{"user":"x"}`)
	refused(`[`+good+`,7]`, "event 1: must be a map, got integer", `7`)
	refused(`{"user":"x","event":"view","time":"yesterday"}`, "", `{"user":"x","event":"view","time":"yesterday"}`)
	refused(`{"user":"x","event":"view","tags":["a"]}`, "", `{"user":"x","event":"view","tags":["a"]}`)
	refused(`[`+good+`,{"user":"x","event":"view","price":"cheap"}]`, "event 1: ", `{"user":"x","event":"view","price":"cheap"}`)
	refused(`[`+good+`,{"user":"x","event":"view","time":"0001-02-03"}]`, "event 1: time 0001-02-03T00:00:00Z is not plausible", `{"user":"x","event":"view","time":"0001-02-03"}`)
	if got := count(t, dir, `{segment: {event: bad, measure: count}}`); got != "0" {
		t.Errorf("got %s of a list that was refused", got)
	}
}

// TestTrailAppendTimes has nodes that take other times than the usual ones.
func TestTrailAppendTimes(t *testing.T) {
	dir := t.TempDir()
	usual := serve(t, `{kind: trail_append, name: n, db: %s}`, dir)
	old := `{"user":"ann","time":"1960-02-03","event":"view"}`
	if got := send(t, usual, old); !strings.Contains(got, "is not plausible") {
		t.Errorf("got %s, want the event refused", got)
	}
	wide := serve(t, `{kind: trail_append, name: n, db: %s, times: 1950-01-01/}`, t.TempDir())
	if got := send(t, wide, old); got != `{"appended":1}` {
		t.Errorf("got %s", got)
	}
	if got := send(t, wide, `{"user":"ann","time":"1949-02-03","event":"view"}`); !strings.Contains(got, "is not plausible") {
		t.Errorf("got %s, want the event refused", got)
	}
	all := serve(t, `{kind: trail_append, name: n, db: %s, times: any}`, t.TempDir())
	if got := send(t, all, `[`+old+`,{"user":"ann","time":"9999-02-03","event":"view"}]`); got != `{"appended":2}` {
		t.Errorf("got %s", got)
	}
}

// TestTrailAppendExpressions has an event made by expressions.
func TestTrailAppendExpressions(t *testing.T) {
	dir := t.TempDir()
	e := serve(t, `
kind: trail_append
name: n
db: %s
user: who.id
time: at
event: '"order." + status'
event_id: key
properties: '{"user": who.name, "total": total}'
`, dir)
	for range 2 { // with an id, the same event is kept once
		in := `{"who":{"id":7,"name":"ann"},"at":1767607200,"status":"paid","total":3,"key":"k1","more":[1]}`
		if got := send(t, e, in); got != `{"appended":1}` {
			t.Errorf("got %s", got)
		}
	}
	if got, want := count(t, dir, `{segment: {event: order.paid, by: [user, total], bucket: day}}`), "2026-01-05 ann,3 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := send(t, e, `{"at":1767607200,"status":"paid","key":null}`); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "[refused 422 ") {
		t.Errorf("got %s", got)
	}

	e = serve(t, `{kind: trail_append, name: n, db: %s, user: customer, time: at, event: '"view"'}`, t.TempDir())
	if got := send(t, e, `{"customer":"ann","at":"2026-01-05T00:00:00Z","user":"a property"}`); got != `{"appended":1}` {
		t.Errorf("got %s", got)
	}
}

// fill adds a little history to a store.
func fill(t *testing.T, dir string, more ...event.Event) {
	t.Helper()
	s, err := trail.Open(dir, trail.Options{})
	deadline := time.After(20 * time.Second)
	for tick := time.Tick(time.Millisecond); err != nil; s, err = trail.Open(dir, trail.Options{}) {
		select { // the generation before may be about to let go of it
		case <-tick:
		case <-deadline:
			t.Fatal(err)
		}
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	day := func(n int64) int64 { return 1767571200000 + n*86400000 } // from 2026-01-05
	country := func(name string) []event.Property {
		return []event.Property{{Name: "country", Value: event.StringOf(name)}, {Name: "price", Value: event.IntOf(3)}}
	}
	err = s.Append(t.Context(), append(more,
		event.Event{User: "ann", Time: day(0), Name: "view", Properties: country("KR")},
		event.Event{User: "ann", Time: day(1), Name: "buy", Properties: country("KR")},
		event.Event{User: "bob", Time: day(0), Name: "view", Properties: country("FR")},
		event.Event{User: "bob", Time: day(9), Name: "buy", Properties: country("FR")},
	))
	if err != nil {
		t.Fatal(err)
	}
}

// TestTrailQuery asks, with a query of its own and with one that payloads make.
func TestTrailQuery(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	fill(t, dir)
	f := func(config, in, want string) {
		t.Helper()
		e := engine(t, t.Output())
		defer shutdown(t, e)
		if err := apply(t, e, "{kind: trail_query, name: n, db: %s, %s, ports: {out: [{name: id, port: in}]}}\n---\n{kind: snippet, name: id, language: cel, code: self}\n", dir, config); err != nil {
			t.Fatal(err)
		}
		if got := ask(t, e, in); got != want {
			t.Errorf("%s of %s: got %s, want %s", config, in, got, want)
		}
	}
	const one, two = `{"steps":[{"event":"view","users":2},{"event":"buy","users":1}]}`, `{"steps":[{"event":"view","users":2},{"event":"buy","users":2}]}`
	f(`query: {funnel: {steps: [view, buy], within: 168h}}`, `null`, one)
	f(`query: "{funnel: {steps: [view, buy], within: 168h}}"`, `null`, one)
	f(`query: {funnel: {steps: [view, buy], within: "${within}"}}`, `{"within":"168h"}`, one)
	f(`query: {funnel: {steps: [view, buy], within: "${within}"}}`, `{"within":null}`, two)
	f(`query: "{funnel: {steps: [view, buy], within: '${days * 24}h'}}"`, `{"days":7}`, one)
	f(`query: {funnel: {steps: "${steps}"}}`, `{"steps":["view",{"event":"buy","where":{"country":"FR"}}]}`,
		`{"steps":[{"event":"view","users":2},{"event":"buy","users":1}]}`)
	f(`query: {segment: {event: view, where: {country: "${has(self.c) ? self.c : null}"}}}`, `{"c":"KR"}`, `{"rows":[{"value":1}]}`)
	f(`query: {segment: {event: view, where: {country: "${has(self.c) ? self.c : null}"}}}`, `{}`, `{"rows":[{"value":2}]}`)
	f(`query: {segment: {event: view, where: {country: "K${c}"}}}`, `{"c":"R"}`, `{"rows":[{"value":1}]}`)
	f(`query: {segment: {event: view, where: {country: "$${c}"}}}`, `{"c":"R"}`, `{"rows":[{"value":0}]}`)
	f(`query: {segment: {event: [view, buy], from: 2026-01-06T00:00:00Z, to: 2026-02-01}}`, `null`, `{"rows":[{"value":2}]}`)
	f(`query: {segment: {event: [view, buy], from: "${from}"}}, sample: 1.0, timeout: 10s, memory: 8MiB`, `{"from":"2026-01-06T00:00:00Z"}`, `{"rows":[{"value":2}]}`)
	f(`query: {cohort: {did: {event: buy, where: {country: "${c}"}}}}, ids: true`, `{"c":"FR"}`, `{"cohort":"","ids":["bob"],"users":1}`)
	f(`query: {cohort: {did: buy}}`, `null`, `{"cohort":"","users":2}`)
	// What a payload has stays data.
	f(`query: "segment:\n  event: ${e}\n"`, `{"e":"view, fill: true}\n  by: country"}`, `{"rows":[{"value":0}]}`)

	bad := func(config, in, why string) {
		t.Helper()
		e := serve(t, "{kind: trail_query, name: n, db: %s, %s}", dir, config)
		got := ask(t, e, in)
		if !strings.HasPrefix(got, "error: ") || !strings.Contains(got, why) || !strings.Contains(got, "[bad_query 400 ") {
			t.Errorf("%s of %s: got %s, want %s", config, in, got, why)
		}
	}
	bad(`query: {segment: {event: view, where: {price: {gt: "${1.0 / 0.0}"}}}}`, `{}`, "Infinity")
	bad(`query: {funnel: {steps: [view, buy], within: "${within}"}}`, `{"within":"soon"}`, "soon")
	bad(`query: {funnel: {steps: [view, buy]}, users: {step: "${n}"}}`, `{"n":5}`, "no such step: 5 (the steps are 1 to 2)")
	bad(`query: {funnel: "${f}"}`, `{"f":{"stepz":[]}}`, `stepz`)
	bad(`query: {segment: {where: {price: {contains: "${p}"}}}}`, `{"p":"x"}`, "price")
	e := serve(t, `{kind: trail_query, name: n, db: %s, query: {funnel: "${f}"}}`, dir)
	if got := ask(t, e, `{}`); !strings.HasPrefix(got, "error: query: funnel: ") {
		t.Errorf("got %s", got)
	}
}

// TestTrailQueryDocument finds what is wrong with a query when the workflow is
// loaded.
func TestTrailQueryDocument(t *testing.T) {
	f := func(config string, wants ...string) {
		t.Helper()
		e := engine(t, t.Output())
		defer shutdown(t, e)
		err := apply(t, e, "kind: trail_query\nname: n\ndb: %s\n%s\n", t.TempDir(), config)
		if err == nil {
			t.Errorf("%s: got no error", config)
			return
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %s, want %s", config, err, want)
			}
		}
	}
	f("query: {funnel: {stepz: [a]}}", "w.yaml:4:18: ", "query.funnel.stepz", "stepz")
	f("query:\n  funnel:\n    steps: [a, b]\n    within: soon", "w.yaml:7:13: ", "query.funnel.within", "soon")
	f("query:\n  funnel:\n    steps: [a, {event: b, where: {p: {gtt: 3}}}]", "w.yaml:6:", "query.funnel.steps[1].where.p", "gtt")
	f("query: |\n  funnel:\n    stepz: [a]\n", "w.yaml:6:5: ", "stepz")
	f("query:\n  funnel:\n    steps: ${s}\n    withim: 7d", "w.yaml:7:5: ", "query.funnel.withim")
	f("query: {funnel: {steps: '${a +}'}}", "w.yaml:4:3")
	f("query: {funnel: {steps: '-${a'}}", "w.yaml:4:27: ", `a "${" has no "}"`)
	f("query: |\n  funnel: {steps: '${a +}'}", "w.yaml:4:")
	f("query: '{a: b: ${c}}'", "w.yaml:4:")
	f("query:\n  users: {step: 3}\n  funnel: {steps: [a, b]}", "w.yaml:5:17: ", "query.users.step", "no such step: 3")
	f("query:\n  users: {step: '${s}', stepp: 3}\n  funnel: {steps: [a, b]}", "w.yaml:5:", "query.users.stepp")
	f("query:\n  users: {step: '${s}', period: 3}\n  funnel: {steps: [a, b]}", "w.yaml:5:", "query.users.period", "not selected by period")
	f("query: null", "must be a query, got null")
	f("query: 7", "must be a query, got an integer")
	f("query: '${a}'", "must be a query, got a string")
	f("query: {segment: {}}\nsample: 0", "must be a share above 0")
	f("query: {segment: {}}\nsample: 2", "sample")
	f("query: {segment: {}}\nmemory: 1KiB", "memory")
}

// TestTrailShared has two nodes use one store, over a reload, and lets go of it
// in the end.
func TestTrailShared(t *testing.T) {
	dir := t.TempDir()
	const doc = `
{kind: trail_append, name: add, db: %[1]s, event: '"view"'}
---
{kind: trail_query, name: n, db: %[1]s, query: {segment: {event: view}}}
`
	e := engine(t, t.Output())
	add := func(user string) {
		t.Helper()
		if _, _, err := e.Run(t.Context(), "add", payload(t, `{"user":"`+user+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(n int) {
		t.Helper()
		if got, want := ask(t, e, "null"), fmt.Sprintf(`{"rows":[{"value":%d}]}`, n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if err := apply(t, e, doc, dir); err != nil {
		t.Fatal(err)
	}
	add("ann")
	want(1)
	if _, err := trail.Open(dir, trail.Options{}); err == nil {
		t.Error("got no error for a second writer")
	}
	if err := apply(t, e, doc+"---\n{kind: snippet, name: more, code: more}\n", dir); err != nil {
		t.Fatal(err)
	}
	add("bob")
	want(2)

	// Without a node that appends another process may write, and is seen immediately.
	if err := apply(t, e, "{kind: trail_query, name: n, db: %[1]s, query: {segment: {event: view}}}", dir); err != nil {
		t.Fatal(err)
	}
	want(2)
	fill(t, dir)
	want(4)
	fill(t, dir)
	want(6)
	if err := apply(t, e, doc, dir); err != nil {
		t.Fatal(err)
	}
	add("cid")
	want(7)
	shutdown(t, e)
	fill(t, dir)
}

// TestTrailNoStore has queries fail until there is a store.
func TestTrailNoStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	e := serve(t, `{kind: trail_query, name: n, db: %s, query: {segment: {event: view}}}`, dir)
	if got := ask(t, e, "null"); !strings.Contains(got, "[no_store 503 ") {
		t.Errorf("got %s", got)
	}
	fill(t, dir)
	if got := ask(t, e, "null"); got != `{"rows":[{"value":2}]}` {
		t.Errorf("got %s", got)
	}
}

// TestTrailHeld refuses a workflow that appends to a store that another process
// holds, and goes on with the one before.
func TestTrailHeld(t *testing.T) {
	dir := t.TempDir()
	s, err := trail.Open(dir, trail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := serve(t, `{kind: trail_query, name: n, db: %s, query: {segment: {event: view}}}`, dir)
	if err := apply(t, e, `{kind: trail_append, name: n, db: %s}`, dir); err == nil || !strings.Contains(err.Error(), "held by") {
		t.Errorf("got %v", err)
	}
	if got := ask(t, e, "null"); got != `{"rows":[{"value":0}]}` {
		t.Errorf("got %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := apply(t, e, `{kind: trail_append, name: n, db: %s}`, dir); err != nil {
		t.Error(err)
	}
}

// TestTrailQueryTooLarge asks for more groups than there is memory for.
func TestTrailQueryTooLarge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var many []event.Event
	for i := range int64(30_000) {
		many = append(many, event.Event{User: fmt.Sprint("u", i), Time: 1767571200000 + i, Name: "view", Properties: []event.Property{
			{Name: "country", Value: event.StringOf(fmt.Sprint("c", i))},
		}})
	}
	fill(t, dir, many...)
	e := serve(t, "{kind: trail_query, name: n, db: %s, memory: 1MiB, query: {segment: {by: [country], measure: users}}}", dir)
	if got := ask(t, e, `null`); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "[too_large 500 ") || !strings.Contains(got, "memory") {
		t.Errorf("got %s, want the code too_large", got)
	}
}
