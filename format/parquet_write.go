package format

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/value"
)

// A ParquetColumn is a column of a table to write. A row may be without a value.
type ParquetColumn struct {
	Name string
	Type string // one of ParquetTypes
}

// ParquetTypes returns the types of columns: texts, numbers, booleans, times (UTC, in microseconds),
// dates, bytes, and any value as JSON.
func ParquetTypes() []string {
	return []string{"string", "int", "float", "bool", "time", "date", "binary", "json"}
}

// A ParquetWriter writes maps as the rows of a Parquet file. It is not for concurrent use.
type ParquetWriter struct {
	out     *parquet.GenericWriter[any]
	columns []ParquetColumn
	rows    int               // collected
	values  [][]parquet.Value // by column, of rows
	cells   []parquet.Value   // of the rows that are added
}

const (
	writeRows = 1024    // rows that are turned into columns at a time
	groupRows = 1 << 20 // rows of a row group

	// A dictionary beyond this makes its column plain: it does not repeat enough.
	maxDictionary = 4 << 20
)

// orderedGroup is a group whose fields keep their order: a parquet.Group sorts them by name.
type orderedGroup struct {
	parquet.Group
	columns []ParquetColumn
}

// Fields returns the fields in order.
func (g orderedGroup) Fields() []parquet.Field {
	at := func(f parquet.Field) int {
		return slices.IndexFunc(g.columns, func(c ParquetColumn) bool { return c.Name == f.Name() })
	}
	fields := g.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int { return cmp.Compare(at(a), at(b)) })
	return fields
}

// CheckParquetColumns returns what is wrong with columns.
func CheckParquetColumns(columns []ParquetColumn) error {
	if len(columns) == 0 {
		return errors.New("a table needs columns")
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
		if !slices.Contains(ParquetTypes(), c.Type) {
			return fmt.Errorf("the column %q has the type %q: want one of %v", c.Name, c.Type, ParquetTypes())
		}
	}
	return records.CheckColumns(names)
}

// NewParquetWriter returns a writer to w, of columns that [CheckParquetColumns] takes. Pages are
// packed with zstd, or with gzip.
func NewParquetWriter(w io.Writer, columns []ParquetColumn, gzip bool) *ParquetWriter {
	group := orderedGroup{parquet.Group{}, columns}
	for _, c := range columns {
		group.Group[c.Name] = parquet.Optional(parquetNodeOf(c.Type))
	}
	packing := parquet.Compression(&parquet.Zstd)
	if gzip {
		packing = parquet.Compression(&parquet.Gzip)
	}
	return &ParquetWriter{
		out: parquet.NewGenericWriter[any](w, parquet.NewSchema("rows", group), packing,
			parquet.DictionaryMaxBytes(maxDictionary), parquet.MaxRowsPerRowGroup(groupRows), parquet.CreatedBy("uniflow", "", "")),
		columns: columns, values: make([][]parquet.Value, len(columns)),
	}
}

func parquetNodeOf(name string) parquet.Node {
	switch name {
	case "int":
		return parquet.Encoded(parquet.Int(64), &parquet.RLEDictionary)
	case "float":
		return parquet.Leaf(parquet.DoubleType)
	case "bool":
		return parquet.Leaf(parquet.BooleanType)
	case "time":
		return parquet.Timestamp(parquet.Microsecond)
	case "date":
		return parquet.Date()
	case "binary":
		return parquet.Leaf(parquet.ByteArrayType)
	case "json":
		return parquet.JSON()
	}
	return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
}

// Add adds rows, all or none: maps whose fields are columns; others are left out. An error that is
// not a *RowError is one of the file, which cannot be written then. Rows must not change before Close.
func (p *ParquetWriter) Add(rows ...value.Value) error {
	p.cells = p.cells[:0]
	for i, row := range rows {
		if err := p.cellsOf(row); err != nil {
			if len(rows) > 1 {
				err = fmt.Errorf("row %d: %w", i, err)
			}
			return &RowError{err}
		}
	}
	for at := 0; at < len(p.cells); at += len(p.columns) {
		for i := range p.columns {
			p.values[i] = append(p.values[i], p.cells[at+i])
		}
		if p.rows++; p.rows >= writeRows {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// cellsOf appends the cells of a row to cells.
func (p *ParquetWriter) cellsOf(row value.Value) error {
	if row.Kind() != value.KindMap {
		return fmt.Errorf("want a map with a field for each column, got %s", row.Kind())
	}
	for i, c := range p.columns {
		stored, level := parquet.NullValue(), 0
		if cell, ok := row.Get(c.Name); ok && !cell.IsNull() {
			var err error
			if stored, err = cellOf(c.Type, cell); err != nil {
				return fmt.Errorf("column %q: %w", c.Name, err)
			}
			level = 1
		}
		p.cells = append(p.cells, stored.Level(0, level, i))
	}
	return nil
}

// A RowError says why rows do not fit the columns. Others can be added.
type RowError struct{ err error }

func (e *RowError) Error() string { return e.err.Error() }
func (e *RowError) Unwrap() error { return e.err }

// Close writes the end of the file.
func (p *ParquetWriter) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.out.Close()
}

func (p *ParquetWriter) flush() error {
	if p.rows == 0 {
		return nil
	}
	for i, c := range p.out.ColumnWriters() {
		if n, err := c.WriteRowValues(p.values[i]); err != nil || n != p.rows {
			return cmp.Or(err, fmt.Errorf("a column took %d of %d rows", n, p.rows))
		}
		clear(p.values[i])
		p.values[i] = p.values[i][:0]
	}
	p.rows = 0
	return nil
}

// cellOf returns a value as it is stored.
func cellOf(name string, v value.Value) (parquet.Value, error) {
	switch name {
	case "string":
		if text, ok := v.AsString(); ok {
			return parquet.ByteArrayValue([]byte(text)), nil
		}
	case "int":
		if n, ok := v.AsInt(); ok {
			return parquet.Int64Value(n), nil
		}
	case "float":
		if f, ok := v.AsFloat(); ok {
			return parquet.DoubleValue(f), nil
		}
	case "bool":
		if b, ok := v.AsBool(); ok {
			return parquet.BooleanValue(b), nil
		}
	case "time", "date":
		return momentOf(name, v)
	case "binary":
		if b, ok := v.AsBinary(); ok {
			return parquet.ByteArrayValue(b), nil
		}
		if text, ok := v.AsString(); ok {
			return parquet.ByteArrayValue([]byte(text)), nil
		}
	case "json":
		text, err := v.AppendJSON(nil)
		return parquet.ByteArrayValue(text), err
	}
	return parquet.Value{}, fmt.Errorf("want %s, got %s", name, v.Kind())
}

// momentOf returns a time, or a text of one: of RFC 3339, or a date.
func momentOf(name string, v value.Value) (parquet.Value, error) {
	t, ok := v.AsTime()
	if text, isText := v.AsString(); isText {
		var err error
		if t, err = time.Parse(time.RFC3339Nano, text); err != nil {
			t, err = time.Parse(time.DateOnly, text)
		}
		ok = err == nil
	}
	switch {
	case !ok:
		return parquet.Value{}, fmt.Errorf("want a time, or a text such as 2026-01-31T12:00:00Z or 2026-01-31, got %s", v.Kind())
	case name == "date":
		days := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)
		return parquet.Int32Value(int32(days)), nil
	}
	return parquet.Int64Value(t.UnixMicro()), nil
}
