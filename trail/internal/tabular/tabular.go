// Package tabular reads events from files of rows - CSV, newline-delimited JSON
// and Parquet - and writes them as Parquet.
//
// Read Options, Row and Reader here, then columns.go (which column is what, and of
// which type), scalar.go and time.go (what a text means), and one file for each
// format: csv.go, ndjson.go over json.go, parquet.go over column.go, which ahead.go
// reads in a goroutine of its own. write.go is the other direction.
//
// Invariants: input is not trusted. Any bytes give rows, bad rows or an error,
// never a panic; memory is bounded by the batch, the longest record (1 MiB) and,
// for Parquet, one page of each column, not by the file. A row that cannot be
// taken never ends the reading: it is returned as a BadRow with its line.
//
// It does not depend on stores, segments or queries; Options.Known has a store's schema.
package tabular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Options describe the columns of a file. The zero Options read files with the
// default column names.
type Options struct {
	// The names of the columns. Empty ones are looked for: user_id or user; time,
	// ts or timestamp; event or name; no id.
	User, Time, Event, ID string

	// TimeUnit is the unit of times that are numbers: s, ms, us or ns. Empty
	// guesses it by size. Texts and Parquet timestamps have their own.
	TimeUnit string

	// Times returns why a time, in milliseconds since 1970 UTC, is not taken, nil if
	// it is. Rows with other times are bad. nil takes all times, as a Parser does.
	Times func(millis int64) error

	// Types forces the types of properties by name. Unknown leaves the column out.
	Types map[string]event.Type

	// Known is the schema of the store that the events are for. A property it has
	// must come in its type or, between integers and numbers, widens.
	Known event.Schema

	// Coded lets rows have codes instead of strings; see Row.Codes.
	Coded bool

	// Advice returns what to do about an error, or "". It is appended to the message.
	// The error is a *ColumnError, a *PropertyError, an *event.TypeError or an
	// *event.InexactError. nil gives no advice.
	Advice func(error) string
}

func (o Options) checkTime(millis int64) error {
	if o.Times == nil {
		return nil
	}
	if err := o.Times(millis); err != nil {
		return o.advise(err)
	}
	return nil
}

// A Row is one event. Its strings and its Values are valid until the next call
// of Next.
type Row struct {
	User   string
	Time   int64 // milliseconds since 1970 UTC
	Name   string
	ID     string        // empty for none
	Values []event.Value // Values[i] is of field i of the schema; missing beyond its end

	// Codes are nil unless Options.Coded is set and the file has dictionaries. If
	// Codes[i] is not 0, the value of field i is Terms(i)[Codes[i]-1], and Values[i] has
	// no meaning. The caller may change them.
	Codes []uint32
}

// A BadRow is a row that was left out.
type BadRow struct {
	Line   int64 // the line in the file where the row starts, from 1; of Parquet the number of the row, from 1
	Reason string
}

// Bounds of what is taken from a file.
const (
	maxRecord     = 1 << 20 // bytes of a record of CSV or a line of JSON
	maxProperties = 2000    // columns of one file; each costs 32 bytes in each row of a batch
	maxName       = 1024    // bytes of a property's name
	maxValues     = 1 << 18 // values of a batch, which ends before it has more
	maxBad        = 1024    // bad rows of a batch, which ends when it has them
	sampleRows    = 10_000  // rows of CSV that decide the types
)

// A Reader reads the events of one file. Only Progress may be called concurrently.
type Reader struct {
	path string
	in   *input
	src  source
	err  error // what ended the reading
}

// A source reads one format of files.
type source interface {
	// next is Reader.Next; it returns io.EOF without rows.
	next(rows []Row) (n int, bad []BadRow, err error)
	schema() event.Schema
	close()
}

// A coded source has dictionaries.
type coded interface {
	terms(field int) []string
}

// Open opens a file for reading. The extension decides the format; see formats.go. "-" is
// newline-delimited JSON from stdin. The caller must call Close.
//
// It is a *ColumnError if a column that Options or the defaults name is missing, and
// an *event.TypeError if a column's type does not fit the known schema. For JSON the
// names in the lines of the first read are checked.
func Open(path string, stdin io.Reader, opt Options) (*Reader, error) {
	r, err := open(path, stdin, opt)
	if err != nil {
		return nil, withName(path, err)
	}
	return r, nil
}

func open(path string, stdin io.Reader, opt Options) (*Reader, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	format, packed, err := formatOf(path)
	if err != nil {
		return nil, err
	}
	in, err := openInput(path, stdin, packed)
	if err != nil {
		return nil, err
	}
	r := &Reader{path: path, in: in}
	if r.src, err = format.open(in, opt); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return r, nil
}

// Schema returns the properties found so far, without the user, time, event and id
// columns. It may grow with Next, and in JSON an integer may become a number; a field
// keeps its index. The caller must not change it.
func (r *Reader) Schema() event.Schema { return r.src.schema() }

// Next reads up to len(rows) rows. It may return fewer, and even none if it returns
// bad rows. At the end it returns 0 and io.EOF. After any other error, which names
// the file, the reader is unusable. Values are of the schema as it is after the
// call.
func (r *Reader) Next(rows []Row) (n int, bad []BadRow, err error) {
	if r.err != nil {
		return 0, nil, r.err
	}
	if len(rows) == 0 {
		return 0, nil, nil
	}
	n, bad, err = r.src.next(rows)
	if err != nil {
		if err != io.EOF {
			err = withName(r.path, err)
		}
		r.err = err
	}
	return n, bad, err
}

// Terms returns the dictionary of a field for the rows of the last call of Next. It is
// another slice whenever the dictionary is another one; its strings stay as they are.
func (r *Reader) Terms(field int) []string {
	if c, ok := r.src.(coded); ok {
		return c.terms(field)
	}
	return nil
}

// Progress returns how many bytes of the file, compressed or not, were read, and its
// size, -1 if unknown. It may be called concurrently.
func (r *Reader) Progress() (done, total int64) { return r.in.done.Load(), r.in.total }

// Close releases the reader's resources.
func (r *Reader) Close() error {
	r.src.close()
	if r.err == nil {
		r.err = errors.New("the reader is closed")
	}
	return r.in.close()
}

// withName puts the name of the file in front of an error that lacks it.
func withName(path string, err error) error {
	if path == "-" {
		path = "standard input"
	}
	if in := (*fs.PathError)(nil); errors.As(err, &in) && in.Path == path {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// check checks the options without a file.
func (o Options) check() error {
	if _, err := unitOf(o.TimeUnit); err != nil {
		return err
	}
	specs := o.columnSpecs()
	for i, a := range specs {
		for _, b := range specs[:i] {
			if a.name != "" && a.name == b.name {
				return fmt.Errorf("%s and %s are both in the column %q", b.role, a.role, a.name)
			}
		}
	}
	return nil
}
