package kinds

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/uniflow-labs/uniflow/value"
)

// A record is a row by hand.
type record struct {
	ID    int64
	SKU   string
	Count int64
	Price float64
	Note  *string
}

const (
	records = 100
	create  = "CREATE TABLE orders (id INTEGER PRIMARY KEY, sku TEXT NOT NULL, count INTEGER NOT NULL, price DOUBLE PRECISION NOT NULL, note TEXT)"
	insert  = "INSERT INTO orders VALUES (%d, 'tea-%d', %d, %d.25, %s)"
	choose  = "SELECT id, sku, count, price, note FROM orders WHERE id > $1 ORDER BY id LIMIT 100"
)

// fill makes the table with ten times as many rows as are read.
func fill(exec func(statement string) error) error {
	if err := exec(create); err != nil {
		return err
	}
	for i := range 10 * records {
		note := "NULL"
		if i%2 == 0 {
			note = "'leave at the door'"
		}
		if err := exec(fmt.Sprintf(insert, i+1, i, i%7, i, note)); err != nil {
			return err
		}
	}
	return nil
}

// query is the payload that reads the rows after the 400th.
func query() value.Value {
	return value.List(value.String(choose), value.List(value.Int(400)))
}

// enough returns an error unless all rows are there.
func enough(rows []record, err error) error {
	if err == nil && (len(rows) != records || rows[0].ID != 401 || rows[0].SKU != "tea-400" || rows[0].Note == nil || rows[1].Note != nil) {
		return fmt.Errorf("got %d rows", len(rows))
	}
	return err
}

func enoughMaps(v value.Value, err error) error {
	first := v.At(0)
	sku, _ := first.Get("sku")
	if err == nil && (v.Len() != records || sku.String() != "tea-400") {
		return fmt.Errorf("got %v", v)
	}
	return err
}

// measured runs a part of a benchmark.
func measured(b *testing.B, name string, do func() error) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := do(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSQLite reads 100 rows of five columns.
func BenchmarkSQLite(b *testing.B) {
	file := filepath.Join(b.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", file+"?_pragma=journal_mode(wal)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // of the benchmark
	if err := fill(func(statement string) error { _, err := db.Exec(statement); return err }); err != nil {
		b.Fatal(err)
	}
	send := sent(b, "- {kind: sql, name: n, driver: sqlite, source: '"+file+"'}", query())
	measured(b, "uniflow", func() error { return enoughMaps(send()) })
	measured(b, "by-hand/query", func() error { return enough(scan(db.Query(choose, 400))) })
	prepared, err := db.Prepare(choose)
	if err != nil {
		b.Fatal(err)
	}
	defer prepared.Close() //nolint:errcheck // of the benchmark
	measured(b, "by-hand/prepared", func() error { return enough(scan(prepared.Query(400))) })
	conn, err := db.Conn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // of the benchmark
	own, err := conn.PrepareContext(b.Context(), choose)
	if err != nil {
		b.Fatal(err)
	}
	defer own.Close() //nolint:errcheck // of the benchmark
	ctx := b.Context()
	measured(b, "by-hand/connection", func() error { return enough(scan(own.QueryContext(ctx, 400))) })
}

func scan(rows *sql.Rows, err error) (all []record, _ error) {
	if err != nil {
		return nil, err
	}
	all = make([]record, 0, records)
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.ID, &r.SKU, &r.Count, &r.Price, &r.Note); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, r)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}
