package records

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/records/hostile"
)

func TestMain(m *testing.M) { leak.Main(m) }

// read returns the records of a stream, of which n are taken before memory is given back.
func read(t testing.TB, src io.Reader, o Options, offset, line int64, n int) (all []Record) {
	t.Helper()
	r := New(src, o, offset, line)
	r.End()
	for taken := 0; ; {
		rec, ok := r.Next()
		if !ok {
			if r.Return(); r.More() == io.EOF {
				return all
			}
			continue
		}
		rec.Raw = bytes.Clone(rec.Raw)
		all = append(all, rec)
		if taken++; taken%n == 0 {
			r.Return()
		}
	}
}

func same(a, b Record) bool {
	return string(a.Raw) == string(b.Raw) && a.Offset == b.Offset && a.End == b.End && a.Line == b.Line && fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
}

// framed reads a text in pieces of other sizes, with the same result, and so does a reader
// that begins at any record.
func framed(t *testing.T, text string, o Options, piece uint8) []Record {
	t.Helper()
	want := read(t, strings.NewReader(text), o, 0, 1, 100)
	if got := read(t, &pieces{text, int(piece)%7 + 1}, o, 0, 1, 2); !slices.EqualFunc(got, want, same) {
		t.Fatalf("in pieces: got %+v, want %+v", got, want)
	}
	end := int64(0)
	for i, rec := range want {
		if rec.Offset < end || rec.End < rec.Offset || rec.End > int64(len(text)) {
			t.Fatalf("record %d is at %d to %d, behind one up to %d", i, rec.Offset, rec.End, end)
		}
		end = rec.End
		if i > 0 && rec.Offset > 0 {
			if got := read(t, strings.NewReader(text[rec.Offset:]), o, rec.Offset, rec.Line, 100); !slices.EqualFunc(got, want[i:], same) {
				t.Fatalf("from record %d on: got %+v, want %+v", i, got, want[i:])
			}
		}
	}
	return want
}

// fieldsOf returns the fields of a row.
func fieldsOf(raw []byte, delimiter byte) (fields []string) {
	row := string(raw)
	ends := make([]uint32, Cut(row, delimiter, nil))
	Cut(row, delimiter, ends)
	at := uint32(0)
	var memory []byte
	for _, end := range ends {
		var field string
		field, memory = Field(row[at:end], memory)
		fields = append(fields, field)
		at = end + 1
	}
	return fields
}

// pieces is a reader of a few bytes at a time.
type pieces struct {
	text string
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.text)
	p.text = p.text[n:]
	return n, nil
}

// FuzzCSV reads rows, and the fields of rows that encoding/csv takes too.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{
		"a,b\n1,2\n\"x\ny\",\"\"\"\"\r\n\"open\n", "user,time\nada,1,view\n", "\"a\"\"b\",2,\"x\ny\"\r\n\r\nc,2026-01-05,v", "\"a,1,v\nb,2,v", ",,\n", "a,1,v,\n", "\"\",\"1\",v\n\xff",
		"\xef\xbb\xbfuser,ts,name,p\na,1,v,1.5\na,1,v,x\n", "\"a\"b,1\n", "a,\"b\"\r", "\"a\"\"\"", "5;6 \"7\"\n", "\"\n", "a\r\r\n",
	} {
		f.Add(text, uint8(7), uint8(20))
	}
	f.Fuzz(func(t *testing.T, text string, piece, limit uint8) {
		o := Options{Framing: CSV, Delimiter: ',', MaxRecord: int(limit) + 1}
		framed(t, text, o, piece)
		o.MaxRecord = len(text) + 1
		got := read(t, strings.NewReader(text), o, 0, 1, 1)
		std := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, mark)))
		std.FieldsPerRecord = -1
		want, err := std.ReadAll()
		for i, rec := range got {
			fields := fieldsOf(rec.Raw, ',')
			switch {
			case err != nil || strings.Contains(text, "\r"): // it changes line ends within quotes
			case len(got) != len(want):
				t.Fatalf("%q: got %d rows, want %d", text, len(got), len(want))
			case rec.Err != nil || !slices.Equal(fields, want[i]):
				t.Fatalf("%q: row %d: got %q, %v, want %q", text, i, fields, rec.Err, want[i])
			}
		}
		if len(got) > 0 {
			if names, err := Header(got[0], ','); (err == nil) == (len(names) == 0) {
				t.Fatalf("got the names %q and %v", names, err)
			}
		}
	})
}

// FuzzLines reads lines, and lines as JSON has them.
func FuzzLines(f *testing.F) {
	f.Add("{\"a\":1}\n\n[\n\xff\n", uint8(1), uint8(4), true)
	f.Add("\xef\xbb\xbfa\r\n\r\nb", uint8(2), uint8(0), false)
	f.Add("a\n \t\r\nb\r", uint8(2), uint8(0), true)
	f.Fuzz(func(t *testing.T, text string, piece, limit uint8, passOver bool) {
		o := Options{MaxRecord: int(limit) + 1}
		if passOver {
			o.Framing = JSON
		}
		framed(t, text, o, piece)
		o.MaxRecord = len(text) + 1
		got := read(t, strings.NewReader(text), o, 0, 1, 1)
		for line := range strings.Lines(strings.TrimPrefix(text, mark)) {
			if end := strings.TrimSuffix(line, "\n"); end != line {
				line = strings.TrimSuffix(end, "\r")
			}
			if passOver && strings.Trim(line, " \t\r") == "" {
				continue
			}
			if len(got) == 0 || string(got[0].Raw) != line || got[0].Err != nil {
				t.Fatalf("%q: got %+v, want %q first", text, got, line)
			}
			got = got[1:]
		}
		if len(got) > 0 {
			t.Fatalf("%q: got %+v at the end", text, got)
		}
		framed(t, text, Options{Framing: Whole, MaxRecord: int(limit) + 1}, piece)
	})
}

// TestLongRecord reads a line of 64 MiB, of which the beginning is kept.
func TestLongRecord(t *testing.T) {
	r := New(strings.NewReader(strings.Repeat("x", 64<<20)+"\na\n"), Options{MaxRecord: 8 << 20}, 0, 1)
	rec, err := r.Read()
	if err != nil || len(rec.Raw) != shownSize || fmt.Sprint(rec.Err) != "the record is longer than 8 MiB" {
		t.Fatalf("got %d bytes, %v, %v", len(rec.Raw), rec.Err, err)
	}
	if cap(r.buf) > 9<<20 {
		t.Errorf("got a buffer of %d bytes", cap(r.buf))
	}
	if rec, err := r.Read(); err != nil || string(rec.Raw) != "a" || rec.Line != 2 {
		t.Errorf("got %+v, %v", rec, err)
	}
}

// TestPeek returns what comes without the mark in front of it.
func TestPeek(t *testing.T) {
	r := New(strings.NewReader(mark+"a\nb"), Options{MaxRecord: 100}, 0, 1)
	if err := r.More(); err != nil || string(r.Peek()) != "a\nb" {
		t.Fatalf("got %q, %v", r.Peek(), err)
	}
	if rec, ok := r.Next(); !ok || string(rec.Raw) != "a" || string(r.Peek()) != "b" {
		t.Errorf("got %+v and then %q", rec, r.Peek())
	}
}

// TestHostile counts the records of hostile texts whose framing is right.
func TestHostile(t *testing.T) {
	for _, file := range hostile.Texts() {
		framing := map[string]Framing{"csv": CSV, "ndjson": JSON}[file.Format]
		n := 0
		hostile.Bounded(t, file, func() {
			r := New(bytes.NewReader(file.Data), Options{Framing: framing, Delimiter: ',', MaxRecord: hostile.MaxRecord}, 0, 1)
			r.End()
			if framing == CSV {
				header, err := r.Read()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := Header(header, ','); (err != nil) != file.Fails {
					t.Errorf("%s: got %v of the header", file.Name, err)
				}
			}
			for {
				if _, err := r.Read(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				n++
			}
		})
		if want := file.Good + file.Bad; n != want && !file.Fails {
			t.Errorf("%s, %s: got %d records, want %d", file.Format, file.Name, n, want)
		}
	}
}
