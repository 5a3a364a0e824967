package lake_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // the driver "duckdb"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/test/brokers"
)

func TestMain(m *testing.M) { leak.Main(m, brokers.Clean) }

// TestLake writes to a table while the program is killed and reloaded. In the end the files have each
// change, and the sums of the table. With STREAM_FAULTS=full the document also runs as it stands, with
// windows of a minute.
func TestLake(t *testing.T) {
	if !brokers.Full() {
		run(t, plan{size: time.Second, kills: 3, reloads: 10, pause: 400 * time.Millisecond, pace: 5 * time.Millisecond})
		return
	}
	t.Run("seconds", func(t *testing.T) {
		run(t, plan{size: time.Second, kills: 50, reloads: 200, pause: time.Second, pace: 2 * time.Millisecond})
	})
	t.Run("minutes", func(t *testing.T) {
		run(t, plan{size: time.Minute, kills: 50, reloads: 200, pause: 2 * time.Second, pace: 20 * time.Millisecond})
	})
}

// A plan is how a program is treated.
type plan struct {
	size           time.Duration // of windows
	kills, reloads int
	pause          time.Duration // the longest between two of them
	pace           time.Duration // between transactions
}

func run(t *testing.T, plan plan) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	server, err := servertest.StartPostgres("wal_level=logical")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	store := brokers.StartS3(t, brokers.S3Options{})
	store.Bucket(t, "lake")
	db := open(t, "pgx", server.PostgresURL())
	execute(t, db, "CREATE TABLE orders (id bigint PRIMARY KEY, shop int NOT NULL, cents bigint NOT NULL)")
	execute(t, db, "ALTER TABLE orders REPLICA IDENTITY FULL")
	p := &program{t: t, path: brokers.Program(t), dir: t.TempDir(), size: plan.size, args: []string{
		"-e", "DATABASE=" + server.PostgresURL(), "-e", "S3=" + store.URL(store.Addr), "-e", "S3_KEY=" + brokers.S3User, "-e", "S3_SECRET=" + brokers.S3Secret}}
	t.Cleanup(p.kill)
	p.write()
	p.start()
	p.served(1)
	p.until("a slot", func() bool { return query(t, db, "SELECT count(*) FROM pg_replication_slots") == "1\n" })

	w := &writer{db: db, random: rand.New(rand.NewPCG(seed, 1)), pace: plan.pace}
	stop := w.begin(t)
	random, began := rand.New(rand.NewPCG(seed, 2)), time.Now()
	for left, kills := plan.kills+plan.reloads, plan.kills; left > 0; left-- {
		<-time.After(time.Duration(random.Int64N(int64(plan.pause))))
		if random.IntN(left) >= kills {
			p.reload(random.IntN(2) == 0)
			continue
		}
		switch kills--; {
		case kills%2 == 0: // when the server has been told to forget what is settled
			p.served(1)
			before := confirmed(t, db)
			if plan.size == time.Minute { // a reload sends the windows that are open
				p.reload(true)
			}
			p.until("more settled than "+before, func() bool { return confirmed(t, db) != before })
		case random.IntN(2) == 0: // in the middle of a reload
			p.write()
			<-time.After(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		}
		p.kill()
		p.start()
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	p.settled(db)
	t.Logf("%d kills, %d reloads and %d changes in %v", plan.kills, plan.reloads, w.changes, time.Since(began).Round(time.Second))
	p.end()
	if bad, err := os.ReadFile(filepath.Join(p.dir, "bad.ndjson")); err == nil && len(bad) > 0 {
		t.Fatalf("dead letters: %.500s", bad)
	}
	compare(t, db, filepath.Join(store.Dir, "lake"), w.changes)
}

// compare looks for all changes in the files of a bucket, and for the sums of the table.
func compare(t *testing.T, db *sql.DB, bucket string, changes int) {
	t.Helper()
	duck := open(t, "duckdb", "")
	execute(t, duck, "CREATE TABLE files AS SELECT * FROM read_parquet('"+bucket+"/orders/**/*.parquet')")
	execute(t, duck, "CREATE TABLE changes AS SELECT DISTINCT ON (id) * FROM files")
	t.Logf("rows, of changes: %s", query(t, duck, "SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM changes)"))
	if got, want := query(t, duck, "SELECT count(*) FROM changes"), fmt.Sprintln(changes); got != want {
		t.Errorf("got %s changes, want %s", got, want)
	}
	if got := query(t, duck, "SELECT id FROM (SELECT DISTINCT * FROM files) GROUP BY id HAVING count(*) > 1 LIMIT 3"); got != "" {
		t.Errorf("changes that have come twice, and were not the same:\n%s", got)
	}
	got := query(t, duck, "SELECT shop, sum(orders)::BIGINT, sum(cents)::BIGINT FROM changes GROUP BY shop HAVING sum(orders) <> 0 ORDER BY shop")
	want := query(t, db, "SELECT shop, count(*), sum(cents)::bigint FROM orders GROUP BY shop ORDER BY shop")
	if got != want {
		t.Errorf("got the sums\n%swant\n%s", got, want)
	}
}

// A writer changes the table, in transactions of one change up to some hundreds.
type writer struct {
	db      *sql.DB
	random  *rand.Rand
	pace    time.Duration
	last    int // id
	changes int
}

// begin begins to write. The function that it returns ends that.
func (w *writer) begin(t *testing.T) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(w.pace)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := w.transaction(); err != nil {
				done <- err
				return
			}
			<-tick.C
		}
		done <- nil
	}()
	t.Cleanup(cancel)
	return func() error { cancel(); return <-done }
}

func (w *writer) transaction() error {
	tx, err := w.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	for range 1 + w.random.IntN(5) {
		var done sql.Result
		switch id := 1 + w.random.IntN(w.last+1); w.random.IntN(10) {
		case 0, 1, 2, 3, 4:
			w.last++
			done, err = tx.Exec("INSERT INTO orders VALUES ($1, $2, $3)", w.last, w.random.IntN(5), w.random.IntN(10_000))
		case 5, 6, 7, 8:
			done, err = tx.Exec("UPDATE orders SET cents = cents + $2 WHERE id = $1", id, w.random.IntN(1000)-500)
		default:
			done, err = tx.Exec("DELETE FROM orders WHERE id = $1", id)
		}
		if err == nil {
			err = w.count(done)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if w.random.IntN(100) == 0 {
		done, err := tx.Exec("UPDATE orders SET cents = cents + 1 WHERE id > $1", w.last-300)
		if err == nil {
			err = w.count(done)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (w *writer) count(done sql.Result) error {
	n, err := done.RowsAffected()
	w.changes += int(n)
	return err
}

// A program is the program uniflow, as it is released, with its document.
type program struct {
	t         *testing.T
	path, dir string
	size      time.Duration
	args      []string
	wrote     int // how often the document was written
	cmd       *exec.Cmd
	output    syncbuffer.Buffer
	before    int // generations that earlier processes have served
}

// write writes the document, each time with a change of another node.
func (p *program) write() {
	p.t.Helper()
	document, err := os.ReadFile("../../examples/lake.yaml")
	if err != nil {
		p.t.Fatal(err)
	}
	p.wrote++
	text := string(document)
	replace := func(old, with string) {
		if strings.Count(text, old) != 1 {
			p.t.Fatalf("the example has %q %d times, want 1", old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, with, 1)
	}
	if p.size != time.Minute {
		replace("  size: 1m\n", fmt.Sprintf("  size: %s\n  idle: 1s\n", p.size))
		replace("  late: 5s\n", "  late: 500ms\n")
	}
	changes := [][2]string{
		{"  slot: lake\n", fmt.Sprintf("  slot: lake\n  checkpoint: {interval: %dms}\n", 100+p.wrote)},
		{"  key: self.shop\n", fmt.Sprintf("  key: 'self.shop + %d - %d'\n", p.wrote, p.wrote)},
		{"  rows: true\n", fmt.Sprintf("  rows: true\n  metadata: {written: \"%d\"}\n", p.wrote)},
		{"  name: file\n", fmt.Sprintf("  name: file\n  annotations: {written: \"%d\"}\n", p.wrote)},
	}
	change := changes[p.wrote%len(changes)]
	replace(change[0], change[1])
	path := filepath.Join(p.dir, "lake.yaml")
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		p.t.Fatal(err)
	}
}

// start starts the program. It does not wait, so the program may be killed before it serves.
func (p *program) start() {
	p.t.Helper()
	p.before = p.generations()
	args := append([]string{"start", "lake.yaml", "--watch"}, p.args...)
	p.cmd = exec.Command(p.path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the program as kill -9 does. A second call does nothing.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// end ends the program in its own way.
func (p *program) end() {
	p.t.Helper()
	if err := errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.cmd.Wait()); err != nil {
		p.t.Errorf("%v; the program wrote:\n%s", err, p.output.Tail(4000))
	}
}

// generations returns how many generations have served, of all processes.
func (p *program) generations() int {
	return strings.Count(p.output.String(), `msg="generation serves"`)
}

// served waits until so many generations of the process have served.
func (p *program) served(n int) {
	p.t.Helper()
	p.until("a generation", func() bool { return p.generations() >= p.before+n })
}

// reload changes the document, and waits until it serves. The program sees it by itself, or is told.
func (p *program) reload(told bool) {
	p.t.Helper()
	p.served(1)
	n := p.generations() - p.before
	p.write()
	if told {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			p.t.Fatal(err)
		}
	}
	p.served(n + 1)
}

// settled waits until the server knows that all changes are in files.
func (p *program) settled(db *sql.DB) {
	p.t.Helper()
	end := strings.TrimSpace(query(p.t, db, "SELECT pg_current_wal_insert_lsn()::text"))
	p.until("all changes up to "+end, func() bool {
		return query(p.t, db, "SELECT confirmed_flush_lsn >= '"+end+"' FROM pg_replication_slots") == "true\n"
	})
}

// confirmed is up to where the server knows that changes are settled.
func confirmed(t *testing.T, db *sql.DB) string {
	t.Helper()
	return query(t, db, "SELECT confirmed_flush_lsn::text FROM pg_replication_slots")
}

func (p *program) until(what string, is func() bool) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(3 * time.Minute); !is(); <-tick.C {
		if time.Now().After(limit) {
			p.t.Fatalf("waited in vain for %s; the program wrote:\n%s", what, p.output.Tail(4000))
		}
	}
}

func open(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func execute(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// query returns the rows of an answer as lines.
func query(t *testing.T, db *sql.DB, statement string) string {
	t.Helper()
	rows, err := db.Query(statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for rows.Next() {
		row := make([]any, len(columns))
		for i := range row {
			row[i] = new(any)
		}
		if err := rows.Scan(row...); err != nil {
			t.Fatal(err)
		}
		for i := range row {
			row[i] = *row[i].(*any)
		}
		fmt.Fprintln(&text, row...)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
