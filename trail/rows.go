package trail

import (
	"cmp"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// rowBlock is how many rows of a column a cursor reads at a time.
const rowBlock = 4096

// A cursor goes through the rows of a segment in their order: hash, user, time, id.
// It is for export and import; queries never see rows.
type cursor struct {
	seg     *segment.Segment
	from    int64           // rows before it are skipped
	dropped map[uint64]bool // users that are skipped
	row     int             // of the segment
	user    string
	hash    uint64
	ord     int // of the user; -1 before the first
	end     int // where the user's rows end
	gone    bool
	lo, hi  int // of the block that is read
	times   []uint32
	events  block
	ids     block
	columns []block
}

// A block has the values of some rows of a column.
type block struct {
	col   *segment.Column // nil if all are missing
	codes []uint32
	raw   []uint64
}

// openCursor returns a cursor that stands before the first row, with columns by
// the fields of a schema.
func openCursor(seg *segment.Segment, schema event.Schema, dropped []uint64, from int64) (*cursor, error) {
	c := &cursor{seg: seg, from: from, row: -1, ord: -1, events: block{col: seg.Events()}, ids: block{col: seg.IDs()}}
	if _, _, err := seg.Range(0, ^uint64(0)); err != nil {
		return nil, err
	}
	if len(dropped) > 0 {
		c.dropped = make(map[uint64]bool, len(dropped))
		for _, h := range dropped {
			c.dropped[h] = true
		}
	}
	for _, f := range schema {
		c.columns = append(c.columns, block{col: seg.Column(f.Name)})
	}
	return c, nil
}

// next goes to the next row that is not skipped. It returns false at the end.
func (c *cursor) next() (bool, error) {
	for {
		c.row++
		if c.row >= c.seg.Rows() {
			return false, nil
		}
		if err := c.fill(); err != nil {
			return false, err
		}
		if !c.gone && c.time() >= c.from {
			return true, nil
		}
	}
}

// each calls f at each row that is left.
func (c *cursor) each(f func() error) error {
	for {
		ok, err := c.next()
		if err == nil && ok {
			err = f()
		}
		if err != nil || !ok {
			return err
		}
	}
}

// fill reads the user and the block of the row, if they are new.
func (c *cursor) fill() (err error) {
	if c.row >= c.end {
		c.ord++
		c.end = c.seg.FirstRow(c.ord + 1)
		c.hash = c.seg.Hashes()[c.ord]
		c.gone = c.dropped[c.hash]
		if !c.gone {
			if c.user, err = c.seg.UserID(c.ord); err != nil {
				return err
			}
		}
	}
	if c.row < c.hi {
		return nil
	}
	c.lo, c.hi = c.row, min(c.row+rowBlock, c.seg.Rows())
	if _, err := c.seg.Times().Prepare(c.lo, c.hi); err != nil {
		return err
	}
	c.times = c.seg.Times().Read(c.times[:0:0], c.lo, c.hi)
	if err := c.events.read(c.lo, c.hi); err != nil {
		return err
	}
	if err := c.ids.read(c.lo, c.hi); err != nil {
		return err
	}
	for i := range c.columns {
		if err := c.columns[i].read(c.lo, c.hi); err != nil {
			return err
		}
	}
	return nil
}

func (b *block) read(lo, hi int) error {
	if b.col == nil {
		return nil
	}
	if _, err := b.col.Prepare(lo, hi); err != nil {
		return err
	}
	// The slices may be parts of the mapped file, so the next call must not fill them.
	if b.col.Codes() > 0 {
		b.codes = b.col.Read32(nil, lo, hi)
	} else {
		b.raw = b.col.ReadRaw(nil, lo, hi)
	}
	return nil
}

func (b *block) value(i int) event.Value {
	switch {
	case b.col == nil:
		return event.Value{}
	case b.col.Codes() > 0:
		return b.col.Value(b.codes[i])
	}
	return b.col.Raw(b.raw[i])
}

func (c *cursor) time() int64 {
	t := c.seg.Times()
	return t.Base() + t.Unit()*int64(c.times[c.row-c.lo])
}

func (c *cursor) name() string { return c.events.value(c.row - c.lo).Text() }

func (c *cursor) id() uint64 {
	if c.ids.col == nil {
		return 0
	}
	return c.ids.raw[c.row-c.lo]
}

func (c *cursor) values(dst []event.Value) []event.Value {
	for i := range c.columns {
		dst = append(dst, c.columns[i].value(c.row-c.lo))
	}
	return dst
}

// cursors are in order of the row at which each is; the first is at the next row of all.
type cursors []*cursor

// merged returns cursors of which each is at its first row.
func merged(all []*cursor) (cursors, error) {
	var h cursors
	for _, c := range all {
		ok, err := c.next()
		if err != nil {
			return nil, err
		}
		if ok {
			h = append(h, c)
		}
	}
	slices.SortFunc(h, (*cursor).compare)
	return h, nil
}

// step goes to the next row. Mostly it is of the same user, and so of the same cursor.
func (h *cursors) step() error {
	first, rest := (*h)[0], (*h)[1:]
	ok, err := first.next()
	if err != nil {
		return err
	}
	if !ok {
		*h = rest
		return nil
	}
	if len(rest) == 0 || first.compare(rest[0]) <= 0 {
		return nil
	}
	i, _ := slices.BinarySearchFunc(rest, first, (*cursor).compare)
	copy(*h, rest[:i])
	(*h)[i] = first
	return nil
}

func (c *cursor) compare(d *cursor) int {
	return cmp.Or(cmp.Compare(c.hash, d.hash), cmp.Compare(c.user, d.user), cmp.Compare(c.time(), d.time()), cmp.Compare(c.id(), d.id()))
}
