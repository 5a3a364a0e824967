package loader

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func sampleRecords() []record {
	return []record{
		{header: true, span: Span{Position: Position{3, 12345}}, accepted: 17, batches: 4},
		{key: "p/1/0/7", span: Span{Position{1, 0}, 310}, accepted: 2},
		{span: Span{Position{1, 310}, 5}, accepted: 1, rejected: []byte(`{"index":1,"reason":"byte 0: want \"]\"","retry":false}`)},
		{key: "odd \" \\ \x00 \xff ]}", span: Span{}, accepted: 0},
	}
}

// TestRecord reads back what is written, and each line is JSON after its check.
func TestRecord(t *testing.T) {
	for _, want := range sampleRecords() {
		line := bytes.TrimSuffix(want.append(nil), []byte("\n"))
		if !json.Valid(line[crcSize:]) {
			t.Errorf("%s: no JSON", line)
		}
		got, ok := parseRecord(line)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, ok, want)
		}
		for i := range line {
			for bit := range 8 {
				bad := bytes.Clone(line)
				bad[i] ^= 1 << bit
				// The check may be written with either case of its letters.
				if got, ok := parseRecord(bad); ok && !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got %+v", bad, got)
				}
			}
		}
	}
}

// FuzzJournal reads any bytes, and what it reads is what would be written.
func FuzzJournal(f *testing.F) {
	var all []byte
	for _, r := range sampleRecords() {
		all = r.append(all)
	}
	f.Add(all)
	f.Add(all[:len(all)-5])
	f.Add(append([]byte("damage\n"), all...))
	f.Add([]byte("00000000 {}\n\n\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var again []byte
		n := 0
		s, err := scanRecords(bytes.NewReader(data), func(r *record) {
			again = r.append(again)
			n++
		})
		if err != nil || s.records != n || s.end > int64(len(data)) || s.torn != (s.end < int64(len(data))) {
			t.Fatalf("got %+v for %d bytes, error %v", s, len(data), err)
		}
		second := 0
		if _, err := scanRecords(bytes.NewReader(again), func(*record) { second++ }); err != nil || second != n {
			t.Fatalf("got %d records again, error %v, want %d", second, err, n)
		}
	})
}

// FuzzRecord parses whatever has a right check: past it, the text is anything.
func FuzzRecord(f *testing.F) {
	for _, r := range sampleRecords() {
		f.Add(r.append(nil)[crcSize:])
	}
	f.Add([]byte(`{"key":"`))
	f.Add([]byte(`{"file":1,"offset":9223372036854775807,"length":9223372036854775807,"accepted":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSuffix(text, []byte("\n"))
		line := checked(text)
		r, ok := parseRecord(line)
		if !ok {
			return
		}
		if got := r.append(nil); !bytes.Equal(bytes.TrimSuffix(got, []byte("\n")), line) {
			t.Fatalf("got %s, want %s", got, line)
		}
	})
}
