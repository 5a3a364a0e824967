package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

func TestTrailUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "events.csv", "user,time,event\n")
	f := func(message string, args ...string) {
		t.Helper()
		code, out, errs := execute(t, nil, append([]string{"trail"}, args...)...)
		if code != exitUsage || !strings.Contains(errs, message) || out != "" {
			t.Errorf("trail %q: got %d, %q, %q, want %d and %q", args, code, out, errs, exitUsage, message)
		}
	}
	f("did you mean import?", "imprt")
	for _, command := range []string{"import", "info", "export", "compact", "verify", "delete", "drop"} {
		f("no store is named: --db is missing\nhint: add --db shop.trail\nSee 'uniflow trail "+command+" --help'.", command)
		if command != "import" {
			f("takes no arguments", command, "--db", "x", "y")
		}
	}
	f("nothing to import", "import", "--db", "x")
	f(`--time-unit is s, ms, us or ns, got "h"`, "import", "--db", "x", "--time-unit", "h", "events.csv")
	f("--max-bad is not negative", "import", "--db", "x", "--max-bad", "-1", "events.csv")
	f("--bucket is whole seconds from 1h to 1176h", "import", "--db", "x", "--bucket", "1m", "events.csv")
	f(`"events.csv" is there twice`, "import", "--db", "x", "events.csv", "events.csv")
	f(`--types: want PROPERTY:TYPE, got "price"`, "import", "--db", "x", "--types", "price", "events.csv")
	f("did you mean number?", "import", "--db", "x", "--types", "price:nunber", "events.csv")
	f(`--types: "price" is there twice`, "import", "--db", "x", "--types", "price:number,price:string", "events.csv")
	f("no store is named", "query", "-f", "q.yaml")
	f("nothing is asked", "query", "--db", "x")
	f("two questions", "query", "--db", "x", "-f", "q.yaml", "-e", "{}")
	f("write -f q.yaml", "query", "--db", "x", "q.yaml")
	f("--sample is above 0 and up to 1, got 2", "query", "--db", "x", "-f", "q.yaml", "--sample", "2")
	f("--sample is above 0 and up to 1, got 0", "query", "--db", "x", "-f", "q.yaml", "--sample", "0")
	f(`--explain is plan, clickhouse or duckdb, got "sql"`, "query", "--db", "x", "-f", "q.yaml", "--explain=sql")
	f("did you mean clickhouse?", "query", "--db", "x", "-f", "q.yaml", "--explain", "clickhose")
	f("--timeout is not negative", "query", "--db", "x", "-f", "q.yaml", "--timeout", "-1s")
	f("--save and --ids need a store", "query", "--dsn", "clickhouse://localhost", "-f", "q.yaml", "--ids")
	f("--save and --ids are about cohorts", "query", "--db", "x", "--save", "-e", "paths: {anchor: a}")
	f("--save: the cohort has no name\nhint: add name: NAME", "query", "--db", "x", "--save", "-e", "cohort: {did: {event: a}}")
	f("--explain plan is not about --dsn", "query", "--dsn", "clickhouse://localhost", "-e", "paths: {anchor: a}", "--explain")
	f("port 9000 is that of the native protocol", "query", "--dsn", "clickhouse://localhost:9000", "-e", "paths: {anchor: a}")
	f("want clickhouse://HOST:PORT/DATABASE\nhint: ", "query", "--dsn", "http://a:secret@localhost", "-e", "paths: {anchor: a}")
	f("secure is the only parameter", "query", "--dsn", "clickhouse://localhost?tls=1", "-e", "paths: {anchor: a}")
	f("nowhere to write to", "export", "--db", "x")
	f("nobody to remove", "delete", "--db", "x")
	f("nothing to remove", "drop", "--db", "x")
	f("want a day or a time of RFC 3339", "drop", "--db", "x", "--before", "yesterday")
	if _, err := os.Stat("x"); err == nil {
		t.Error("got a store made by commands that could not be used")
	}
}

// TestTrailNoStore has no command but import make a store.
func TestTrailNoStore(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(want int, args ...string) {
		t.Helper()
		code, _, errs := execute(t, nil, append([]string{"trail"}, args...)...)
		if code != want || !strings.Contains(errs, "no store") {
			t.Errorf("trail %q: got %d, %q, want %d and no store", args, code, errs, want)
		}
		if _, err := os.Stat("x"); err == nil {
			t.Errorf("trail %q made a store", args)
		}
	}
	f(exitEngine, "query", "--db", "x", "-e", "paths: {anchor: a}")
	f(exitEngine, "info", "--db", "x")
	f(exitEngine, "export", "--db", "x", "--out", "y")
	f(exitEngine, "compact", "--db", "x")
	f(exitEngine, "delete", "--db", "x", "--user", "u")
	f(exitEngine, "drop", "--db", "x", "--before", "2026-01-05")
	f(exitFindings, "verify", "--db", "x")
	if _, err := os.Stat("y"); err == nil {
		t.Error("export without a store left a file")
	}
}

// TestQuestionErrors shows what is wrong with a question, all of it, with its lines.
func TestQuestionErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "q.yaml", "funnel:\n  stepz: [view]\n  within: soon\n")
	code, out, errs := execute(t, nil, "trail", "query", "--db", "x", "-f", "q.yaml")
	for _, want := range []string{"q.yaml:2:3: ", "    2 |   stepz: [view]\n      |   ^\n", "hint: did you mean steps?", "    3 |   within: soon\n      |           ^\n", " errors\n"} {
		if !strings.Contains(errs, want) {
			t.Errorf("got %q, want %q in it", errs, want)
		}
	}
	if code != exitFindings || out != "" {
		t.Errorf("got exit code %d and %q on standard output, want %d and nothing", code, out, exitFindings)
	}
	_, _, errs = execute(t, nil, "trail", "query", "--db", "x", "-e", "funel: {}")
	if !strings.HasPrefix(errs, "<expr>:1:1: ") || !strings.Contains(errs, "did you mean funnel?") {
		t.Errorf("got %q, want place and hint", errs)
	}
	code, _, errs = execute(t, nil, "trail", "query", "--db", "x", "-f", "missing.yaml")
	if code != exitEngine || !strings.Contains(errs, "missing.yaml: no such file") {
		t.Errorf("got %d, %q, want %d and that there is no such file", code, errs, exitEngine)
	}
}

func TestMeter(t *testing.T) {
	var out bytes.Buffer
	sys := machine(io.Discard, &out, map[string]string{"TERM": "dumb"})
	m := newApp(nil, sys).newMeter()
	now := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	m.now = func() time.Time { return now }
	step := func(by time.Duration, h headway) {
		now = now.Add(by)
		m.update(h)
	}
	step(0, headway{what: "a.csv", done: 0, total: 100})
	step(4*time.Second, headway{what: "a.csv", done: 40, total: 100, events: 4000})
	step(time.Second, headway{what: "a.csv", done: 50, total: 100, events: 5000})
	step(time.Second, headway{what: "a.csv", done: 60, total: 100, events: 6000})
	step(time.Second, headway{what: "b.csv", done: 1, total: -1, events: 1})
	step(10*time.Second, headway{what: "b.csv", done: 10, total: -1, events: 20})
	step(10*time.Second, headway{what: "segment 1", done: 1 << 20, total: 2 << 20, bytes: true})
	step(8*time.Second, headway{what: "segment 1", done: 1 << 20, total: 2 << 20, bytes: true})
	m.end()
	const want = `a.csv: 5,000 events, 1,000/s, 50 %, 5s left
b.csv: 20 events, 2/s
segment 1: 1.0 MiB, 128.0 KiB/s, 50 %, 8s left
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestMeterOnTerminal draws a bar, and wipes it away.
func TestMeterOnTerminal(t *testing.T) {
	var out bytes.Buffer
	sys := machine(io.Discard, &out, nil)
	sys.Terminal = func(io.Writer) bool { return true }
	m := newApp(nil, sys).newMeter()
	now := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	m.now = func() time.Time { return now }
	m.update(headway{what: "a.csv", done: 0, total: 100})
	now = now.Add(time.Second)
	m.update(headway{what: "a.csv", done: 50, total: 100, events: 5000})
	m.end()
	got := out.String()
	if !strings.Contains(got, "a.csv: 5,000 events, 5,000/s") || !strings.Contains(got, "50%") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("got %q, want a bar at 50%% that is wiped away", got)
	}
}

// TestInterruptible has work that only a signal ends.
func TestInterruptible(t *testing.T) {
	signals := make(chan os.Signal, 2)
	sys := machine(io.Discard, io.Discard, nil)
	sys.Signals = func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} }
	a := newApp(nil, sys)
	code := func(err error) int {
		var exit *exitError
		if errors.As(err, &exit) {
			return exit.code
		}
		return -1
	}
	untilCancelled := func(ctx context.Context) error {
		signals <- syscall.SIGINT
		<-ctx.Done()
		return ctx.Err()
	}
	if err := a.interruptible(t.Context(), untilCancelled); code(err) != 130 || err.Error() != "cancelled (interrupt)" {
		t.Errorf("got %v, want cancelled with 130", err)
	}
	done := func(ctx context.Context) error {
		signals <- syscall.SIGTERM
		<-ctx.Done()
		return nil
	}
	if err := a.interruptible(t.Context(), done); err != nil {
		t.Errorf("got %v of work that was done, want nil", err)
	}
	release := make(chan struct{})
	deaf := func(context.Context) error {
		signals <- syscall.SIGINT
		signals <- syscall.SIGTERM
		<-release
		return nil
	}
	if err := a.interruptible(t.Context(), deaf); code(err) != 143 {
		t.Errorf("got %v of a second signal, want 143", err)
	}
	close(release)
}

// TestClickHouse asks a server of the test.
func TestClickHouse(t *testing.T) {
	var asked *http.Request
	var reply string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.WriteHeader(status)
		if _, err := io.WriteString(w, reply); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	c, err := newClickHouse("query", "clickhouse://me:secret@"+server.Listener.Addr().String()+"/shop")
	if err != nil {
		t.Fatal(err)
	}
	defer c.client.CloseIdleConnections()

	reply = `{"meta": [], "data": [["user", "String"], ["price", "Nullable(Float64)"], ["qty", "UInt32"], ["new", "Nullable(Bool)"], ["country", "LowCardinality(Nullable(String))"]]}`
	schema, err := c.schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := event.Schema{{Name: "price", Type: event.Float}, {Name: "qty", Type: event.Int}, {Name: "new", Type: event.Bool}, {Name: "country", Type: event.String}}
	if len(schema) != len(want) {
		t.Fatalf("got %v, want %v", schema, want)
	}
	for i := range want {
		if schema[i] != want[i] {
			t.Errorf("got %v, want %v", schema[i], want[i])
		}
	}
	if user, key := asked.Header.Get("X-ClickHouse-User"), asked.Header.Get("X-ClickHouse-Key"); user != "me" || key != "secret" || asked.URL.Query().Get("database") != "shop" {
		t.Errorf("got user %q, key %q, %s, want me, secret and the database shop", user, key, asked.URL)
	}

	f := func(answer, message string) {
		t.Helper()
		reply = answer
		if _, err := c.schema(t.Context()); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("got %v, want %q", err, message)
		}
	}
	f(`{"data": []}`, "has no table events")
	f(`{"data": [["user"]]}`, "cannot be read")
	f(`{"data": `, "cannot be read")
	status = http.StatusNotFound
	f("Code: 81. DB::Exception: Database shop does not exist.\nstack", "clickhouse: 404 Not Found: Code: 81. DB::Exception: Database shop does not exist.")
}

// TestSecondWriter is told who holds the store; readers are not disturbed.
func TestSecondWriter(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "events.csv", "user,time,event\nu1,2026-01-05T10:00:00Z,view\n")
	s, err := trail.Open("shop", trail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), []event.Event{{User: "u2", Time: millis(t, "2026-01-05T10:00:00Z"), Name: "view"}}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"import", "events.csv"}, {"compact"}, {"delete", "--user", "u1"}, {"drop", "--before", "2026-01-05"},
		{"query", "--save", "-e", "{name: all, cohort: {did: {event: view}}}"},
	} {
		code, _, errs := execute(t, nil, append([]string{"trail", args[0], "--db", "shop"}, args[1:]...)...)
		if code != exitEngine || !strings.Contains(errs, "store shop is held by process ") || !strings.Contains(errs, "\nhint: one program at a time writes to a store") {
			t.Errorf("trail %q: got %d, %q, want %d and who holds the store", args, code, errs, exitEngine)
		}
	}
	for _, args := range [][]string{{"query", "-q", "-e", "segment: {event: view}"}, {"info"}, {"verify"}, {"export", "--out", "out.parquet"}} {
		if code, out, errs := execute(t, nil, append([]string{"trail", args[0], "--db", "shop"}, args[1:]...)...); code != exitOK {
			t.Errorf("trail %q: got %d, %q, %q, want %d", args, code, out, errs, exitOK)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := execute(t, nil, "trail", "import", "--db", "shop", "events.csv"); code != exitOK {
		t.Errorf("got %d, %q once the store is free, want %d", code, errs, exitOK)
	}
}

// TestTimeout gives up, and says so.
func TestTimeout(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "events.csv", "user,time,event\nu1,2026-01-05T10:00:00Z,view\n")
	if code, _, errs := execute(t, nil, "trail", "import", "--db", "shop", "events.csv"); code != exitOK {
		t.Fatalf("got %d, %q", code, errs)
	}
	code, out, errs := execute(t, nil, "trail", "query", "--db", "shop", "-e", "segment: {event: view}", "--timeout", "1ns")
	if code != exitEngine || out != "" || !strings.HasPrefix(errs, "uniflow: no answer within 1ns: ") || !strings.Contains(errs, "\nhint: raise --timeout") {
		t.Errorf("got %d, %q, %q, want %d and that there is no answer", code, out, errs, exitEngine)
	}
}

// TestExportKeeps has a file stay as it was when its successor cannot be written.
func TestExportKeeps(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "out.parquet", "as it was")
	err := streamFile("out.parquet", func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			t.Error(err)
		}
		return errors.New("disk full")
	})
	if err == nil || err.Error() != "disk full" {
		t.Errorf("got %v, want disk full", err)
	}
	data, err := os.ReadFile("out.parquet")
	entries, dirErr := os.ReadDir(".")
	if err != nil || dirErr != nil || string(data) != "as it was" || len(entries) != 1 {
		t.Errorf("got %q and %d files, errors %v, %v, want the file as it was, alone", data, len(entries), err, dirErr)
	}
}

// TestAskClickHouse has a server of the test answer a funnel: the table is looked
// at, then asked.
func TestAskClickHouse(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, string(body))
		reply := `{"data": [[2000, 500, 125]]}`
		if strings.Contains(string(body), "system.columns") {
			reply = `{"data": [["user", "String"], ["time", "DateTime64(3, 'UTC')"], ["event", "String"], ["price", "Nullable(Float64)"]]}`
		}
		w.Header().Set("X-ClickHouse-Summary", `{"read_rows": "12345", "read_bytes": "2048"}`)
		if _, err := io.WriteString(w, reply); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	dsn := "clickhouse://" + server.Listener.Addr().String()
	code, out, errs := execute(t, map[string]string{"UNIFLOW_TRAIL_DSN": dsn}, "trail", "query", "-e", "funnel: {steps: [view, cart, {event: purchase, where: {price: {gt: 5}}}], within: 24h}")
	if code != exitOK || !strings.Contains(out, "1 view      2,000 ") || !strings.Contains(out, "3 purchase    125     6.2 %       25.0 %") || !strings.HasPrefix(errs, "read 12,345 events (2.0 KiB) in ") {
		t.Errorf("got %d, %q, %q, want the answer of the server", code, out, errs)
	}
	if len(asked) != 2 || !strings.Contains(asked[1], "windowFunnel(") {
		t.Errorf("got %q asked, want the columns and then a funnel", asked)
	}
	code, out, errs = execute(t, nil, "trail", "query", "--dsn", dsn, "-e", "segment: {where: {prise: 5}}", "--explain", "clickhouse")
	if code != exitOK || !strings.Contains(out, "FROM events") || !strings.HasPrefix(errs, "warning: ") {
		t.Errorf("got %d, %q, %q, want SQL and a warning", code, out, errs)
	}
	code, _, errs = execute(t, nil, "trail", "query", "--dsn", dsn, "-e", "segment: {where: {price: {gt: cheap}}}")
	if code != exitFindings || !strings.HasPrefix(errs, "<expr>:1:") || !strings.Contains(errs, "^") {
		t.Errorf("got %d, %q, want the place of what is wrong", code, errs)
	}
}

// FuzzTrailFlags has flags that are written in any way: they are refused with an
// error of usage, which tells no password, or read.
func FuzzTrailFlags(f *testing.F) {
	for _, seed := range []string{
		"clickhouse://localhost", "clickhouse://me:secret@[::1]:8123/shop?secure=true", "clickhouse://me:secret@host:9000", "http://me:secret@host/a/b",
		"clickhouse://me:secret@host?secure=maybe", "clickhouse://me:secret@ho st", "price:number", "a:b:string", ":", "price:",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var exit *exitError
		c, err := newClickHouse("query", text)
		switch {
		case err == nil:
			if c.url.Host == "" || c.url.User != nil {
				t.Errorf("%q: got %s, want a host, and no user in it", text, c.url)
			}
		case !errors.As(err, &exit) || exit.code != exitUsage:
			t.Errorf("%q: got %v, want an error of usage", text, err)
		case strings.Contains(text, ":secret@") && strings.Contains(err.Error(), "secret@"):
			t.Errorf("%q: got %v, which tells the password", text, err)
		}
		if types, err := columnTypes("import", []string{text}); err == nil && len(types) != 1 {
			t.Errorf("%q: got %v, want one type", text, types)
		}
	})
}
