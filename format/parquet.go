package format

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	layout "github.com/parquet-go/parquet-go/format"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/internal/records/parquet"
	"github.com/uniflow-labs/uniflow/value"
)

// A ParquetReader reads the rows of a Parquet file as maps: numbers, texts, binary, times
// (UTC), dates as texts, decimals of up to 15 digits as numbers and longer ones as texts,
// lists and maps. It is not for concurrent use. It holds a page and a dictionary of each
// column, at most 1 GiB.
type ParquetReader struct {
	file       *parquet.File
	root       *parquetNode
	columns    []*parquetColumn
	group      int   // row groups begun
	left       int64 // rows of the current one that were not read yet
	skip       int64 // rows that are passed over
	row, total int64
	cells      int // values that were read, in this call of Read
	most       int // of them that the row may reach
	err        error
}

const (
	maxCells    = 1 << 18 // values that are read at a time
	maxRowCells = 1 << 20 // values of a row: in a file, a long list of one value takes a few bytes
	runSize     = 1024    // values of a column that are decoded at a time
)

// NewParquetReader returns a reader of a file of some bytes, from a row on, counted from
// 0. The caller must call Close, and close src after it.
func NewParquetReader(src io.ReaderAt, size, row int64) (*ParquetReader, error) {
	file, err := parquet.Open(src, size)
	if err != nil {
		return nil, err
	}
	r := &ParquetReader{file: file, row: row, skip: row}
	for i, leaf := range file.Leaves {
		r.columns = append(r.columns, &parquetColumn{reader: r, in: file.Column(i), of: parquetCell(leaf.Type)})
	}
	for _, rows := range file.Groups {
		r.total += rows
	}
	r.root, err = r.node(file.Root)
	return r, err
}

// Rows returns the number of the next row, from 0, and how many there are.
func (r *ParquetReader) Rows() (next, total int64) { return r.row, r.total }

// Read returns up to n rows, fewer if they have many values. The error is io.EOF behind the
// last one. After another error, the reader is unusable.
func (r *ParquetReader) Read(n int) (rows []value.Value, err error) {
	r.file.Batch()
	r.cells = 0
	for len(rows) < n && r.cells < maxCells && r.begin() {
		v, ok := r.next()
		switch {
		case !ok:
		case r.skip > 0:
			r.skip--
		default:
			r.row++
			rows = append(rows, v)
		}
	}
	if len(rows) > 0 {
		return rows, nil // the next call returns the error
	}
	return nil, r.err
}

// begin goes to the next row group if the current one is at its end. It reports whether
// there is a row.
func (r *ParquetReader) begin() bool {
	for r.left == 0 && r.err == nil {
		if r.group == len(r.file.Groups) {
			r.err = io.EOF
			break
		}
		r.group++
		r.left = r.file.Groups[r.group-1]
		if r.skip >= r.left {
			r.skip -= r.left
			r.left = 0
			continue
		}
		for _, c := range r.columns {
			if err := c.start(r.group - 1); err != nil {
				r.fail(err)
			}
		}
	}
	return r.err == nil
}

// next returns the next row of the group, unless the file is damaged.
func (r *ParquetReader) next() (v value.Value, ok bool) {
	r.most = r.cells + maxRowCells + len(r.columns)
	v = r.root.content(0, 0)
	r.left--
	for _, c := range r.columns {
		if c.in.MaxRep > 0 && c.rep() > 0 {
			r.fail(fmt.Errorf("row %d: the lists do not have the values of one row", r.row))
		}
	}
	return v, r.err == nil
}

// fail keeps the first error.
func (r *ParquetReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Close releases what the reader holds.
func (r *ParquetReader) Close() error {
	r.file.Close()
	return nil
}

// A parquetColumn has the next entries of a column.
type parquetColumn struct {
	reader *ParquetReader
	in     *parquet.Column
	of     func(stored *parquet.Values, i int) (value.Value, error)

	run    parquet.Run
	at     int           // entries of run that were taken
	values []value.Value // of run that were not taken
	room   []value.Value // for values
	stored *parquet.Values
	dict   []value.Value // what stored says
}

func (c *parquetColumn) start(group int) error {
	c.run, c.at, c.values = parquet.Run{}, 0, nil
	return c.in.Start(group)
}

// more reports whether there is an entry in the row group.
func (c *parquetColumn) more() bool { return c.at < c.run.N || c.load() }

func (c *parquetColumn) load() bool {
	run, err := c.in.Next(runSize)
	c.run, c.at = run, 0
	if err != nil {
		c.run.N = 0
		if err != io.EOF {
			c.reader.fail(err)
		}
		return false
	}
	c.room = c.room[:0]
	if run.Codes == nil {
		c.room = c.convert(c.room, &run.Values, run.Present)
	} else if run.Dict != c.stored {
		c.stored = run.Dict
		c.dict = c.convert(nil, run.Dict, run.Dict.Len())
	}
	for _, code := range run.Codes {
		c.room = append(c.room, c.dict[code])
	}
	c.values = c.room
	return true
}

// convert appends the values of stored ones.
func (c *parquetColumn) convert(dst []value.Value, stored *parquet.Values, n int) []value.Value {
	for i := range n {
		v, err := c.of(stored, i)
		if err != nil {
			c.reader.fail(err)
		}
		dst = append(dst, v)
	}
	return dst
}

// def and rep return the levels of the next entry, 0 behind the last one.
func (c *parquetColumn) def() int {
	if !c.more() || c.run.Defs == nil {
		return 0
	}
	return int(c.run.Defs[c.at])
}

func (c *parquetColumn) rep() int {
	if !c.more() || c.run.Reps == nil {
		return 0
	}
	return int(c.run.Reps[c.at])
}

// take returns the value of the next entry, null if it has none.
func (c *parquetColumn) take() value.Value {
	if !c.more() {
		c.reader.fail(fmt.Errorf("row %d: a column ends too early", c.reader.row))
		return value.Null()
	}
	i := c.at
	c.at++
	c.reader.cells++
	if c.run.Defs != nil && int(c.run.Defs[i]) != c.in.MaxDef {
		return value.Null()
	}
	v := c.values[0]
	c.values = c.values[1:]
	return v
}

// A parquetNode is a part of a schema.
type parquetNode struct {
	*parquet.Node
	reader   *ParquetReader
	columns  []*parquetColumn // below it
	children []*parquetNode
	shape    *value.Shape
	bare     bool // what it says is what its only child says: of a list, and of what repeats in it
	dict     bool // a map, whose keys and values repeat
}

func (r *ParquetReader) node(n *parquet.Node) (*parquetNode, error) {
	p := &parquetNode{Node: n, reader: r, columns: r.columns[n.Leaf : n.Leaf+1]}
	var names []string
	for _, child := range n.Children {
		c, err := r.node(child)
		if err != nil {
			return nil, err
		}
		p.children = append(p.children, c)
		p.columns = r.columns[n.Leaf : c.Leaf+len(c.columns)]
		names = append(names, c.Name)
	}
	if err := records.CheckColumns(names); err != nil {
		return nil, err
	}
	p.shape = value.NewShape(names...)
	if len(p.children) == 1 && p.children[0].Repeated {
		inner := p.children[0]
		p.bare = n.List && len(inner.children) == 1
		inner.bare = p.bare
		p.dict = n.Map && len(inner.children) == 2
	}
	return p, nil
}

// value assembles what the columns of a node have next, at some levels of repetition and
// definition.
func (p *parquetNode) value(rep, def int) value.Value {
	if p.Optional {
		if def++; p.columns[0].def() < def {
			p.pass()
			return value.Null()
		}
	}
	if !p.Repeated {
		return p.content(rep, def)
	}
	rep, def = rep+1, def+1
	if p.columns[0].def() < def {
		p.pass()
		return value.List()
	}
	var elems []value.Value
	for again := true; again; again = p.again(rep) {
		elems = append(elems, p.content(rep, def))
	}
	return value.List(elems...)
}

// pass takes an entry of each column where nothing is.
func (p *parquetNode) pass() {
	for _, c := range p.columns {
		c.take()
	}
}

// again reports whether a list goes on.
func (p *parquetNode) again(rep int) bool {
	r := p.reader
	if p.columns[0].rep() < rep || r.err != nil {
		return false
	}
	if r.cells > r.most {
		r.fail(fmt.Errorf("row %d has more than %d values", r.row, maxRowCells))
	}
	return r.err == nil
}

// content is value of what is there, once.
func (p *parquetNode) content(rep, def int) value.Value {
	switch {
	case p.children == nil:
		return p.columns[0].take()
	case p.bare:
		return p.children[0].value(rep, def)
	case p.dict:
		var b value.MapBuilder
		inner := p.children[0]
		for _, e := range inner.value(rep, def).Elems() {
			key, _ := e.Get(inner.children[0].Name)
			v, _ := e.Get(inner.children[1].Name)
			b.Set(key.String(), v)
		}
		return b.Build()
	}
	values := make([]value.Value, len(p.children))
	for i, child := range p.children {
		values[i] = child.value(rep, def)
	}
	return p.shape.Map(values...)
}

// parquetCell returns what makes a value of the i-th stored one of a type.
func parquetCell(t parquet.Type) func(s *parquet.Values, i int) (value.Value, error) {
	of := parquetInt(t)
	switch t.Physical {
	case layout.Boolean:
		of = func(n int64) value.Value { return value.Bool(n != 0) }
	case layout.Float, layout.Double:
		return func(s *parquet.Values, i int) (value.Value, error) { return value.Float(s.Floats[i]), nil }
	case layout.Int32, layout.Int64:
	default:
		return parquetBytes(t)
	}
	return func(s *parquet.Values, i int) (value.Value, error) { return of(s.Ints[i]), nil }
}

func parquetInt(t parquet.Type) func(n int64) value.Value {
	switch t.Meaning {
	case parquet.Timestamp:
		nanos := int64(time.Second) / max(1, t.PerSecond)
		return func(n int64) value.Value {
			return value.Time(time.Unix(n/t.PerSecond, n%t.PerSecond*nanos).UTC())
		}
	case parquet.Date:
		return func(n int64) value.Value { return value.String(time.Unix(n*86400, 0).UTC().Format(time.DateOnly)) }
	case parquet.Decimal:
		return func(n int64) value.Value { return decimal(big.NewInt(n), t) }
	case parquet.Unsigned:
		if t.Physical == layout.Int32 {
			return func(n int64) value.Value { return value.Int(int64(uint32(n))) }
		}
		return func(n int64) value.Value { return value.Uint(uint64(n)) }
	}
	return value.Int
}

func parquetBytes(t parquet.Type) func(s *parquet.Values, i int) (value.Value, error) {
	return func(s *parquet.Values, i int) (value.Value, error) {
		b := s.Bytes[i]
		switch t.Meaning {
		case parquet.Text:
			return value.String(strings.ToValidUTF8(string(b), "\ufffd")), nil
		case parquet.Timestamp: // of older writers: nanoseconds of a Julian day
			day := int64(binary.LittleEndian.Uint32(b[8:])) - 2440588
			return value.Time(time.Unix(day*86400, int64(binary.LittleEndian.Uint64(b))).UTC()), nil
		case parquet.UUID:
			h := hex.EncodeToString(b)
			return value.String(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]), nil
		case parquet.Decimal:
			n, err := parquet.Integer(b)
			if err != nil {
				return value.Value{}, err
			}
			return decimal(n, t), nil
		}
		return value.Binary(bytes.Clone(b)), nil
	}
}

// decimal makes a value of a decimal. A float64 is right to 15 digits.
func decimal(n *big.Int, t parquet.Type) value.Value {
	r := new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale)), nil))
	if t.Precision <= 15 {
		f, _ := r.Float64()
		return value.Float(f)
	}
	return value.String(r.FloatString(t.Scale))
}
