package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestReadExample reads the bytes of the documentation: a program of format 1 reads
// all that were ever written in it.
func TestReadExample(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "trail-format.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "<!-- example -->\n```text\n")
	text, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("got no example in the documentation")
	}
	var image []byte
	for line := range strings.Lines(text) {
		if len(line) < 8 || line[4:6] != "  " {
			continue // the title of a part
		}
		at, err := strconv.ParseUint(line[:4], 16, 16)
		if err != nil {
			continue
		}
		image = append(image, make([]byte, int(at)-len(image))...)
		digits := strings.ReplaceAll(line[6:min(6+3*dumpWidth-1, len(line)-1)], " ", "")
		b, err := hex.DecodeString(strings.TrimSuffix(digits, "…"))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		image = append(image, b...)
	}
	s := open(t, image)
	if found := s.Verify(); len(found) > 0 {
		t.Fatal(found[0].Error())
	}
	schema := event.Schema{{Name: "country", Type: event.String}, {Name: "price", Type: event.Float}}
	kr, de := []event.Value{event.StringOf("KR")}, []event.Value{event.StringOf("DE")}
	const start = 1_767_225_600_000
	compare(t, s, schema, []row{
		{"u1", start, "view", 0, kr},
		{"u1", start + 40_000, "cart", 0, append(kr[:1:1], event.FloatOf(2.5))},
		{"u3", start + 5_000, "view", 0, de},
		{"u3", start + 9_000, "view", 0, de},
		{"u3", start + 63_000, "view", 0, de},
		{"u2", start + 3_000, "view", 0, de},
	})
}

// TestReadFirst reads a segment that was written before times could be gaps, first rows
// halves, and codes digits, and writes it as this version does.
func TestReadFirst(t *testing.T) {
	s, err := Open(filepath.Join("testdata", "first.seg"))
	if err != nil {
		t.Fatal(err)
	}
	if found := s.Verify(); len(found) > 0 {
		t.Fatal(found[0].Error())
	}
	if got := s.Times().Encoding(); got != "packed" || s.starts.plain == nil {
		t.Errorf("got times as %s, want the layout of then", got)
	}
	var buf bytes.Buffer
	if _, err := Merge(&buf, []Input{{Segment: s, From: math.MinInt64}}); err != nil {
		t.Fatal(err)
	}
	if want := shopImage(t, 9, 3000); !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("got %d bytes of merging, want the %d that the rows make now", buf.Len(), len(want))
	}
	if buf.Len() >= int(s.Size()) {
		t.Errorf("got %d bytes, want less than %d", buf.Len(), s.Size())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// refooter changes the footer of an image and rewrites the trailer.
func refooter(image []byte, change func(footer []byte) []byte) []byte {
	off := binary.LittleEndian.Uint64(image[len(image)-trailerSize:])
	footer := change(slices.Clone(image[off : len(image)-trailerSize]))
	return appendTrailer(append(slices.Clone(image[:off]), footer...), int64(off), footer)
}

// TestVersions opens what later versions of the program may write.
func TestVersions(t *testing.T) {
	sound := exampleImage(t)
	f := func(name string, image []byte, want string) {
		t.Helper()
		s, err := FromBytes("later", image)
		if want == "" {
			if err != nil {
				t.Errorf("%s: got %v, want none", name, err)
			} else if err := use(s); err != nil {
				t.Errorf("%s: got %v of reading", name, err)
			}
			return
		}
		var damage *DamageError
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, &damage) {
			t.Errorf("%s: got %v, want an error with %q and no damage", name, err, want)
		}
	}
	newer := slices.Clone(sound)
	newer[8] = 2
	f("another format", newer, "format 2, this program reads format 1")
	f("a record of an even kind", refooter(sound, func(b []byte) []byte { return record("whatever").end(12, b) }), "")
	f("a record of an odd kind", refooter(sound, func(b []byte) []byte { return record("whatever").end(15, b) }), "newer version: unknown record 15")
	f("a longer record", refooter(sound, func(b []byte) []byte { // the summary comes first
		b[1] += 2
		return slices.Insert(b, 2+int(b[1])-2, 7, 7)
	}), "")
	column := func(m meta) func([]byte) []byte {
		return func(b []byte) []byte {
			var r record
			m.append(&r)
			return r.end(tagColumn, b)
		}
	}
	ok := meta{name: "x", typ: event.Int, missing: 0, codes: 2, dict: dictRange, enc: encConstant, fixed: 1}
	f("one more column", refooter(sound, column(ok)), "")
	enc, dict, kind := ok, ok, ok
	enc.enc, dict.dict, kind.role = 77, 77, 77
	f("an unknown encoding", refooter(sound, column(enc)), "newer version: unknown encoding 77")
	f("an unknown dictionary", refooter(sound, column(dict)), "newer version")
	f("an unknown role", refooter(sound, column(kind)), "newer version")
}

// TestFooterNonsense refuses what no version writes.
func TestFooterNonsense(t *testing.T) {
	sound := exampleImage(t)
	f := func(name string, change func([]byte) []byte) {
		t.Helper()
		var damage *DamageError
		if _, err := FromBytes("x", refooter(sound, change)); !errors.As(err, &damage) || damage.Section != nameFooter {
			t.Errorf("%s: got %v, want damage of the footer", name, err)
		}
	}
	with := func(change func(m *meta)) func([]byte) []byte {
		m := meta{name: "x", typ: event.Int, codes: 2, dict: dictRange, enc: encConstant, fixed: 1}
		change(&m)
		return func(b []byte) []byte {
			var r record
			m.append(&r)
			return r.end(tagColumn, b)
		}
	}
	f("no records", func([]byte) []byte { return nil })
	f("the first record twice", func(b []byte) []byte { return append(b, b[:2+int(b[1])]...) })
	f("a cut record", func(b []byte) []byte { return b[:len(b)-1] })
	f("no pages", func(b []byte) []byte { return b[:len(b)-6] })
	f("a name twice", with(func(m *meta) { m.name = "price" }))
	f("a code that there is not", with(func(m *meta) { m.fixed = 2 }))
	f("more missing than rows", with(func(m *meta) { m.missing = 7 }))
	f("no type", with(func(m *meta) { m.typ = event.Unknown }))
	f("a range past the end of integers", with(func(m *meta) { m.min, m.codes = 1<<63-1, 3 }))
	f("raw codes", with(func(m *meta) { m.enc = encRaw; m.data = span{64, 48} }))
	f("a place outside", with(func(m *meta) { m.enc = encPlain; m.width = 1; m.data = span{1 << 40, 6} }))
	f("a place in the header", with(func(m *meta) { m.enc = encPlain; m.width = 1; m.data = span{0, 6} }))
	f("a crooked place", with(func(m *meta) { m.enc = encPlain; m.width = 1; m.data = span{65, 6} }))
	f("too few bytes", with(func(m *meta) { m.enc = encPlain; m.width = 1; m.data = span{64, 5} }))
	f("a width of three", with(func(m *meta) { m.enc = encPlain; m.width = 3; m.data = span{64, 18} }))
	f("a base of one", with(func(m *meta) { m.enc, m.width, m.data = encDigits, 1, span{64, 1} }))
	f("a base of seventeen", with(func(m *meta) { m.codes, m.enc, m.width, m.data = 18, encDigits, 17, span{64, 3} }))
	f("digits beyond the codes", with(func(m *meta) { m.enc, m.fixed, m.width, m.data = encDigits, 1, 2, span{64, 1} }))
	f("digits beyond a byte", with(func(m *meta) { m.codes, m.enc, m.fixed, m.width, m.data = 300, encDigits, 255, 2, span{64, 1} }))
	f("more values than rows", with(func(m *meta) {
		m.enc, m.width, m.count, m.places, m.index, m.data = encPresent, 1, 7, span{64, 8}, span{64, 4}, span{64, 9}
	}))
	f("more exceptions of users than rows", with(func(m *meta) {
		m.enc, m.width, m.count, m.data, m.places, m.index, m.others = encUserSparse, 1, 7, span{64, 3}, span{64, 14}, span{64, 8}, span{64, 7}
	}))
	f("more exceptions than rows", with(func(m *meta) {
		m.enc, m.width, m.count, m.places, m.data = encSparse, 1, 7, span{64, 28}, span{64, 7}
	}))
}
