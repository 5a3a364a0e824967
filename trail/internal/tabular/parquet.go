package tabular

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// maxFooter is the largest footer that is taken: that of a file with a million
// column chunks.
const maxFooter = 64 << 20

// A parquetSource reads Parquet column by column: for each batch, from each
// column the values of the rows, page by page. It uses parquet-go
// only for the types of headers, because parquet-go does not bound its memory and
// this reader holds at most maxHeld.
type parquetSource struct {
	in      *input
	file    *pages
	meta    format.FileMetaData
	columns []*column
	fields  event.Schema
	opt     Options

	group int   // row groups begun
	left  int64 // rows of the current one that were not read yet
	row   int64 // rows read

	// What next lends; it alternates between two, because one is read while the
	// other is filled.
	lent   [2]parquetBatch
	turn   int
	reason []string
}

// A parquetBatch has the values of a batch.
type parquetBatch struct {
	values []event.Value
	codes  []uint32 // as values, nil unless strings are wanted as codes
	roles  [roles][]event.Value
	terms  [][]string // by field
	bad    []BadRow
}

// A leaf is a column of the schema that holds values.
type leaf struct {
	element *format.SchemaElement
	name    string // the names on the way to it, with dots between; of a list, that of the list
	maxDef  int
	list    bool
}

// newParquetAhead returns a source of Parquet that decodes in a goroutine of its own.
func newParquetAhead(in *input, opt Options) (*ahead, error) {
	s, err := newParquet(in, opt)
	if err != nil {
		return nil, err
	}
	return readAhead(s), nil
}

func newParquet(in *input, opt Options) (s *parquetSource, err error) {
	defer recoverPanic(&err)
	if in.total < 0 {
		return nil, errors.New("a file of Parquet is read from its end, and so not from a pipe")
	}
	s = &parquetSource{in: in, opt: opt}
	s.file = &pages{r: in.file, size: in.total, onRead: s.countBytes}
	if err := s.footer(); err != nil {
		return nil, err
	}
	leaves, err := leavesOf(s.meta.Schema)
	if err != nil {
		return nil, err
	}
	if err := s.choose(leaves, opt); err != nil {
		return nil, err
	}
	for i := range s.meta.RowGroups {
		g := &s.meta.RowGroups[i]
		if len(g.Columns) != len(leaves) || g.NumRows < 0 {
			return nil, errors.New("the footer is damaged: a row group has not the columns of the schema")
		}
	}
	return s, nil
}

// recoverPanic turns a panic into an error. The library that decodes headers may
// panic on input that it does not expect.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file is damaged: %v", p)
	}
}

// countBytes counts the bytes of a page. The bytes of headers are counted at the end.
func (s *parquetSource) countBytes(n int64) { s.in.done.Store(min(s.in.done.Load()+n, s.in.total)) }

func (s *parquetSource) footer() error {
	const tail = 8
	if s.file.size < 4+tail {
		return errors.New("not a Parquet file: it is too short")
	}
	var head [4]byte
	var end [tail]byte
	if err := cmp.Or(s.file.readAt(head[:], 0), s.file.readAt(end[:], s.file.size-tail)); err != nil {
		return err
	}
	if string(head[:]) == "PARE" || string(end[4:]) == "PARE" {
		return errors.New("the file is encrypted")
	}
	if string(head[:]) != "PAR1" {
		return errors.New("not a Parquet file: it does not begin with PAR1")
	}
	if string(end[4:]) != "PAR1" {
		return errors.New("the file is cut off: it does not end with PAR1")
	}
	size := int64(binary.LittleEndian.Uint32(end[:]))
	if size > s.file.size-4-tail || size > maxFooter {
		return errors.New("the footer is damaged: it is longer than can be")
	}
	b := make([]byte, size)
	if err := s.file.readAt(b, s.file.size-tail-size); err != nil {
		return err
	}
	if _, err := unmarshal(b, &s.meta); err != nil {
		return fmt.Errorf("the footer is damaged: %w", err)
	}
	return nil
}

// leavesOf lists the columns that a schema, which is a tree written in depth-first
// order, has values in.
func leavesOf(elements []format.SchemaElement) ([]leaf, error) {
	if len(elements) == 0 || elements[0].NumChildren.V <= 0 {
		return nil, errors.New("the file has no columns")
	}
	var leaves []leaf
	next := 1
	var walk func(children int32, path []string, def int, list string) error
	walk = func(children int32, path []string, def int, list string) error {
		if len(path) > 32 {
			return errors.New("the schema is nested more than 32 deep")
		}
		for range children {
			if next >= len(elements) {
				return errors.New("the footer is damaged: the schema ends too early")
			}
			e := &elements[next]
			next++
			p := append(path[:len(path):len(path)], e.Name)
			d, l := def, list
			switch e.RepetitionType.V {
			case format.Optional:
				d++
			case format.Repeated:
				d++
				if l == "" {
					l = p[0]
				}
			}
			if e.NumChildren.Valid && e.NumChildren.V > 0 {
				if err := walk(e.NumChildren.V, p, d, l); err != nil {
					return err
				}
				continue
			}
			name := strings.Join(p, ".")
			if name == "" {
				name = fmt.Sprintf("column%d", len(leaves)+1)
			}
			if l != "" {
				name = l
			}
			leaves = append(leaves, leaf{element: e, name: name, maxDef: d, list: l != ""})
		}
		return nil
	}
	return leaves, walk(elements[0].NumChildren.V, nil, 0, "")
}

func (s *parquetSource) choose(leaves []leaf, opt Options) error {
	var names []string
	for _, l := range leaves {
		if !l.list || !slices.Contains(names, l.name) { // a list of pairs has two
			names = append(names, l.name)
		}
	}
	if err := opt.checkColumns(names); err != nil {
		return err
	}
	wanted, err := opt.resolve(names)
	if err != nil {
		return err
	}
	unit, err := unitOf(opt.TimeUnit)
	if err != nil {
		return err
	}
	for i, l := range leaves {
		role := slices.Index(wanted[:], l.name)
		if role < 0 && opt.skips(l.name) {
			continue
		}
		c := &column{name: l.name, leaf: i, maxDef: l.maxDef, role: role, file: s.file}
		c.columnType = columnTypeOf(l.element)
		c.target.unit = unit
		if _, null := l.element.LogicalType.Value.(*format.NullType); null && role < 0 {
			continue // all missing
		}
		if l.list {
			return unreadable(c, opt, "a list")
		}
		if c.meaning == meansNothing {
			return unreadable(c, opt, "of a type that is not read")
		}
		switch natural := c.natural(); {
		case role == colTime:
			if natural == event.Bool || c.meaning == meansClock {
				return fmt.Errorf("the column %q is %s, not a time", c.name, article(natural))
			}
			c.time, c.typ = true, event.Int
		case role >= 0:
			if natural != event.String && natural != event.Int {
				return fmt.Errorf("the column %q is %s: want a string or an integer", c.name, article(natural))
			}
			c.typ = event.String
		default:
			if c.typ, err = opt.propertyType(c.name, natural); err != nil {
				return err
			}
			c.role = roles + len(s.fields)
			s.fields = append(s.fields, event.Field{Name: c.name, Type: c.typ})
		}
		c.coded = opt.Coded && c.role >= roles && c.typ == event.String
		s.columns = append(s.columns, c)
	}
	return nil
}

func unreadable(c *column, opt Options, what string) error {
	reason := fmt.Sprintf("the column %q is %s", c.name, what)
	if c.role >= 0 {
		return errors.New(reason)
	}
	return opt.advise(&PropertyError{Property: c.name, Reason: reason})
}

func (s *parquetSource) schema() event.Schema { return s.fields }

func (s *parquetSource) close() { s.file.close() }

// maxRows bounds a batch of Parquet.
const maxRows = 4096

func (s *parquetSource) next(rows []Row) (n int, bad []BadRow, err error) {
	defer recoverPanic(&err)
	for s.left == 0 {
		if s.group == len(s.meta.RowGroups) {
			s.in.done.Store(s.in.total)
			return 0, nil, io.EOF
		}
		if err := s.begin(&s.meta.RowGroups[s.group]); err != nil {
			return 0, nil, err
		}
	}
	width := len(s.fields)
	n = min(len(rows), maxRows, max(1, maxValues/max(1, width)))
	n = int(min(int64(n), s.left))
	s.turn = 1 - s.turn
	b := &s.lent[s.turn]
	b.values = grown(b.values, n*width)
	if s.opt.Coded {
		b.codes = grown(b.codes, n*width)
	}
	for _, c := range s.columns {
		dst, codes, stride := b.values, b.codes, width
		if c.role < roles {
			b.roles[c.role] = grown(b.roles[c.role], n)
			dst, stride = b.roles[c.role], 1
		} else {
			dst = dst[c.role-roles:]
			if codes != nil {
				codes = codes[c.role-roles:]
			}
		}
		if err := c.read(dst, codes, stride, n); err != nil {
			return 0, nil, fmt.Errorf("row group %d, column %q: %w", s.group, c.name, err)
		}
	}
	b.terms = grown(b.terms, width)
	for _, c := range s.columns {
		if c.role >= roles {
			b.terms[c.role-roles] = c.terms
		}
	}
	taken := s.makeRows(b, rows, n)
	s.left -= int64(n)
	s.row += int64(n)
	return taken, b.bad, nil
}

func (s *parquetSource) terms(field int) []string { return s.lent[s.turn].terms[field] }

func (s *parquetSource) begin(g *format.RowGroup) error {
	s.group++
	s.left = g.NumRows
	if g.NumRows == 0 { // a table without rows: writers leave out where its columns stand
		return nil
	}
	for _, c := range s.columns {
		if err := c.start(&g.Columns[c.leaf], g.NumRows); err != nil {
			return fmt.Errorf("row group %d, column %q: %w", s.group, c.name, err)
		}
	}
	return nil
}

// makeRows makes rows of the n values of each column and returns how many are good.
func (s *parquetSource) makeRows(b *parquetBatch, rows []Row, n int) (taken int) {
	b.bad = b.bad[:0]
	s.reason = grown(s.reason, n)
	clear(s.reason)
	failed := false
	for _, c := range s.columns {
		for _, f := range c.errs {
			failed = true
			if s.reason[f.row] == "" {
				s.reason[f.row] = fmt.Sprintf("%s: %v", c.name, f.err)
			}
		}
	}
	var ids []event.Value
	if s.name(colID) != "" {
		ids = b.roles[colID][:n]
	}
	users, times, names := b.roles[colUser][:n], b.roles[colTime][:n], b.roles[colEvent][:n]
	width := len(s.fields)
	for i := range n {
		reason := ""
		switch {
		case failed && s.reason[i] != "":
			reason = s.reason[i]
		case users[i].Missing():
			reason = s.name(colUser) + " is empty or missing"
		case times[i].Missing():
			reason = s.name(colTime) + " is missing"
		case names[i].Missing():
			reason = s.name(colEvent) + " is empty or missing"
		default:
			if err := s.opt.checkTime(times[i].Int()); err != nil {
				reason = fmt.Sprintf("%s: %v", s.name(colTime), err)
			}
		}
		if reason != "" {
			b.bad = append(b.bad, BadRow{Line: s.row + int64(i) + 1, Reason: reason})
			continue
		}
		row := &rows[taken]
		row.User, row.Time, row.Name, row.ID = users[i].Text(), times[i].Int(), names[i].Text(), ""
		if ids != nil {
			row.ID = ids[i].Text()
		}
		row.Values = b.values[i*width : (i+1)*width : (i+1)*width]
		if b.codes != nil {
			row.Codes = b.codes[i*width : (i+1)*width : (i+1)*width]
		}
		taken++
	}
	return taken
}

// name returns the name of the column for a role, "" if there is none.
func (s *parquetSource) name(role int) string {
	for _, c := range s.columns {
		if c.role == role {
			return c.name
		}
	}
	return ""
}
