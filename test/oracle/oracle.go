// Package oracle asks DuckDB the questions that trail answers, by the SQL that
// trail/dialect makes of them. It is a module of its own, because the driver is C:
// its tests compare answers.
package oracle

import (
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2" // the driver "duckdb", and the types of its values
)

// enumLimit is how many distinct strings a column may have to be kept as an ENUM:
// a code of at most two bytes, DuckDB's best type for them.
const enumLimit = 65535

// A DB is a DuckDB database with a table events. It may be used from many
// goroutines; Close it after the last.
type DB struct{ sql *sql.DB }

// Open opens a database file, or an empty one in memory for "".
func Open(ctx context.Context, path string, readOnly bool) (*DB, error) {
	dsn := path
	if readOnly {
		dsn += "?access_mode=read_only"
	}
	pool, err := sql.Open("duckdb", dsn)
	if err != nil {
		return nil, err
	}
	db := &DB{sql: pool}
	if err := db.Exec(ctx, "SET GLOBAL TimeZone = 'UTC'"); err != nil {
		return nil, fmt.Errorf("%w (closing: %v)", err, pool.Close())
	}
	return db, nil
}

// Close ends all connections and writes the file.
func (db *DB) Close() error { return db.sql.Close() }

// Exec runs a statement that answers nothing.
func (db *DB) Exec(ctx context.Context, statement string) error {
	_, err := db.sql.ExecContext(ctx, statement)
	return err
}

// Load makes the table events of a Parquet file as trail exports it: rows by user and
// time, strings of at most 65,535 different values as ENUM. An ENUM has the order of
// the bytes.
func (db *DB) Load(ctx context.Context, parquet string) (rows int64, err error) {
	source := "read_parquet('" + strings.ReplaceAll(parquet, "'", "''") + "')"
	columns, err := db.Query(ctx, "DESCRIBE SELECT * FROM "+source)
	if err != nil {
		return 0, err
	}
	selected := make([]string, len(columns))
	for i, column := range columns {
		name, kind := column[0].(string), column[1].(string)
		quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		selected[i] = quoted
		switch {
		case name == "user":
		case name == "time":
			selected[i] = quoted + "::TIMESTAMP AS " + quoted
		case kind == "VARCHAR":
			few, err := db.Query(ctx, "SELECT approx_count_distinct("+quoted+") <= "+strconv.Itoa(enumLimit*9/10)+" FROM "+source)
			if err != nil {
				return 0, err
			}
			if few[0][0] != true {
				continue
			}
			enum := `"values of ` + strings.ReplaceAll(name, `"`, `""`) + `"`
			create := "CREATE TYPE " + enum + " AS ENUM (SELECT DISTINCT " + quoted + " FROM " + source + " WHERE " + quoted + " IS NOT NULL ORDER BY 1)"
			if err := db.Exec(ctx, create); err != nil {
				return 0, err
			}
			selected[i] = quoted + "::" + enum + " AS " + quoted
		}
	}
	create := "CREATE TABLE events AS SELECT " + strings.Join(selected, ", ") + " FROM " + source + ` ORDER BY "user", "time"`
	if err := db.Exec(ctx, create); err != nil {
		return 0, err
	}
	if err := db.Exec(ctx, "CHECKPOINT"); err != nil {
		return 0, err
	}
	count, err := db.Query(ctx, "SELECT count(*) FROM events")
	if err != nil {
		return 0, err
	}
	return count[0][0].(int64), nil
}

// Query runs a statement and returns its rows in the types that dialect reads:
// nil, bool, int64, float64, string, []any, and times as text.
func (db *DB) Query(ctx context.Context, statement string) (rows [][]any, err error) {
	found, err := db.sql.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := found.Close(); err == nil {
			err = closing
		}
	}()
	columns, err := found.Columns()
	if err != nil {
		return nil, err
	}
	rows = [][]any{}
	for found.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		for i, value := range row {
			if row[i], err = plain(value); err != nil {
				return nil, fmt.Errorf("column %s: %w", columns[i], err)
			}
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

// plain returns a value of the driver as one that JSON can carry.
func plain(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint64:
		return v, nil
	case float32:
		return float64(v), nil
	case duckdb.Decimal:
		return v.Float64(), nil
	case *big.Int:
		if v.IsInt64() {
			return v.Int64(), nil
		}
		f, _ := new(big.Float).SetInt(v).Float64() // the nearest number is what is wanted
		return f, nil
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.999"), nil
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			var err error
			if list[i], err = plain(element); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("a value of type %T", value)
}
