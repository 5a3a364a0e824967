package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// smallImage returns a segment with every kind of section in few bytes.
func smallImage(t testing.TB) []byte {
	t.Helper()
	schema := event.Schema{
		{Name: "country", Type: event.String}, {Name: "price", Type: event.Float}, {Name: "qty", Type: event.Int},
		{Name: "paid", Type: event.Bool}, {Name: "big", Type: event.Int},
	}
	b := NewBuilder(schema)
	for i := range 60 {
		v := []event.Value{event.StringOf([]string{"KR", "DE", ""}[i%3]), {}, event.IntOf(int64(i % 5)), {}, event.IntOf(int64(i) << 40)}
		if i%20 == 3 {
			v[1], v[3] = event.FloatOf(float64(i)/4), event.BoolOf(true)
		}
		b.Add(fmt.Sprintf("user-%x", i%7), 1_700_000_000_000+int64(i)*1000, []string{"view", "cart"}[b2i(i%9 == 8)], uint64(i%4), v)
	}
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// compactImage returns a segment with the sections that smallImage is too small for.
func compactImage(t testing.TB) []byte {
	t.Helper()
	const users = 140
	ids := make([]string, users)
	for i := range ids {
		ids[i] = fmt.Sprint("u", i)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(event.Hash(a), event.Hash(b)) })
	hashes, rowStart := make([]uint64, users), []uint32{0}
	for u, id := range ids {
		hashes[u] = event.Hash(id)
		rowStart = append(rowStart, rowStart[u]+uint32(2+u%5))
	}
	rows := int(rowStart[users])
	offsets, names := make([]uint32, rows), make([]uint32, rows)
	places, kinds := make([]uint32, rows), make([]uint32, rows)
	for u := range users {
		off := uint32(u*7919%1000) * 50
		for row := rowStart[u]; row < rowStart[u+1]; row++ {
			off += row * 31 % 100
			offsets[row], names[row] = off, 1+row%5
			places[row] = uint32(u % 3)
			if row%17 == 0 {
				places[row] = 3
			}
			if row%4 != 0 {
				kinds[row] = 1 + row*13%300
			}
		}
	}
	base := slices.Min(offsets)
	for row := range offsets {
		offsets[row] -= base
	}
	var buf bytes.Buffer
	w := newImageWriter(&buf, rows)
	w.begin(hashes, rowStart)
	err := w.userIDs(func(dst []byte, ord int) ([]byte, error) { return append(dst, ids[ord]...), nil })
	timesAs(w, offsets, true)
	as := func(m *meta, codes []uint32, enc encoding) {
		m.missing = missingIn(codes, 0)
		shape := measure(codes, rowStart)
		shape.each, shape.patches = patches(codes, rowStart)
		writeCodesAs(w.o, m, codes, rowStart, shape, enc)
		w.columns = append(w.columns, m)
	}
	events := &meta{role: roleEvents, typ: event.String, codes: 6}
	err = errors.Join(err, writeText(w.o, events, []string{"a", "b", "c", "d", "e"}))
	as(events, names, encDigits)
	as(&meta{name: "place", typ: event.Int, dict: dictRange, codes: 4}, places, encUserSparse)
	as(&meta{name: "kind", typ: event.Int, dict: dictRange, codes: 301}, kinds, encPresent)
	if err = errors.Join(err, w.finish()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// use does everything with a segment that queries do, and returns the first error.
func use(s *Segment) error {
	r, _, err := s.Range(0, math.MaxUint64)
	if err != nil {
		return err
	}
	for u := r.UserLo; u < r.UserHi; u++ {
		if _, err := s.UserID(u); err != nil {
			return err
		}
	}
	t := s.Times()
	if _, err := t.Prepare(r.RowLo, r.RowHi); err != nil {
		return err
	}
	t.Read(nil, r.RowLo, r.RowHi)
	if x := s.EventSets(); x != nil {
		if _, err := x.Prepare(r.UserLo, r.UserHi); err != nil {
			return err
		}
		x.Read(nil, r.UserLo, r.UserHi)
	}
	for _, c := range s.allColumns() {
		// From the middle, where the encodings must find their place.
		for _, lo := range []int{r.RowLo, (r.RowLo + r.RowHi) / 2} {
			if _, err := c.Prepare(lo, r.RowHi); err != nil {
				return err
			}
			if c.Codes() == 0 {
				c.ReadRaw(nil, lo, r.RowHi)
				continue
			}
			c.Read8(nil, lo, r.RowHi)
			c.Read16(nil, lo, r.RowHi)
			for _, code := range c.Read32(nil, lo, r.RowHi) {
				c.Search(c.Value(code))
			}
			c.Default(lo, r.RowHi)
			if _, err := c.PrepareBlocks(lo, r.RowHi); err != nil {
				return err
			}
			for b := lo / BlockRows; b < blocksOf(r.RowHi); b++ {
				c.Occurs(b)
				c.Span(b)
			}
		}
	}
	return nil
}

// TestEveryByte damages every byte of a segment, one at a time: it must not open, or
// Verify must name the place, and so must whatever reads it.
func TestEveryByte(t *testing.T) {
	t.Run("small", func(t *testing.T) { everyByte(t, smallImage(t)) })
	t.Run("compact", func(t *testing.T) { everyByte(t, compactImage(t)) })
}

func everyByte(t *testing.T, sound []byte) {
	if found := open(t, slices.Clone(sound)).Verify(); len(found) > 0 {
		t.Fatal(found[0].Error())
	}
	for i := range sound {
		image := slices.Clone(sound)
		image[i] ^= 1 << (i % 8)
		s, err := FromBytes("small", image)
		if err != nil {
			if !strings.Contains(err.Error(), "small") {
				t.Errorf("byte %d: got %q, want the name in it", i, err)
			}
			continue
		}
		found := s.Verify()
		if len(found) != 1 || found[0].Section == "" || int64(i) < found[0].Offset || int64(i) >= found[0].Offset+found[0].Length {
			t.Errorf("byte %d: got %v of Verify", i, found)
		}
		var damage *DamageError
		if err := use(s); !errors.As(err, &damage) {
			t.Errorf("byte %d: got %v of reading", i, err)
		}
	}
}

// TestEveryLength cuts a segment at every length.
func TestEveryLength(t *testing.T) {
	sound := smallImage(t)
	path := filepath.Join(t.TempDir(), "cut")
	for n := range sound {
		var damage *DamageError
		if _, err := FromBytes("cut", slices.Clone(sound[:n])); !errors.As(err, &damage) {
			t.Fatalf("%d of %d bytes: got %v, want damage", n, len(sound), err)
		}
		if n%97 != 0 {
			continue
		}
		if err := os.WriteFile(path, sound[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.As(err, &damage) || damage.Path != path {
			t.Fatalf("%d of %d bytes: got %v, want damage of the file", n, len(sound), err)
		}
	}
	if _, err := FromBytes("longer", append(slices.Clone(sound), 0)); err == nil {
		t.Error("a byte too many: got no error")
	}
}

// TestDamageNames checks that the damage of a large column is named, and other
// pages to stay readable.
func TestDamageNames(t *testing.T) {
	image := shopImage(t, 3, 200_000)
	at := open(t, image).Column("item").meta.data
	image[at.off+at.len/2] ^= 4
	s := open(t, image)
	c := s.Column("item")
	if _, err := c.Prepare(0, s.Rows()/4); err != nil {
		t.Errorf("sound rows: got %v", err)
	}
	for range 2 { // damage is not forgotten
		_, err := c.Prepare(0, s.Rows())
		var damage *DamageError
		if !errors.As(err, &damage) || damage.Section != "column item" {
			t.Errorf("damaged rows: got %v, want damage of column item", err)
		}
	}
	if _, err := s.Column("price").Prepare(0, s.Rows()); err != nil {
		t.Errorf("another column: got %v", err)
	}
	if found := s.Verify(); len(found) != 1 || found[0].Section != "column item" {
		t.Errorf("got %v of Verify, want one damage of column item", found)
	}
}

// resum rewrites the checksums of an image, as a forger would. It
// returns nil if the image has no frame.
func resum(image []byte) []byte {
	image = slices.Clone(image)
	if len(image) < headerSize+trailerSize {
		return nil
	}
	copy(image, appendHeader(nil)[:20])
	tail := image[len(image)-trailerSize:]
	off := binary.LittleEndian.Uint64(tail)
	if off < headerSize || off > uint64(len(image)-trailerSize) {
		return nil
	}
	footer := image[off : len(image)-trailerSize]
	for at := 0; at < len(footer); { // the record with the checksums
		n, used := binary.Uvarint(footer[at+1:])
		if used <= 0 || n > uint64(len(footer)) {
			break
		}
		body := footer[min(at+1+used, len(footer)):]
		body = body[:min(int(n), len(body))]
		if footer[at] == tagPages {
			for page := 0; page*4+4 <= len(body) && uint64(page)<<pageBits < off; page++ {
				sum := crc32.Checksum(image[page<<pageBits:min(uint64(page+1)<<pageBits, off)], castagnoli)
				binary.LittleEndian.PutUint32(body[page*4:], sum)
			}
		}
		at += 1 + used + int(n)
	}
	return append(image[:len(image)-trailerSize], appendTrailer(nil, int64(off), footer)...)
}

// TestForged damages every byte and sets the checksums right: what opens must be
// safe to read, and be found by Verify unless the change makes another sound segment.
func TestForged(t *testing.T) {
	t.Run("small", func(t *testing.T) { forge(t, smallImage(t)) })
	t.Run("compact", func(t *testing.T) { forge(t, compactImage(t)) })
}

func forge(t *testing.T, sound []byte) {
	unseen := 0
	step := 1
	if invariant.Race { // which makes it ten times slower, and sees nothing here
		step = 17
	}
	for i := 0; i < len(sound); i += step {
		for _, flip := range []byte{1, 0x80} {
			image := slices.Clone(sound)
			image[i] ^= flip
			s, err := FromBytes("forged", resum(image))
			if err != nil {
				continue
			}
			if len(s.Verify()) == 0 {
				unseen++
			}
			if err := use(s); err != nil && len(s.Verify()) == 0 {
				t.Errorf("byte %d ^ %02x: got %v of reading what Verify finds sound", i, flip, err)
			}
			mergeAny(s)
		}
	}
	t.Logf("%d of %d changes make other sound segments", unseen, 2*len(sound)/step)
}

// mergeAny merges a segment with itself, to see that it does not panic.
func mergeAny(s *Segment) {
	var out discard
	if _, err := Merge(&out, []Input{{Segment: s, From: math.MinInt64}, {Segment: s, From: s.MinTime() + 5000}}); err != nil {
		return // an error is as good as a segment
	}
}

// discard counts what is written.
type discard int

func (d *discard) Write(b []byte) (int, error) {
	*d += discard(len(b))
	return len(b), nil
}

// fuzzRows bounds what fuzzing reads: a few forged bytes can stand for any number of
// rows that are all the same.
const fuzzRows = 1 << 16

// FuzzOpen reads any bytes, as they are and with their checksums set right.
func FuzzOpen(f *testing.F) {
	sound := smallImage(f)
	f.Add(sound)
	f.Add(compactImage(f))
	f.Add(sound[:len(sound)/2])
	f.Add([]byte(headMagic))
	empty, err := NewBuilder(nil).Image()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(empty)
	f.Fuzz(func(t *testing.T, image []byte) {
		for _, image := range [][]byte{slices.Clone(image), resum(image)} {
			s, err := FromBytes("fuzz", image)
			if err != nil || s.Rows() > fuzzRows {
				continue
			}
			verified := s.Verify()
			if err := use(s); err != nil && len(verified) == 0 {
				t.Errorf("got %v of reading what Verify finds sound", err)
			}
			mergeAny(s)
		}
	})
}

// FuzzFooter changes the footer of a sound segment.
func FuzzFooter(f *testing.F) {
	sound := smallImage(f)
	s := open(f, sound)
	body, footer := sound[:s.body], sound[s.body:len(sound)-trailerSize]
	f.Add([]byte(footer))
	f.Fuzz(func(t *testing.T, footer []byte) {
		image := append(slices.Clone(body), footer...)
		image = appendTrailer(image, int64(len(body)), footer)
		s, err := FromBytes("fuzz", image)
		if err != nil || s.Rows() > fuzzRows {
			return
		}
		verified := s.Verify()
		if err := use(s); err != nil && len(verified) == 0 {
			t.Errorf("got %v of reading what Verify finds sound", err)
		}
		mergeAny(s)
	})
}
