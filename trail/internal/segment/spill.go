package segment

import (
	"fmt"
	"io"
	"math"
	"slices"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// SpillRanges is the number of equal ranges of the user hash into which Spill sorts
// rows.
const (
	SpillBits   = 8
	SpillRanges = 1 << SpillBits
)

// A Spill writes the rows of builders to a temporary file, one part after another,
// each sorted into SpillRanges ranges of the user hash, in plain columns. It is for one
// goroutine at a time.
type Spill struct {
	w     io.Writer
	off   int64
	place []uint8  // range of each row
	to    []uint32 // new place of each run of rows of a user
	buf   []uint64 // of a column
}

// NewSpill returns a Spill that writes to the beginning of a file.
func NewSpill(w io.Writer) *Spill { return &Spill{w: w} }

// A Part is where the rows of one builder are in the file of a Spill. It is immutable.
type Part struct {
	rows, users, text int
	schema            event.Schema
	starts            int64 // rows, runs of rows of a user, and bytes of ids before each range
	hashes, lengths   spilled
	ids               int64 // of users
	at, times, names  spilled
	eventIDs          spilled
	columns           []spilled
}

// Rows returns how many rows a part has.
func (p *Part) Rows() int { return p.rows }

// IDs returns how many bytes the ids of the users of a part take. An id counts again
// where rows of another user are in between.
func (p *Part) IDs() int { return p.text }

// A spilled array has numbers of width bytes. If that is less than they had, 0 stands
// for none, and v for v - 1 + base.
type spilled struct {
	off        int64
	base, none uint64
	width      int // 0 for an array without entries
	short      bool
}

// A spillStart is the beginning of a range in a part.
type spillStart struct{ row, run, text uint32 }

// Write writes the rows of a builder and resets it. The builder keeps its terms.
func (s *Spill) Write(b *Builder) (*Part, error) {
	defer b.Reset()
	p := &Part{rows: len(b.times), users: len(b.users), text: len(b.text), schema: b.schema}
	starts := s.sortRows(b)
	p.starts = s.off
	if err := s.write(startBytes(starts)); err != nil {
		return nil, err
	}
	var err error
	if p.hashes, p.lengths, p.ids, err = s.writeUsers(b, starts); err != nil {
		return nil, err
	}
	for i, run := range b.at {
		b.at[i] = s.to[run]
	}
	if p.at, err = spill(s, starts, b.at, math.MaxUint32); err != nil {
		return nil, err
	}
	if p.times, err = spill(s, starts, timesOf(b.times), 1<<63); err != nil {
		return nil, err
	}
	if p.names, err = spill(s, starts, b.names, 0); err != nil {
		return nil, err
	}
	if p.eventIDs, err = spill(s, starts, b.ids, 0); err != nil {
		return nil, err
	}
	for i, f := range b.schema {
		var c spilled
		if f.Type == event.String {
			c, err = spill(s, starts, b.columns[i].codes, 0)
		} else {
			c, err = spill(s, starts, b.columns[i].raw, RawMissing(f.Type))
		}
		if err != nil {
			return nil, err
		}
		p.columns = append(p.columns, c)
	}
	return p, nil
}

func (s *Spill) write(b []byte) error {
	n, err := s.w.Write(b)
	s.off += int64(n)
	return err
}

// sortRows finds the range of each row, and where ranges begin.
func (s *Spill) sortRows(b *Builder) *[SpillRanges + 1]spillStart {
	starts := new([SpillRanges + 1]spillStart)
	for i := range b.users {
		u := &b.users[i]
		at := &starts[u.hash>>(64-SpillBits)+1]
		at.run++
		at.text += u.n
	}
	s.place = sized(s.place, len(b.times))
	for row, run := range b.at {
		r := b.users[run].hash >> (64 - SpillBits)
		s.place[row] = uint8(r)
		starts[r+1].row++
	}
	for r := range SpillRanges {
		starts[r+1].row += starts[r].row
		starts[r+1].run += starts[r].run
		starts[r+1].text += starts[r].text
	}
	return starts
}

// writeUsers writes the users range by range, and sets their new places.
func (s *Spill) writeUsers(b *Builder, starts *[SpillRanges + 1]spillStart) (hashes, lengths spilled, ids int64, err error) {
	n := len(b.users)
	s.to = sized(s.to, n)
	s.buf = sized(s.buf, n)
	short := make([]uint32, n)
	text := make([]byte, len(b.text))
	next := *starts
	for i := range b.users {
		u := &b.users[i]
		at := &next[u.hash>>(64-SpillBits)]
		s.to[i] = at.run
		s.buf[at.run], short[at.run] = u.hash, u.n
		copy(text[at.text:], b.id(u))
		at.run++
		at.text += u.n
	}
	hashes = spilled{off: s.off, width: 8}
	if err = s.write(bytesOf(s.buf)); err != nil {
		return
	}
	lengths = spilled{off: s.off, width: 4}
	if err = s.write(bytesOf(short)); err != nil {
		return
	}
	ids = s.off
	return hashes, lengths, ids, s.write(text)
}

// spill writes a column, range by range, in the fewest bytes that its values need. Rows
// beyond its end have none.
func spill[T uint32 | uint64](s *Spill, starts *[SpillRanges + 1]spillStart, from []T, none T) (spilled, error) {
	if len(from) == 0 {
		return spilled{}, nil
	}
	sign := T(0) // turns signed numbers into ones of the same order without
	if uint64(none) == 1<<63 {
		sign = none
	}
	low, top := ^T(0), T(0)
	for _, v := range from {
		if v != none {
			low, top = min(low, v^sign), max(top, v^sign)
		}
	}
	at := spilled{off: s.off, base: uint64(low ^ sign), none: uint64(none), short: true}
	n := len(s.place)
	s.buf = sized(s.buf, n)
	switch {
	case low > top || top-low < 1<<8-1:
		at.width = 1
		scatterShort(s, starts, viewAs[uint8](s.buf, n), from, none, low^sign)
	case top-low < 1<<16-1:
		at.width = 2
		scatterShort(s, starts, viewAs[uint16](s.buf, n), from, none, low^sign)
	case uint64(top-low) < 1<<32-1 && int(unsafe.Sizeof(low)) > 4:
		at.width = 4
		scatterShort(s, starts, viewAs[uint32](s.buf, n), from, none, low^sign)
	default:
		at.width, at.short = int(unsafe.Sizeof(low)), false
		scatterAll(s, starts, viewAs[T](s.buf, n), from, none)
	}
	return at, s.write(bytesOf(s.buf)[:n*at.width])
}

func viewAs[T number](buf []uint64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(buf))), n)
}

// scatterShort puts each value into its range. It is faster than to gather range by range:
// it reads in order, and what it writes next stays in the cache.
func scatterShort[T uint32 | uint64, D number](s *Spill, starts *[SpillRanges + 1]spillStart, to []D, from []T, none, base T) {
	next := firstRows(starts)
	for row, r := range s.place {
		at := &next[r]
		to[*at] = 0
		if row < len(from) && from[row] != none {
			to[*at] = D(from[row] - base + 1)
		}
		*at++
	}
}

func scatterAll[T uint32 | uint64](s *Spill, starts *[SpillRanges + 1]spillStart, to, from []T, none T) {
	next := firstRows(starts)
	for row, r := range s.place {
		at := &next[r]
		to[*at] = none
		if row < len(from) {
			to[*at] = from[row]
		}
		*at++
	}
}

func firstRows(starts *[SpillRanges + 1]spillStart) (next [SpillRanges]uint32) {
	for i := range next {
		next[i] = starts[i].row
	}
	return next
}

// A loaded is rows of a builder that are in a file, column by column.
type loaded struct {
	r      io.ReaderAt
	parts  []loadedPart
	lo, hi int // ranges
	rows   int

	// Scratch.
	buf     []uint64
	at      []uint32 // numbers of rows
	hashes  []uint64
	lengths []uint32
	codes   []uint32
	words   []uint64
}

type loadedPart struct {
	*Part
	starts *[SpillRanges + 1]spillStart
	lo, hi int // rows
	first  int // number of row lo in the builder
}

// Load sets the rows of a builder to the rows in the ranges [lo,hi) of parts that Spill
// wrote. The builder must have the terms that
// the parts were made with. It reads when it writes: a range of users and times at a
// time, and then one column.
func (b *Builder) Load(r io.ReaderAt, parts []*Part, lo, hi int) error {
	b.Reset()
	l := &loaded{r: r, lo: lo, hi: hi}
	for _, p := range parts {
		starts := new([SpillRanges + 1]spillStart)
		if err := l.readAt(startBytes(starts), p.starts); err != nil {
			return err
		}
		from, to := int(starts[lo].row), int(starts[hi].row)
		if from < to {
			l.parts = append(l.parts, loadedPart{p, starts, from, to, l.rows})
			l.rows += to - from
		}
	}
	b.loaded = l
	return nil
}

// loadUsers reads users, times and ids of ranges, and returns the numbers of the rows.
func (b *Builder) loadUsers(lo, hi int) (rows []uint32, err error) {
	l := b.loaded
	b.users, b.text, b.at, b.times, b.ids = b.users[:0], b.text[:0], b.at[:0], b.times[:0], b.ids[:0]
	l.at = l.at[:0]
	ids := false
	for _, p := range l.parts {
		from, to := p.starts[lo], p.starts[hi]
		n, row := int(to.row-from.row), len(b.at)
		if n == 0 {
			continue
		}
		for i := range n {
			l.at = append(l.at, uint32(p.first+int(from.row)-p.lo+i))
		}
		first := uint32(len(b.users))
		if err := b.loadPart(p.Part, from, to); err != nil {
			return nil, err
		}
		b.at = slices.Grow(b.at, n)[:row+n]
		if err := load(l, b.at[row:], p.at, int(from.row)); err != nil {
			return nil, err
		}
		for i := range b.at[row:] {
			b.at[row+i] += first - from.run
		}
		b.times = slices.Grow(b.times, n)[:row+n]
		if err := load(l, timesOf(b.times[row:]), p.times, int(from.row)); err != nil {
			return nil, err
		}
		b.ids = slices.Grow(b.ids, n)[:row+n]
		clear(b.ids[row:])
		if err := load(l, b.ids[row:], p.eventIDs, int(from.row)); err != nil {
			return nil, err
		}
		ids = ids || p.eventIDs.width > 0
	}
	if !ids {
		b.ids = nil
	}
	return l.at, nil
}

func (b *Builder) loadPart(p *Part, from, to spillStart) error {
	l, n := b.loaded, int(to.run-from.run)
	l.hashes, l.lengths = sized(l.hashes, n), sized(l.lengths, n)
	hashes, lengths := l.hashes, l.lengths
	if err := load(l, hashes, p.hashes, int(from.run)); err != nil {
		return err
	}
	if err := load(l, lengths, p.lengths, int(from.run)); err != nil {
		return err
	}
	size, off := int(to.text-from.text), len(b.text)
	b.text = slices.Grow(b.text, size)[:off+size]
	if err := l.readAt(b.text[off:], p.ids+int64(from.text)); err != nil {
		return err
	}
	for i, h := range hashes {
		b.users = append(b.users, userRun{h, uint32(off), lengths[i]})
		off += int(lengths[i])
	}
	return nil
}

// column returns where a part has a property, or the names for -1.
func (p *Part) column(property int) spilled {
	switch {
	case property < 0:
		return p.names
	case property < len(p.columns):
		return p.columns[property]
	}
	return spilled{}
}

// loadedRows is how many rows of a column are read at a time.
const loadedRows = 64 << 10

// eachPart calls f with the values of a column, in buf, and the number of the first
// row. It passes over parts without the column, and is not ok if there are no others.
func eachPart[T uint32 | uint64](l *loaded, property int, buf *[]T, f func(p *Part, values []T, row int)) (ok bool, err error) {
	for _, p := range l.parts {
		c := p.column(property)
		if c.width == 0 {
			continue
		}
		ok = true
		for lo := p.lo; lo < p.hi; lo += loadedRows {
			*buf = sized(*buf, min(loadedRows, p.hi-lo))
			if err := load(l, *buf, c, lo); err != nil {
				return false, err
			}
			f(p.Part, *buf, p.first+lo-p.lo)
		}
	}
	return ok, nil
}

func (l *loaded) readAt(b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	if n, err := l.r.ReadAt(b, off); n < len(b) {
		return fmt.Errorf("read a temporary file: %w", err)
	}
	return nil
}

// load reads the values of a column from row lo on.
func load[T uint32 | uint64](l *loaded, dst []T, c spilled, lo int) error {
	if c.width == 0 || len(dst) == 0 {
		return nil
	}
	off := c.off + int64(lo*c.width)
	if !c.short {
		return l.readAt(bytesOf(dst), off)
	}
	l.buf = sized(l.buf, (len(dst)*c.width+7)/8)
	b := bytesOf(l.buf)[:len(dst)*c.width]
	if err := l.readAt(b, off); err != nil {
		return err
	}
	base, none := unsafe.Pointer(unsafe.SliceData(b)), T(c.none)
	switch c.width {
	case 1:
		widenShort(dst, unsafe.Slice((*uint8)(base), len(dst)), T(c.base), none)
	case 2:
		widenShort(dst, unsafe.Slice((*uint16)(base), len(dst)), T(c.base), none)
	default:
		widenShort(dst, unsafe.Slice((*uint32)(base), len(dst)), T(c.base), none)
	}
	return nil
}

func widenShort[T uint32 | uint64, D number](dst []T, from []D, base, none T) {
	for i, v := range from {
		dst[i] = none
		if v != 0 {
			dst[i] = T(v) - 1 + base
		}
	}
}

func timesOf(times []int64) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(times))), len(times))
}

func startBytes(starts *[SpillRanges + 1]spillStart) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(starts)), unsafe.Sizeof(*starts))
}
