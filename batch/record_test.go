package batch

import (
	"bytes"
	"slices"
	"testing"
)

func FuzzParseData(f *testing.F) {
	e := events{buf: []byte("one\ntwo\n"), ends: []uint32{4, 8}}
	f.Add(appendData(nil, FormatLines, placement{lane: 1, lanes: 3}, e, 0, 2), 2)
	f.Add(appendData(nil, FormatRaw, placement{lanes: 1, byKey: true, keyFingerprint: 7}, e, 1, 2), 1)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, b []byte, count int) {
		d, err := parseData(b, count)
		if err != nil {
			return
		}
		var again events
		for i := range count {
			again.buf = append(again.buf, d.event(i)...)
			if d.format != FormatRaw {
				again.buf = append(again.buf, d.format.separator())
			}
			again.ends = append(again.ends, uint32(len(again.buf)))
		}
		got, err := parseData(appendData(nil, d.format, d.placement, again, 0, count), count)
		if err != nil || !bytes.Equal(got.ends, d.ends) {
			t.Errorf("%v: got %v, want %v", err, got.ends, d.ends)
		}
	})
}

func FuzzParseNote(f *testing.F) {
	f.Add(appendNote(nil, "me/1/0/7", []span{{shard: 2, epoch: 1, base: 5, events: 3}, {events: 1}}))
	f.Add([]byte{1, 200})
	f.Fuzz(func(t *testing.T, b []byte) {
		key, spans, err := parseNote(b)
		if err != nil {
			return
		}
		if got := appendNote(nil, key, spans); !bytes.Equal(got, b) {
			t.Errorf("got %x, want %x", got, b)
		}
	})
}

// TestRecord pins the format on disk. It may change only with its version.
func TestRecord(t *testing.T) {
	e := events{buf: []byte("one\ntwo\nx\n"), ends: []uint32{4, 8, 10}}
	got := appendData(nil, FormatLines, placement{lane: 2, lanes: 4}, e, 1, 3)
	want := []byte("\x01\x00\x02\x00\x04\x00\x04\x00\x00\x00\x06\x00\x00\x00two\nx\n")
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	d, err := parseData(want, 2)
	if err != nil || d.lane != 2 || d.lanes != 4 || string(d.event(0)) != "two" || string(d.event(1)) != "x" {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := parseData(want, 3); err == nil {
		t.Error("three events of two")
	}
	got = appendData(nil, FormatLines, placement{2, 4, true, 0x01020304}, e, 1, 3)
	want = []byte("\x02\x00\x02\x00\x04\x00\x04\x03\x02\x01\x04\x00\x00\x00\x06\x00\x00\x00two\nx\n")
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if d, err := parseData(want, 2); err != nil || d.placement != (placement{2, 4, true, 0x01020304}) || string(d.event(1)) != "x" {
		t.Errorf("got %+v, %v", d, err)
	}
	note := appendNote(nil, "k", []span{{shard: 1, epoch: 2, base: 3, events: 4}})
	if want := []byte("\x01\x01k\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00"); !bytes.Equal(note, want) {
		t.Errorf("got %x, want %x", note, want)
	}
	if key, spans, err := parseNote(note); err != nil || key != "k" || !slices.Equal(spans, []span{{1, 2, 3, 4}}) {
		t.Errorf("got %s, %v, %v", key, spans, err)
	}
}
