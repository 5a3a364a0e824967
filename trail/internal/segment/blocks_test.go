package segment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// blocksImage returns a segment of three blocks, in which most names of events and places
// are of few users, and kinds are of all.
func blocksImage(t testing.TB) []byte {
	t.Helper()
	b := NewBuilder(event.Schema{{Name: "place", Type: event.Int}, {Name: "kind", Type: event.Int}})
	for i := range 3 * BlockRows {
		u := i / 100
		b.Add(fmt.Sprint("u", u), int64(i)*1000, fmt.Sprint("e", event.Hash(fmt.Sprint("u", u))>>62), 0, []event.Value{event.IntOf(int64(event.Hash(fmt.Sprint("u", u)) >> 54)), event.IntOf(int64(i % 7))})
	}
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestBlocks(t *testing.T) {
	image := blocksImage(t)
	s := open(t, image)
	if found := s.Verify(); len(found) > 0 {
		t.Fatal(found[0].Error())
	}
	place := s.Column("place")
	for b := range 3 {
		lo, hi := b*BlockRows, (b+1)*BlockRows
		s := open(t, slices.Clone(image))
		for _, c := range s.allColumns() {
			if _, err := c.PrepareBlocks(lo+5, hi-5); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Prepare(lo, hi); err != nil {
				t.Fatal(err)
			}
		}
		blind(s)
		want := uint64(0)
		for _, c := range s.Events().Read32(nil, lo, hi) {
			want |= 1 << c
		}
		if got, ok := s.Events().Occurs(b); got != want || !ok {
			t.Errorf("block %d of events: got %b, %v, want %b", b, got, ok, want)
		}
		codes := s.Column("place").Read32(nil, lo, hi)
		from, to, ok := s.Column("place").Span(b)
		if from != slices.Min(codes) || to != slices.Max(codes) || !ok {
			t.Errorf("block %d of places: got %d to %d, %v, want %d to %d", b, from, to, ok, slices.Min(codes), slices.Max(codes))
		}
		if _, ok := s.Column("place").Occurs(b); ok {
			t.Errorf("block %d: got a set of %d codes", b, place.Codes())
		}
		if _, ok := s.Column("kind").Occurs(b); ok {
			t.Errorf("block %d: got a summary of codes that all blocks have", b)
		}
	}
}

// TestBlocksChanged damages summaries, with and without sound checksums, and their record.
func TestBlocksChanged(t *testing.T) {
	sound := blocksImage(t)
	s := open(t, sound)
	for _, c := range []*Column{s.Events(), s.Column("place")} {
		for i := range c.summary.at.len {
			image := slices.Clone(sound)
			image[c.summary.at.off+i] ^= 1
			changed := open(t, image)
			var damage *DamageError
			if err := use(changed); !errors.As(err, &damage) {
				t.Errorf("byte %d: got %v of reading, want damage", i, err)
			}
			found := open(t, resum(image)).Verify()
			if len(found) != 1 || found[0].Section != nameBlocks {
				t.Errorf("byte %d: got %v of Verify", i, found)
			}
		}
	}
	f := func(name string, want string, fields ...uint64) {
		t.Helper()
		image := refooter(exampleImage(t), func(b []byte) []byte {
			var r record
			for _, v := range fields {
				r.uint(v)
			}
			return r.end(tagBlocks, b)
		})
		s, err := FromBytes("x", image)
		if want == "" {
			if err != nil {
				t.Errorf("%s: got %v", name, err)
			} else if err := use(s); err != nil {
				t.Errorf("%s: got %v of reading", name, err)
			}
			return
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, want)
		}
	}
	f("another size", "", 8192, 7)
	f("another kind", "", BlockRows, 1, 0, 9, 1, 64, 1)
	f("sets of events", "", BlockRows, 1, 0, uint64(blocksSets), 1, 64, 1)
	f("spans of few codes", "do not go together", BlockRows, 1, 0, uint64(blocksSpans), 2, 64, 2)
	f("sets of another width", "do not go together", BlockRows, 1, 0, uint64(blocksSets), 2, 64, 2)
	f("of no column", "do not go together", BlockRows, 1, 9, uint64(blocksSets), 1, 64, 1)
	f("twice", "do not go together", BlockRows, 2, 0, uint64(blocksSets), 1, 64, 1, 0, uint64(blocksSets), 1, 64, 1)
	f("too short", "nonsense in a record of kind 4", BlockRows, 1, 0, uint64(blocksSets), 1, 64, 2)
	f("cut", "nonsense in a record of kind 4", BlockRows, 2, 0, uint64(blocksSets), 1, 64, 1)
}
