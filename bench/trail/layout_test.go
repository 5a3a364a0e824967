package trail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/dialect"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// The tables of the other engines, both sorted by user and time. events is as
// trail/dialect describes it. In numbered the user is an integer, which counts the ids, the
// column ms is the time as an integer, and what is missing is NULL; the other columns are
// the same as in events.
const (
	tableEvents   = "events"
	tableNumbered = "numbered"
)

// fewValues is how many values a column of strings may have to be kept as an ENUM, or in
// ClickHouse as LowCardinality.
const fewValues = 1_000_000

// quoted returns a string as SQL has it.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// load makes the table events of a Parquet file in a new database, and returns how long
// that took and how large it is. Then, if it is wanted, it makes the table numbered.
func (p *peer) load(path, parquet string, schema event.Schema, numbered bool) (*made, error) {
	parquet, err := filepath.Abs(parquet)
	if err != nil {
		return nil, err
	}
	if err := p.open(path, true); err != nil {
		return nil, err
	}
	begin := time.Now()
	few, err := p.countValues(parquet, schema)
	if err != nil {
		return nil, err
	}
	layout := duckLayout
	if p.dialect == dialect.ClickHouse {
		layout = houseLayout
	}
	a, err := p.exec(layout(parquet, schema, few)...)
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	rows, err := p.numbers("SELECT count(*) FROM events")
	if err != nil {
		return nil, err
	}
	bytes, err := p.size(path)
	if err != nil {
		return nil, err
	}
	if numbered {
		err = p.number(schema, few)
	}
	return &made{rows: rows[0], took: took, bytes: bytes, memory: a.PeakRSS}, err
}

// size returns the bytes of the table events, the only one so far. ClickHouse's folder also
// has, for a while, parts that were merged.
func (p *peer) size(path string) (int64, error) {
	if p.dialect == dialect.ClickHouse {
		sizes, err := p.numbers("SELECT toInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND table = 'events'")
		if err != nil {
			return 0, err
		}
		return sizes[0], nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// countValues returns which properties of type string have few values.
func (p *peer) countValues(parquet string, schema event.Schema) (few map[string]bool, err error) {
	count, from := "approx_count_distinct", "read_parquet("+quoted(parquet)+")"
	if p.dialect == dialect.ClickHouse {
		count, from = "uniq", "file("+quoted(parquet)+")"
	}
	few = map[string]bool{"event": true}
	var names, counts []string
	for _, f := range schema {
		if f.Type == event.String {
			names, counts = append(names, f.Name), append(counts, count+"("+f.Name+")")
		}
	}
	if len(names) == 0 {
		return few, nil
	}
	got, err := p.numbers("SELECT " + strings.Join(counts, ", ") + " FROM " + from)
	for i, n := range got {
		few[names[i]] = n <= fewValues
	}
	return few, err
}

func duckLayout(parquet string, schema event.Schema, few map[string]bool) []string {
	source := "read_parquet(" + quoted(parquet) + ")"
	var sqls []string
	columns := []string{"user", "time::TIMESTAMP AS time"}
	enum := func(name string) {
		sqls = append(sqls, fmt.Sprintf("CREATE TYPE values_of_%[1]s AS ENUM (SELECT DISTINCT %[1]s FROM %[2]s WHERE %[1]s IS NOT NULL ORDER BY 1)", name, source))
		columns = append(columns, fmt.Sprintf("%[1]s::values_of_%[1]s AS %[1]s", name))
	}
	enum("event")
	for _, f := range schema {
		if few[f.Name] {
			enum(f.Name)
		} else {
			columns = append(columns, f.Name)
		}
	}
	return append(sqls, "CREATE TABLE events AS SELECT "+strings.Join(columns, ", ")+" FROM "+source+" ORDER BY user, time", "CHECKPOINT")
}

func houseLayout(parquet string, schema event.Schema, few map[string]bool) []string {
	types := []string{"user String", "time DateTime64(3, 'UTC')", "event LowCardinality(String)"}
	columns := []string{"user", "time", "event"}
	for _, f := range schema {
		types = append(types, f.Name+" "+houseType(f, few, false))
		if f.Type == event.String {
			columns = append(columns, fmt.Sprintf("ifNull(%[1]s, '') AS %[1]s", f.Name))
		} else {
			columns = append(columns, f.Name)
		}
	}
	return []string{
		"CREATE TABLE events (" + strings.Join(types, ", ") + ") ENGINE = MergeTree ORDER BY (user, time)",
		"INSERT INTO events SELECT " + strings.Join(columns, ", ") + " FROM file(" + quoted(parquet) + ")",
		"OPTIMIZE TABLE events FINAL",
	}
}

// houseType returns the type of a column; a string is empty if it is missing, or NULL.
func houseType(f event.Field, few map[string]bool, null bool) string {
	name := map[event.Type]string{event.String: "String", event.Int: "Int64", event.Float: "Float64", event.Bool: "Bool"}[f.Type]
	if f.Type != event.String || null {
		name = "Nullable(" + name + ")"
	}
	if few[f.Name] {
		name = "LowCardinality(" + name + ")"
	}
	return name
}

// number makes the table numbered.
func (p *peer) number(schema event.Schema, few map[string]bool) error {
	if p.dialect == dialect.DuckDB {
		_, err := p.exec(`CREATE TABLE numbered AS
			SELECT number AS user, epoch_ms(time) AS ms, events.* EXCLUDE (user)
			FROM events JOIN (SELECT user, row_number() OVER (ORDER BY user)::BIGINT AS number FROM (SELECT DISTINCT user FROM events)) USING (user)
			ORDER BY number, time`, "CHECKPOINT")
		return err
	}
	types := []string{"user UInt64", "ms Int64", "time DateTime64(3, 'UTC')", "event LowCardinality(String)"}
	columns := []string{"number", "toUnixTimestamp64Milli(time)", "time", "event"}
	for _, f := range schema {
		types = append(types, f.Name+" "+houseType(f, few, true))
		if f.Type == event.String {
			columns = append(columns, "nullIf("+f.Name+", '')")
		} else {
			columns = append(columns, f.Name)
		}
	}
	_, err := p.exec("CREATE TABLE numbered ("+strings.Join(types, ", ")+") ENGINE = MergeTree ORDER BY (user, time)",
		"INSERT INTO numbered SELECT "+strings.Join(columns, ", ")+" FROM events JOIN (SELECT user, toUInt64(rowNumberInAllBlocks()) AS number FROM (SELECT DISTINCT user FROM events ORDER BY user)) AS u USING (user)",
		"OPTIMIZE TABLE numbered FINAL")
	return err
}
