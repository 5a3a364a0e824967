package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/uniflow-labs/uniflow/internal/servertest"
)

// jobRows is how many rows the file of S6 has at scale 1, of about 120 bytes.
const jobRows = 1_000_000

// measureJob is S6: examples/job-csv.yaml, from a file of CSV into PostgreSQL.
func measureJob(ctx context.Context, l *lab) error {
	db, err := servertest.StartPostgres()
	if err != nil {
		return err
	}
	defer db.Close()
	source := db.PostgresURL()
	conn, err := pgx.Connect(ctx, source)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	n := l.count(jobRows)
	if err := writeRows(l.File("orders.csv"), n); err != nil {
		return err
	}
	document := func(name, fields string) (path string, err error) {
		return l.write(name, fmt.Sprintf(`
- {kind: file_source, name: rows, paths: [%q], format: csv, batch: {count: 1000}%s, checkpoint: {file: %q}, ports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: 'self.map(m, {"id": int(m.body.id), "total": double(m.body.price) * double(m.body.n)})', ports: {out: [{name: load}]}}
- {kind: sql_sink, name: load, driver: postgres, source: '%s', table: totals, mode: copy}
`, l.File("orders.csv"), fields, l.File("orders.pos"), source))
	}
	usual, err := document("job.yaml", "")
	if err != nil {
		return err
	}
	roomy, err := document("roomy.yaml", ", max_in_flight: 16000") // so that more rows join a COPY
	if err != nil {
		return err
	}
	job := func(name string, run func(context.Context) (cost, error)) round {
		return round{name, func(ctx context.Context) (cost, int, error) {
			_ = os.Remove(l.File("orders.pos"))
			if _, err := conn.Exec(ctx, "DROP TABLE IF EXISTS totals; CREATE TABLE totals (id bigint, total double precision)"); err != nil {
				return cost{}, 0, err
			}
			c, err := run(ctx)
			if err != nil {
				return cost{}, 0, err
			}
			var loaded int
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM totals").Scan(&loaded); err != nil {
				return cost{}, 0, err
			}
			if loaded != n {
				return cost{}, 0, fmt.Errorf("%d rows were loaded, not %d", loaded, n)
			}
			return c, n, nil
		}}
	}
	ours, best, err := l.compare(ctx, "S6",
		job("uniflow", func(ctx context.Context) (cost, error) {
			return l.do(ctx, l.Binary, "run", usual, "--progress", "none")
		}),
		job("uniflow, 16,000 in flight", func(ctx context.Context) (cost, error) {
			return l.do(ctx, l.Binary, "run", roomy, "--progress", "none")
		}),
		job("one CopyFrom", func(ctx context.Context) (cost, error) {
			return l.form(ctx, "job", "one", l.File("orders.csv"), source)
		}),
		job("a CopyFrom for 10,000 rows", func(ctx context.Context) (cost, error) {
			return l.form(ctx, "job", "many", l.File("orders.csv"), source)
		}),
	)
	if err != nil {
		return err
	}
	l.rate("S6", ours, best, 0.6)
	l.peak("S6", ours, 150)
	return nil
}

func writeRows(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	fmt.Fprintln(w, "id,customer,country,price,n,note")
	for i := range n {
		fmt.Fprintf(w, "%d,customer-%d@example.com,KR,%d.%02d,%d,\"ring twice, and leave it with the neighbour, order %d of the day\"\n", i, i%keys, i%1000, i%100, 1+i%9, i%5000)
	}
	return errors.Join(w.Flush(), f.Close())
}

// jobForm is the baseline: form, file, database.
func jobForm(ctx context.Context, args []string) (err error) {
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	conn, err := pgx.Connect(ctx, args[2])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	rows := &rowReader{csv: csv.NewReader(bufio.NewReaderSize(f, 1<<20))}
	rows.csv.ReuseRecord = true
	if _, err := rows.csv.Read(); err != nil {
		return err
	}
	if args[0] == "many" {
		rows.most = 10_000
	}
	for {
		rows.n = 0
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{"totals"}, []string{"id", "total"}, rows); err != nil {
			return err
		}
		if rows.ended {
			return nil
		}
	}
}

// A rowReader is the pgx.CopyFromSource of a file, for at most so many rows at a time.
type rowReader struct {
	csv     *csv.Reader
	most, n int
	row     [2]any
	ended   bool
	err     error
}

func (r *rowReader) Next() bool {
	if r.most > 0 && r.n == r.most {
		return false
	}
	fields, err := r.csv.Read()
	if err != nil {
		r.ended = true
		if !errors.Is(err, io.EOF) {
			r.err = err
		}
		return false
	}
	r.n++
	id, err := strconv.ParseInt(fields[0], 10, 64)
	price, errPrice := strconv.ParseFloat(fields[3], 64)
	count, errCount := strconv.ParseFloat(fields[4], 64)
	if r.err = errors.Join(err, errPrice, errCount); r.err != nil {
		return false
	}
	r.row = [2]any{id, price * count}
	return true
}

func (r *rowReader) Values() ([]any, error) { return r.row[:], nil }
func (r *rowReader) Err() error             { return r.err }
