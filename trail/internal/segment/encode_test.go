package segment

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// forced writes a segment of one integer column in an encoding, and returns it with
// the codes. Users have 1 to perUser rows.
func forced(t testing.TB, rnd *rand.Rand, enc encoding, codes, rows, perUser int) (*Segment, []uint32) {
	t.Helper()
	return forcedAs(t, rnd, enc, enc, codes, rows, perUser)
}

// forcedAs does the same with codes that are drawn for another encoding.
func forcedAs(t testing.TB, rnd *rand.Rand, enc, drawn encoding, codes, rows, perUser int) (*Segment, []uint32) {
	t.Helper()
	rowStart, hashes := []uint32{0}, []uint64{}
	for at := 0; at < rows; {
		at = min(at+1+rnd.IntN(perUser), rows)
		rowStart = append(rowStart, uint32(at))
		hashes = append(hashes, uint64(len(hashes))<<32)
	}
	values := drawCodes(rnd, drawn, codes, rowStart)
	var buf bytes.Buffer
	w := newImageWriter(&buf, rows)
	w.begin(hashes, rowStart)
	if err := w.userIDs(func(dst []byte, ord int) ([]byte, error) { return fmt.Append(dst, "u", ord), nil }); err != nil {
		t.Fatal(err)
	}
	offsets := make([]uint32, rows)
	for i := range offsets {
		offsets[i] = rnd.Uint32N(1000)
	}
	if err := w.times(offsets, 0, 1, 999, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.words(&meta{role: roleEvents, typ: event.String}, []string{"e"}, slices.Repeat([]uint32{1}, rows)); err != nil {
		t.Fatal(err)
	}
	m := &meta{name: "c", typ: event.Int, dict: dictRange, codes: codes}
	shape := measure(values, rowStart)
	if shape.each == nil {
		shape.each, shape.patches = patches(values, rowStart)
	}
	if enc == encConstant && shape.exceptions > 0 {
		t.Fatal("a constant with exceptions")
	}
	writeCodesAs(w.o, m, values, rowStart, shape, enc)
	w.columns = append(w.columns, m)
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	return open(t, buf.Bytes()), values
}

// drawCodes returns codes that an encoding can hold.
func drawCodes(rnd *rand.Rand, enc encoding, codes int, rowStart []uint32) []uint32 {
	values := make([]uint32, rowStart[len(rowStart)-1])
	one := func() uint32 { return uint32(rnd.Int64N(int64(codes))) }
	common := one()
	switch enc {
	case encConstant:
		fill(values, common)
	case encSparse:
		fill(values, common)
		for range len(values) / 20 {
			values[rnd.IntN(len(values))] = one()
		}
	case encUser:
		for u := range len(rowStart) - 1 {
			fill(values[rowStart[u]:rowStart[u+1]], one())
		}
	case encRuns:
		for at := 0; at < len(values); {
			n := min(1+rnd.IntN([]int{3, 12, 700, 5000}[rnd.IntN(4)]), len(values)-at)
			fill(values[at:at+n], one())
			at += n
		}
	case encDigits:
		base := uint32(min(codes, 2+rnd.IntN(maxBase-1)))
		least := rnd.Uint32N(uint32(min(codes, 256)) - base + 1)
		for i := range values {
			values[i] = least + rnd.Uint32N(base)
		}
		values[0], values[1] = least, least+base-1
	case encPresent:
		share := rnd.IntN(110)
		for at := 0; at < len(values); at++ {
			switch n := min(1+rnd.IntN(300), len(values)-at); rnd.IntN(1000) {
			case 0: // a stretch without values, or with nothing else
				at += n - 1
			case 1:
				for i := range n {
					values[at+i] = 1 + uint32(rnd.Int64N(int64(codes-1)))
				}
				at += n - 1
			default:
				if rnd.IntN(100) < share {
					values[at] = one()
				}
			}
		}
	case encUserSparse:
		for u := range len(rowStart) - 1 {
			fill(values[rowStart[u]:rowStart[u+1]], one())
		}
		for range len(values) / 20 {
			values[rnd.IntN(len(values))] = one()
		}
	default:
		for i := range values {
			values[i] = one()
		}
	}
	return values
}

// blind overwrites all pages that no one has checked.
func blind(s *Segment) {
	for page := range (s.body + pageSize - 1) >> pageBits {
		if s.checked[page>>6].Load()&(1<<(page&63)) == 0 {
			fill(s.image[page<<pageBits:min((page+1)<<pageBits, s.body)], 0xff)
		}
	}
}

// TestEncodings reads random stretches of each encoding through each width, and
// nothing but the pages that Prepare checked.
func TestEncodings(t *testing.T) {
	rnd := seeded(t, 7)
	counts, users := []int{2, 5, 200, 256, 257, 9000, 65536, 65537, 1 << 24, maxCodes}, []int{8, 1, 3000}
	if invariant.Race { // one goroutine reads and writes, in which it sees nothing: one count for each width
		counts, users = []int{5, 257, 65537}, users[:1]
	}
	for _, enc := range []encoding{encConstant, encPlain, encPacked, encSparse, encUser, encRuns, encDigits, encPresent, encUserSparse} {
		for _, codes := range counts {
			for _, perUser := range users {
				t.Run(fmt.Sprintf("%s/%d/%d", enc, codes, perUser), func(t *testing.T) {
					s, want := forced(t, rnd, enc, codes, 66_000+rnd.IntN(20_000), perUser)
					readForced(t, rnd, s, want)
				})
			}
		}
	}
}

func readForced(t *testing.T, rnd *rand.Rand, s *Segment, want []uint32) {
	for range 4 {
		s := open(t, slices.Clone(s.image))
		c := s.Column("c")
		lo := rnd.IntN(s.Rows())
		hi := lo + rnd.IntN(min(s.Rows()-lo, []int{3, 300, 9000, 200_000}[rnd.IntN(4)])+1)
		n, err := c.Prepare(lo, hi)
		if err != nil {
			t.Fatal(err)
		}
		if n < 0 || n > int64(hi-lo+600)*8+8 {
			t.Errorf("[%d,%d): got %d bytes", lo, hi, n)
		}
		blind(s)
		if got := c.Read32(nil, lo, hi); !slices.Equal(got, want[lo:hi]) {
			t.Fatalf("[%d,%d): codes of 32 bits differ", lo, hi)
		}
		if c.Codes() <= 1<<16 {
			got := c.Read16(make([]uint16, 5), lo, hi)
			if len(got) != hi-lo || !same(got, want[lo:hi]) {
				t.Fatalf("[%d,%d): codes of 16 bits differ", lo, hi)
			}
		}
		if c.Codes() <= 1<<8 {
			got := c.Read8(make([]uint8, 200_000), lo, hi)
			if len(got) != hi-lo || !same(got, want[lo:hi]) {
				t.Fatalf("[%d,%d): codes of 8 bits differ", lo, hi)
			}
			mapped(t, c, want[lo:hi], lo, hi)
		}
		if code, rows, others, ok := c.Default(lo, hi); ok {
			got := slices.Repeat([]uint32{code}, hi-lo)
			for i, row := range rows {
				got[int(row)-lo] = others.At(i)
			}
			if !slices.Equal(got, want[lo:hi]) {
				t.Fatalf("[%d,%d): default and exceptions differ", lo, hi)
			}
		}
	}
	if found := s.Verify(); len(found) > 0 && found[0].Section != nameUsers { // the hashes are made up
		t.Error(found[0].Error())
	}
}

// mapped reads through a table.
func mapped(t *testing.T, c *Column, want []uint32, lo, hi int) {
	t.Helper()
	var table [256]uint8
	for i := range table {
		table[i] = uint8(i*7 + 3)
	}
	got := c.Map8(nil, &table, lo, hi)
	if !slices.EqualFunc(got, want, func(a uint8, b uint32) bool { return a == table[b] }) {
		t.Fatalf("[%d,%d): what a table has for codes differs", lo, hi)
	}
}

func same[T code](got []T, want []uint32) bool {
	return slices.EqualFunc(got, want, func(a T, b uint32) bool { return uint32(a) == b })
}

func TestChoose(t *testing.T) {
	share := readProperty
	f := func(s shape, rows, users, codes int, want encoding) {
		t.Helper()
		if got := choose(s, rows, users, codes, share); got != want {
			t.Errorf("choose(%+v, %d rows, %d users, %d codes, %g): got %s, want %s", s, rows, users, codes, share, got, want)
		}
	}
	f(shape{exceptions: 0, runs: 4000, perUser: true}, 1e6, 1e5, 100, encConstant)
	f(shape{exceptions: 35_000, runs: 70_000}, 1e6, 1e5, 4, encSparse)
	f(shape{exceptions: 900_000, runs: 90_000, perUser: true}, 1e6, 1e5, 60, encUser)
	f(shape{exceptions: 900_000, runs: 90_000}, 1e6, 1e5, 60, encRuns)
	f(shape{exceptions: 900_000, runs: 900_000}, 1e6, 1e5, 60, encPacked)
	f(shape{exceptions: 900_000, runs: 900_000}, 1e6, 1e5, 200, encPlain)
	f(shape{exceptions: 900_000, runs: 900_000}, 1e6, 1e5, 60_000, encPlain)
	f(shape{exceptions: 900_000, runs: 900_000}, 1e6, 1e5, 100_000, encPacked)
	f(shape{exceptions: 800_000, runs: 900_000, missing: 200_000}, 1e6, 1e5, 50_000, encPresent)
	f(shape{exceptions: 500_000, runs: 110_000, least: 1, top: 3}, 1e6, 1e5, 4, encDigits)
	f(shape{exceptions: 500_000, runs: 30_000, least: 1, top: 3}, 1e6, 1e5, 4, encRuns)
	share = readAlways // decoding counts more
	f(shape{exceptions: 500_000, runs: 30_000, least: 1, top: 3}, 1e6, 1e5, 4, encDigits)
	f(shape{exceptions: 900_000, runs: 900_000}, 1e6, 1e5, 60, encPlain)
}

// TestChooseTimes checks that gaps must save more than it takes to decode them.
func TestChooseTimes(t *testing.T) {
	f := func(gapBits, users int, width int64, wantGaps bool, wantBits int64) {
		t.Helper()
		const rows = 1e6
		asGaps, bits := chooseTimes(gapShape{bytes: rows / 8 * int64(gapBits)}, rows, users, width)
		if asGaps != wantGaps || bits != wantBits {
			t.Errorf("gaps of %d bits, %d users, width %d: got %v, %d bits, want %v, %d", gapBits, users, width, asGaps, bits, wantGaps, wantBits)
		}
	}
	f(13, 40_000, 22, true, 22)
	f(19, 40_000, 22, false, 22)
	f(13, 300_000, 22, false, 22) // each user costs
	f(25, 60_000, 32, false, 32)
	f(20, 60_000, 32, true, 32)
	f(26, 60_000, 27, false, 32) // a byte more, and nothing to unpack
}

// TestPresence reads random stretches of the presence of values, and nothing but the
// pages that PreparePresence checked.
func TestPresence(t *testing.T) {
	rnd := seeded(t, 11)
	whole, want := forced(t, rnd, encPresent, 9000, 70_000, 8)
	for i := range 40 {
		s := open(t, slices.Clone(whole.image))
		c := s.Column("c")
		lo := rnd.IntN(s.Rows())
		hi := lo + rnd.IntN(min(s.Rows()-lo, []int{3, 300, 70_000}[i%3])+1)
		if n, err := c.PreparePresence(lo, hi); err != nil || n > int64(hi-lo)/8+16 {
			t.Fatalf("[%d,%d): got %d bytes, %v", lo, hi, n, err)
		}
		blind(s)
		for _, without := range []bool{false, true} {
			got := make([]uint8, hi-lo)
			c.Presence(got, without, lo, hi)
			for row, p := range got {
				if has := want[lo+row] != 0; (p == 0xff) != (has != without) || p != 0 && p != 0xff {
					t.Fatalf("[%d,%d): got %#x for row %d, which has a value: %v", lo, hi, p, lo+row, has)
				}
			}
		}
	}
	if c := whole.Column("c"); !c.KeepsPresence() {
		t.Error("got no presence")
	}
}

// TestReadAllocs holds that reading into memory that is large enough takes none.
func TestReadAllocs(t *testing.T) {
	if invariant.Race {
		t.Log("budgets mean nothing under the race detector")
		return
	}
	rnd := seeded(t, 8)
	for _, enc := range []encoding{encConstant, encPlain, encPacked, encSparse, encUser, encRuns, encDigits, encPresent, encUserSparse} {
		s, _ := forced(t, rnd, enc, 200, 50_000, 8)
		c := s.Column("c")
		d8, d16, d32 := make([]uint8, 4096), make([]uint16, 4096), make([]uint32, 4096)
		sets := make([]uint64, 4096)
		got := testing.AllocsPerRun(20, func() {
			if _, err := c.Prepare(1000, 5096); err != nil {
				t.Error(err)
			}
			if _, _, err := s.Range(0, 1<<40); err != nil {
				t.Error(err)
			}
			c.Read8(d8, 1000, 5096)
			c.Read16(d16, 1000, 5096)
			c.Read32(d32, 1000, 5096)
			c.Default(1000, 5096)
			c.Search(event.IntOf(77))
			s.Times().Read(d32, 1000, 5096)
			s.EventSets().Read(sets, 10, 100)
		})
		if got != 0 {
			t.Errorf("%s: got %v allocations, want 0", enc, got)
		}
	}
}

// TestRaw reads stretches of raw columns, nearly full and nearly empty, and nothing
// but the pages that Prepare checked.
func TestRaw(t *testing.T) {
	rnd := seeded(t, 9)
	for _, present := range []int{1, 30, 65, 70, 100} {
		b := NewBuilder(event.Schema{{Name: "c", Type: event.Int}})
		want := make([]uint64, 60_000)
		for i := range want {
			want[i] = RawMissing(event.Int)
			values := []event.Value{{}}
			if rnd.IntN(100) < present {
				want[i] = rnd.Uint64() | 1
				values[0] = event.IntOf(int64(want[i]))
			}
			b.Add("u", int64(i), "e", 0, values)
		}
		image, err := b.Image()
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			s := open(t, slices.Clone(image))
			c := s.Column("c")
			lo := rnd.IntN(len(want))
			hi := lo + rnd.IntN(len(want)-lo+1)
			if _, err := c.Prepare(lo, hi); err != nil {
				t.Fatal(err)
			}
			blind(s)
			if got := c.ReadRaw(nil, lo, hi); !slices.Equal(got, want[lo:hi]) {
				t.Fatalf("%d %% present, %s, [%d,%d): values differ", present, c.Encoding(), lo, hi)
			}
		}
	}
}
