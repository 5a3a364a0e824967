package tabular

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"

	"github.com/uniflow-labs/uniflow/internal/records/parquet"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A parquetSource reads Parquet column by column: for each batch, from each
// column the values of the rows, page by page.
type parquetSource struct {
	in      *input
	file    *parquet.File
	columns []*column
	fields  event.Schema
	opt     Options

	group int   // row groups begun
	left  int64 // rows of the current one that were not read yet
	row   int64 // rows read

	// The batches that next returns. It alternates between two, because one is read while the
	// other is filled.
	batches [2]parquetBatch
	turn    int
	reason  []string
}

// A parquetBatch has the values of a batch.
type parquetBatch struct {
	values []event.Value
	codes  []uint32 // as values, nil unless strings are wanted as codes
	roles  [roles][]event.Value
	terms  [][]string // by field
	bad    []BadRow
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
	if in.total < 0 {
		return nil, errors.New("a file of Parquet is read from its end, and so not from a pipe")
	}
	s = &parquetSource{in: in, opt: opt}
	if s.file, err = parquet.Open(in.file, in.total); err != nil {
		return nil, err
	}
	s.file.OnRead = s.countBytes
	return s, s.choose()
}

// countBytes counts the bytes of a page. The bytes of headers are counted at the end.
func (s *parquetSource) countBytes(n int64) { s.in.done.Store(min(s.in.done.Load()+n, s.in.total)) }

// nameOf returns the name of a leaf: the names on the way to it, with dots between. The
// leaf of a list has the name of the list.
func (s *parquetSource) nameOf(leaf int) string {
	l := &s.file.Leaves[leaf]
	switch name := strings.Join(l.Path, "."); {
	case l.MaxRep > 0:
		return l.Path[0]
	case name == "":
		return fmt.Sprintf("column%d", leaf+1)
	default:
		return name
	}
}

func (s *parquetSource) choose() error {
	opt := s.opt
	var names []string
	for i, l := range s.file.Leaves {
		if name := s.nameOf(i); l.MaxRep == 0 || !slices.Contains(names, name) { // a list of pairs has two
			names = append(names, name)
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
	for i, l := range s.file.Leaves {
		name := s.nameOf(i)
		role := slices.Index(wanted[:], name)
		if role < 0 && opt.skips(name) {
			continue
		}
		c := &column{name: name, role: role, in: s.file.Column(i), target: target{Type: l.Type, unit: unit}}
		if c.Meaning == parquet.Plain && (c.Physical == format.ByteArray || c.Physical == format.FixedLenByteArray) {
			c.Meaning = parquet.Text
		}
		if c.Meaning == parquet.Null && role < 0 {
			continue // all missing
		}
		if l.MaxRep > 0 {
			return unreadable(c, opt, "a list")
		}
		if c.Meaning == parquet.Unknown || c.Meaning == parquet.Null {
			return unreadable(c, opt, "of a type that is not read")
		}
		switch natural := c.natural(); {
		case role == colTime:
			if natural == event.Bool || c.Meaning == parquet.Clock {
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

func (s *parquetSource) close() { s.file.Close() }

// maxRows bounds a batch of Parquet.
const maxRows = 4096

func (s *parquetSource) next(rows []Row) (n int, bad []BadRow, err error) {
	for s.left == 0 {
		if s.group == len(s.file.Groups) {
			s.in.done.Store(s.in.total)
			return 0, nil, io.EOF
		}
		if err := s.begin(); err != nil {
			return 0, nil, err
		}
	}
	s.file.Batch()
	width := len(s.fields)
	n = min(len(rows), maxRows, max(1, maxValues/max(1, width)))
	n = int(min(int64(n), s.left))
	s.turn = 1 - s.turn
	b := &s.batches[s.turn]
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
			return 0, nil, err
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

func (s *parquetSource) terms(field int) []string { return s.batches[s.turn].terms[field] }

func (s *parquetSource) begin() error {
	s.left = s.file.Groups[s.group]
	s.group++
	if s.left == 0 { // a table without rows: writers leave out where its columns stand
		return nil
	}
	for _, c := range s.columns {
		if err := c.in.Start(s.group - 1); err != nil {
			return err
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
