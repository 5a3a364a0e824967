package tabular

import (
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// all reads a file to its end, a few rows at a time, and copies them.
func all(t *testing.T, r *Reader, batch int) (rows []Row, bad []BadRow, err error) {
	t.Helper()
	buf := make([]Row, batch)
	for {
		n, b, err := r.Next(buf)
		bad = append(bad, b...)
		for _, row := range buf[:n] {
			row.User, row.Name, row.ID = strings.Clone(row.User), strings.Clone(row.Name), strings.Clone(row.ID)
			values := make([]event.Value, len(row.Values))
			for i, v := range row.Values {
				values[i] = v
				if v.Type() == event.String {
					values[i] = event.StringOf(strings.Clone(v.Text()))
				}
			}
			for len(values) > 0 && values[len(values)-1].Missing() {
				values = values[:len(values)-1]
			}
			row.Values = values
			rows = append(rows, row)
		}
		if err == io.EOF {
			return rows, bad, nil
		}
		if err != nil {
			return rows, bad, err
		}
	}
}

func seq(rows []Row) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func writeTo(t testing.TB, name string, schema event.Schema, rows []Row) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := WriteParquet(f, schema, seq(rows))
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(len(rows)) {
		t.Fatalf("got %d rows written, want %d", n, len(rows))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRoundTrip(t *testing.T) {
	schema := event.Schema{
		{Name: "z text", Type: event.String}, {Name: "int", Type: event.Int}, {Name: "a.b", Type: event.Float},
		{Name: "bool", Type: event.Bool}, {Name: "user", Type: event.String}, {Name: "日本", Type: event.String}, {Name: "1", Type: event.Int},
	}
	var rows []Row
	for i := range 5000 {
		r := Row{User: "u" + string(rune('a'+i%26)), Time: int64(i)*1000 - 2_000_000, Name: []string{"view", "buy"}[i%2]}
		if i%3 > 0 {
			r.Values = []event.Value{event.StringOf(strings.Repeat("x", i%7)), event.IntOf(int64(i) - 100), event.FloatOf(float64(i) / 8), event.BoolOf(i%5 == 0)}
		}
		if i%11 == 5 {
			r.Values = append(r.Values, event.StringOf("ü"), event.StringOf("本"), event.IntOf(1-1<<63))
			if len(r.Values) < 7 {
				r.Values = []event.Value{{}, {}, {}, {}, event.StringOf("ü"), event.StringOf("本"), event.IntOf(7)}
			}
		}
		rows = append(rows, r)
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := newParquetWriter(f, schema)
	w.group = 2000
	if n, err := w.write(seq(rows)); n != int64(len(rows)) || err != nil {
		t.Fatal(n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, bad, err := all(t, r, 77)
	if err != nil || len(bad) > 0 {
		t.Fatal(err, bad)
	}
	want := event.Schema{{Name: "1", Type: event.Int}, {Name: "a.b", Type: event.Float}, {Name: "bool", Type: event.Bool}, {Name: "int", Type: event.Int}, {Name: "user_property", Type: event.String}, {Name: "z text", Type: event.String}, {Name: "日本", Type: event.String}}
	if !reflect.DeepEqual(r.Schema(), want) {
		t.Fatalf("got schema %v, want %v", r.Schema(), want)
	}
	if len(got) != len(rows) {
		t.Fatalf("got %d rows, want %d", len(got), len(rows))
	}
	from := []int{6, 2, 3, 1, 4, 0, 5}
	for i, g := range got {
		w := rows[i]
		if g.User != w.User || g.Time != w.Time || g.Name != w.Name {
			t.Fatalf("row %d: got %v, want %v", i, g, w)
		}
		for k, f := range from {
			var gv, wv event.Value
			if k < len(g.Values) {
				gv = g.Values[k]
			}
			if f < len(w.Values) {
				wv = w.Values[f]
			}
			if gv != wv {
				t.Fatalf("row %d, %s: got %v, want %v", i, want[k].Name, gv, wv)
			}
		}
	}
	if done, total := r.Progress(); done != total {
		t.Errorf("got %d of %d bytes", done, total)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLeastInteger: what stands for the missing value in a store makes a row bad.
func TestLeastInteger(t *testing.T) {
	row := func(v int64) Row { return Row{User: "a", Time: 1, Name: "v", Values: []event.Value{event.IntOf(v)}} }
	path := writeTo(t, "least.parquet", event.Schema{{Name: "p", Type: event.Int}}, []Row{row(5), row(-1 << 63), row(1 - 1<<63)})
	want := "p:integer \na 1 v p=5\na 1 v p=-9223372036854775807\n! 2 p: integers begin at -9223372036854775807"
	if got := dump(t, path, Options{}, 10); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNoRows reads a table without rows as pyarrow writes it: a row group that says
// nothing of where its columns stand.
func TestNoRows(t *testing.T) {
	if got := dump(t, filepath.Join("testdata", "norows.parquet"), Options{}, 10); got != "" {
		t.Errorf("got %q, want neither properties nor rows nor an error", got)
	}
}

func TestWriteParquetErrors(t *testing.T) {
	broken := errors.New("the disk is full")
	schema := event.Schema{{Name: "p", Type: event.Int}}
	one := Row{User: "a", Name: "v", Values: []event.Value{event.StringOf("x")}}
	if _, err := WriteParquet(io.Discard, schema, seq([]Row{one})); !errors.As(err, new(*event.TypeError)) {
		t.Errorf("got %v, want an *event.TypeError", err)
	}
	if n, err := WriteParquet(io.Discard, schema, func(yield func(Row, error) bool) { yield(Row{}, broken) }); n != 0 || err != broken {
		t.Errorf("got %d, %v, want the error of the rows", n, err)
	}
	if _, err := WriteParquet(full{broken}, schema, seq(nil)); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the file", err)
	}
	path := writeTo(t, "none.parquet", nil, nil)
	if rows, bad, err := readAll(path, Options{}); rows != 0 || bad != 0 || err != nil {
		t.Errorf("got %d rows, %d bad, %v of an empty file", rows, bad, err)
	}
}

// A full disk takes nothing.
type full struct{ err error }

func (f full) Write([]byte) (int, error) { return 0, f.err }
