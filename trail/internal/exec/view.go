package exec

import (
	"math"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A view is the part of a source that lies in a shard. Rows are counted from the first
// row of the part. Its slices are in the map of the file or in the arena of the worker,
// and are valid until the next shard.
type view struct {
	*source
	segment.Range
	hashes []uint64 // by user
	starts []uint32 // by user, and one more; subtract RowLo
	times  []uint32 // by row, nil unless the kernel needs them
	mask8  []uint8  // by row: the matchers that mean it. Eight more bytes may be read behind the last
	mask64 []uint64 // instead, if the plan's masks are wider
	codes  []codes  // by column of the plan
	cells  []uint32 // by row, of a segmentation
	base   int64    // time of offset 0
	unit   int64    // milliseconds of an offset
	sets   []uint64 // by user: the codes of the user's events as bits; nil if they are not read
	wanted uint64   // the codes of required events as bits
	user   int      // the next one

	prepared []prepared
	setBytes int64 // of the event sets, counted so far
}

// A prepared is rows of a column that can be read.
type prepared struct {
	*segment.Column
	bare bool // only whether there are values
	stretch
	bytes int64
}

// prepare makes rows [lo,hi) of a column readable, if bare only whether they have
// values, and counts what was not counted for the view before.
func (w *worker) prepare(v *view, col *segment.Column, bare bool, lo, hi int) error {
	before := int64(0)
	for _, p := range v.prepared {
		if p.Column != col || p.bare && !bare {
			continue
		}
		if p.lo <= lo && hi <= p.hi {
			return nil
		}
		if lo <= p.lo && p.hi <= hi && p.bare == bare {
			before += p.bytes
		}
	}
	prepare := col.Prepare
	if bare {
		prepare = col.PreparePresence
	}
	n, err := prepare(lo, hi)
	n = max(n-before, 0)
	v.prepared = append(v.prepared, prepared{col, bare, stretch{lo, hi}, n})
	w.cost.bytes += n
	return err
}

// rows returns how many rows the view has.
func (v *view) rows() int { return v.RowHi - v.RowLo }

// first returns the hash of the first user.
func (v *view) first() uint64 { return v.hashes[0] }

// row returns the first row of a user.
func (v *view) row(user int) int { return int(v.starts[user]) - v.RowLo }

// time returns the time of a row in milliseconds.
func (v *view) time(row int) int64 { return v.base + v.unit*int64(v.times[row]) }

// mask returns the matchers of a row.
func (v *view) mask(row int) uint64 {
	if v.mask8 != nil {
		return uint64(v.mask8[row])
	}
	return v.mask64[row]
}

// A need is the parts of a view that a kernel reads.
type need struct {
	times   bool
	columns bool

	// required are matchers of events. A user without any of them does not count.
	required uint64
}

// view opens the part of a source between two hashes. It is not ok if there is no
// user, or no row that can match.
func (w *worker) view(v *view, s *source, from, to uint64, n need) (ok bool, err error) {
	r, touched, err := s.seg.Range(from, to)
	w.cost.bytes += touched
	if err != nil || r.UserLo >= r.UserHi {
		return false, err
	}
	*v = view{source: s, Range: r, codes: v.codes[:0], prepared: v.prepared[:0], base: s.times.Base(), unit: s.times.Unit()}
	if err := w.possible(v); err != nil {
		return false, err
	}
	if len(w.stretches) == 0 {
		v.checkSkipped()
		return false, nil
	}
	v.hashes = s.seg.Hashes()[r.UserLo:r.UserHi]
	v.starts = s.seg.FirstRows(w.arena.ints(r.UserHi-r.UserLo+1), r.UserLo, r.UserHi+1)
	evaluated := 0 // rows
	defer func() { w.cost.rows += int64(evaluated) }()
	if !s.every || len(s.wheres) > 0 {
		for _, rows := range w.stretches {
			evaluated += rows.hi - rows.lo
		}
	}
	some, err := w.masks(v)
	if err != nil {
		return false, err
	}
	if v.checkSkipped(); !some {
		return false, nil
	}
	if n.times || len(s.cut) > 0 {
		evaluated = v.rows()
		touched, err := s.times.Prepare(r.RowLo, r.RowHi)
		w.cost.bytes += touched
		if err != nil {
			return false, err
		}
		v.times = s.times.Read(w.arena.ints(v.rows()), r.RowLo, r.RowHi)[:v.rows()]
		if len(s.cut) > 0 && !w.clip(v) {
			return false, nil
		}
	}
	if err := w.eventSets(v, n.required); err != nil {
		return false, err
	}
	if n.columns {
		evaluated = v.rows()
		for _, col := range s.columns {
			c, err := w.codes(v, col)
			if err != nil {
				return false, err
			}
			v.codes = append(v.codes, c)
		}
	}
	return true, nil
}

// eventSets reads the event sets of a view. It leaves them out if most users have a
// required event, because the check of each user would then save nothing.
func (w *worker) eventSets(v *view, required uint64) error {
	sets := v.seg.EventSets()
	if required == 0 || sets == nil || v.every {
		return nil
	}
	for i, matchers := range v.table[1:] {
		if matchers&required != 0 {
			v.wanted |= 1 << i
		}
	}
	touched, err := sets.Prepare(v.UserLo, v.UserHi)
	w.cost.bytes += touched - v.setBytes
	if err != nil {
		return err
	}
	users := w.arena.words(len(v.hashes))
	sample := sets.Read(users, v.UserLo, min(v.UserLo+64, v.UserHi))
	have := 0
	for _, set := range sample {
		if set&v.wanted != 0 {
			have++
		}
	}
	if have*4 < len(sample)*3 {
		v.sets = sets.Read(users, v.UserLo, v.UserHi)
		w.cost.sets++
	}
	return nil
}

// masks fills in the masks of a view, as far as they do not depend on times. It reports
// whether any row has one.
func (w *worker) masks(v *view) (some bool, err error) {
	if w.width == 8 {
		v.mask8 = w.arena.bytes(v.rows())
		return masks(v.mask8, v, w)
	}
	v.mask64 = w.arena.words(v.rows())
	return masks(v.mask64, v, w)
}

func masks[M uint8 | uint64](dst []M, v *view, w *worker) (some bool, err error) {
	at := 0 // rows before have their masks
	for _, rows := range w.stretches {
		lo, hi := rows.lo-v.RowLo, rows.hi-v.RowLo
		clear(dst[at:lo])
		at = hi
		if !v.every {
			if err := w.prepare(v, v.events, false, rows.lo, rows.hi); err != nil {
				return false, err
			}
		}
		if mask(dst[lo:hi], v, rows, w.arena) {
			w.cost.sparse++
		}
		if err := restrict(dst, v, rows, w); err != nil {
			return false, err
		}
	}
	clear(dst[at:])
	if len(v.dropped) > 0 {
		drop(dst, v)
	}
	return anyOf(dst, ^M(0)), nil
}

// mask looks up the events of a stretch in the source's table. It reports whether only
// the rare events were read.
func mask[M uint8 | uint64](dst []M, v *view, rows stretch, a *arena) (sparse bool) {
	if v.every {
		paint(dst, M(v.table[1]))
		return false
	}
	if common, others, codes, ok := v.events.Default(rows.lo, rows.hi); ok {
		paint(dst, M(v.table[common]))
		for i, row := range others {
			dst[int(row)-rows.lo] = M(v.table[codes.At(i)])
		}
		return true
	}
	if masks, ok := any(dst).([]uint8); ok && len(v.table) <= 1<<8 {
		var table [256]uint8
		for c, t := range v.table {
			table[c] = uint8(t)
		}
		v.events.Map8(masks, &table, rows.lo, rows.hi)
		return false
	}
	m := a.mark()
	defer a.release(m)
	for i, c := range v.events.Read32(a.ints(len(dst)), rows.lo, rows.hi)[:len(dst)] {
		dst[i] = M(v.table[c])
	}
	return false
}

// paint sets all of dst.
func paint[T uint8 | uint64](dst []T, t T) {
	if len(dst) == 0 {
		return
	}
	dst[0] = t
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// ones has a one in each byte of a word.
const ones = 0x0101010101010101

// restrict removes from the masks of a stretch the rows that filters exclude.
func restrict[M uint8 | uint64](dst []M, v *view, in stretch, w *worker) error {
	for _, f := range v.wheres {
		w.undecided = undecided(w.undecided[:0], dst, v.RowLo, in, M(f.mask))
		if l := f.presence(); l != nil {
			if err := present(dst, v, l, M(f.mask), w); err != nil {
				return err
			}
			w.undecided = undecided(w.undecided[:0], dst, v.RowLo, in, M(f.mask))
		}
		for _, rows := range w.undecided {
			if err := f.prepare(v, w, rows.lo, rows.hi); err != nil {
				return err
			}
			m := w.arena.mark()
			passed := w.arena.bytes(rows.hi - rows.lo)
			f.eval(passed, v, rows.lo, w.arena)
			exclude(dst[rows.lo-v.RowLo:rows.hi-v.RowLo], passed, f.mask)
			w.arena.release(m)
		}
	}
	return nil
}

// present removes some matchers from the undecided rows that have no value. It ends with
// the first rows that have one: there are likely to be more, and then it saves nothing.
func present[M uint8 | uint64](dst []M, v *view, l *leaf, mask M, w *worker) error {
	for _, rows := range w.undecided {
		for lo := rows.lo; lo < rows.hi; lo += segment.BlockRows {
			hi := min(lo+segment.BlockRows, rows.hi)
			if err := w.prepare(v, l.column, true, lo, hi); err != nil {
				return err
			}
			m := w.arena.mark()
			passed := w.arena.bytes(hi - lo)
			l.column.Presence(passed, false, lo, hi)
			w.cost.presence++
			part := dst[lo-v.RowLo : hi-v.RowLo]
			exclude(part, passed, uint64(mask))
			w.arena.release(m)
			if anyOf(part, mask) {
				return nil
			}
		}
	}
	return nil
}

// exclude removes some matchers from the masks of rows that did not pass.
func exclude[M uint8 | uint64](dst []M, passed []uint8, mask uint64) {
	rest := ^M(mask)
	n := 0
	if masks, ok := any(dst).([]uint8); ok {
		n = len(masks) &^ 7
		rest := ^(mask * ones)
		to := words8(masks[:n])
		for i, p := range words8(passed[:n]) {
			to[i] &= p | rest
		}
	}
	for i, p := range passed[n:] {
		dst[n+i] &= M(int8(p)) | rest
	}
}

// clip removes from the masks of a view the rows that are outside of a matcher's
// times. It reports whether any row has a mask left.
func (w *worker) clip(v *view) bool {
	if v.mask8 != nil {
		return clip(v.mask8, v)
	}
	return clip(v.mask64, v)
}

func clip[M uint8 | uint64](dst []M, v *view) bool {
	for _, c := range v.cut {
		lo, hi := offset(c.lo, v), offset(c.hi, v)
		mask := ^M(c.mask)
		for i, t := range v.times[:len(dst)] {
			if t := int64(t); t < lo || t >= hi {
				dst[i] &= mask
			}
		}
	}
	return anyOf(dst, ^M(0))
}

// drop removes the rows of deleted users.
func drop[M uint8 | uint64](dst []M, v *view) {
	at, _ := slices.BinarySearch(v.dropped, v.first())
	for u, h := range v.hashes {
		for at < len(v.dropped) && v.dropped[at] < h {
			at++
		}
		if at == len(v.dropped) {
			break
		}
		if v.dropped[at] == h {
			clear(dst[v.row(u):v.row(u+1)])
		}
	}
}

// offset returns the first offset whose time is not before millis.
func offset(millis int64, v *view) int64 {
	if millis <= v.base {
		return 0
	}
	// Without overflow for bounds far away.
	d := uint64(millis) - uint64(v.base)
	if d > 1<<62 {
		return 1 << 62
	}
	return (int64(d) + v.unit - 1) / v.unit
}

// codes are the values of a column in a view.
type codes struct {
	col *segment.Column // nil if all are missing
	c8  []uint8         // at most one of these, by row
	c16 []uint16
	c32 []uint32
	raw []uint64

	remap   []int32 // of the worker's dictionary, by code: number+1, 0 for not met yet
	numbers numbers // of a lexicon; none unless the kernel has one
}

func (w *worker) codes(v *view, col *segment.Column) (codes, error) {
	c := codes{col: col}
	if col == nil {
		return c, nil
	}
	if err := w.prepare(v, col, false, v.RowLo, v.RowHi); err != nil {
		return c, err
	}
	n := v.rows()
	switch k := col.Codes(); {
	case k == 0:
		c.raw = col.ReadRaw(w.arena.words(n), v.RowLo, v.RowHi)[:n]
	case k <= 1<<8:
		c.c8 = col.Read8(w.arena.bytes(n), v.RowLo, v.RowHi)[:n]
	case k <= 1<<16:
		c.c16 = col.Read16(w.arena.halves(n), v.RowLo, v.RowHi)[:n]
	default:
		c.c32 = col.Read32(w.arena.ints(n), v.RowLo, v.RowHi)[:n]
	}
	return c, nil
}

// at returns the code of a row, of columns that are not raw.
func (c *codes) at(row int) uint32 {
	switch {
	case c.c8 != nil:
		return uint32(c.c8[row])
	case c.c16 != nil:
		return uint32(c.c16[row])
	case c.c32 != nil:
		return c.c32[row]
	}
	return 0
}

// constant reports whether all rows from lo to hi have the same code, or all are
// missing.
func (c *codes) constant(lo, hi int) bool {
	switch {
	case c.c8 != nil:
		return same(c.c8[lo:hi])
	case c.c16 != nil:
		return same(c.c16[lo:hi])
	case c.c32 != nil:
		return same(c.c32[lo:hi])
	case c.raw != nil:
		return same(c.raw[lo:hi])
	}
	return true
}

func same[T uint8 | uint16 | uint32 | uint64](codes []T) bool {
	for _, c := range codes[1:] {
		if c != codes[0] {
			return false
		}
	}
	return true
}

// A part is the rows of a user in a view.
type part struct {
	*view
	lo, hi int
	at     int // the user's place in the view
}

// some reports whether a row of the part has one of some matchers. Masks must have
// eight bits.
func (p *part) some(mask uint8) bool {
	eight := uint64(mask) * ones
	for row := p.lo; row < p.hi; row += 8 {
		word := load(p.mask8, row) & eight
		if left := p.hi - row; left < 8 {
			word &= 1<<(8*left) - 1
		}
		if word != 0 {
			return true
		}
	}
	return false
}

// users goes through the users of a shard in order of their hashes.
type users struct {
	views []*view
	heads []uint64 // by view: the hash of its next user
	parts []part   // of the user that next found, by time of the views

	// While the next user of one view comes before the next users of all others, the
	// others need not be compared: a large segment does not pay for many small runs.
	lead  int    // the view, -1 for none
	limit uint64 // the lowest hash of the others

	selective bool // a view has event sets to read
}

// open begins with the views of a shard.
func (u *users) open(views []*view) {
	u.views, u.heads, u.lead, u.selective = views, u.heads[:0], -1, false
	for _, v := range views {
		u.selective = u.selective || v.sets != nil
		u.heads = append(u.heads, v.hashes[0])
	}
}

// next finds the next user. A user who is twice in a view, since two ids have one
// hash, has two parts there.
func (u *users) next() bool {
	u.parts = u.parts[:0]
	if u.lead >= 0 {
		if head := u.heads[u.lead]; head < u.limit {
			u.take(u.lead, head)
			return true
		}
	}
	u.lead = -1
	if len(u.heads) == 0 {
		return false
	}
	low, second, at := u.heads[0], uint64(math.MaxUint64), 0
	for i, h := range u.heads[1:] {
		if h < low {
			low, second, at = h, low, i+1
		} else {
			second = min(second, h)
		}
	}
	if second > low {
		u.lead, u.limit = at, second
		u.take(at, low)
		return true
	}
	for i := at; i < len(u.heads); {
		if u.heads[i] != low || u.take(i, low) {
			i++ // else the view has ended, and the next one is in its place
		}
	}
	return true
}

// relevant reports whether the user may have a required event.
func (u *users) relevant() bool {
	for i := range u.parts {
		if p := &u.parts[i]; p.sets == nil || p.sets[p.at]&p.wanted != 0 {
			return true
		}
	}
	return false
}

// take adds the parts that a view has of a user. It reports whether the view has more
// users.
func (u *users) take(i int, hash uint64) bool {
	v := u.views[i]
	for {
		at := v.user
		v.user++
		u.parts = append(u.parts, part{v, v.row(at), v.row(at + 1), at})
		if v.user == len(v.hashes) {
			u.views = slices.Delete(u.views, i, i+1)
			u.heads = slices.Delete(u.heads, i, i+1)
			u.lead = -1
			return false
		}
		if u.heads[i] = v.hashes[v.user]; u.heads[i] != hash {
			return true
		}
	}
}
