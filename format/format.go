// Package format reads and writes sequences of records, such as lines, NDJSON and CSV, as
// values.
//
// A [Reader] finds where records begin and end, with their offsets, and a [Decoder] makes
// values of them, also concurrently. An [Encoder] is the other direction. A
// [ParquetReader] reads tables.
//
// Invariants: input is not trusted. Any bytes give records, damaged ones among them, and
// never a panic; memory is bounded by the longest record that is allowed. A damaged record
// does not end the reading. What is read does not depend on how the bytes arrive.
//
// It must not know files, nodes or systems: it gets readers and writers.
package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/records"
)

// The names of formats.
const (
	Lines  = "lines"  // lines of text, which end with LF or CRLF
	NDJSON = "ndjson" // a JSON value in each line; empty lines are passed over
	CSV    = "csv"    // rows as RFC 4180 has them, as maps of texts
	JSON   = "json"   // one JSON value
	Raw    = "raw"    // all bytes as one record

	// Parquet is for callers: see [ParquetReader].
	Parquet = "parquet"
)

// DefaultMaxRecord is how many bytes a record may have by default.
const DefaultMaxRecord = 8 << 20

// Options describe a format. The zero value of a field is its default.
type Options struct {
	Name      string   // required
	Delimiter byte     // of CSV; a comma by default
	Columns   []string // of CSV; by default the names are in the first record
	MaxRecord int      // bytes; DefaultMaxRecord by default
}

// Check returns what is wrong with the options.
func (o Options) Check() error {
	if !slices.Contains([]string{Lines, NDJSON, CSV, JSON, Raw}, o.Name) {
		return fmt.Errorf("%q is not a format", o.Name)
	}
	if o.Delimiter != 0 && (strings.IndexByte("\"\r\n", o.Delimiter) >= 0 || o.Delimiter >= 0x80) {
		return errors.New("a delimiter must be one ASCII character other than a quote and a line end")
	}
	return records.CheckColumns(o.Columns)
}

func (o Options) withDefaults() Options {
	if o.Delimiter == 0 {
		o.Delimiter = ','
	}
	if o.MaxRecord <= 0 {
		o.MaxRecord = DefaultMaxRecord
	}
	return o
}

// whole reports whether all bytes are one record.
func (o Options) whole() bool { return o.Name == JSON || o.Name == Raw }
