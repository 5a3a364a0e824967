//go:build unix

// Package durable kills a server of durable processes, again and again, while clients use it. It has most of the fault
// matrix of durable processes; make test-faults runs it at full length. The rest is next to the code:
//
//	fault                              tests, of this package if no other is named
//	kill -9 at each point, each level  TestPoints, TestKilledWriting
//	kill -9 at random                  TestKillAtRandom, TestKill, TestKillWaiting, TestKillQueue
//	power cut                          journal/sqlite TestPowerCut, TestTornLog
//	full disk                          TestFullDisk; internal/durable TestFullDisk, TestFullDiskFirst; journal/sqlite TestFullDisk, TestFileSizeLimit
//	failed write or sync, damage       TestFailedDisk; journal/sqlite TestDamage; journal TestFailedOnce
//	the clock of the machine is set    nodes/schedule TestTickOnce, TestCatchUp; nodes/dialogue TestDays
//	one request many times             TestTogether; internal/durable TestOneKey, TestKeyAfterRestart
//	signals twice, early, late         internal/durable TestRandomSignals, TestKeptSignals, TestSignalRacesTime
//	a payload that kills the program   TestPoison; internal/durable TestSuspects, TestDead
//	a revision loses something         internal/durable TestChangedWorkflow, TestMissing, TestRetryLatest
//	a pure kind that lies              internal/durable TestDiverged
//	waits of days over restarts        nodes/dialogue TestDays, TestLateOverRestart
//	reloads under load                 internal/durable TestQueueReload; package uniflow TestReloadUnderLoad, of processes that are not durable
//	ticks                              TestPoints; nodes/schedule TestCatchUp, TestTickOnce
//	a reader holds a snapshot          journal/sqlite TestSnapshotCostsLittle, TestReaderKeepsTheLog
//	actions race with the run          internal/durable TestCancelAgainstSignal, TestRefusedAgainstSignal
//	SIGTERM in many runs               TestStop
//	kill between a commit and the end  nodes/data TestOnce; nodes/streams TestDedupeRuns
//	kill after the 200 of a webhook    TestKillChat
//	errors and timeouts, then kill     test/corpus TestCrashes; internal/run TestCrashes
//	what is read late of a request     TestLateRead
//	someone watches or holds a run     internal/durable TestDebugger, TestTap
//	the key of another caller          TestStrangers
package durable

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
)

func TestMain(m *testing.M) {
	leak.Main(m, func() {
		for _, dir := range built {
			if err := os.RemoveAll(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	})
}

var (
	building sync.Mutex
	built    = make(map[string]string) // folders of programs, by the tags of their build
)

// binary returns the file of the program, built with tags. All tests share it.
func binary(t *testing.T, tags string) (file string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if built[tags] == "" {
		dir, err := os.MkdirTemp("", "durable")
		if err != nil {
			t.Fatal(err)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-pgo=off", "-tags", tags, "-o", filepath.Join(dir, "uniflow"), "../../cmd/uniflow")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v: %s", err, out)
		}
		built[tags] = dir
	}
	return filepath.Join(built[tags], "uniflow")
}

// workflow charges, writes a row, calls two services for each of two parts, and ships.
const workflow = `
- kind: listener
  name: orders
  host: 127.0.0.1
  port: %[1]d
  durability: {level: checkpoint, key: 'header["Idempotency-Key"][0]'}
  ports: {out: [{name: body}]}
- {kind: snippet, name: body, language: cel, code: self.body, ports: {out: [{name: charge}]}}
- {kind: snippet, name: charge, language: cel, code: '{"body": {"charge": self.order}}', ports: {out: [{name: charging}]}}
- {kind: http, name: charging, method: POST, url: "%[2]s/charge", timeout: 5s, ports: {out: [{name: row}]}}
- {kind: snippet, name: row, language: cel, code: '["INSERT INTO orders (charge) VALUES (:charge)", {"charge": self.body.done}]', ports: {out: [{name: write}]}}
- {kind: sql, name: write, driver: sqlite, source: %[3]q, ports: {out: [{name: parts}]}}
- {kind: snippet, name: parts, language: cel, code: '["a", "b", "c"]', ports: {out: [{name: each}]}}
- {kind: for, name: each, concurrency: 2, ports: {"out[0]": [{name: part}], "out[1]": [{name: shipping}]}}
- {kind: snippet, name: part, language: cel, code: '{"body": {"part": self}}', ports: {out: [{name: pick}]}}
- {kind: http, name: pick, method: POST, url: "%[2]s/pick", timeout: 5s, ports: {out: [{name: picked}]}}
- {kind: snippet, name: picked, language: cel, code: self.body.done}
- {kind: snippet, name: shipping, language: cel, code: '{"body": {"ship": self}}', ports: {out: [{name: again}]}}
- {kind: retry, name: again, threshold: 5, ports: {out: [{name: ship}]}}
- {kind: http, name: ship, method: POST, url: "%[2]s/ship", timeout: 5s, ports: {out: [{name: answer}]}}
- {kind: snippet, name: answer, language: cel, code: '{"body": self.body.done}'}
`

// A program is a server that is killed and started again.
type program struct {
	t    *testing.T
	args []string
	// For the next start: a program that runs the server, and what is added to the environment.
	under, env []string
	log        syncbuffer.Buffer
	dead       func() // called after a kill, before the next start; nil for nothing

	mu  sync.Mutex
	cmd *exec.Cmd
}

// newProgram returns the server of a workflow. Its files are in a folder, the journal is runs.db.
func newProgram(t *testing.T, dir, workflow string) *program {
	t.Helper()
	return serving(t, binary(t, ""), dir, workflow)
}

// serving is newProgram for a program that was built.
func serving(t *testing.T, file, dir, workflow string) *program {
	t.Helper()
	documents := filepath.Join(dir, "flow.yaml")
	if err := os.WriteFile(documents, []byte(workflow), 0o600); err != nil {
		t.Fatal(err)
	}
	return &program{t: t, args: []string{file, "start", documents, "--journal", "sqlite:" + filepath.Join(dir, "runs.db")}}
}

// start starts the server. A killed one is waited for before.
func (p *program) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	args := slices.Concat(p.under, p.args)
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Error(err)
	}
}

// crash kills the server, and starts it again.
func (p *program) crash() {
	p.mu.Lock()
	err := p.cmd.Process.Kill()
	state, _ := p.cmd.Process.Wait()
	p.mu.Unlock()
	if err != nil || state.Exited() {
		p.t.Errorf("the server had ended before: %v, %v", err, state)
	}
	if p.dead != nil {
		p.dead()
	}
	p.start()
}

// stop ends the server as an operator does.
func (p *program) stop() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the end of the server: %v", err)
	}
}

// A world is the services that the workflow calls. The first call with a key is answered with a
// number, and each further one with the same.
type world struct {
	mu    sync.Mutex
	calls int
	done  map[string]int    // calls, by path and key
	given map[string]string // answers, likewise
	asked map[string]string // bodies, likewise
	crash func(calls int) (before, after bool)
	kill  func()
}

func (w *world) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // the client was killed
		return
	}
	key := r.URL.Path + " " + r.Header.Get("Idempotency-Key")
	w.mu.Lock()
	w.calls++
	before, after := w.crash(w.calls)
	w.done[key]++
	if w.given[key] == "" {
		w.given[key], w.asked[key] = fmt.Sprintf("%s-%d", r.URL.Path[1:], w.calls), string(body)
	}
	if w.asked[key] != string(body) {
		w.given[key] = "another body with the same key: " + string(body) + " and " + w.asked[key]
	}
	answer := w.given[key]
	w.mu.Unlock()
	if before {
		w.kill()
	}
	to.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(to, `{"done": %q}`, answer)
	if after {
		if f, ok := to.(http.Flusher); ok {
			f.Flush()
		}
		w.kill()
	}
}

// order asks for an order until there is an answer, as a client does that knows of crashes.
func order(ctx context.Context, url string, i int) (answer string, err error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(fmt.Appendf(nil, `{"order": %d}`, i)))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", fmt.Sprint("order-", i))
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case err == nil && resp.StatusCode == http.StatusOK:
				return string(body), nil
			case err == nil && resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusConflict:
				return "", fmt.Errorf("status %d: %s", resp.StatusCode, body)
			}
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestKill serves orders, and kills the server at calls of services: before they answer, and after.
// Each order gets one answer, whatever happens; a call is repeated with its key and its body only if
// the server was killed while it was under way.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	const orders, clients = 40, 8
	w := &world{done: make(map[string]int), given: make(map[string]string), asked: make(map[string]string)}
	services := httptest.NewServer(w)
	defer services.Close()
	port := freeport.Port(t)
	db := filepath.Join(dir, "orders.db")
	p := newProgram(t, dir, fmt.Sprintf(workflow, port, services.URL, db))
	kills := make(chan struct{}, 1)
	crashes := 0
	last := 0
	w.crash = func(calls int) (before, after bool) { // w is locked
		if crashes < 25 && calls-last > 12 && rng.IntN(4) == 0 { // a run that is under way in six crashes without a record is dead
			crashes++
			last = calls
			return crashes%2 == 0, crashes%2 == 1
		}
		return false, false
	}
	w.kill = func() {
		select {
		case kills <- struct{}{}:
			p.crash()
			<-kills
		default: // it is being killed
		}
	}
	createTable(t, db)
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answers := make([]string, orders)
	var workers sync.WaitGroup
	for client := range clients {
		workers.Go(func() {
			for i := client; i < orders; i += clients {
				var err error
				if answers[i], err = order(ctx, fmt.Sprintf("http://127.0.0.1:%d/", port), i); err != nil {
					t.Errorf("order %d: %v", i, err)
				}
			}
		})
	}
	workers.Wait()
	for i := range orders { // what has ended is answered with the same
		if again, err := order(ctx, fmt.Sprintf("http://127.0.0.1:%d/", port), i); err != nil || again != answers[i] {
			t.Errorf("order %d again: %s, %v; it was %s", i, again, err, answers[i])
		}
	}
	p.stop()
	if rows := countRows(t, db); rows != orders {
		t.Errorf("%d rows were written for %d orders", rows, orders)
	}
	repeated := 0
	for key, n := range w.done {
		repeated += n - 1
		if len(w.given[key]) > 40 {
			t.Error(w.given[key])
		}
	}
	if calls := orders * 5; len(w.done) != calls {
		t.Errorf("%d keys, want %d", len(w.done), calls)
	}
	if most := 3 * clients * crashes; repeated > most {
		t.Errorf("%d calls were repeated after %d crashes", repeated, crashes)
	}
	t.Logf("seed %d: %d crashes, %d calls, %d repeated", seed, crashes, w.calls, repeated)
	if t.Failed() {
		t.Log(p.log.String())
	}
}

func openDB(t *testing.T, file string) *sql.DB {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func createTable(t *testing.T, file string) {
	db := openDB(t, file)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY, charge TEXT UNIQUE)"); err != nil {
		t.Fatal(err)
	}
}

func countRows(t *testing.T, file string) (n int) {
	db := openDB(t, file)
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// post sends a request until it gets a status, while the server is killed or says 503. header has names and values.
func post(ctx context.Context, url string, body []byte, want int, header ...string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			answer, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case err == nil && resp.StatusCode == want:
				return nil
			case err == nil && resp.StatusCode != http.StatusServiceUnavailable:
				return fmt.Errorf("status %d: %s", resp.StatusCode, answer)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
