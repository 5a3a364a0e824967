package trail

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

func TestRecord(t *testing.T) {
	lot := rand.New(rand.NewPCG(1, 2))
	events := draw(lot, 200, "x")
	events[7].Properties = append(events[7].Properties, prop("ratio", event.FloatOf(-2.5)), prop("price", event.FloatOf(0.5)))
	chunk, schema, _, err := encode(events, "queue", []byte("mark"), anyTime())
	if err != nil {
		t.Fatal(err)
	}
	want := record{commit: 77, voided: []uint64{3, 1 << 60}, chunks: [][]byte{chunk, {}}}
	got, err := decodeRecord(encodeRecord(nil, want))
	if err != nil || got.commit != 77 || !slices.Equal(got.voided, want.voided) || !slices.EqualFunc(got.chunks, want.chunks, bytes.Equal) {
		t.Fatalf("got %+v and %v, want %+v", got, err, want)
	}
	c, err := openChunk(chunk)
	if err != nil || c.source != "queue" || string(c.mark) != "mark" || !slices.Equal(c.schema, schema) {
		t.Fatalf("got %+v and %v", c, err)
	}
	var r row
	for _, e := range events {
		if !c.next(&r) {
			t.Fatal(c.err())
		}
		if r.user != e.User || r.time != e.Time || r.name != e.Name || r.id != event.HashID(e.ID) {
			t.Fatalf("got %+v, want %+v", r, e)
		}
		values := make([]event.Value, len(schema))
		for _, p := range e.Properties {
			values[schema.Index(p.Name)] = p.Value
		}
		if !slices.Equal(r.values, values) {
			t.Fatalf("got %v, want %v", r.values, values)
		}
	}
	if c.next(&r) || c.err() != nil {
		t.Errorf("got more events, or %v", c.err())
	}
	if schema.Type("price") != event.Float {
		t.Errorf("got the type %v of price, want a number", schema.Type("price"))
	}
}

func FuzzRecord(f *testing.F) {
	chunk, _, _, err := encode(draw(rand.New(rand.NewPCG(1, 2)), 3, "x"), "queue", []byte("mark"), anyTime())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encodeRecord(nil, record{commit: 1, voided: []uint64{3}, chunks: [][]byte{chunk}}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := decodeRecord(b)
		if err != nil {
			return
		}
		if again, err := decodeRecord(encodeRecord(nil, rec)); err != nil || again.commit != rec.commit || len(again.chunks) != len(rec.chunks) {
			t.Errorf("got %+v and %v, want %+v again", again, err, rec)
		}
		_ = verifyRecord(rec) // it must not panic, whatever it says
	})
}

func FuzzManifest(f *testing.F) {
	horizon := int64(5)
	sound, err := encodeManifest(&manifest{
		Version: manifestVersion, Generation: 3, Bucket: 86400_000, Horizon: &horizon, Schema: []field{{"price", "integer"}},
		Segments: []entry{{File: "000000000001-2.seg", Rows: 4}}, Deleted: []tombstone{{7, 9}}, Marks: map[string][]byte{"a": {1}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sound)
	f.Add([]byte("crc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		again, err := encodeManifest(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeManifest(again); err != nil {
			t.Errorf("got %v of what was read and written again", err)
		}
	})
}

func FuzzCohort(f *testing.F) {
	f.Add(encodeCohort([]uint64{1, 5, 1 << 63}))
	f.Add([]byte(cohortMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if hashes, err := decodeCohort(b); err == nil && !bytes.Equal(encodeCohort(hashes), b) {
			t.Errorf("got other bytes of %d users", len(hashes))
		}
	})
}
