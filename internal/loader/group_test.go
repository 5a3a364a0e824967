package loader

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func sampleGroups() []group {
	return []group{
		{},
		{events: 17, batches: 4, end: position{3, 12345}},
		{events: 1 << 40, batches: 300, end: position{1, 310}, records: []record{
			{key: "p/1/0/7", accepted: 2},
			{accepted: 1, rejected: []byte(`{"index":1,"reason":"byte 0: want \"]\"","retry":false}`)},
			{key: "odd \" \\ \x00 \xff ]}"},
		}},
	}
}

// TestGroup reads back what is written, and refuses a part of it.
func TestGroup(t *testing.T) {
	for _, want := range sampleGroups() {
		text := want.append(nil)
		var got group
		if err := got.decode(text); err != nil || !bytes.Equal(got.append(nil), text) || got.after() != want.after() || len(got.records) != len(want.records) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		for i := range got.records {
			if g, w := got.records[i], want.records[i]; g.key != w.key || g.accepted != w.accepted || !bytes.Equal(g.rejected, w.rejected) {
				t.Errorf("got %+v, want %+v", g, w)
			}
		}
		for i := range text {
			if err := got.decode(text[:i]); !errors.Is(err, errGroup) {
				t.Errorf("cut to %d bytes: got %v", i, err)
			}
		}
		if err := got.decode(append(text, 0)); !errors.Is(err, errGroup) {
			t.Errorf("with a byte more: got %v", err)
		}
	}
	var g group
	if err := g.decode([]byte(`10168ec0 {"journal":1,"file":0,"offset":0,"events":0,"batches":0}` + "\n")); !errors.Is(err, errOldGroup) {
		t.Errorf("got %v, want %v", err, errOldGroup)
	}
}

// FuzzGroup decodes any bytes without a panic, and what it decodes survives being
// written again.
func FuzzGroup(f *testing.F) {
	for _, g := range sampleGroups() {
		f.Add(g.append(nil))
	}
	f.Add([]byte("\x02\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var g, again group
		if g.decode(data) != nil {
			return
		}
		if err := again.decode(g.append(nil)); err != nil || !reflect.DeepEqual(again, g) {
			t.Fatalf("got %+v, %v, want %+v", again, err, g)
		}
	})
}
