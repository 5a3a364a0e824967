package segment

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// forcedGaps writes a segment with times as gaps, and returns it with the offsets. Users
// have 1 to perUser rows, and gaps of up to top, but most are small.
func forcedGaps(t testing.TB, rnd *rand.Rand, rows, perUser int, top uint32) (*Segment, []uint32) {
	t.Helper()
	rowStart, hashes := []uint32{0}, []uint64{}
	var offsets []uint32
	for at := 0; at < rows; {
		n := min(1+rnd.IntN(perUser), rows-at)
		at += n
		rowStart = append(rowStart, uint32(at))
		hashes = append(hashes, uint64(len(hashes))<<32)
		off := uint32(rnd.Uint64N(uint64(top) + 1))
		for range n {
			offsets = append(offsets, off)
			most := min(top, ^uint32(0)-off)
			if rnd.IntN(4) > 0 {
				most = min(most, 30)
			} else if perUser > 100 {
				most /= 1000
			}
			off += uint32(rnd.Uint64N(uint64(most) + 1))
		}
	}
	base := slices.Min(offsets)
	for i := range offsets {
		offsets[i] -= base
	}
	var buf bytes.Buffer
	w := newImageWriter(&buf, rows)
	w.begin(hashes, rowStart)
	if err := w.userIDs(func(dst []byte, ord int) ([]byte, error) { return fmt.Append(dst, "u", ord), nil }); err != nil {
		t.Fatal(err)
	}
	timesAs(w, offsets, true)
	if err := w.words(&meta{role: roleEvents, typ: event.String}, []string{"e"}, slices.Repeat([]uint32{1}, rows)); err != nil {
		t.Fatal(err)
	}
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	s := open(t, buf.Bytes())
	if s.Times().Encoding() != "gaps" {
		t.Fatal("got other times")
	}
	return s, offsets
}

// timesAs writes times in milliseconds from 0 on, as gaps or packed.
func timesAs(w *imageWriter, offsets []uint32, asGaps bool) {
	last := slices.Max(offsets)
	width := int64(bits.Len32(last))
	w.minTime, w.maxTime = 0, int64(last)
	w.timesRec.int(0)
	w.timesRec.uint(1)
	w.putTimes(offsets, width, measureGaps(offsets, w.rowStart, width), asGaps)
}

// TestGaps reads random stretches of times, and nothing but the pages that Prepare
// checked.
func TestGaps(t *testing.T) {
	rnd := seeded(t, 12)
	for _, perUser := range []int{1, 2, 9, 40, 3000, 100_000} {
		for _, top := range []uint32{0, 1, 300, 70_000, 1 << 22, 1 << 31, 1<<32 - 1} {
			rows := 1 + rnd.IntN(3000)
			if top == 1<<22 {
				rows = 100_000
			}
			t.Run(fmt.Sprintf("%d/%d", perUser, top), func(t *testing.T) {
				s, want := forcedGaps(t, rnd, rows, perUser, top)
				readGaps(t, rnd, s, want)
			})
		}
	}
}

func readGaps(t *testing.T, rnd *rand.Rand, s *Segment, want []uint32) {
	for range 6 {
		s := open(t, slices.Clone(s.image))
		lo := rnd.IntN(s.Rows())
		hi := lo + rnd.IntN(min(s.Rows()-lo, []int{3, 300, 9000, 200_000}[rnd.IntN(4)])+1)
		n, err := s.Times().Prepare(lo, hi)
		if err != nil {
			t.Fatal(err)
		}
		if n < 0 || n > int64(hi-lo+gapGroup)*9+64 {
			t.Errorf("[%d,%d): got %d bytes", lo, hi, n)
		}
		blind(s)
		if got := s.Times().Read(make([]uint32, rnd.IntN(hi-lo+20)), lo, hi); !slices.Equal(got, want[lo:hi]) {
			t.Fatalf("[%d,%d): got %v, want %v", lo, hi, got[:min(len(got), 20)], want[lo:][:min(len(got), 20)])
		}
		for range 20 {
			if lo == hi {
				break
			}
			row := lo + rnd.IntN(hi-lo)
			if got := s.Times().At(row); got != want[row] {
				t.Fatalf("row %d of [%d,%d): got %d, want %d", row, lo, hi, got, want[row])
			}
		}
	}
	w := timesWindow{t: s.Times()}
	for _, lo := range []int{0, s.Rows() / 2} {
		for row := lo; row < s.Rows(); row += 1 + rnd.IntN(5) {
			if got := w.millis(row); got != int64(want[row]) {
				t.Fatalf("row %d: got %d, want %d", row, got, want[row])
			}
		}
	}
	if found := s.Verify(); len(found) > 0 && found[0].Section != nameUsers { // the hashes are made up
		t.Error(found[0].Error())
	}
	v := &verifier{s: s}
	if v.times(); len(v.found) > 0 {
		t.Error(v.found[0].Error())
	}
}

// TestSum compares the sums of random gaps of each width with those of gaps read bit by bit.
func TestSum(t *testing.T) {
	rnd := seeded(t, 14)
	reached := map[uint8]int{}
	for range 200 {
		var widths [gapGroup / gapBlock]uint8
		low, span := rnd.IntN(33), 1+rnd.IntN(gapWidths)
		bytes := 0
		for i := range widths {
			widths[i] = uint8(min(low+rnd.IntN(span), 32))
			bytes += int(widths[i])
			reached[widths[i]]++
		}
		data := make([]byte, bytes+slack)
		for i := range data {
			data[i] = uint8(rnd.Uint32())
		}
		var got, want [gapGroup]uint32
		for range rnd.IntN(100) {
			got[rnd.IntN(gapGroup)] = rnd.Uint32()
		}
		mark := rnd.Uint32()
		last, bit := mark, 0
		for i := range want {
			gap := uint32(0)
			for j := range widths[i/gapBlock] {
				gap |= uint32(data[bit>>3]>>(bit&7)&1) << j
				bit++
			}
			last += got[i] + gap
			want[i] = last
		}
		if sum(&got, unsafe.Pointer(&data[0]), &widths, mark); got != want {
			t.Fatalf("widths %v: got %v, want %v", widths, got, want)
		}
	}
	if len(reached) != 33 {
		t.Errorf("got widths %v, want 0 to 32", reached)
	}
}

// TestGapsOfAllRows holds that times of events a few minutes apart become gaps, and that
// times of unlike users do not.
func TestGapsOfAllRows(t *testing.T) {
	s := open(t, shopImage(t, 5, 20_000))
	if got := s.Times().Encoding(); got != "gaps" {
		t.Errorf("sessions: got %s, want gaps", got)
	}
	if found := s.Verify(); len(found) > 0 {
		t.Error(found[0].Error())
	}
	var rows []row
	for i := range 1000 {
		rows = append(rows, row{user: fmt.Sprint(i), time: int64(i) * 1000, name: "e"})
	}
	if got := open(t, build(t, nil, rows)).Times().Encoding(); got != "packed" {
		t.Errorf("one event a user: got %s, want packed", got)
	}
}

// BenchmarkTimes reads times of blocks of 4096 rows.
func BenchmarkTimes(b *testing.B) {
	const rows, block = 500_000, 4096
	read := func(name string, s *Segment) {
		dst := make([]uint32, block)
		b.Run(name+"/"+s.Times().Encoding(), func(b *testing.B) {
			for b.Loop() {
				for lo := 0; lo < rows; lo += block {
					dst = s.Times().Read(dst[:cap(dst)], lo, min(lo+block, rows))
				}
			}
			perRow(b, rows)
		})
	}
	for _, perUser := range []int{4, 36, 1000} {
		for _, top := range []uint32{30, 1 << 17} {
			s, offsets := forcedGaps(b, rand.New(rand.NewPCG(1, 3)), rows, perUser, top)
			read(fmt.Sprintf("%d/%d", perUser, top), s)
			var buf bytes.Buffer
			w := newImageWriter(&buf, rows)
			w.begin(s.Hashes(), s.FirstRows(nil, 0, s.Users()+1))
			if err := w.userIDs(func(dst []byte, ord int) ([]byte, error) { return fmt.Append(dst, "u", ord), nil }); err != nil {
				b.Fatal(err)
			}
			timesAs(w, offsets, false)
			if err := w.words(&meta{role: roleEvents, typ: event.String}, []string{"e"}, slices.Repeat([]uint32{1}, rows)); err != nil {
				b.Fatal(err)
			}
			if err := w.finish(); err != nil {
				b.Fatal(err)
			}
			read(fmt.Sprintf("%d/%d", perUser, top), open(b, buf.Bytes()))
		}
	}
}
