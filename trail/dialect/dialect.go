// Package dialect translates a query of trail to SQL of ClickHouse or DuckDB, and
// reads the rows that come back as the same answer. If you outgrow one machine, you
// take the queries along; and two more programs can check that trail is right.
//
// Read Compile and Statement, then funnel.go, retention.go, segment.go, cohort.go
// and paths.go, one for each kind of query; chain.go has the funnels that neither
// windowFunnel nor joins can express, winner.go finds the chain of a user whose values
// and times count, trend.go does buckets, and users.go who is behind a number. Table
// makes the table that they ask.
//
// The table is called events. Its columns are user, time and event, then one for
// each property, by name:
//
//	column      ClickHouse                   DuckDB
//	user        String                       VARCHAR
//	time        DateTime64(3, 'UTC')         TIMESTAMP, in UTC
//	event       LowCardinality(String)       VARCHAR or ENUM
//	a string    [LowCardinality(]String[)]   VARCHAR or ENUM in order of bytes
//	an integer  Nullable(Int64)              BIGINT
//	a number    Nullable(Float64)            DOUBLE
//	a boolean   Nullable(Bool)               BOOLEAN
//
// A missing string is empty in ClickHouse, and empty or NULL in DuckDB; anything
// else missing is NULL.
//
// Statements of both dialects were executed: the tests in test/oracle run the statements
// of DuckDB. The statements of ClickHouse in testdata, and thousands of random ones, ran on
// ClickHouse 26.9 when they were written; its rows are in testdata.
//
// Invariants: whatever comes from a query document reaches the SQL as a quoted
// literal or a quoted name, never as SQL; a statement means what trail answers, or
// Compile refuses with an *UnsupportedError.
//
// The package knows no store and no driver; it evaluates nothing itself.
package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A Dialect is a kind of SQL.
type Dialect uint8

// The dialects.
const (
	ClickHouse Dialect = iota // of version 26.9
	DuckDB                    // of version 1.5
)

func (d Dialect) String() string {
	if d == DuckDB {
		return "DuckDB"
	}
	return "ClickHouse"
}

// A Statement is a query in SQL. It is immutable and may be used by many
// goroutines.
type Statement struct {
	Dialect Dialect
	SQL     string // one SELECT, without a semicolon; ends with a newline

	// Warnings name properties that the schema does not have, and steps that
	// overlap. (Events that no user has done, and labels and groups that the answer
	// does not have, are not known here.)
	Warnings []string

	query  *query.Query
	schema event.Schema
	read   answerReader
}

// An UnsupportedError reports which part of a query a dialect cannot express.
type UnsupportedError struct {
	Dialect   Dialect
	Construct string // such as "a filter by cohort"
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s cannot be expressed in SQL of %s", e.Construct, e.Dialect)
}

// A LiteralError reports that a literal cannot be of the type of its property.
type LiteralError struct {
	Property string
	Type     event.Type
	Literal  string
	Pos      query.Pos
}

func (e *LiteralError) Error() string {
	where := ""
	if e.Pos != (query.Pos{}) {
		where = fmt.Sprintf("%d:%d: ", e.Pos.Line, e.Pos.Column)
	}
	return fmt.Sprintf("%sproperty %q is of type %s, which %q is not", where, e.Property, e.Type, e.Literal)
}

// Compile returns a query as one statement about the table events, whose
// properties have the types of the schema. The query must have passed query.Check
// (Parse does that), and neither it nor the schema may change any more. The error
// is an *UnsupportedError, a *LiteralError, or a *query.Error about a property that
// is of the wrong type for the query.
func Compile(d Dialect, q *query.Query, schema event.Schema) (*Statement, error) {
	c := &compiler{dialect: d, query: q, schema: schema, missing: map[string]bool{}, used: map[string]bool{}}
	var s *selection
	switch {
	case q.Funnel != nil:
		s = c.funnel(q.Funnel)
	case q.Retention != nil:
		s = c.retention(q.Retention)
	case q.Segment != nil:
		s = c.segment(q.Segment)
	case q.Cohort != nil:
		s = c.cohort(q.Cohort)
	case q.Paths != nil:
		s = c.paths(q.Paths)
	default:
		return nil, fmt.Errorf("a query that asks nothing cannot be put in SQL")
	}
	if c.err != nil {
		return nil, c.err
	}
	return &Statement{
		Dialect: d, SQL: c.comments() + s.String(), Warnings: c.warnings,
		query: q, schema: schema, read: c.read,
	}, nil
}

// Table returns the statement that makes the table events for a schema. In
// ClickHouse, rows are in the order of a store and of its export: a user's stand
// together, which makes funnels fast, and a sample is a range. The engine is
// MergeTree; a cluster needs another. All strings are LowCardinality, which does no
// harm below some 10,000 values.
func Table(d Dialect, schema event.Schema) string {
	types := map[event.Type]string{event.Int: "Nullable(Int64)", event.Float: "Nullable(Float64)", event.Bool: "Nullable(Bool)"}
	text, columns := "LowCardinality(String)", []string{"user String", "time DateTime64(3, 'UTC')", "event LowCardinality(String)"}
	if d == DuckDB {
		types = map[event.Type]string{event.Int: "BIGINT", event.Float: "DOUBLE", event.Bool: "BOOLEAN"}
		text, columns = "VARCHAR", []string{`"user" VARCHAR`, `"time" TIMESTAMP`, "event VARCHAR"}
	}
	for _, f := range schema {
		columns = append(columns, name(d, f.Name)+" "+cmp.Or(types[f.Type], text))
	}
	engine := ""
	if d == ClickHouse {
		engine = "\nENGINE = MergeTree\nORDER BY (xxHash64(user), user, time)"
	}
	return "CREATE TABLE events (\n    " + strings.Join(columns, ",\n    ") + "\n)" + engine + "\n"
}

// An answerReader reads rows as the answer to a kind of query.
type answerReader func(s *Statement, r *reader, rows [][]any, answer *query.Answer)

// A compiler has what the parts of one statement share. It keeps the first error.
type compiler struct {
	dialect  Dialect
	query    *query.Query
	schema   event.Schema
	read     answerReader
	notes    []string // comment lines above the statement
	warnings []string
	missing  map[string]bool // unknown properties that were warned of
	used     map[string]bool // properties that the statement asks for
	err      error
}

func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *compiler) unsupported(format string, args ...any) {
	c.fail(&UnsupportedError{Dialect: c.dialect, Construct: fmt.Sprintf(format, args...)})
}

func (c *compiler) note(line string) {
	if !slices.Contains(c.notes, line) {
		c.notes = append(c.notes, line)
	}
}

func (c *compiler) comments() string {
	text := ""
	for _, line := range c.notes {
		text += "-- " + line + "\n"
	}
	return text
}

// table is the one that all statements ask.
const table = "events"

// pick returns the SQL of the dialect that is compiled for.
func (c *compiler) pick(clickhouse, duckdb string) string {
	if c.dialect == DuckDB {
		return duckdb
	}
	return clickhouse
}
