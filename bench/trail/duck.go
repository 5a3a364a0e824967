package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// A request is what the command duck takes; its doc comment says what is in one.
type request struct {
	Op      string   `json:"op"`
	Parquet string   `json:"parquet,omitempty"`
	DB      string   `json:"db,omitempty"`
	SQL     string   `json:"sql,omitempty"`
	SQLs    []string `json:"sqls,omitempty"`
	Threads int      `json:"threads,omitempty"`
	Clients int      `json:"clients,omitempty"`
	Rounds  int      `json:"rounds,omitempty"`
}

// A reply is what the command duck answers. Numbers of Rows are json.Number.
type reply struct {
	Rows      [][]any `json:"rows"`
	ElapsedUS int64   `json:"elapsed_us"`
	PeakRSS   int64   `json:"peak_rss"`
	Error     string  `json:"error"`
}

// A duck is a conversation with DuckDB, of one goroutine. It must be closed.
type duck struct {
	out  io.WriteCloser
	in   *json.Decoder
	wait func() error // for the process to end
}

func buildDuck(ctx context.Context, oracle, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	_, err = program.Toolchain{Dir: oracle, Env: []string{"CGO_ENABLED=1", "GOWORK=off"}}.Do(ctx, "build", "-o", file, "./duck")
	return err
}

// startDuck starts the command. The process ends with the context at the latest.
func startDuck(ctx context.Context, file string, errs io.Writer) (*duck, error) {
	cmd := exec.CommandContext(ctx, file)
	cmd.Stderr = errs
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
	return newDuck(out, in, cmd.Wait), nil
}

func newDuck(out io.WriteCloser, in io.Reader, wait func() error) *duck {
	d := &duck{out: out, in: json.NewDecoder(bufio.NewReaderSize(in, 1<<20)), wait: wait}
	d.in.UseNumber()
	return d
}

func (d *duck) ask(r request) (reply, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := d.out.Write(append(line, '\n')); err != nil {
		return reply{}, fmt.Errorf("duckdb: %s: %w", r.Op, err)
	}
	var a reply
	if err := d.in.Decode(&a); err != nil {
		return reply{}, fmt.Errorf("duckdb: %s: %w", r.Op, err)
	}
	if a.Error != "" {
		return reply{}, fmt.Errorf("duckdb: %s: %s", r.Op, a.Error)
	}
	return a, nil
}

// pairs returns the rows of load, open and storm, which are two whole numbers.
func (a reply) pairs() ([][2]int64, error) {
	all := make([][2]int64, len(a.Rows))
	for i, row := range a.Rows {
		if _, err := fmt.Sscanf(fmt.Sprintln(row...), "%d %d\n", &all[i][0], &all[i][1]); err != nil || len(row) != 2 {
			return nil, fmt.Errorf("duckdb: %v is not two numbers", row)
		}
	}
	return all, nil
}

func (d *duck) close() error { return errors.Join(d.out.Close(), d.wait()) }
