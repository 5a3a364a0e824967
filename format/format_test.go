package format

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/uniflow-labs/uniflow/value"
)

// readAll returns the records of a text, one in each line, as line:offset-end value.
func readAll(t testing.TB, src io.Reader, o Options) string {
	t.Helper()
	r := NewReader(src, o, 0, 1)
	r.End()
	var out strings.Builder
	for {
		records, err := r.Read(nil, 3, 100)
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			fmt.Fprintf(&out, "error: %v\n", err)
			return out.String()
		}
		for _, rec := range records {
			fmt.Fprintf(&out, "%d:%d-%d ", rec.Line, rec.Offset, rec.End)
			v, err := value.Value{}, rec.Err
			if err == nil {
				v, err = r.Decoder().Decode(rec.Raw)
			}
			if err != nil {
				fmt.Fprintf(&out, "error: %v\n", err)
			} else {
				fmt.Fprintf(&out, "%v\n", v)
			}
		}
	}
}

func TestReader(t *testing.T) {
	f := func(o Options, text, want string) {
		t.Helper()
		for _, src := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			if got := readAll(t, src, o); got != want {
				t.Errorf("%s %q, read by a %T:\ngot\n%swant\n%s", o.Name, text, src, got, want)
			}
		}
	}
	f(Options{Name: Lines}, "", "")
	f(Options{Name: Lines}, "a\n\nb\r\nc", "1:0-2 a\n2:2-3 \n3:3-6 b\n4:6-7 c\n")
	f(Options{Name: Lines}, "\xef\xbb\xbfa\n", "1:3-5 a\n")
	f(Options{Name: Lines}, "\xef\xbb", "1:0-2 error: the text is not valid UTF-8\n")
	f(Options{Name: Lines}, "a\n\xff\nb\n", "1:0-2 a\n2:2-4 error: the text is not valid UTF-8\n3:4-6 b\n")
	f(Options{Name: Lines, MaxRecord: 4}, "abcd\nabcde\nabcdefghijk\nz", "1:0-5 abcd\n2:5-11 error: the record is longer than 4 bytes\n"+
		"3:11-23 error: the record is longer than 4 bytes\n4:23-24 z\n")
	f(Options{Name: NDJSON}, "{\"a\":1}\n \n\n[2]\r\n{\n3", "1:0-8 {\"a\":1}\n4:11-16 [2]\n5:16-18 error: JSON, line 1, column 2: unexpected end, want a name in quotes\n6:18-19 3\n")
	f(Options{Name: JSON}, "{\"a\":\n[1]}\n", "1:0-11 {\"a\":[1]}\n")
	f(Options{Name: JSON}, "", "1:0-0 error: JSON, line 1, column 1: unexpected end, want a value\n")
	f(Options{Name: JSON, MaxRecord: 3}, "[1,2,3,4,5]", "1:0-11 error: the record is longer than 3 bytes\n")
	f(Options{Name: Raw}, "", "1:0-0 \n")
	f(Options{Name: Raw}, "a\nb", "1:0-3 YQpi\n")
	f(Options{Name: CSV}, "", "")
	f(Options{Name: CSV}, "a,b\n1,2\r\n\n\"x,\"\"y\",\"2\n3\"\nlast,", "2:4-9 {\"a\":\"1\",\"b\":\"2\"}\n4:10-24 {\"a\":\"x,\\\"y\",\"b\":\"2\\n3\"}\n6:24-29 {\"a\":\"last\",\"b\":\"\"}\n")
	f(Options{Name: CSV, Columns: []string{"a", "b"}, Delimiter: ';'}, "1;2\n1,2\n1;2;3\n5;6 \"7\"\n", "1:0-4 {\"a\":\"1\",\"b\":\"2\"}\n"+
		"2:4-8 error: the row has 1 fields, and there are 2 columns\n3:8-14 error: the row has 3 fields, and there are 2 columns\n4:14-22 {\"a\":\"5\",\"b\":\"6 \\\"7\\\"\"}\n")
	f(Options{Name: CSV, Columns: []string{"a"}}, "\"x\"y\n1\n\"open\n2\n3", "1:0-5 error: text follows a closing quote; what follows is read from the next line on\n2:5-7 {\"a\":\"1\"}\n"+
		"3:7-13 error: a quote is not closed; what follows is read from the next line on\n4:13-15 {\"a\":\"2\"}\n5:15-16 {\"a\":\"3\"}\n")
	f(Options{Name: CSV, Columns: []string{"a"}, MaxRecord: 6}, "\"open\n2\n3333333333\n4\n", "1:0-6 error: a quote is not closed, or the record is longer than 6 bytes; what follows is read from the next line on\n"+
		"2:6-8 {\"a\":\"2\"}\n3:8-19 error: the record is longer than 6 bytes\n4:19-21 {\"a\":\"4\"}\n")
	f(Options{Name: CSV}, "a,a\n1,2\n", "error: line 1 must have the names of the columns: two columns have the name \"a\"\n")
	f(Options{Name: CSV}, ",b\n1,2\n", "2:3-7 {\"column1\":\"1\",\"b\":\"2\"}\n")
}

// TestReaderFollows reads a text that grows, whose end is not a record before it is
// whole.
func TestReaderFollows(t *testing.T) {
	var src bytes.Buffer
	r := NewReader(&src, Options{Name: Lines}, 100, 7)
	f := func(text, want string) {
		t.Helper()
		src.WriteString(text)
		var got []string
		for {
			records, err := r.Read(nil, 10, 100)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range records {
				got = append(got, fmt.Sprintf("%d:%d %s", rec.Line, rec.Offset, rec.Raw))
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("after %q: got %q, want %q", text, got, want)
		}
	}
	f("a", "")
	f("b\nc", "7:100 ab")
	f("", "")
	f("\n\nd", "8:103 c,9:105 ")
	r.End()
	f("e", "10:106 de")
}

// TestReaderSource returns the error of the source, after the records in front of it.
func TestReaderSource(t *testing.T) {
	broken := errors.New("the disk is broken")
	r := NewReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), Options{Name: Lines}, 0, 1)
	records, err := r.Read(nil, 10, 100)
	if len(records) != 1 || err != nil {
		t.Fatalf("got %d records and %v, want one", len(records), err)
	}
	if _, err := r.Read(nil, 10, 100); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestEncoder(t *testing.T) {
	f := func(o Options, in, want string) {
		t.Helper()
		v, err := value.ParseJSON([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		e := NewEncoder(o)
		var out []byte
		for _, v := range v.Elems() {
			if out, err = e.Append(out, v); err != nil {
				out = fmt.Appendf(out, "error: %v\n", err)
			}
		}
		if string(out) != want {
			t.Errorf("%s of %s: got %q, want %q", o.Name, in, out, want)
		}
	}
	f(Options{Name: NDJSON}, `[{"a":1}, "x", null]`, "{\"a\":1}\n\"x\"\nnull\n")
	f(Options{Name: Lines}, `["x", 1, {"a":1}]`, "x\n1\n{\"a\":1}\n")
	f(Options{Name: Raw}, `["x", "y", 1]`, "xyerror: want text or binary, got integer\n")
	f(Options{Name: CSV}, `[{"a":1,"b":"x,\"y\""}, {"b":null}, {"c":1}, ["2", ""], 3]`,
		"1,\"x,\"\"y\"\"\"\n,\nerror: the field \"c\" is not one of the columns\n2,\nerror: want a map or a list for a row of CSV, got integer\n")
	f(Options{Name: CSV, Columns: []string{"a"}, Delimiter: ';'}, `[{"a":""}, {"a":[1,2]}, {"a":"1;2"}, {"a":" x"}, [1, 2]]`,
		"\"\"\n[1,2]\n\"1;2\"\n\" x\"\nerror: the list has 2 elements, and there are 1 columns\n")
	f(Options{Name: CSV}, `[[1]]`, "error: a list does not name the columns of CSV: give columns\n")
}

func TestAll(t *testing.T) {
	f := func(o Options, text, want string) {
		t.Helper()
		v, err := All(text, o, 100)
		got := v.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s %q: got %s, want %s", o.Name, text, got, want)
		}
	}
	f(Options{Name: Lines}, "a\nb", `["a","b"]`)
	f(Options{Name: Lines}, "", `[]`)
	f(Options{Name: NDJSON}, "1\n{}", `[1,{}]`)
	f(Options{Name: NDJSON}, "1\n{", `error: line 2: JSON, line 1, column 2: unexpected end, want a name in quotes`)
	f(Options{Name: JSON}, " [1]\n", `[1]`)
	f(Options{Name: CSV}, "a\n1\n", `[{"a":"1"}]`)
	f(Options{Name: Lines}, strings.Repeat("x", 101), `error: the text has 101 bytes, and at most 100 are allowed`)
}

func TestOptions(t *testing.T) {
	f := func(o Options, want string) {
		t.Helper()
		if got := fmt.Sprint(o.Check()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(Options{Name: Lines}, "<nil>")
	f(Options{Name: "xml"}, `"xml" is not a format`)
	f(Options{Name: CSV, Delimiter: '"'}, "a delimiter must be one ASCII character other than a quote and a line end")
	f(Options{Name: CSV, Columns: []string{"a", ""}}, "a column has an empty name")
}

// checkFields reads the fields of a record one by one, and together.
func checkFields(t *testing.T, d *Decoder, raw []byte) {
	t.Helper()
	alone, err := d.Decode(raw)
	together, again := d.Decode(raw)
	if (err == nil) != (again == nil) {
		t.Fatalf("%q: got the errors %v and %v", raw, err, again)
	}
	if !d.CSV() {
		return
	}
	for name, want := range together.Fields() {
		if got, ok := alone.Get(name); !ok || !got.Equal(want) {
			t.Fatalf("%q: %s is %v alone, and %v together with the others", raw, name, got, want)
		}
	}
}

func TestManyColumns(t *testing.T) {
	var names, fields []string
	for i := range 40 {
		names, fields = append(names, fmt.Sprint("c", i)), append(fields, fmt.Sprintf(`"%d ""x"""`, i))
	}
	d, row := NewDecoder(Options{Name: CSV, Columns: names}), strings.Join(fields, ",")
	checkFields(t, d, []byte(row))
	v, err := d.Decode([]byte(row))
	if got, _ := v.Get("c39"); err != nil || got.String() != `39 "x"` {
		t.Errorf("got %v, %v", got, err)
	}
	if _, ok := v.Get("c40"); ok {
		t.Error("there is a column more")
	}
}

// TestReturn copies the records of each call, and lets the next one use their memory.
func TestReturn(t *testing.T) {
	text := strings.Repeat("some text in a line\n", 100_000)
	r := NewReader(strings.NewReader(text), Options{Name: Lines}, 0, 1)
	r.End()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var records []Record
	n := 0
	for {
		var err error
		if records, err = r.Read(records[:0], 100, 1<<20); err == io.EOF {
			break
		}
		for _, rec := range records {
			if string(rec.Raw) != "some text in a line" {
				t.Fatalf("record %d is %q", n, rec.Raw)
			}
			n++
		}
		r.Return()
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; n != 100_000 || got > 1<<20 {
		t.Errorf("got %d records, and %d bytes were allocated, more than four buffers", n, got)
	}
}

// FuzzEncoder writes fields as CSV, and reads them back, here and with encoding/csv.
func FuzzEncoder(f *testing.F) {
	f.Add("a", "b,\"", "\n", "\r\n x")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		fields := []string{a, b, c, d}
		for i := range fields {
			fields[i] = strings.ToValidUTF8(fields[i], "")
		}
		e := NewEncoder(Options{Name: CSV, Columns: []string{"a", "b"}})
		var out []byte
		for _, row := range [][]string{fields[:2], fields[2:]} {
			var err error
			if out, err = e.Append(out, value.List(value.String(row[0]), value.String(row[1]))); err != nil {
				t.Fatal(err)
			}
		}
		got, err := All("a,b\n"+string(out), Options{Name: CSV}, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"a", "b", "a", "b"} {
			field, _ := got.At(i / 2).Get(name)
			if text, _ := field.AsString(); text != fields[i] {
				t.Errorf("field %d of %q: got %q, want %q", i, out, text, fields[i])
			}
		}
		rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		for i, row := range rows {
			for j, text := range row {
				if want := strings.ReplaceAll(fields[2*i+j], "\r\n", "\n"); text != want {
					t.Errorf("encoding/csv reads %q, want %q", text, want)
				}
			}
		}
	})
}

func benchText(row string, n int) []byte { return bytes.Repeat([]byte(row), n) }

func benchReader(b *testing.B, o Options, text []byte, decode bool) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	records := make([]Record, 0, 256)
	for b.Loop() {
		r := NewReader(bytes.NewReader(text), o, 0, 1)
		for {
			var err error
			if records, err = r.Read(records[:0], 256, 1<<20); err == io.EOF {
				break
			}
			for _, rec := range records {
				if !decode {
					continue
				}
				if _, err := r.Decoder().Decode(rec.Raw); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

const benchLine = `{"id":4711,"time":"2026-01-05T10:00:00.123Z","user":"u0000042","event":"purchase","country":"KR","item":{"sku":"A-1000","price":9.99,"n":3},"tags":["new","gift"],"note":"the quick brown fox jumps over the lazy dog and goes on to the next one, where it rests for a while"}` + "\n"

const benchRow = "100001,2026-01-05T10:00:00.123Z,u0000042,purchase,KR,A-1000,9.99,3,\"a note, quoted\"\n"

var benchColumns = []string{"id", "time", "user", "event", "country", "sku", "price", "n", "note"}

func BenchmarkLines(b *testing.B) {
	benchReader(b, Options{Name: Lines}, benchText(benchLine, 10_000), false)
}
func BenchmarkNDJSON(b *testing.B) {
	benchReader(b, Options{Name: NDJSON}, benchText(benchLine, 10_000), true)
}
func BenchmarkSplitCSV(b *testing.B) {
	benchReader(b, Options{Name: CSV, Columns: benchColumns}, benchText(benchRow, 10_000), false)
}
func BenchmarkCSV(b *testing.B) {
	benchReader(b, Options{Name: CSV, Columns: benchColumns}, benchText(benchRow, 10_000), true)
}

// BenchmarkBaselineCSV is encoding/csv alone: fields, not maps.
func BenchmarkBaselineCSV(b *testing.B) {
	text := benchText(benchRow, 10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r := csv.NewReader(bytes.NewReader(text))
		for {
			if _, err := r.Read(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
