// Command duck is DuckDB behind a pipe, for programs without cgo: bench/trail
// starts it and times SQL in it, if it cannot have the script engines/engines.py, which
// speaks the same protocol.
//
// It reads one JSON object a line from standard input and answers each by one line
// on standard output, in order. Requests, with defaults in brackets:
//
//	{"op":"open","db":FILE,"write":false,"threads":2}
//	    opens a database, having closed the one before; with write it is made if it is
//	    not there, else it is open to read. Answers [[version of DuckDB]].
//	{"op":"exec","sqls":[SQL,…],"threads":n [as before]}
//	    runs statements. Answers no rows.
//	{"op":"query","sql":SQL,"threads":n [as before]}
//	    answers the rows of the statement.
//	{"op":"storm","sqls":[SQL,…],"clients":8,"rounds":10,"threads":n}
//	    runs the statements in turn on so many connections concurrently, so often each
//	    (client i begins at statement i), and answers one row a query:
//	    [[index of the statement, microseconds],…].
//	{"op":"close"}
//	    closes the database; the process goes on, and ends at the end of the input.
//
// An answer is {"rows":[[…],…],"elapsed_us":N,"peak_rss":N} or {"error":TEXT}.
// elapsed_us is the time of the request within DuckDB and its Go driver, reading
// and converting all rows included, JSON and pipe not. peak_rss is the most bytes
// of memory that the process had while this request ran (on Linux, else 0). Rows
// have null, booleans, numbers, strings, lists; times are "2026-01-05 00:00:00"
// in UTC. They are what Statement.Answer of trail/dialect takes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/test/oracle"
)

type request struct {
	Op      string   `json:"op"`
	DB      string   `json:"db"`
	Write   bool     `json:"write"`
	SQL     string   `json:"sql"`
	SQLs    []string `json:"sqls"`
	Threads int      `json:"threads"`
	Clients int      `json:"clients"`
	Rounds  int      `json:"rounds"`
}

type answer struct {
	Rows      [][]any `json:"rows"`
	ElapsedUS int64   `json:"elapsed_us"`
	PeakRSS   int64   `json:"peak_rss"`
	Error     string  `json:"error,omitempty"`
}

func main() {
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "duck:", err)
		os.Exit(1)
	}
}

// serve answers requests until the input ends.
func serve(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	s := &server{}
	defer func() { err = errors.Join(err, s.close()) }()
	reader, writer := json.NewDecoder(bufio.NewReader(in)), bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		var req request
		switch err := reader.Decode(&req); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		oracle.ResetPeak()
		var a answer
		began := time.Now()
		rows, err := s.do(ctx, req)
		a.ElapsedUS = time.Since(began).Microseconds()
		a.PeakRSS = oracle.PeakMemory()
		if a.Rows = rows; err != nil {
			a.Error = err.Error()
		}
		if err := encoder.Encode(a); err != nil {
			return err
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

// A server has the database that is open, if any, and is used by one goroutine.
type server struct{ db *oracle.DB }

func (s *server) close() error {
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return db.Close()
}

func (s *server) do(ctx context.Context, req request) ([][]any, error) {
	switch req.Op {
	case "open":
		return s.open(ctx, req)
	case "close":
		return nil, s.close()
	case "exec", "query", "storm":
	default:
		return nil, fmt.Errorf("op is %q, want open, exec, query, storm or close", req.Op)
	}
	if s.db == nil {
		return nil, errors.New("no database is open: send open first")
	}
	if err := s.threads(ctx, req); err != nil {
		return nil, err
	}
	switch req.Op {
	case "exec":
		for _, sql := range req.SQLs {
			if err := s.db.Exec(ctx, sql); err != nil {
				return nil, err
			}
		}
		return [][]any{}, nil
	case "storm":
		return s.storm(ctx, req)
	}
	return s.db.Query(ctx, req.SQL)
}

func (s *server) threads(ctx context.Context, req request) error {
	if req.Threads <= 0 {
		return nil
	}
	return s.db.Threads(ctx, req.Threads)
}

func (s *server) open(ctx context.Context, req request) (rows [][]any, err error) {
	if err := s.close(); err != nil {
		return nil, err
	}
	if s.db, err = oracle.Open(ctx, req.DB, !req.Write); err != nil {
		return nil, err
	}
	if err := s.threads(ctx, req); err != nil {
		return nil, err
	}
	return s.db.Query(ctx, "SELECT version()")
}

// storm runs the queries of many clients concurrently.
func (s *server) storm(ctx context.Context, req request) ([][]any, error) {
	if len(req.SQLs) == 0 {
		return nil, errors.New("storm without sqls")
	}
	type result struct {
		rows [][]any
		err  error
	}
	results := make([]result, req.Clients)
	var clients sync.WaitGroup
	for client := range results {
		clients.Go(func() {
			r := &results[client]
			for round := range req.Rounds {
				i := (client + round) % len(req.SQLs)
				began := time.Now()
				if _, r.err = s.db.Query(ctx, req.SQLs[i]); r.err != nil {
					return
				}
				r.rows = append(r.rows, []any{int64(i), time.Since(began).Microseconds()})
			}
		})
	}
	clients.Wait()
	rows := [][]any{}
	for _, r := range results {
		if r.err != nil {
			return nil, r.err
		}
		rows = append(rows, r.rows...)
	}
	return rows, nil
}
