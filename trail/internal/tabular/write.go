package tabular

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/uniflow-labs/uniflow/trail/event"
)

const (
	groupRows  = 1 << 20 // rows of a row group
	writeBatch = 1024    // rows that are turned into columns at a time

	// A dictionary beyond this makes its column plain: it does not repeat enough.
	// User ids in the order of their hash end up like this.
	maxDictionary = 4 << 20
)

// WriteParquet writes events as Parquet and returns how many it wrote: a row group
// for each million or so of rows, packed with zstd, texts in dictionaries where they
// repeat. Columns are user, time (timestamp in milliseconds, UTC), event, and the
// properties by name, which may be missing; a property that has one of the first
// three names is written with "_property" appended. Ids are not written. An error of
// rows ends the writing, and the file is incomplete then.
func WriteParquet(w io.Writer, schema event.Schema, rows iter.Seq2[Row, error]) (int64, error) {
	return newParquetWriter(w, schema).write(rows)
}

func (p *parquetWriter) write(rows iter.Seq2[Row, error]) (int64, error) {
	for row, err := range rows {
		if err != nil {
			return p.rows, err
		}
		if err := p.add(row); err != nil {
			return p.rows, err
		}
	}
	if err := p.flush(); err != nil {
		return p.rows, err
	}
	return p.rows, p.w.Close()
}

// A parquetWriter collects rows into columns.
type parquetWriter struct {
	w       *parquet.GenericWriter[any]
	rows    int64
	group   int64 // rows of a row group
	fields  event.Schema
	place   []int // by field: its column
	columns [][]parquet.Value
	text    []byte // what columns have of texts
	filled  int
}

// An orderedGroup is a group whose fields keep their order: a parquet.Group sorts
// them by name.
type orderedGroup struct {
	parquet.Group
	names []string
}

// Fields returns the fields in order.
func (g orderedGroup) Fields() []parquet.Field {
	fields := g.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int {
		return cmp.Compare(slices.Index(g.names, a.Name()), slices.Index(g.names, b.Name()))
	})
	return fields
}

func newParquetWriter(w io.Writer, schema event.Schema) *parquetWriter {
	group := orderedGroup{
		Group: parquet.Group{
			"user":  parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
			"time":  parquet.Encoded(parquet.Timestamp(parquet.Millisecond), &parquet.DeltaBinaryPacked),
			"event": parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
		},
		names: []string{"user", "time", "event"},
	}
	p := &parquetWriter{fields: schema, group: groupRows, place: make([]int, len(schema))}
	order := make([]int, len(schema))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(schema[a].Name, schema[b].Name) })
	for _, i := range order {
		name := schema[i].Name
		for taken := true; taken; {
			if _, taken = group.Group[name]; taken || schema.Index(name) >= 0 && name != schema[i].Name {
				name, taken = name+"_property", true
			}
		}
		p.place[i] = len(group.names)
		group.Group[name] = nodeOf(schema[i].Type)
		group.names = append(group.names, name)
	}
	p.columns = make([][]parquet.Value, len(group.names))
	p.w = parquet.NewGenericWriter[any](w, parquet.NewSchema("events", group),
		parquet.Compression(&parquet.Zstd),
		parquet.DictionaryMaxBytes(maxDictionary),
		parquet.CreatedBy("uniflow", "trail", ""))
	return p
}

func nodeOf(t event.Type) parquet.Node {
	switch t {
	case event.Int:
		return parquet.Optional(parquet.Encoded(parquet.Int(64), &parquet.RLEDictionary))
	case event.Float:
		return parquet.Optional(parquet.Encoded(parquet.Leaf(parquet.DoubleType), &parquet.RLEDictionary))
	case event.Bool:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType))
	}
	return parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))
}

// add takes one row and copies its strings.
func (p *parquetWriter) add(row Row) error {
	p.columns[0] = append(p.columns[0], p.copy(row.User).Level(0, 0, 0))
	p.columns[1] = append(p.columns[1], parquet.Int64Value(row.Time).Level(0, 0, 1))
	p.columns[2] = append(p.columns[2], p.copy(row.Name).Level(0, 0, 2))
	for i, f := range p.fields {
		v := event.Value{}
		if i < len(row.Values) {
			var ok bool
			if v, ok = row.Values[i].As(f.Type); !ok {
				return &event.TypeError{Property: f.Name, Have: f.Type, Got: row.Values[i].Type()}
			}
		}
		c := p.place[i]
		p.columns[c] = append(p.columns[c], p.value(v, c))
	}
	if p.filled++; p.filled == writeBatch {
		return p.flush()
	}
	return nil
}

// copy returns a text as a value that is good until flush.
func (p *parquetWriter) copy(s string) parquet.Value {
	start := len(p.text)
	p.text = append(p.text, s...)
	return parquet.ByteArrayValue(p.text[start:len(p.text):len(p.text)])
}

func (p *parquetWriter) value(v event.Value, column int) parquet.Value {
	switch v.Type() {
	case event.String:
		return p.copy(v.Text()).Level(0, 1, column)
	case event.Int:
		return parquet.Int64Value(v.Int()).Level(0, 1, column)
	case event.Float:
		return parquet.DoubleValue(v.Float()).Level(0, 1, column)
	case event.Bool:
		return parquet.BooleanValue(v.Bool()).Level(0, 1, column)
	}
	return parquet.NullValue().Level(0, 0, column)
}

// flush passes the batch to the writer, and ends the row group if it is full.
func (p *parquetWriter) flush() error {
	for i, c := range p.w.ColumnWriters() {
		if len(p.columns[i]) == 0 {
			continue
		}
		if n, err := c.WriteRowValues(p.columns[i]); err != nil || n != p.filled {
			return cmp.Or(err, fmt.Errorf("a column took %d of %d rows", n, p.filled))
		}
		p.columns[i] = p.columns[i][:0]
	}
	p.text = p.text[:0]
	before := p.rows / p.group
	p.rows += int64(p.filled)
	p.filled = 0
	if p.rows/p.group > before {
		return p.w.Flush()
	}
	return nil
}
