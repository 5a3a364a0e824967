package data_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// kinds returns the kinds of the engine and some for tests. each sends the elements of a
// list one after the other, and answers with what came back, errors as their codes. In
// children, it runs each in a child process. gate waits until it is opened.
func kinds(g *gate) []*node.Def {
	in := []node.Port{{Name: "in"}}
	out := []node.Port{{Name: "out"}}
	answers := func(resps []node.Response) node.Result {
		var list []value.Value
		for _, r := range resps {
			if r.IsError() {
				r.Payload = value.String("error: " + node.Describe(r.Payload.AsError()).Code)
			}
			list = append(list, r.Payload)
		}
		return node.Answer(value.List(list...))
	}
	each := &node.Def{Kind: "each", Summary: "Sends each element.", In: in, Out: out, New: func(*node.Init) (node.Node, error) {
		return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
			var next func(int, []node.Response) node.Result
			next = func(i int, resps []node.Response) node.Result {
				if i == pkt.Payload.Len() {
					return answers(resps)
				}
				return node.SendThen(0, pkt.Payload.At(i), func(_ node.Process, r node.Response) node.Result { return next(i+1, append(resps, r)) })
			}
			return next(0, nil)
		}), nil
	}}
	children := &node.Def{Kind: "children", Summary: "Sends each element in a child process.", In: in, Out: out, New: func(*node.Init) (node.Node, error) {
		return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
			var list []node.Result
			for _, e := range pkt.Payload.Elems() {
				list = append(list, node.Send(0, e))
			}
			return node.Spawn(list, 0, func(_ node.Process, resps []node.Response) node.Result { return answers(resps) })
		}), nil
	}}
	wait := &node.Def{Kind: "gate", Summary: "Waits.", In: in, Out: out, New: func(*node.Init) (node.Node, error) {
		return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(ctx context.Context) node.Result {
				g.arrived <- struct{}{}
				select {
				case <-g.open:
					return node.Send(0, pkt.Payload)
				case <-ctx.Done():
					return node.Fail(context.Cause(ctx))
				}
			})
		}), nil
	}}
	return append(std.Defs(""), each, children, wait)
}

// A gate lets a test act while processes wait.
type gate struct{ arrived, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func engineWith(tb testing.TB, g *gate, doc string) *uniflow.Engine {
	tb.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: kinds(g)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	apply(tb, e, doc)
	return e
}

// flows are the nodes that send to n: each and children send the elements of a
// list; hold runs the first statement, waits at the gate, then runs the second.
const flows = `
- {kind: each, name: each, ports: {out: [{name: n}]}}
- {kind: children, name: children, ports: {out: [{name: n}]}}
- {kind: each, name: hold, ports: {out: [{name: slow}]}}
- {kind: switch, name: slow, matches: [{when: 'self == "gate"', port: 'out[0]'}, {when: 'self == "fail"', port: 'out[1]'}], default: 'out[2]', ports: {'out[0]': [{name: gate}], 'out[1]': [{name: fail}], 'out[2]': [{name: n}]}}
- {kind: gate, name: gate}
- {kind: throw, name: fail}
- {kind: pipe, name: failing, ports: {'out[0]': [{name: each}], 'out[1]': [{name: fail}]}}
`

func list(texts ...string) value.Value {
	var elems []value.Value
	for _, text := range texts {
		elems = append(elems, value.String(text))
	}
	return value.List(elems...)
}

func TestTransactions(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		e := engineWith(t, newGate(), flows+d.node("n"))
		must(t, e, "n", "DROP TABLE IF EXISTS tx", "CREATE TABLE tx (id INTEGER PRIMARY KEY)")
		f := func(to string, want string, statements ...string) {
			t.Helper()
			if got := send(t, e, to, list(statements...)); !strings.HasPrefix(got, want) {
				t.Errorf("%s %q: got %s, want %s", to, statements, got, want)
			}
		}
		left := func(want string) {
			t.Helper()
			if got := send(t, e, "n", value.String("SELECT id FROM tx ORDER BY id")); got != want {
				t.Errorf("left: got %s, want %s", got, want)
			}
		}
		f("failing", "error: ", "INSERT INTO tx VALUES (1)", "INSERT INTO tx VALUES (2)")
		left("[]")
		// Errors of all sorts, each handled: of the first statement, of one that cannot be
		// prepared, of one that was prepared, of a read.
		for range 2 {
			f("each", `["error: ",{"affected":1,"last_id":`, "INSERT INTO missing VALUES (0)", "INSERT INTO tx VALUES (1)", "INSERT INTO tx VALUES (1)", "SELEC", "SELECT * FROM missing", "INSERT INTO tx VALUES (2)", "INSERT INTO tx VALUES (2)", "SELECT id FROM tx")
			left(`[{"id":1},{"id":2}]`)
			must(t, e, "n", "DELETE FROM tx")
		}
		// Of many rows all or none.
		many := func(rows string) value.Value { return json(t, `["INSERT INTO tx VALUES (:id)", [`+rows+`]]`) }
		if got := send(t, e, "each", value.List(value.String("INSERT INTO tx VALUES (1)"), many(`{"id": 2}, {"id": 1}`), many(`{"id": 3}, {"id": 4}`))); !strings.Contains(got, `"error: unique",{"affected":2,`) {
			t.Errorf("many rows: got %s", got)
		}
		left(`[{"id":1},{"id":3},{"id":4}]`)
		must(t, e, "n", "DELETE FROM tx")
		// Children share the transaction; that one of them fails does not matter to it.
		f("children", `[`, "INSERT INTO tx VALUES (1)", "INSERT INTO tx VALUES (2)", "INSERT INTO tx VALUES (1)", "INSERT INTO tx VALUES (3)")
		left(`[{"id":1},{"id":2},{"id":3}]`)
		// A statement of its own that must not run in a transaction.
		if d.driver != "mysql" {
			must(t, e, "n", "VACUUM")
		}
	})
}

// TestIsolation keeps what a process has read.
func TestIsolation(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.driver == "sqlite" {
			return // its transactions exclude one another
		}
		g := newGate()
		e := engineWith(t, g, flows+d.node("n", "isolation: repeatable read")+d.node("other"))
		must(t, e, "other", "DROP TABLE IF EXISTS iso", "CREATE TABLE iso (id INTEGER PRIMARY KEY)")
		done := make(chan string)
		go func() {
			done <- send(t, e, "hold", list("SELECT count(*) AS n FROM iso", "gate", "SELECT count(*) AS n FROM iso"))
		}()
		<-g.arrived
		must(t, e, "other", "INSERT INTO iso VALUES (1)")
		close(g.open)
		if got := <-done; got != `[[{"n":0}],"gate",[{"n":0}]]` {
			t.Errorf("got %s", got)
		}
	})
}

// TestExhausted waits for a connection until its time is over.
func TestExhausted(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		g := newGate()
		// They share the connection. Only the one that is to give up is short of time.
		e := engineWith(t, g, flows+d.node("n", "max_conns: 1")+d.node("short", "max_conns: 1", "timeout: 100ms"))
		must(t, e, "n", "DROP TABLE IF EXISTS busy", "CREATE TABLE busy (id INTEGER PRIMARY KEY)")
		done := make(chan string)
		go func() { done <- send(t, e, "hold", list("INSERT INTO busy VALUES (1)", "gate")) }()
		<-g.arrived
		if got := send(t, e, "short", value.String("SELECT 1 AS one")); !strings.Contains(got, "all 1 connections are in use") || !strings.HasSuffix(got, "[busy]") {
			t.Errorf("got %s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := e.Run(ctx, "n", value.String("SELECT 1 AS one")); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: got %v", err)
		}
		close(g.open)
		if got := <-done; strings.HasPrefix(got, "error") {
			t.Errorf("the holder: got %s", got)
		}
		if got := send(t, e, "n", value.String("SELECT id FROM busy")); got != `[{"id":1}]` {
			t.Errorf("afterwards: got %s", got)
		}
	})
}

// TestTimeout ends a statement that takes too long. The connection, or another one,
// works afterwards.
func TestTimeout(t *testing.T) {
	slow := map[string]string{
		"sqlite":   "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
		"postgres": "SELECT pg_sleep(60)",
		"mysql":    "SELECT sleep(60)",
	}
	onEach(t, func(t *testing.T, d database) {
		e := engineWith(t, newGate(), flows+d.node("n", "timeout: 500ms")+d.node("patient"))
		for range 2 {
			if got := send(t, e, "n", value.String(slow[d.driver])); !strings.HasSuffix(got, "[timeout]") {
				t.Errorf("got %s", got)
			}
			if got := send(t, e, "patient", value.String("SELECT 1 AS one")); got != `[{"one":1}]` {
				t.Errorf("afterwards: got %s", got)
			}
		}
		// In a transaction: what is lost with it does not commit.
		must(t, e, "patient", "DROP TABLE IF EXISTS late", "CREATE TABLE late (id INTEGER PRIMARY KEY)")
		got := send(t, e, "each", list("INSERT INTO late VALUES (1)", slow[d.driver], "INSERT INTO late VALUES (2)"))
		left := send(t, e, "patient", value.String("SELECT id FROM late"))
		switch {
		case strings.HasPrefix(got, "[") && left != `[{"id":1},{"id":2}]`, strings.HasPrefix(got, "error: ") && left != "[]":
			t.Errorf("got %s, but left is %s", got, left)
		}
		// Cancelled by its client.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, _, err := e.Run(ctx, "n", value.String(slow[d.driver])); err == nil {
			t.Error("a process that was cancelled ended well")
		}
	})
}

// TestDeadlock lets two processes lock what the other one needs.
func TestDeadlock(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.driver == "sqlite" {
			return // one transaction at a time writes
		}
		g := newGate()
		e := engineWith(t, g, flows+d.node("n"))
		must(t, e, "n", "DROP TABLE IF EXISTS dead", "CREATE TABLE dead (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO dead VALUES (1, 0), (2, 0)")
		lock := func(id int) string { return fmt.Sprintf("UPDATE dead SET n = n + 1 WHERE id = %d", id) }
		var got [2]string
		var both sync.WaitGroup
		for i := range got {
			both.Go(func() { got[i] = send(t, e, "hold", list(lock(i+1), "gate", lock(2-i))) })
		}
		<-g.arrived
		<-g.arrived
		close(g.open)
		both.Wait()
		if n := strings.Count(got[0]+got[1], "conflict]") + strings.Count(got[0]+got[1], "error: conflict"); n != 1 {
			t.Errorf("%d of 2 got a conflict: %q", n, got)
		}
	})
}

// TestKilled kills the server in a transaction, and starts it again.
func TestKilled(t *testing.T) {
	servers := map[string]func(testing.TB) *servertest.Server{"postgres": servertest.Postgres, "mysql": servertest.MariaDB}
	onEach(t, func(t *testing.T, d database) {
		if servers[d.driver] == nil {
			return // it has no server
		}
		server := servers[d.driver](t)
		if d.driver == "postgres" {
			d.source += "&synchronous_commit=on"
		}
		g := newGate()
		e := engineWith(t, g, flows+d.node("n", "timeout: 5s"))
		must(t, e, "n", "DROP TABLE IF EXISTS gone", "CREATE TABLE gone (id INTEGER PRIMARY KEY)")
		if d.driver == "mysql" {
			must(t, e, "n", "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
		}
		done := make(chan string)
		go func() { done <- send(t, e, "hold", list("INSERT INTO gone VALUES (1)", "gate")) }()
		<-g.arrived
		server.Kill(t)
		close(g.open)
		if got := <-done; !strings.HasSuffix(got, "[commit]") || !strings.Contains(got, "unknown") {
			t.Errorf("the process in a transaction: got %s", got)
		}
		if got := send(t, e, "n", value.String("SELECT 1 AS one")); !strings.HasSuffix(got, "[connection]") {
			t.Errorf("without a server: got %s", got)
		}
		server.Restart(t)
		if got := send(t, e, "n", value.String("SELECT id FROM gone")); got != "[]" {
			t.Errorf("after the restart: got %s", got)
		}
		must(t, e, "n", "INSERT INTO gone VALUES (2)")
	})
}

// A proxy passes bytes on until it is cut.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	watch string // it is cut when the client sends this
	all   sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	p.all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, server)
			p.mu.Unlock()
			p.all.Go(func() { p.pass(server, client) })
			p.all.Go(func() {
				io.Copy(client, server)
				client.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.all.Wait()
	})
	return p
}

func (p *proxy) pass(server, client net.Conn) {
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		stop := p.watch != "" && strings.Contains(string(buf[:n]), p.watch)
		p.mu.Unlock()
		if stop {
			p.cut()
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns, p.watch = nil, ""
}

// TestCutAtCommit loses the connection while a transaction commits: the process must
// not end well.
func TestCutAtCommit(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.driver == "sqlite" {
			return // it has no connection
		}
		i := strings.Index(d.source, "127.0.0.1:")
		addr := d.source[i : i+strings.IndexAny(d.source[i:], "/)")]
		p := newProxy(t, addr)
		d.source = strings.Replace(d.source, addr, p.Addr().String(), 1)
		e := engineWith(t, newGate(), flows+d.node("n"))
		must(t, e, "n", "DROP TABLE IF EXISTS cut", "CREATE TABLE cut (id INTEGER PRIMARY KEY)")
		p.mu.Lock()
		p.watch = "COMMIT"
		p.mu.Unlock()
		got := send(t, e, "n", value.String("INSERT INTO cut VALUES (1)"))
		if !strings.HasPrefix(got, "error: the connection was lost, so it is unknown") || !strings.HasSuffix(got, "[commit]") {
			t.Errorf("got %s", got)
		}
		must(t, e, "n", "INSERT INTO cut VALUES (2)")
		// Cut between two statements of a transaction: the rest of it fails.
		p.mu.Lock()
		p.watch = "cut_now"
		p.mu.Unlock()
		got = send(t, e, "each", list("INSERT INTO cut VALUES (3)", "SELECT 1 AS cut_now", "INSERT INTO cut VALUES (4)"))
		if !strings.HasPrefix(got, "error: commit: the transaction was lost") {
			t.Errorf("got %s", got)
		}
		if got := send(t, e, "n", value.String("SELECT id FROM cut WHERE id > 1")); got != `[{"id":2}]` {
			t.Errorf("left: got %s", got)
		}
	})
}

// TestCommitNamesItsNode fails at the commit, when no node runs any more.
func TestCommitNamesItsNode(t *testing.T) {
	e := engineWith(t, newGate(), "- {kind: sql, name: n, driver: sqlite, source: ':memory:', ports: {out: [{name: end}]}}\n- {kind: nop, name: end}")
	must(t, e, "n", "CREATE TABLE follows (id INTEGER PRIMARY KEY, after INTEGER REFERENCES follows DEFERRABLE INITIALLY DEFERRED)")
	_, _, err := e.Run(t.Context(), "n", value.String("INSERT INTO follows VALUES (1, 7)"))
	if failed := node.Describe(err); failed.Node.Name != "n" || !strings.Contains(err.Error(), "commit: ") {
		t.Errorf("got %v of node %q, want the failure of the commit of n", err, failed.Node.Name)
	}
}

// TestRolledBackByServer makes MariaDB end a transaction by an error of one statement,
// which the workflow handles. What it does afterwards must not be stored without what
// came before.
func TestRolledBackByServer(t *testing.T) {
	d := mariadb(t)
	d.source += "?innodb_snapshot_isolation=ON"
	g := newGate()
	e := engineWith(t, g, flows+d.node("n"))
	must(t, e, "n", "DROP TABLE IF EXISTS undone", "CREATE TABLE undone (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO undone VALUES (1, 0)")
	const update = "UPDATE undone SET n = n + 1 WHERE id = 1"
	var got string
	var holding sync.WaitGroup
	holding.Go(func() {
		got = send(t, e, "hold", list("INSERT INTO undone VALUES (2, 0)", "SELECT n FROM undone", "gate", update, "INSERT INTO undone VALUES (3, 0)"))
	})
	<-g.arrived
	must(t, e, "n", update)
	close(g.open)
	holding.Wait()
	if !strings.HasPrefix(got, "error: commit: the transaction was lost: ") || !strings.HasSuffix(got, "[conflict]") {
		t.Errorf("got %s, want an error of the commit", got)
	}
	if got, want := send(t, e, "n", value.String("SELECT * FROM undone")), `[{"id":1,"n":1}]`; got != want {
		t.Errorf("left: got %s, want %s", got, want)
	}
}

// TestSchemaInTransaction changes a schema in a transaction, which makes MariaDB commit.
// What the process does afterwards is rolled back on each database.
func TestSchemaInTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		e := engineWith(t, newGate(), flows+d.node("n"))
		for _, change := range []string{"CREATE TABLE made (id INTEGER)", "CREATE TABLE tx (id INTEGER)", "DROP TABLE made", "CREATE TEMPORARY TABLE made (id INTEGER)"} {
			must(t, e, "n", "DROP TABLE IF EXISTS made", "DROP TABLE IF EXISTS tx", "CREATE TABLE tx (id INTEGER PRIMARY KEY)")
			if strings.HasPrefix(change, "DROP") {
				must(t, e, "n", "CREATE TABLE made (id INTEGER)")
			}
			if got := send(t, e, "failing", list("INSERT INTO tx VALUES (1)", change, "INSERT INTO tx VALUES (2)", "INSERT INTO tx VALUES (2)")); !strings.HasPrefix(got, "error: ") {
				t.Errorf("%s: got %s, want an error", change, got)
			}
			if got := send(t, e, "n", value.String("SELECT id FROM tx WHERE id = 2")); got != "[]" {
				t.Errorf("%s: left %s, want nothing of what came after", change, got)
			}
			if got := send(t, e, "each", list("INSERT INTO tx VALUES (3)", change, "INSERT INTO tx VALUES (3)", "INSERT INTO tx VALUES (4)")); strings.HasPrefix(got, "error: ") {
				t.Errorf("%s: got %s, want a commit", change, got)
			}
			if got := send(t, e, "n", value.String("SELECT id FROM tx WHERE id > 2 ORDER BY id")); got != `[{"id":3},{"id":4}]` {
				t.Errorf("%s: got %s, want 3 and 4", change, got)
			}
		}
	})
}

// TestOneSQLite has one process write to a file by two nodes that name it in other ways: they
// share a transaction, and do not wait for each other's lock.
func TestOneSQLite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "real", "shop.db")
	for _, other := range []string{"file:" + file, "file://" + file, filepath.Join(dir, "link", "shop.db"), filepath.Join(dir, "real") + "/./shop.db"} {
		e := engineWith(t, newGate(), fmt.Sprintf(`
- {kind: sql, name: a, driver: sqlite, source: %q, timeout: 2s}
- {kind: sql, name: b, driver: sqlite, source: %q, timeout: 2s}
- {kind: snippet, name: both, language: cel, code: self, ports: {out: [{name: a}, {name: b}]}}
`, file, other))
		must(t, e, "a", "DROP TABLE IF EXISTS t", "CREATE TABLE t (id INTEGER)")
		if got := send(t, e, "both", value.String("INSERT INTO t VALUES (1)")); strings.HasPrefix(got, "error: ") {
			t.Errorf("%s: got %s", other, got)
		}
		if got := send(t, e, "b", value.String("SELECT count(*) AS n FROM t")); got != `[{"n":2}]` {
			t.Errorf("%s: got %s", other, got)
		}
	}
}
