package format

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	layout "github.com/parquet-go/parquet-go/format"

	"github.com/uniflow-labs/uniflow/value"
)

// A ParquetReader reads the rows of a Parquet file as maps: numbers, texts, binary, times
// (UTC), dates as texts, decimals of up to 15 digits as numbers and longer ones as texts,
// lists and maps. It is not for concurrent use. It holds a page of each column.
type ParquetReader struct {
	rows  *parquet.GenericReader[any]
	root  *parquetNode
	buf   []parquet.Row
	cells [][]parquet.Value // of one row, by column
	row   int64
	total int64
}

// NewParquetReader returns a reader of a file of some bytes, from a row on, counted from
// 0. The caller must call Close, and close src after it.
func NewParquetReader(src io.ReaderAt, size, row int64) (r *ParquetReader, err error) {
	err = guard(func() error {
		if err := checkFooter(src, size); err != nil {
			return err
		}
		file, err := parquet.OpenFile(src, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		if err != nil {
			return err
		}
		for _, group := range file.Metadata().RowGroups {
			for i := range group.Columns {
				if m := &group.Columns[i].MetaData; m.TotalCompressedSize > size || m.TotalUncompressedSize > maxColumn || m.NumValues > maxColumn {
					return fmt.Errorf("a column has %d bytes in a row group, and at most %d are allowed", m.TotalUncompressedSize, maxColumn)
				}
			}
		}
		r = &ParquetReader{rows: parquet.NewGenericReader[any](file), root: newParquetNode(file.Schema()), row: row, total: file.NumRows()}
		r.cells = make([][]parquet.Value, r.root.leaves)
		if row > 0 && row < r.total {
			return r.rows.SeekToRow(row)
		}
		return nil
	})
	return r, err
}

// maxColumn is the most bytes of a column in a row group. The library takes the sizes in a
// file for granted.
const maxColumn = 1 << 30

// maxFooter is the longest description of a file: that of a million column chunks.
const maxFooter = 64 << 20

// checkFooter checks what the library allocates before it looks at anything else.
func checkFooter(src io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return io.ErrUnexpectedEOF
	}
	if _, err := src.ReadAt(end[:], size-int64(len(end))); err != nil {
		return err
	}
	if n := int64(binary.LittleEndian.Uint32(end[:])); string(end[4:]) != "PAR1" || n > min(maxFooter, size-12) {
		return errors.New("it does not end as Parquet does")
	}
	return nil
}

// guard calls a library that panics on some files that are damaged.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
		if err != nil && err != io.EOF {
			err = fmt.Errorf("the Parquet file is damaged: %w", err)
		}
	}()
	return f()
}

// Rows returns the number of the next row, from 0, and how many there are.
func (r *ParquetReader) Rows() (next, total int64) { return r.row, r.total }

// Read returns up to n rows. The error is io.EOF behind the last one.
func (r *ParquetReader) Read(n int) (rows []value.Value, err error) {
	err = guard(func() error {
		if r.row >= r.total {
			return io.EOF
		}
		if len(r.buf) < n {
			r.buf = make([]parquet.Row, n)
		}
		got, err := r.rows.ReadRows(r.buf[:n])
		for _, row := range r.buf[:got] {
			for i := range r.cells {
				r.cells[i] = r.cells[i][:0]
			}
			for _, v := range row {
				c := v.Column()
				r.cells[c] = append(r.cells[c], v)
			}
			rows = append(rows, r.root.content(r.cells, 0, 0))
		}
		r.row += int64(got)
		if got > 0 {
			return nil
		}
		if err == nil || err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		return err
	})
	return rows, err
}

// Close releases what the reader holds.
func (r *ParquetReader) Close() error { return guard(r.rows.Close) }

// A parquetNode is a part of a schema.
type parquetNode struct {
	optional, repeated bool
	leaf               func(parquet.Value) value.Value // nil of a group
	list, dict         bool                            // of the logical types LIST and MAP
	children           []*parquetNode
	shape              *value.Shape
	leaves             int
}

func newParquetNode(n parquet.Node) *parquetNode {
	p := &parquetNode{optional: n.Optional(), repeated: n.Repeated()}
	if n.Leaf() {
		p.leaf, p.leaves = parquetLeaf(n.Type()), 1
		return p
	}
	var names []string
	for _, f := range n.Fields() {
		child := newParquetNode(f)
		p.children = append(p.children, child)
		p.leaves += child.leaves
		names = append(names, f.Name())
	}
	p.shape = value.NewShape(names...)
	if t := n.Type().LogicalType(); t != nil && len(p.children) == 1 && p.children[0].repeated {
		inner := p.children[0]
		switch t.Value.(type) {
		case *layout.ListType:
			p.list = len(inner.children) == 1
		case *layout.MapType:
			p.dict = len(inner.children) == 2
		}
	}
	return p
}

// value assembles what the cells of the columns of a node have, at some levels of
// repetition and definition.
func (p *parquetNode) value(cells [][]parquet.Value, rep, def int) value.Value {
	if p.optional {
		if def++; cells[0][0].DefinitionLevel() < def {
			return value.Null()
		}
	}
	if !p.repeated {
		return p.content(cells, rep, def)
	}
	rep, def = rep+1, def+1
	if cells[0][0].DefinitionLevel() < def {
		return value.List()
	}
	var elems []value.Value
	rest := append([][]parquet.Value(nil), cells...)
	one := make([][]parquet.Value, len(cells))
	for len(rest[0]) > 0 {
		for i, column := range rest {
			n := 1
			for n < len(column) && column[n].RepetitionLevel() > rep {
				n++
			}
			one[i], rest[i] = column[:n], column[n:]
		}
		elems = append(elems, p.content(one, rep, def))
	}
	return value.List(elems...)
}

// content is value of what is there, once.
func (p *parquetNode) content(cells [][]parquet.Value, rep, def int) value.Value {
	if p.leaf != nil {
		return p.leaf(cells[0][0])
	}
	values := make([]value.Value, len(p.children))
	for i, child := range p.children {
		values[i] = child.value(cells[:child.leaves], rep, def)
		cells = cells[child.leaves:]
	}
	switch {
	case p.list:
		elems := make([]value.Value, 0, values[0].Len())
		for _, e := range values[0].Elems() {
			for _, v := range e.Fields() {
				elems = append(elems, v)
			}
		}
		return value.List(elems...)
	case p.dict:
		var b value.MapBuilder
		for _, e := range values[0].Elems() {
			key, _ := e.Get("key")
			v, _ := e.Get("value")
			b.Set(key.String(), v)
		}
		return b.Build()
	}
	return p.shape.Map(values...)
}

// parquetLeaf returns what makes values of cells of a type.
func parquetLeaf(t parquet.Type) func(parquet.Value) value.Value {
	of := parquetCell(t)
	return func(v parquet.Value) value.Value {
		if v.IsNull() {
			return value.Null()
		}
		return of(v)
	}
}

func parquetCell(t parquet.Type) func(parquet.Value) value.Value {
	var logical layout.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	switch l := logical.(type) {
	case *layout.StringType, *layout.EnumType, *layout.JsonType:
		return func(v parquet.Value) value.Value {
			return value.String(strings.ToValidUTF8(string(v.ByteArray()), "\ufffd"))
		}
	case *layout.TimestampType:
		if t.Kind() != parquet.Int64 {
			break
		}
		unit := time.Nanosecond
		switch l.Unit.Value.(type) {
		case *layout.MilliSeconds:
			unit = time.Millisecond
		case *layout.MicroSeconds:
			unit = time.Microsecond
		}
		per := int64(time.Second / unit)
		return func(v parquet.Value) value.Value {
			n := v.Int64()
			return value.Time(time.Unix(n/per, n%per*int64(unit)).UTC())
		}
	case *layout.DateType:
		if t.Kind() != parquet.Int32 {
			break
		}
		return func(v parquet.Value) value.Value {
			return value.String(time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly))
		}
	case *layout.DecimalType:
		return decimal(t.Kind(), int(l.Scale), int(l.Precision))
	case *layout.UUIDType:
		return func(v parquet.Value) value.Value {
			h := hex.EncodeToString(v.ByteArray())
			if len(h) != 32 {
				return value.String(h)
			}
			return value.String(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
		}
	case *layout.IntType:
		switch {
		case !l.IsSigned && t.Kind() == parquet.Int32:
			return func(v parquet.Value) value.Value { return value.Int(int64(v.Uint32())) }
		case !l.IsSigned && t.Kind() == parquet.Int64:
			return func(v parquet.Value) value.Value { return value.Uint(v.Uint64()) }
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return func(v parquet.Value) value.Value { return value.Bool(v.Boolean()) }
	case parquet.Int32:
		return func(v parquet.Value) value.Value { return value.Int(int64(v.Int32())) }
	case parquet.Int64:
		return func(v parquet.Value) value.Value { return value.Int(v.Int64()) }
	case parquet.Int96: // of older writers: nanoseconds of a Julian day
		return func(v parquet.Value) value.Value {
			n := v.Int96()
			nanos := int64(n[1])<<32 | int64(n[0])
			return value.Time(time.Unix((int64(n[2])-2440588)*86400, nanos).UTC())
		}
	case parquet.Float:
		return func(v parquet.Value) value.Value { return value.Float(float64(v.Float())) }
	case parquet.Double:
		return func(v parquet.Value) value.Value { return value.Float(v.Double()) }
	}
	return func(v parquet.Value) value.Value { return value.Binary(append([]byte(nil), v.ByteArray()...)) }
}

// decimal returns what makes values of decimals. A float64 is right to 15 digits.
func decimal(kind parquet.Kind, scale, precision int) func(parquet.Value) value.Value {
	return func(v parquet.Value) value.Value {
		n := new(big.Int)
		switch kind {
		case parquet.Int32:
			n.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			n.SetInt64(v.Int64())
		default: // two's complement, the highest byte first
			b := v.ByteArray()
			n.SetBytes(b)
			if len(b) > 0 && b[0] >= 0x80 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		scale := max(0, min(scale, 100))
		r := new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
		if precision <= 15 {
			f, _ := r.Float64()
			return value.Float(f)
		}
		return value.String(r.FloatString(scale))
	}
}
