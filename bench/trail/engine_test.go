package trail_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/trail/dialect"
)

// A request is what engines.py takes, whose comment says what is in one.
type request struct {
	Op      string   `json:"op"`
	DB      string   `json:"db,omitempty"`
	Write   bool     `json:"write,omitempty"`
	SQL     string   `json:"sql,omitempty"`
	SQLs    []string `json:"sqls,omitempty"`
	Threads int      `json:"threads,omitempty"`
}

// A reply is what they answer. Numbers of Rows are json.Number.
type reply struct {
	Rows      [][]any `json:"rows"`
	ElapsedUS int64   `json:"elapsed_us"`
	PeakRSS   int64   `json:"peak_rss"`
	Error     string  `json:"error"`
}

func (a reply) elapsed() time.Duration { return time.Duration(a.ElapsedUS) * time.Microsecond }

// The engines.
const (
	engineDuck  = "DuckDB"
	engineHouse = "ClickHouse"
)

// cores is how many processors all may use.
const cores = 2

// A peer is an engine that answers the same questions in SQL, in a process of its own.
// It is used by one goroutine, and must be closed.
type peer struct {
	engine  string // engineDuck or engineHouse
	dialect dialect.Dialect
	out     io.WriteCloser
	in      *json.Decoder
	wait    func() error // for the process to end
}

// startPeer starts a command that speaks the protocol.
func startPeer(engine string, d dialect.Dialect, cmd *exec.Cmd) (*peer, error) {
	out, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return newPeer(engine, d, out, in, cmd.Wait), nil
}

func newPeer(engine string, d dialect.Dialect, out io.WriteCloser, in io.Reader, wait func() error) *peer {
	p := &peer{engine: engine, dialect: d, out: out, in: json.NewDecoder(bufio.NewReaderSize(in, 1<<20)), wait: wait}
	p.in.UseNumber()
	return p
}

func (p *peer) ask(r request) (reply, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := p.out.Write(append(line, '\n')); err != nil {
		return reply{}, fmt.Errorf("%s: %s: %w", p.engine, r.Op, err)
	}
	var a reply
	if err := p.in.Decode(&a); err != nil {
		return reply{}, fmt.Errorf("%s: %s: %w", p.engine, r.Op, err)
	}
	if a.Error != "" {
		return reply{}, fmt.Errorf("%s: %s: %s", p.engine, r.Op, a.Error)
	}
	return a, nil
}

// exec runs statements that answer nothing.
func (p *peer) exec(sqls ...string) (reply, error) {
	return p.ask(request{Op: "exec", SQLs: sqls, Threads: cores})
}

// numbers asks for one row of whole numbers.
func (p *peer) numbers(sql string) ([]int64, error) {
	a, err := p.ask(request{Op: "query", SQL: sql, Threads: cores})
	if err != nil {
		return nil, err
	}
	if len(a.Rows) != 1 {
		return nil, fmt.Errorf("%s: %d rows of %s, want 1", p.engine, len(a.Rows), sql)
	}
	return whole(a.Rows[0])
}

// whole returns a row of whole numbers.
func whole(row []any) ([]int64, error) {
	all := make([]int64, len(row))
	for i, v := range row {
		n, ok := v.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%v is not a number", v)
		}
		var err error
		if all[i], err = n.Int64(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// open opens a database, having closed the one before.
func (p *peer) open(path string, write bool) error {
	a, err := p.ask(request{Op: "open", DB: path, Write: write, Threads: cores})
	if err != nil {
		return err
	}
	if len(a.Rows) != 1 || len(a.Rows[0]) != 1 {
		return fmt.Errorf("%s: got %v of open, want a version", p.engine, a.Rows)
	}
	return nil
}

// shut closes the database; the process goes on.
func (p *peer) shut() error {
	_, err := p.ask(request{Op: "close"})
	return err
}

// forget has the system drop what it keeps of the files below a path.
func forget(path string) error {
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return program.Forget(path)
	})
}

func (p *peer) close() error { return errors.Join(p.out.Close(), p.wait()) }

// startPeers starts the engines that can be had, which are closed at the end. What it installs
// stays.
func startPeers(tb testing.TB) []*peer {
	tb.Helper()
	out, err := filepath.Abs(filepath.Join("..", "out"))
	if err != nil {
		tb.Fatal(err)
	}
	var peers []*peer
	for _, e := range []struct {
		engine                   string
		dialect                  dialect.Dialect
		argument, pypi, imported string
	}{{engineDuck, dialect.DuckDB, "duckdb", "duckdb", "duckdb"}, {engineHouse, dialect.ClickHouse, "clickhouse", "chdb-core", "chdb"}} {
		target := filepath.Join(out, "python-"+e.argument)
		if err := install(tb.Context(), target, e.pypi, e.imported); err != nil {
			tb.Logf("without %s: %v", e.engine, err)
			continue
		}
		cmd := exec.Command("python3", "engines.py", e.argument)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+target)
		cmd.Stderr = os.Stderr
		p, err := startPeer(e.engine, e.dialect, cmd)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := p.close(); err != nil {
				tb.Error(err)
			}
		})
		peers = append(peers, p)
	}
	return peers
}

// install lets pip put the newest release of a package into a folder, if its module is
// not there.
func install(ctx context.Context, target, name, module string) error {
	if _, err := os.Stat(filepath.Join(target, module)); err == nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, "python3", "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target", target, name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pip install %s: %w: %.300s", name, err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}
