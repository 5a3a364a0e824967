package examples

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/servertest"
)

// enterJob makes an empty folder the working folder, with the examples in it, as the
// comments of the jobs have it.
func enterJob(t *testing.T) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(here, "examples"); err != nil {
		t.Fatal(err)
	}
}

// A running is `uniflow run` in a process of its own.
type running struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
	err bytes.Buffer
}

// startJob starts a job.
func startJob(t *testing.T, args ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, cmd: exec.Command(self, append([]string{"run"}, args...)...)}
	r.cmd.Env = append(os.Environ(), childProgram+"=1", "GORACE=atexit_sleep_ms=0")
	r.cmd.Stderr = &r.err
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// ended waits for the job, and returns its exit code and what it has said; the code is
// -1 if it was killed.
func (r *running) ended() (code int, said string) {
	r.t.Helper()
	err := r.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	_ = r.in.Close() // it is not read any more
	return r.cmd.ProcessState.ExitCode(), r.err.String()
}

// moved waits until a file of positions is other than it was.
func moved(t *testing.T, path string, was []byte) {
	t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.Tick(time.Millisecond); ; {
		now, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(now, was) {
			return
		}
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("%s has not moved: %v", path, err)
		}
	}
}

// interrupt starts a job, and sends it a signal at a random moment after its file of
// positions has moved.
func interrupt(t *testing.T, with os.Signal, positions string, args ...string) (code int, said string) {
	t.Helper()
	was, err := os.ReadFile(positions)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	r := startJob(t, args...)
	moved(t, positions, was)
	<-time.After(rand.N(50 * time.Millisecond))
	if err := r.cmd.Process.Signal(with); err != nil {
		t.Errorf("%v: %s", err, &r.err)
	}
	return r.ended()
}

// shop makes a new database shop, with the table of examples/job-csv.yaml, and returns
// its URL and a function that returns how many rows the table has, and their sum.
func shop(t *testing.T) (url string, sum func() string) {
	t.Helper()
	server := "postgres://postgres@" + servertest.Postgres(t).Addr + "/"
	exec := func(url, statement string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Exec(t.Context(), statement)
		if err := errors.Join(err, c.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	url = server + "shop?sslmode=disable"
	exec(server+"postgres?sslmode=disable", "DROP DATABASE IF EXISTS shop WITH (FORCE)")
	exec(server+"postgres?sslmode=disable", "CREATE DATABASE shop")
	exec(url, commented(t, "examples/job-csv.yaml", "-c '", "'"))
	return url, func() string {
		t.Helper()
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var n, total float64
		err = c.QueryRow(t.Context(), "SELECT count(*), coalesce(sum(total), 0) FROM totals").Scan(&n, &total)
		if err := errors.Join(err, c.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%.0f rows, %.2f", n, total)
	}
}

// commented returns the first text of a file between two others.
func commented(t *testing.T, file, before, after string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), before)
	text, _, closed := strings.Cut(rest, after)
	if !found || !closed {
		t.Fatalf("%s has nothing between %q and %q", file, before, after)
	}
	return text
}

// TestJobCSV runs the job as its comments say: the two rows that are bad end in a file.
func TestJobCSV(t *testing.T) {
	enterJob(t)
	url, sum := shop(t)
	args := []string{"examples/job-csv.yaml", "-e", "ORDERS=examples/job-csv/orders.csv", "-e", "DATABASE=" + url}
	code, said := startJob(t, args...).ended()
	if code != 1 || !strings.Contains(said, "\n40 messages in ") {
		t.Errorf("got %d %s", code, said)
	}
	if want := "2 messages ended at the port error of their source\nhint: --allow-dead 2 accepts them\n"; !strings.HasSuffix(said, want) {
		t.Errorf("got %s", said)
	}
	const loaded = "38 rows, 5642.29"
	if got := sum(); got != loaded {
		t.Errorf("got %s, want %s", got, loaded)
	}
	if got := dead(t); got != "examples/job-csv/orders.csv:14 examples/job-csv/orders.csv:28 " {
		t.Errorf("got %s", got)
	}

	// The next run goes on behind the last row: there is nothing to do.
	if code, said := startJob(t, args...).ended(); code != 0 || !strings.HasPrefix(said, "0 messages in ") {
		t.Errorf("got %d %s", code, said)
	}
	if err := os.Remove("orders.pos"); err != nil {
		t.Fatal(err)
	}
	if code, said := startJob(t, append(args, "--allow-dead", "2")...).ended(); code != 0 || !strings.Contains(said, "2 dead letters") {
		t.Errorf("got %d %s", code, said)
	}
	if got := sum(); got != loaded {
		t.Errorf("got %s, want %s", got, loaded)
	}
}

// dead returns the places of the messages in bad.ndjson.
func dead(t *testing.T) (places string) {
	t.Helper()
	data, err := os.ReadFile("bad.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var letter struct {
			Message string
			Data    struct {
				Path string
				Line int
			}
		}
		if err := json.Unmarshal(line, &letter); err != nil || letter.Message == "" {
			t.Errorf("got %s, %v", line, err)
		}
		places += fmt.Sprintf("%s:%d ", letter.Data.Path, letter.Data.Line)
	}
	return places
}

// manyOrders writes orders to a file, and returns what the table must have in the end.
func manyOrders(t *testing.T, path string, n int) (want string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "id,customer,price,n,note")
	total := 0
	for id := range n {
		fmt.Fprintf(w, "%d,user%d@example.com,%d.5,2,\n", id+1, id, id%100)
		total += 2*(id%100) + 1
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d rows, %d.00", n, total)
}

// TestJobCSVInterrupted ends the job at SIGINT and with kill -9, again and again: each run
// goes on where the one before has stopped, and each row is there once in the end.
func TestJobCSVInterrupted(t *testing.T) {
	kills := 3
	if os.Getenv("STREAM_FAULTS") == "full" {
		kills = 20
	}
	enterJob(t)
	url, sum := shop(t)
	want := manyOrders(t, "orders.csv", 20_000*(kills+2))
	args := []string{"examples/job-csv.yaml", "-e", "DATABASE=" + url}
	if code, said := interrupt(t, syscall.SIGINT, "orders.pos", args...); code != 130 || !strings.Contains(said, "ended early (interrupt)") {
		t.Errorf("got %d %s", code, said)
	}
	if got := sum(); got == want || strings.HasPrefix(got, "0 ") {
		t.Errorf("got %s after the first run", got)
	}
	for range kills {
		if code, said := interrupt(t, os.Kill, "orders.pos", args...); code != -1 {
			t.Errorf("got %d %s", code, said)
		}
		t.Log(sum())
	}
	code, said := startJob(t, args...).ended()
	if got := sum(); code != 0 || got != want {
		t.Errorf("got %d %s, want %s: %s", code, got, want, said)
	}
	t.Log(said)
	if info, err := os.Stat("bad.ndjson"); err != nil || info.Size() > 0 {
		t.Errorf("got dead letters: %v, %v", info, err)
	}
}

// TestJobTrail fills a store from NDJSON, kills the job on the way, and fills another
// store with a Parquet file of the first one.
func TestJobTrail(t *testing.T) {
	enterJob(t)
	if code, said := startJob(t, "examples/job-trail.yaml", "-e", "EVENTS=examples/job-trail/events.ndjson", "--allow-dead", "1").ended(); code != 0 {
		t.Errorf("got %d %s", code, said)
	}
	if got := dead(t); got != "examples/job-trail/events.ndjson:7 " {
		t.Errorf("got %s", got)
	}
	f := func(want string) {
		t.Helper()
		got := ""
		for _, measure := range []string{"count", "users", "sum(price)"} {
			var answer struct{ Rows []struct{ Value json.Number } }
			text := command(t, "trail", "query", "job-trail", "--json", "-q", "--expr", "segment: {measure: "+measure+"}")
			if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Rows) != 1 {
				t.Fatal(text, err)
			}
			got += fmt.Sprintf("%s %s ", measure, answer.Rows[0].Value)
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f("count 7 users 3 sum(price) 19.5 ")

	const n = 100_000
	manyEvents(t, "events/1.ndjson", n)
	for _, with := range []os.Signal{os.Kill, syscall.SIGINT, os.Kill} {
		if code, said := interrupt(t, with, "job-trail.pos", "examples/job-trail.yaml"); code == 0 {
			t.Errorf("the job has ended before: %s", said)
		}
	}
	if code, said := startJob(t, "examples/job-trail.yaml").ended(); code != 0 {
		t.Errorf("got %d %s", code, said)
	}
	const all = "count 100007 users 1003 sum(price) 300019.5 "
	f(all)

	command(t, "trail", "export", "job-trail", "--out", "all.parquet")
	if err := errors.Join(os.Rename("job-trail", "first"), os.Remove("job-trail.pos")); err != nil {
		t.Fatal(err)
	}
	if code, said := startJob(t, "examples/job-trail.yaml", "-e", "EVENTS=all.parquet").ended(); code != 0 {
		t.Errorf("got %d %s", code, said)
	}
	f(all)
}

// manyEvents writes n events of a thousand users, with prices of 3.
func manyEvents(t *testing.T, path string, n int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(w, `{"user":"u%d","time":%d,"event":"buy","price":3}`+"\n", i%1000, 1767607200+i)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// command runs the program in this process, and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	machine := app.System()
	machine.Stdout, machine.Stderr = &out, &errs
	if code := cli.Main(t.Context(), args, machine); code != 0 {
		t.Errorf("%v: got exit code %d: %s", args, code, &errs)
	}
	return out.String()
}
