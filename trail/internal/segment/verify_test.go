package segment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestVerifyFinds changes values and sets the checksums right: what the pages do not
// show, the rules of the format do.
func TestVerifyFinds(t *testing.T) {
	sound := smallImage(t)
	s := open(t, sound)
	rnd := seeded(t, 4)
	runs, _ := forced(t, rnd, encRuns, 60, 5000, 50)
	f := func(s *Segment, at span, i int64, flip byte, section, reason string) {
		t.Helper()
		image := slices.Clone(s.image)
		image[at.off+i] ^= flip
		changed, err := FromBytes("changed", resum(image))
		if err != nil {
			t.Fatal(err)
		}
		v := &verifier{s: changed}
		if v.users(); len(v.found) == 0 { // forged users do not have their hashes
			v.found = changed.Verify()
		} else if section != nameUsers {
			v.found = nil
			v.column(changed.Column("c"))
		}
		if len(v.found) == 0 || v.found[0].Section != section || !strings.Contains(v.found[0].Reason, reason) {
			t.Errorf("%s, byte %d: got %v, want %s with %q", section, i, v.found, section, reason)
		}
	}
	f(s, s.hashAt, 7, 0x80, nameUsers, "not the hash of the id")
	f(s, s.starts.at, 0, 1, nameUsers, "out of order")
	f(s, s.starts.at, 4, 0x80, nameUsers, "out of order")
	f(s, span{s.starts.at.off, 0}, s.starts.at.len-4, 1, nameUsers, "out of order")
	f(s, s.times.at, 1, 0xff, nameTimes, "")
	f(s, s.sets.at, 0, 2, nameSets, "the set of user 0")
	country, price := s.Column("country"), s.Column("price")
	f(s, country.terms, 0, 7<<3, "dictionary country", "out of order")
	f(s, country.text, 0, 0x20, "dictionary country", "out of order")
	f(s, country.terms, 1, 1, "dictionary country", "do not cover")
	f(s, country.meta.data, 0, 0xff, "column country", "")
	f(s, price.meta.places, 3, 1, "column price", "out of order")
	f(s, price.meta.data, 1, 0x80, "column price", "has code")
	c := runs.Column("c")
	f(runs, c.meta.places, 0, 1, "column c", "")
	f(runs, c.meta.index, 9, 1, "column c", "the index is wrong about row 1024")
	f(runs, c.meta.data, 0, 0x80, "column c", "row 0 has code")
}

// TestVerifyFindsCompact does the same for the sections of larger segments.
func TestVerifyFindsCompact(t *testing.T) {
	s := open(t, compactImage(t))
	g, place, kind := s.times.gaps, s.Column("place"), s.Column("kind")
	f := func(at span, i int64, flip byte, section, reason string) {
		t.Helper()
		image := slices.Clone(s.image)
		image[at.off+i] ^= flip
		found := open(t, resum(image)).Verify()
		if len(found) == 0 || found[0].Section != section || !strings.Contains(found[0].Reason, reason) {
			t.Errorf("%s, byte %d: got %v, want %s with %q", section, i, found, section, reason)
		}
	}
	f(s.starts.baseAt, 4, 1, nameUsers, "")
	f(s.starts.at, 2, 0x80, nameUsers, "out of order")
	f(s.starts.at, s.starts.at.len-2, 1, nameUsers, "")
	f(g.restAt, 0, 1, nameTimes, "")
	f(g.widthAt, 0, 1, nameTimes, "does not end where the next one begins")
	f(g.gapAt, 0, 1, nameTimes, "")
	f(g.startAt, 0, 1, nameTimes, "does not end where the next one begins")
	f(g.markAt, 4, 1, nameTimes, "the mark of group 1 is")
	f(s.events.meta.data, 3, 0x80, nameEvents, "byte 3 has more than its digits")
	f(place.meta.data, 0, 0x80, "column place", "row 0 has code")
	f(place.meta.places, 2, 0xff, "column place", "is out of order")
	f(place.meta.index, 0, 1, "column place", "the index does not cover")
	f(place.others, 0, 0x80, "column place", "has code")
	f(kind.meta.places, 0, 1, "column kind", "row")
	f(kind.meta.index, 0, 1, "column kind", "the rank of row 0")
	f(kind.meta.data, 4, 8, "column kind", "has code 322 of 301")
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a folder: got no error")
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var damage *DamageError
	if _, err := Open(empty); !errors.As(err, &damage) || damage.Path != empty || damage.Section != nameTrailer {
		t.Errorf("an empty file: got %v, want damage of its trailer", err)
	}
}

// TestUnaligned reads an image that lies where numbers cannot be read.
func TestUnaligned(t *testing.T) {
	image := smallImage(t)
	for shift := range 8 {
		moved := append(make([]byte, shift, shift+len(image)), image...)[shift:]
		s := open(t, moved)
		if err := use(s); err != nil {
			t.Errorf("shifted by %d: got %v", shift, err)
		}
	}
}

// TestTimeWidths reads times of every width, one by one and by block.
func TestTimeWidths(t *testing.T) {
	for bits := range 33 {
		top := int64(1)<<bits - 1
		var rows []row
		for i := range int64(100) {
			rows = append(rows, row{user: "u", time: -5000 + top*i/99, name: "e"})
		}
		s := open(t, build(t, nil, rows))
		times := s.Times()
		if _, err := times.Prepare(0, 100); err != nil {
			t.Fatal(err)
		}
		block := times.Read(make([]uint32, 50), 50, 100)
		for i, r := range rows {
			if got := times.Base() + times.Unit()*int64(times.At(i)); got != r.time {
				t.Fatalf("%d bits, row %d: got %d, want %d", bits, i, got, r.time)
			}
			if i >= 50 && block[i-50] != times.At(i) {
				t.Fatalf("%d bits, row %d: got %d in a block, want %d", bits, i, block[i-50], times.At(i))
			}
		}
	}
}

func TestAccessors(t *testing.T) {
	s := open(t, smallImage(t))
	c := s.Column("country")
	if c.Name() != "country" || c.Type() != event.String || c.Rows() != 60 || c.MissingCount() != 20 || c.DictionaryBytes() != 2+slack+4 {
		t.Errorf("got %s %s of %d rows, %d missing, dictionary of %d bytes", c.Name(), c.Type(), c.Rows(), c.MissingCount(), c.DictionaryBytes())
	}
	if s.Column("nothing") != nil {
		t.Error("got a column that there is not")
	}
	want := event.Schema{
		{Name: "country", Type: event.String}, {Name: "price", Type: event.Float}, {Name: "qty", Type: event.Int},
		{Name: "paid", Type: event.Bool}, {Name: "big", Type: event.Int},
	}
	if !slices.Equal(s.Schema(), want) {
		t.Errorf("got schema %v, want %v", s.Schema(), want)
	}
}
