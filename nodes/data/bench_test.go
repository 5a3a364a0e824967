package data_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/uniflow-labs/uniflow/value"
)

// An order is a row as a program in Go reads it.
type order struct {
	ID       int64
	Customer string
	Amount   float64
	Paid     bool
	Note     *string
}

const (
	makeOrders   = "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(40) NOT NULL, amount DOUBLE PRECISION NOT NULL, paid BOOLEAN NOT NULL, note TEXT)"
	insertOrder  = "INSERT INTO orders VALUES (:id, :customer, :amount, :paid, :note)"
	selectOrders = "SELECT id, customer, amount, paid, note FROM orders WHERE id > :least ORDER BY id"
)

// BenchmarkSelect100 selects 100 rows of five columns: by the node, with a process
// around it, and by hand, into structs.
func BenchmarkSelect100(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		d := sqlite(b)
		makeRows(b, d)
		b.Run("node", func(b *testing.B) { selectByNode(b, d) })
		b.Run("hand", func(b *testing.B) { selectBySQL(b, d.source) })
	})
	b.Run("postgres", func(b *testing.B) {
		d := postgres(b)
		makeRows(b, d)
		b.Run("node", func(b *testing.B) { selectByNode(b, d) })
		b.Run("hand", func(b *testing.B) { selectByPgx(b, d.source) })
	})
}

func makeRows(b *testing.B, d database) {
	e := engine(b, d.node("n"))
	must(b, e, "n", "DROP TABLE IF EXISTS orders", makeOrders)
	var rows []value.Value
	for i := range 100 {
		note := value.Null()
		if i%2 == 0 {
			note = value.String("leave it at the door")
		}
		rows = append(rows, value.Map(value.Field{Name: "id", Value: value.Int(int64(1000 + i))}, value.Field{Name: "customer", Value: value.String(fmt.Sprintf("customer-%d", i))},
			value.Field{Name: "amount", Value: value.Float(float64(i) + 0.25)}, value.Field{Name: "paid", Value: value.Bool(i%3 == 0)}, value.Field{Name: "note", Value: note}))
	}
	if _, _, err := e.Run(b.Context(), "n", value.List(value.String(insertOrder), value.List(rows...))); err != nil {
		b.Fatal(err)
	}
	must(b, e, "n", "VACUUM", "ANALYZE") // so that the server does not do it meanwhile
}

func selectByNode(b *testing.B, d database) {
	e := engine(b, d.node("n"))
	in := value.List(value.String(selectOrders), value.Map(value.Field{Name: "least", Value: value.Int(0)}))
	ctx, cancel := context.WithCancel(b.Context()) // like the context of a request
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		got, _, err := e.Run(ctx, "n", in)
		if err != nil || got.Len() != 100 {
			b.Fatal(got.Len(), err)
		}
	}
}

func selectBySQL(b *testing.B, source string) {
	db, err := sql.Open("sqlite", source)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	st, err := db.Prepare("SELECT id, customer, amount, paid, note FROM orders WHERE id > ? ORDER BY id")
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		rows, err := st.QueryContext(ctx, 0)
		if err != nil {
			b.Fatal(err)
		}
		var orders []order
		for rows.Next() {
			var o order
			if err := rows.Scan(&o.ID, &o.Customer, &o.Amount, &o.Paid, &o.Note); err != nil {
				b.Fatal(err)
			}
			orders = append(orders, o)
		}
		if err := rows.Err(); err != nil || len(orders) != 100 {
			b.Fatal(len(orders), err)
		}
	}
}

func selectByPgx(b *testing.B, source string) {
	pool, err := pgxpool.New(b.Context(), source)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		rows, err := pool.Query(ctx, "SELECT id, customer, amount, paid, note FROM orders WHERE id > $1 ORDER BY id", 0)
		if err != nil {
			b.Fatal(err)
		}
		var orders []order
		var o order
		_, err = pgx.ForEachRow(rows, []any{&o.ID, &o.Customer, &o.Amount, &o.Paid, &o.Note}, func() error {
			orders = append(orders, o)
			return nil
		})
		if err != nil || len(orders) != 100 {
			b.Fatal(len(orders), err)
		}
	}
}
