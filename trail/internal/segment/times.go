package segment

import (
	"unsafe"
)

// Times are the times of the rows, as offsets from a base in milliseconds or whole
// seconds. They are packed, or gaps between the rows of a user.
type Times struct {
	s     *Segment
	base  int64
	unit  int64
	bits  int64
	at    span
	data  []byte
	plain []uint32 // if an offset takes 32 bits
	gaps  *gaps    // in place of these
}

// Base returns the time of offset 0 in milliseconds since 1970.
func (t *Times) Base() int64 { return t.base }

// Unit returns the milliseconds of a step, 1 or 1000.
func (t *Times) Unit() int64 { return t.unit }

// Prepare checks the pages of the times of rows [lo,hi) and returns their bytes.
func (t *Times) Prepare(lo, hi int) (bytes int64, err error) {
	if t.gaps != nil {
		return t.gaps.prepare(t.s, lo, hi)
	}
	p := packedSpan(t.at, lo, hi, t.bits)
	return p.len, t.s.check(p, nameTimes)
}

// Encoding returns how the times are laid out, by the names in docs/trail-format.md.
func (t *Times) Encoding() string {
	if t.gaps != nil {
		return "gaps"
	}
	return encPacked.String()
}

// At returns the offset of a row: its time is Base + Unit*offset. It takes up to a
// microsecond; Read is meant for more than a few rows.
func (t *Times) At(row int) uint32 {
	if t.gaps != nil {
		return t.gaps.at(t.s, row)
	}
	if t.plain != nil {
		return t.plain[row]
	}
	return unpackOne(t.data, row, t.bits)
}

// Read returns the offsets of rows [lo,hi). They are in the mapped file if they are
// stored as such. Otherwise it fills dst, or a longer slice if dst is too short. The
// caller must not write to the result.
func (t *Times) Read(dst []uint32, lo, hi int) []uint32 {
	if t.plain != nil {
		return t.plain[lo:hi:hi]
	}
	dst = sized(dst, hi-lo)
	if t.gaps != nil {
		t.gaps.readRows(dst, t.s, lo)
		return dst
	}
	unpack(dst, t.data, lo, t.bits)
	return dst
}

// A timesWindow reads the times of rows, which are fast if rows mostly ascend.
type timesWindow struct {
	t   *Times
	lo  int
	now []uint32
	buf []uint32
}

// windowTimes is the number of rows that a timesWindow decodes at a time.
const windowTimes = 1024

// millis returns the time of a row.
func (w *timesWindow) millis(row int) int64 {
	i := row - w.lo
	if uint(i) >= uint(len(w.now)) {
		w.lo, i = row, 0
		w.now = w.t.Read(w.buf, row, min(row+windowTimes, w.t.s.rows))
		if w.t.plain == nil {
			w.buf = w.now
		}
	}
	return w.t.base + w.t.unit*int64(w.now[i])
}

// place returns where the time of a row is, or all gaps.
func (t *Times) place(row int) span {
	if t.gaps != nil {
		return t.gaps.gapAt
	}
	return packedSpan(t.at, row, row+1, t.bits)
}

// packedSpan returns where packed numbers [lo,hi) lie.
func packedSpan(at span, lo, hi int, bits int64) span {
	if lo >= hi {
		return span{}
	}
	from := int64(lo) * bits / 8
	return span{at.off + from, (int64(hi)*bits+7)/8 - from}
}

// unpackOne returns the packed number at i. Eight bytes follow the last one.
func unpackOne(b []byte, i int, bits int64) uint32 {
	bit := int64(i) * bits
	b = b[bit>>3:][:8]
	return uint32(*(*uint64)(unsafe.Pointer(&b[0]))>>(bit&7)) & uint32(1<<bits-1)
}

// unpack fills dst with the packed numbers from lo on. A number takes at most 32
// bits, so it lies within eight bytes wherever it begins. One load has several small
// numbers, which saves a third of the time. The bounds are checked once.
func unpack[T number](dst []T, b []byte, lo int, bits int64) {
	if len(dst) == 0 {
		return
	}
	w := uint64(bits)
	bit := uint64(lo) * w
	_ = b[(bit+uint64(len(dst)-1)*w)>>3+7]
	base := unsafe.Pointer(unsafe.SliceData(b))
	mask := uint64(1)<<w - 1
	i := 0
	switch {
	case w <= 14: // four, begun at any bit of a byte: 7 + 4*14 = 63
		w2, w3 := 2*w&63, 3*w&63
		for ; i+4 <= len(dst); i += 4 {
			d := dst[i:][:4]
			v := *(*uint64)(unsafe.Add(base, bit>>3)) >> (bit & 7)
			d[0], d[1], d[2], d[3] = T(v&mask), T(v>>(w&63)&mask), T(v>>w2&mask), T(v>>w3&mask)
			bit += 4 * w
		}
	case w <= 28:
		for ; i+4 <= len(dst); i += 4 {
			d := dst[i:][:4]
			v := *(*uint64)(unsafe.Add(base, bit>>3)) >> (bit & 7)
			bit += 2 * w
			u := *(*uint64)(unsafe.Add(base, bit>>3)) >> (bit & 7)
			bit += 2 * w
			d[0], d[1], d[2], d[3] = T(v&mask), T(v>>(w&63)&mask), T(u&mask), T(u>>(w&63)&mask)
		}
	}
	for ; i < len(dst); i++ {
		dst[i] = T(*(*uint64)(unsafe.Add(base, bit>>3)) >> (bit & 7) & mask)
		bit += w
	}
}

// sized returns dst with n entries, or a new slice if it is too short.
func sized[T number](dst []T, n int) []T {
	if cap(dst) >= n {
		return dst[:n]
	}
	return make([]T, n)
}

// Sets have the events of each user, as one bit for each name.
type Sets struct {
	s     *Segment
	names int
	width int
	at    span
	data  []byte
}

func setWidth(names int) int {
	switch {
	case names <= 8:
		return 1
	case names <= 16:
		return 2
	case names <= 32:
		return 4
	}
	return 8
}

// Prepare checks the pages of the sets of some users and returns their bytes.
func (x *Sets) Prepare(userLo, userHi int) (bytes int64, err error) {
	p := x.at.part(userLo, userHi, int64(x.width))
	return p.len, x.s.check(p, nameSets)
}

// Read returns the sets of users [userLo,userHi): bit code-1 of each reports whether
// the user has an event of that code. It fills dst, or a longer slice if dst is too
// short; sets of eight bytes are in the mapped file. The caller must not write to the
// result.
func (x *Sets) Read(dst []uint64, userLo, userHi int) []uint64 {
	switch x.width {
	case 8:
		return viewOf[uint64](x.s, x.at)[userLo:userHi:userHi]
	case 4:
		dst = sized(dst, userHi-userLo)
		widen(dst, viewOf[uint32](x.s, x.at)[userLo:userHi])
	case 2:
		dst = sized(dst, userHi-userLo)
		widen(dst, viewOf[uint16](x.s, x.at)[userLo:userHi])
	default:
		dst = sized(dst, userHi-userLo)
		widen(dst, x.data[userLo:userHi])
	}
	return dst
}
