package trail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

func TestTrailUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "events.csv", "user,time,event\n")
	if err := os.Mkdir("folder.csv", 0o755); err != nil {
		t.Fatal(err)
	}
	f := func(message string, args ...string) {
		t.Helper()
		code, out, errs := apptest.Execute(t, root, nil, append([]string{"trail"}, args...)...)
		if code != app.ExitUsage || !strings.Contains(errs, message) || out != "" {
			t.Errorf("trail %q: got %d, %q, %q, want %d and %q", args, code, out, errs, app.ExitUsage, message)
		}
	}
	f("did you mean import?", "imprt")
	for command, rest := range map[string]string{
		"import": " FILE...", "info": "", "export": " --out FILE", "compact": "", "verify": "",
		"discard": " --segment FILE", "delete": " --user USER", "drop": " --before TIME",
	} {
		hint := "\nhint: write " + command + " shop.trail" + rest + "\nSee 'uniflow trail " + command + " --help'."
		f("no store is named"+hint, command)
		f("no store is named: events.csv is a file"+hint, command, "events.csv")
		if command == "import" {
			continue
		}
		f("takes one store, got \"y\" too\nhint: --db names the store already", command, "--db", "x", "y")
		if rest == "" {
			hint = ""
		}
		f("takes one store, got \"y\" too"+hint, command, "x", "y")
	}
	f("folder.csv is a folder\nhint: name the files in it", "import", "x", "folder.csv")
	f("--db names the store already", "query", "--db", "x", "y", "q.yaml")
	f("leave out one of the two", "query", "x", "q.yaml", "--file", "q.yaml")
	f("folder.csv is a folder\nhint: name the file with the question", "query", "x", "folder.csv")
	f("nothing to import", "import", "--db", "x")
	f(`--time-unit must be s, ms, us or ns, got "h"`, "import", "--db", "x", "--time-unit", "h", "events.csv")
	f("--max-bad must not be negative", "import", "--db", "x", "--max-bad", "-1", "events.csv")
	f("--bucket must be whole seconds from 1h to 1176h", "import", "--db", "x", "--bucket", "1m", "events.csv")
	f(`"1990" for "--times" flag: times "1990": want any, or FROM/TO such as 1990-01-01/2030-01-01`, "import", "--db", "x", "--times", "1990", "events.csv")
	f(`"events.csv" is there twice`, "import", "--db", "x", "events.csv", "events.csv")
	f(`--types must be PROPERTY:TYPE, got "price"`, "import", "--db", "x", "--types", "price", "events.csv")
	f("did you mean number?", "import", "--db", "x", "--types", "price:nunber", "events.csv")
	f(`--types: "price" is there twice`, "import", "--db", "x", "--types", "price:number,price:string", "events.csv")
	f("no store is named", "query", "--file", "q.yaml")
	f("there is no question", "query", "--db", "x")
	f("two questions", "query", "--db", "x", "--file", "q.yaml", "--expr", "{}")
	f("no store is named: events.csv is a file", "query", "events.csv")
	f("a store and a question, got \"y\" too", "query", "x", "q.yaml", "y")
	f("a store and a question, got \"y\" too", "query", "--db", "x", "--file", "q.yaml", "y")
	f("there is no question", "query", "x")
	f(`"2" for "--sample" flag: must be a number above 0 and up to 1`, "query", "--db", "x", "--file", "q.yaml", "--sample", "2")
	f(`"0" for "--sample" flag: must be a number above 0 and up to 1`, "query", "--db", "x", "--file", "q.yaml", "--sample", "0")
	f(`--explain must be plan, clickhouse or duckdb, got "sql"`, "query", "--db", "x", "--file", "q.yaml", "--explain=sql")
	f("did you mean clickhouse?", "query", "--db", "x", "--file", "q.yaml", "--explain", "clickhose")
	f(`"abc" for "--sample" flag: must be a number above 0 and up to 1, such as 0.1 for a tenth of the users`, "query", "--db", "x", "--file", "q.yaml", "--sample", "abc")
	f(`"5" for "--timeout" flag: needs a unit after the number, such as 5s for seconds`, "query", "--db", "x", "--file", "q.yaml", "--timeout", "5")
	f(`"soon" for "--timeout" flag: must be a duration such as 500ms`, "query", "--db", "x", "--file", "q.yaml", "--timeout", "soon")
	f(`"1XB" for "--memory" flag: must be a number of bytes above 0`, "query", "--db", "x", "--file", "q.yaml", "--memory", "1XB")
	f("events.txt: unknown format: the extension must be .csv,", "import", "--db", "x", "events.csv", "events.txt")
	f("folder.csv is a folder\nhint: name the files in it, such as folder.csv/*.csv", "import", "--db", "x", "folder.csv")
	f(". is not a store: it has other files in it, such as events.csv\nhint: name a folder that is empty or not there yet", "import", "--db", ".", "events.csv")
	f("--segment is missing", "discard", "--db", "x")
	f("--before 2999-01-01 is in the future: all events would be removed permanently", "drop", "--db", "x", "--before", "2999-01-01")
	f("--timeout must not be negative", "query", "--db", "x", "--file", "q.yaml", "--timeout", "-1s")
	f("--save and --ids need a store", "query", "--dsn", "clickhouse://localhost", "--file", "q.yaml", "--ids")
	f("--save and --ids are about users: the document asks for numbers", "query", "--db", "x", "--save", "--expr", "paths: {anchor: a}")
	f("--save: the cohort has no name\nhint: add name: NAME", "query", "--db", "x", "--save", "--expr", "cohort: {did: {event: a}}")
	f("--explain plan is not about --dsn", "query", "--dsn", "clickhouse://localhost", "--expr", "paths: {anchor: a}", "--explain")
	f("port 9000 is for the native protocol", "query", "--dsn", "clickhouse://localhost:9000", "--expr", "paths: {anchor: a}")
	f("must be clickhouse://HOST:PORT/DATABASE\nhint: ", "query", "--dsn", "http://a:secret@localhost", "--expr", "paths: {anchor: a}")
	f("secure is the only parameter", "query", "--dsn", "clickhouse://localhost?tls=1", "--expr", "paths: {anchor: a}")
	f("nowhere to write to", "export", "--db", "x")
	f("--user is missing", "delete", "--db", "x")
	f("--before is missing", "drop", "--db", "x")
	f("must be a day or a time of RFC 3339", "drop", "--db", "x", "--before", "yesterday")
	if _, err := os.Stat("x"); err == nil {
		t.Error("got a store made by commands that could not be used")
	}
}

// TestTrailNoStore has no command but import make a store.
func TestTrailNoStore(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(want int, args ...string) {
		t.Helper()
		code, _, errs := apptest.Execute(t, root, nil, append([]string{"trail"}, args...)...)
		if code != want || !strings.Contains(errs, "no store") {
			t.Errorf("trail %q: got %d, %q, want %d and no store", args, code, errs, want)
		}
		if _, err := os.Stat("x"); err == nil {
			t.Errorf("trail %q made a store", args)
		}
	}
	f(app.ExitFailure, "query", "--db", "x", "--expr", "paths: {anchor: a}")
	f(app.ExitFailure, "info", "--db", "x")
	f(app.ExitFailure, "info", "x")
	f(app.ExitFailure, "query", "x", "--expr", "paths: {anchor: a}")
	f(app.ExitFailure, "query", "x", "--expr", "paths: {anchor: a}", "--explain", "duckdb")
	apptest.Write(t, "q.yaml", "paths: {anchor: a}")
	f(app.ExitFailure, "query", "--explain", "duckdb", "x", "q.yaml")
	f(app.ExitFailure, "query", "x", "--explain", "duckdb", "q.yaml")
	f(app.ExitFailure, "query", "--explain", "duckdb", "x", "--expr", "paths: {anchor: a}")
	f(app.ExitFailure, "export", "--db", "x", "--out", "y")
	f(app.ExitFailure, "compact", "--db", "x")
	f(app.ExitFailure, "delete", "--db", "x", "--user", "u")
	f(app.ExitFailure, "drop", "--db", "x", "--before", "2026-01-05")
	f(app.ExitFailure, "discard", "--db", "x", "--segment", "1.seg")
	f(app.ExitFailure, "verify", "--db", "x")
	if _, err := os.Stat("y"); err == nil {
		t.Error("export without a store left a file")
	}
}

// TestQuestionErrors shows what is wrong with a question, all of it, with its lines.
func TestQuestionErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "q.yaml", "funnel:\n  stepz: [view]\n  within: soon\n")
	code, out, errs := apptest.Execute(t, root, nil, "trail", "query", "--db", "x", "--file", "q.yaml")
	for _, want := range []string{"q.yaml:2:3: ", "    2 |   stepz: [view]\n      |   ^\n", "hint: did you mean steps?", "    3 |   within: soon\n      |           ^\n", " errors\n"} {
		if !strings.Contains(errs, want) {
			t.Errorf("got %q, want %q in it", errs, want)
		}
	}
	if code != app.ExitFindings || out != "" {
		t.Errorf("got exit code %d and %q on standard output, want %d and nothing", code, out, app.ExitFindings)
	}
	_, _, errs = apptest.Execute(t, root, nil, "trail", "query", "--db", "x", "--expr", "funel: {}")
	if !strings.HasPrefix(errs, "<expr>:1:1: ") || !strings.Contains(errs, "did you mean funnel?") {
		t.Errorf("got %q, want place and hint", errs)
	}
	code, _, errs = apptest.Execute(t, root, nil, "trail", "query", "--db", "x", "--file", "missing.yaml")
	if code != app.ExitFindings || !strings.Contains(errs, "missing.yaml: no such file") {
		t.Errorf("got %d, %q, want %d and that there is no such file", code, errs, app.ExitFindings)
	}
}

// TestInterruptible has work that only a signal ends.
func TestInterruptible(t *testing.T) {
	signals := make(chan os.Signal, 2)
	sys := apptest.Machine(io.Discard, io.Discard, nil)
	sys.Signals = func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} }
	a := commands{app.New(nil, sys)}
	code := func(err error) int {
		var exit *app.ExitError
		if errors.As(err, &exit) {
			return exit.Code
		}
		return -1
	}
	untilCancelled := func(ctx context.Context) error {
		signals <- syscall.SIGINT
		<-ctx.Done()
		return ctx.Err()
	}
	if err := a.Interruptible(t.Context(), untilCancelled); code(err) != 130 || err.Error() != "cancelled (interrupt)" {
		t.Errorf("got %v, want cancelled with 130", err)
	}
	done := func(ctx context.Context) error {
		signals <- syscall.SIGTERM
		<-ctx.Done()
		return nil
	}
	if err := a.Interruptible(t.Context(), done); err != nil {
		t.Errorf("got %v of work that was done, want nil", err)
	}
	release := make(chan struct{})
	deaf := func(context.Context) error {
		signals <- syscall.SIGINT
		signals <- syscall.SIGTERM
		<-release
		return nil
	}
	if err := a.Interruptible(t.Context(), deaf); code(err) != 143 {
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

	reply = `{"meta": [], "data": [["user", "String"], ["price", "Nullable(Float64)"], ["qty", "UInt32"], ["new", "Nullable(Bool)"], ["country", "LowCardinality(String)"]]}`
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
	f(`{"data": [["country", "LowCardinality(Nullable(String))"]]}`, "column country of table events is LowCardinality(Nullable(String)); a missing string must be empty there, not NULL")
	f(`{"data": [["user"]]}`, "cannot be read")
	f(`{"data": `, "cannot be read")
	status = http.StatusNotFound
	f("Code: 81. DB::Exception: Database shop does not exist.\nstack", "clickhouse: 404 Not Found: Code: 81. DB::Exception: Database shop does not exist.")
}

// TestSecondWriter gets an error that names the holder of the store; readers are not
// disturbed.
func TestSecondWriter(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "events.csv", "user,time,event\nu1,2026-01-05T10:00:00Z,view\n")
	s, err := trail.Open("shop", trail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), []event.Event{{User: "u2", Time: millis(t, "2026-01-05T10:00:00Z"), Name: "view"}}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"import", "events.csv"}, {"compact"}, {"delete", "--user", "u1"}, {"drop", "--before", "2026-01-05"},
		{"query", "--save", "--expr", "{name: all, cohort: {did: {event: view}}}"},
	} {
		code, _, errs := apptest.Execute(t, root, nil, append([]string{"trail", args[0], "--db", "shop"}, args[1:]...)...)
		if code != app.ExitFailure || !strings.Contains(errs, "store shop is held by process ") || !strings.Contains(errs, "\nhint: one program at a time may write to a store") {
			t.Errorf("trail %q: got %d, %q, want %d and who holds the store", args, code, errs, app.ExitFailure)
		}
	}
	for _, args := range [][]string{{"query", "-q", "--expr", "segment: {event: view}"}, {"info"}, {"verify"}, {"export", "--out", "out.parquet"}} {
		if code, out, errs := apptest.Execute(t, root, nil, append([]string{"trail", args[0], "--db", "shop"}, args[1:]...)...); code != app.ExitOK {
			t.Errorf("trail %q: got %d, %q, %q, want %d", args, code, out, errs, app.ExitOK)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := apptest.Execute(t, root, nil, "trail", "import", "--db", "shop", "events.csv"); code != app.ExitOK {
		t.Errorf("got %d, %q once the store is free, want %d", code, errs, app.ExitOK)
	}
}

// TestTooMuch gives up, and says so.
func TestTooMuch(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "events.csv", "user,time,event\nu1,2026-01-05T10:00:00Z,view\n")
	if code, _, errs := apptest.Execute(t, root, nil, "trail", "import", "--db", "shop", "events.csv"); code != app.ExitOK {
		t.Fatalf("got %d, %q", code, errs)
	}
	code, out, errs := apptest.Execute(t, root, nil, "trail", "query", "--db", "shop", "--expr", "segment: {event: view}", "--timeout", "1ns")
	if code != app.ExitFailure || out != "" || !strings.HasPrefix(errs, "uniflow: no answer within 1ns\nhint: raise --timeout") {
		t.Errorf("got %d, %q, %q, want %d and that there is no answer", code, out, errs, app.ExitFailure)
	}
	code, out, errs = apptest.Execute(t, root, nil, "trail", "query", "--db", "shop", "--expr", "segment: {event: view, by: user}", "--memory", "1")
	if code != app.ExitFailure || out != "" || !strings.Contains(errs, "needs more than its ") || !strings.Contains(errs, "\nhint: raise --memory, which is 1, or") {
		t.Errorf("got %d, %q, %q, want %d and that the memory is too small", code, out, errs, app.ExitFailure)
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
	code, out, errs := apptest.Execute(t, root, map[string]string{"UNIFLOW_TRAIL_DSN": dsn}, "trail", "query", "--expr", "funnel: {steps: [view, cart, {event: purchase, where: {price: {gt: 5}}}], within: 24h}")
	if code != app.ExitOK || !strings.Contains(out, "1 view      2,000 ") || !strings.Contains(out, "3 purchase    125     6.2 %       25.0 %") || !strings.HasPrefix(errs, "read 12,345 events (2.0 KiB) in ") || !strings.HasSuffix(errs, "; answered by ClickHouse at "+server.Listener.Addr().String()+"\n") {
		t.Errorf("got %d, %q, %q, want the answer of the server", code, out, errs)
	}
	if len(asked) != 2 || !strings.Contains(asked[1], "windowFunnel(") {
		t.Errorf("got %q asked, want the columns and then a funnel", asked)
	}
	code, out, errs = apptest.Execute(t, root, nil, "trail", "query", "--dsn", dsn, "--expr", "segment: {where: {prise: 5}}", "--explain", "clickhouse")
	if code != app.ExitOK || !strings.Contains(out, "FROM events") || !strings.HasPrefix(errs, "warning: ") {
		t.Errorf("got %d, %q, %q, want SQL and a warning", code, out, errs)
	}
	code, _, errs = apptest.Execute(t, root, nil, "trail", "query", "--dsn", dsn, "--expr", "segment: {where: {price: {gt: cheap}}}")
	if code != app.ExitFindings || !strings.HasPrefix(errs, "<expr>:1:") || !strings.Contains(errs, "^") {
		t.Errorf("got %d, %q, want the place of what is wrong", code, errs)
	}
}

// TestNullableHint has statements that make a column one that queries are right for.
func TestNullableHint(t *testing.T) {
	for _, tt := range []struct{ name, kind, want string }{
		{"country", "Nullable(String)", "ALTER TABLE events UPDATE country = '' WHERE country IS NULL SETTINGS mutations_sync = 1; ALTER TABLE events MODIFY COLUMN country String"},
		{"a.b", "LowCardinality(Nullable(FixedString(2)))", "ALTER TABLE events UPDATE `a.b` = '' WHERE `a.b` IS NULL SETTINGS mutations_sync = 1; ALTER TABLE events MODIFY COLUMN `a.b` LowCardinality(FixedString(2))"},
	} {
		var exit *app.ExitError
		if err := nullableColumn(tt.name, tt.kind); !errors.As(err, &exit) || exit.Hint != tt.want {
			t.Errorf("%s %s: got %+v, want %s", tt.name, tt.kind, exit, tt.want)
		}
	}
}

// TestNoClickHouse says that nothing listens, without the parameters of the request.
func TestNoClickHouse(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	host := server.Listener.Addr().String()
	server.Close()
	code, out, errs := apptest.Execute(t, root, nil, "trail", "query", "--dsn", "clickhouse://me:secret@"+host+"/shop", "--expr", "paths: {anchor: a}")
	if code != app.ExitFailure || out != "" || !strings.HasPrefix(errs, "uniflow: clickhouse at "+host+": dial tcp ") || !strings.Contains(errs, "\nhint: is a server there?") || strings.Contains(errs, "default_format") || strings.Contains(errs, "secret") {
		t.Errorf("got %d, %q, %q, want host and hint, no URL and no password", code, out, errs)
	}
}

// TestUnknownCohort names the cohorts that are kept.
func TestUnknownCohort(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "events.csv", "user,time,event\nu1,2026-01-05T10:00:00Z,view\n")
	run := func(args ...string) string {
		t.Helper()
		_, _, errs := apptest.Execute(t, root, nil, append([]string{"trail", args[0], "--db", "shop"}, args[1:]...)...)
		return errs
	}
	f := func(cohort, want string) {
		t.Helper()
		if errs := run("query", "--expr", "segment: {where: {cohort: "+cohort+"}}"); !strings.HasPrefix(errs, "<expr>:1:") || !strings.Contains(errs, "hint: "+want+"\n") {
			t.Errorf("%s: got %q, want its place and %q", cohort, errs, want)
		}
	}
	run("import", "events.csv")
	f("buyers", "this store keeps no cohorts yet: --save keeps one")
	run("query", "--save", "--expr", "{name: buyers, cohort: {did: view}}")
	run("query", "--save", "--expr", "{name: all, cohort: {did: view}}")
	f("buyer", "did you mean buyers?")
	f("loyal", "the store keeps all, buyers")
}

// TestDrop is for ever, and says so.
// TestImportTimes imports events of long ago, which has to be asked for.
func TestImportTimes(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "old.csv", "user,time,event\nann,1990-05-01,view\nann,2024-05-01,view\nbob,9999-01-01,view\n")
	f := func(want int, message string, args ...string) {
		t.Helper()
		code, _, errs := apptest.Execute(t, root, nil, append([]string{"trail", "import", "--db", "x"}, args...)...)
		if code != want || !strings.Contains(errs, message) {
			t.Errorf("%q: got %d and %q, want %d and %q", args, code, errs, want, message)
		}
	}
	f(app.ExitFindings, `old.csv:2: time "1990-05-01": time 1990-05-01T00:00:00Z is not plausible: only times from `, "old.csv")
	f(app.ExitFindings, "--times any takes it", "old.csv", "--max-bad", "1")
	f(app.ExitFindings, "old.csv:4: ", "old.csv", "--times", "1990-01-01/")
	f(app.ExitOK, "old.csv: 1 event, 2 bad rows left out", "old.csv", "--max-bad", "2")
	f(app.ExitOK, "old.csv: 2 events, 1 bad row left out", "old.csv", "--max-bad", "2", "--times", "1990-01-01/")
	f(app.ExitOK, "old.csv: 3 events", "old.csv", "--times", "any")
}

// TestImportLargeIntegers imports identifiers that no integer of 64 bits holds.
func TestImportLargeIntegers(t *testing.T) {
	t.Chdir(t.TempDir())
	line := `{"user":"ann","time":"2026-01-05","event":"view","k":%s}` + "\n"
	apptest.Write(t, "ids.ndjson", fmt.Sprintf(line+line, "18446744073709551615", "18446744073709551614"))
	apptest.Write(t, "big.ndjson", fmt.Sprintf(line, "9007199254740993"))
	apptest.Write(t, "half.ndjson", fmt.Sprintf(line, "0.5"))
	f := func(want int, message string, args ...string) {
		t.Helper()
		code, out, errs := apptest.Execute(t, root, nil, append([]string{"trail"}, args...)...)
		if code != want || !strings.Contains(out+errs, message) {
			t.Errorf("%q: got %d, %q and %q, want %d and %q", args, code, out, errs, want, message)
		}
	}
	f(app.ExitFindings, `ids.ndjson:1: k: "18446744073709551615" is an integer that a number cannot hold exactly; --types k:string keeps it`, "import", "--db", "x", "ids.ndjson")
	f(app.ExitOK, "2 events", "import", "--db", "x", "--types", "k:string", "ids.ndjson")
	f(app.ExitOK, `{"k":"18446744073709551614","value":1},{"k":"18446744073709551615","value":1}`, "query", "--db", "x", "--json", "--expr", "{segment: {by: [k]}}")
	f(app.ExitOK, "1 event", "import", "--db", "y", "big.ndjson")
	f(app.ExitFindings, "hint: leave the property out with --types k:skip", "import", "--db", "y", "half.ndjson")
}

// TestImportAdvice checks the flags that errors of an import name.
func TestImportAdvice(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "user.csv", "usr_id,time,event,gift,nr\nann,2026-01-05,view,true,1\n")
	apptest.Write(t, "list.ndjson", `{"user":"ann","time":"2026-01-05","event":"view","tags":["a"]}`+"\n")
	apptest.Write(t, "gift.csv", "user,time,event,gift\nann,2026-01-05,view,1\n")
	apptest.Write(t, "nr.csv", "user,time,event,nr\nann,2026-01-05,view,x\n")
	f := func(message string, args ...string) {
		t.Helper()
		_, _, errs := apptest.Execute(t, root, nil, append([]string{"trail", "import", "--db", "x"}, args...)...)
		if !strings.Contains(errs, message) {
			t.Errorf("%q: got %q, want %q", args, errs, message)
		}
	}
	f("there is no column user_id or user among usr_id, time, event, gift, nr; did you mean --user usr_id?", "user.csv")
	f(`there is no column "happening" among usr_id, time, event, gift, nr; name it with --event`, "--user", "usr_id", "--event", "happening", "user.csv")
	f("; did you mean --types gift:TYPE?", "--user", "usr_id", "--types", "gft:string", "user.csv")
	f("user.csv: 1 event", "--user", "usr_id", "user.csv")
	f("list.ndjson:1: property \"tags\" is an array: want a string, a number or a boolean; --types tags:skip leaves it out", "list.ndjson")
	f("; --types gift:boolean takes 0 and 1 for false and true, --types gift:skip leaves it out", "gift.csv")
	f("; --types nr:skip leaves it out; with --types nr:integer the rows with other values are bad, and --max-bad leaves them out", "nr.csv")
}

func TestDrop(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "events.csv", "user,time,event\nu1,2026-01-05T10:00:00Z,view\nu1,2026-03-05T10:00:00Z,view\n")
	f := func(want string, args ...string) {
		t.Helper()
		if code, _, errs := apptest.Execute(t, root, nil, append([]string{"trail", args[0], "--db", "shop"}, args[1:]...)...); code != app.ExitOK || !strings.HasPrefix(errs, want) {
			t.Errorf("trail %q: got %d, %q, want %q", args, code, errs, want)
		}
	}
	f("events.csv: 2 events in ", "import", "events.csv")
	f("removed the events before 2026-02-01 00:00:00 UTC permanently; older events are left out from now on\n", "drop", "--before", "2026-02-01")
	f("nothing removed: the events before 2026-02-01 00:00:00 UTC were removed earlier\n", "drop", "--before", "2026-01-01")
	f("events.csv: 1 event, 1 left out as older than what is kept in ", "import", "events.csv")
	f("removed the events before 2999-01-01 00:00:00 UTC permanently", "drop", "--before", "2999-01-01", "--force")
	f("nothing removed: there are no events of u9\n", "delete", "--user", "u9")
}

// TestDiscard gives a damaged segment up.
func TestDiscard(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "events.csv", "user,time,event\nu1,2026-01-05T10:00:00Z,view\nu1,2026-03-05T10:00:00Z,view\n")
	if code, _, errs := apptest.Execute(t, root, nil, "trail", "import", "--db", "shop", "events.csv"); code != app.ExitOK {
		t.Fatalf("got %d, %q", code, errs)
	}
	segments, err := filepath.Glob("shop/segments/*.seg")
	if err != nil || len(segments) != 2 {
		t.Fatalf("got %q, %v, want two segments", segments, err)
	}
	apptest.Write(t, segments[0], "damage")
	f := func(want int, message string, args ...string) {
		t.Helper()
		code, out, errs := apptest.Execute(t, root, nil, append([]string{"trail", args[0], "--db", "shop"}, args[1:]...)...)
		if code != want || !strings.Contains(out+errs, message) {
			t.Errorf("trail %q: got %d, %q, %q, want %d and %q", args, code, out, errs, want, message)
		}
	}
	f(app.ExitFindings, "\ndamaged: ", "verify")
	f(app.ExitFailure, "it is not damaged, and stays", "discard", "--segment", segments[1])
	f(app.ExitOK, "removed "+filepath.Base(segments[0])+" with 1 event; what is left of it is in shop/lost\n", "discard", "--segment", segments[0])
	f(app.ExitOK, "sound: 1 segment with 1 event,", "verify")
}

// TestWarningHandler says each thing once, and nothing before the store is open.
func TestWarningHandler(t *testing.T) {
	var out strings.Builder
	warningHandler := newWarningHandler(func(format string, args ...any) { fmt.Fprintf(&out, format, args...) })
	log := slog.New(warningHandler).With("store", "shop").WithGroup("g")
	log.Info("opening")
	log.Warn("trail: a file is lost", "path", "a\x1b[2J")
	if out.Len() > 0 {
		t.Errorf("got %q before the store is open, want nothing", out.String())
	}
	warningHandler.open()
	log.Warn("trail: a file is lost", "path", "a\x1b[2J")
	log.Error("worse")
	const want = "warning: a file is lost (store shop, path a\\x1b[2J)\nwarning: worse (store shop)\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestVerifyText distinguishes damage from files that may not be read.
func TestVerifyText(t *testing.T) {
	damage := trail.Damage{File: "segments/1.seg", Section: "times", Offset: 4, Length: 8, Reason: "checksum", Hint: "copy it back"}
	for _, tt := range []struct {
		report trail.Report
		want   string
	}{
		{trail.Report{Segments: 1, Rows: 1}, "sound: 1 segment with 1 event, 0 records in the log\n"},
		{trail.Report{Damages: []trail.Damage{damage, damage}}, "shop/segments/1.seg: bytes 4 to 12: times: checksum\n    hint: copy it back\nshop/segments/1.seg: bytes 4 to 12: times: checksum\ndamaged: 2 places; read 0 segments with 0 events, 0 records in the log\n"},
		{trail.Report{Denied: []string{"LOCK"}}, "shop/LOCK: cannot be checked: this user may not read it\nnot all could be checked: 1 file not read; read 0 segments with 0 events, 0 records in the log\n"},
		{trail.Report{Denied: []string{"LOCK"}, Damages: []trail.Damage{{File: "x", Reason: "it is missing"}}}, "shop/x: it is missing\nshop/LOCK: cannot be checked: this user may not read it\ndamaged: 1 place, 1 file not read; read 0 segments with 0 events, 0 records in the log\n"},
	} {
		if got := verifyText("shop", tt.report); got != tt.want {
			t.Errorf("got\n%s\nwant\n%s", got, tt.want)
		}
	}
}

// FuzzTrailFlags has flags that are written in any way: they are refused with an error
// of usage that does not contain the password, or read.
func FuzzTrailFlags(f *testing.F) {
	for _, seed := range []string{
		"clickhouse://localhost", "clickhouse://me:secret@[::1]:8123/shop?secure=true", "clickhouse://me:secret@host:9000", "http://me:secret@host/a/b",
		"clickhouse://me:secret@host?secure=maybe", "clickhouse://me:secret@ho st", "price:number", "a:b:string", ":", "price:",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var exit *app.ExitError
		c, err := newClickHouse("query", text)
		switch {
		case err == nil:
			if c.url.Host == "" || c.url.User != nil {
				t.Errorf("%q: got %s, want a host, and no user in it", text, c.url)
			}
		case !errors.As(err, &exit) || exit.Code != app.ExitUsage:
			t.Errorf("%q: got %v, want an error of usage", text, err)
		case strings.Contains(text, ":secret@") && strings.Contains(err.Error(), "secret@"):
			t.Errorf("%q: got %v, which contains the password", text, err)
		}
		if types, err := columnTypes("import", []string{text}); err == nil && len(types) != 1 {
			t.Errorf("%q: got %v, want one type", text, types)
		}
	})
}
