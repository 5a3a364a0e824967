package kinds

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/uniflow-labs/uniflow/internal/servertest"
)

// BenchmarkPostgres reads 100 rows of five columns.
func BenchmarkPostgres(b *testing.B) {
	source := servertest.Postgres(b).PostgresURL()
	ctx := b.Context()
	pool, err := pgxpool.New(ctx, source)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if err := fill(func(statement string) error { _, err := pool.Exec(ctx, statement); return err }); err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, source)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // of the benchmark
	send := sent(b, "- {kind: sql, name: n, driver: postgres, source: '"+source+"'}", query())
	measured(b, "uniflow", func() error { return enoughMaps(send()) })
	measured(b, "by-hand/pool", func() error {
		rows, err := pool.Query(ctx, choose, 400)
		return enough(scanned(rows, err))
	})
	measured(b, "by-hand/connection", func() error {
		rows, err := conn.Query(ctx, choose, 400)
		return enough(scanned(rows, err))
	})
	measured(b, "by-hand/collect", func() error {
		rows, err := pool.Query(ctx, choose, 400)
		if err != nil {
			return err
		}
		return enough(pgx.CollectRows(rows, pgx.RowToStructByPos[record]))
	})
}

func scanned(rows pgx.Rows, err error) ([]record, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make([]record, 0, records)
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.ID, &r.SKU, &r.Count, &r.Price, &r.Note); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}
