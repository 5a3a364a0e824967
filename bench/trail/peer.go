package main

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
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/trail/dialect"
)

// A request is what test/oracle/duck and test/oracle/engines take; the doc comment of
// the former says what is in one.
type request struct {
	Op      string   `json:"op"`
	DB      string   `json:"db,omitempty"`
	Write   bool     `json:"write,omitempty"`
	SQL     string   `json:"sql,omitempty"`
	SQLs    []string `json:"sqls,omitempty"`
	Threads int      `json:"threads,omitempty"`
	Clients int      `json:"clients,omitempty"`
	Rounds  int      `json:"rounds,omitempty"`
}

// A reply is what they answer. Numbers of Rows are json.Number.
type reply struct {
	Rows      [][]any `json:"rows"`
	ElapsedUS int64   `json:"elapsed_us"`
	PeakRSS   int64   `json:"peak_rss"`
	Error     string  `json:"error"`
}

func (a reply) elapsed() time.Duration { return time.Duration(a.ElapsedUS) * time.Microsecond }

// A peer is an engine that answers the same questions in SQL, in a process of its own.
// It is used by one goroutine, and must be closed.
type peer struct {
	engine  string // engineDuck or engineHouse
	dialect dialect.Dialect
	version string // of what is open
	path    string // of the database that is open
	out     io.WriteCloser
	in      *json.Decoder
	wait    func() error // for the process to end
}

// startPeer starts a command that speaks the protocol. It ends with the context at the
// latest.
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
	p.path, p.version = path, fmt.Sprint(a.Rows[0][0])
	return nil
}

// shut closes the database; the process goes on.
func (p *peer) shut() error {
	p.path = ""
	_, err := p.ask(request{Op: "close"})
	return err
}

// forget has the system drop what it keeps of the database, and opens it again.
func (p *peer) forget() error {
	path := p.path
	if err := p.shut(); err != nil {
		return err
	}
	return errors.Join(forget(path), p.open(path, false))
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

// startPeers starts the engines that are wanted and can be had; a note says which cannot.
// What it installs stays, if need be among the figures.
func (l *lab) startPeers(ctx context.Context) error {
	dir := l.dir
	if dir == "" {
		dir = l.out
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	script, err := filepath.Abs(filepath.Join(l.oracle, "engines", "engines.py"))
	if err != nil {
		return err
	}
	installed := func(folder, name, module string) (*exec.Cmd, error) {
		target := filepath.Join(dir, "python-"+folder)
		if err := l.install(ctx, target, name, module); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "python3", script, folder)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+target)
		cmd.Stderr = l.log
		return cmd, nil
	}
	start := func(engine string, d dialect.Dialect, cmd *exec.Cmd) error {
		p, err := startPeer(engine, d, cmd)
		if err == nil {
			l.peers = append(l.peers, p)
		}
		return err
	}
	if !l.skipDuck {
		cmd, err := installed("duckdb", "duckdb", "duckdb")
		if err != nil {
			l.note("DuckDB is that of the Go driver, which is older: the one of PyPI cannot be had: %v", err)
			file := filepath.Join(dir, "duck")
			l.Progress("building the command duck")
			if err := buildDuck(ctx, l.oracle, file); err != nil {
				return fmt.Errorf("%w (-skip-duckdb measures without)", err)
			}
			cmd = exec.CommandContext(ctx, file)
			cmd.Stderr = l.log
		}
		if err := start(engineDuck, dialect.DuckDB, cmd); err != nil {
			return err
		}
	}
	if !l.skipHouse {
		cmd, err := installed("clickhouse", "chdb-core", "chdb")
		if err != nil {
			l.note("there is no ClickHouse: %v (-skip-clickhouse measures without)", err)
			return nil
		}
		return start(engineHouse, dialect.ClickHouse, cmd)
	}
	return nil
}

// install has pip put the newest release of a package into a folder, if its module is
// not there.
func (l *lab) install(ctx context.Context, target, name, module string) error {
	if _, err := os.Stat(filepath.Join(target, module)); err == nil {
		return nil
	}
	l.Progress("installing the package %s", name)
	out, err := exec.CommandContext(ctx, "python3", "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target", target, name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pip install %s: %w: %.300s", name, err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}

func buildDuck(ctx context.Context, oracle, file string) error {
	_, err := program.Toolchain{Dir: oracle, Env: []string{"CGO_ENABLED=1", "GOWORK=off"}}.Do(ctx, "build", "-o", file, "./duck")
	return err
}
