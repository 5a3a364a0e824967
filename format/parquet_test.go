package format

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

type parquetRow struct {
	ID    int64                `parquet:"id"`
	Name  string               `parquet:"name"`
	Price *float64             `parquet:"price,optional"`
	At    time.Time            `parquet:"at,timestamp(microsecond)"`
	Day   int32                `parquet:"day,date"`
	Cents int64                `parquet:"cents,decimal(2:10)"`
	Raw   []byte               `parquet:"raw"`
	Tags  []string             `parquet:"tags,list"`
	Plain []int32              `parquet:"plain"`
	Item  struct{ Sku string } `parquet:"item"`
	Lines []parquetLine        `parquet:"lines,list"`
	Attr  map[string]string    `parquet:"attr"`
	Big   uint64               `parquet:"big"`
	OK    bool                 `parquet:"ok"`
}

type parquetLine struct {
	N    int      `parquet:"n"`
	Tags []string `parquet:"tags,list"`
}

func parquetFile(t testing.TB, rows ...parquetRow) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[parquetRow](&b)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readParquet(file []byte, row int64) string {
	r, err := NewParquetReader(bytes.NewReader(file), int64(len(file)), row)
	if err != nil {
		return "error: " + err.Error()
	}
	var out []string
	for {
		rows, err := r.Read(2)
		for _, v := range rows {
			out = append(out, v.String())
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			out = append(out, "error: "+err.Error())
			break
		}
	}
	if err := r.Close(); err != nil {
		out = append(out, "close: "+err.Error())
	}
	return strings.Join(out, "\n")
}

func TestParquet(t *testing.T) {
	price := 2.5
	at := time.Date(2026, 1, 5, 10, 0, 0, 123456000, time.UTC)
	full := parquetRow{ID: 1, Name: "x", Price: &price, At: at, Day: 20458, Cents: -1234, Raw: []byte{1, 2}, Tags: []string{"a", "b"}, Plain: []int32{7, 8},
		Lines: []parquetLine{{1, []string{"p", "q"}}, {2, nil}, {3, []string{"r"}}}, Attr: map[string]string{"k": "v"}, Big: 1 << 63, OK: true}
	full.Item.Sku = "s"
	file := parquetFile(t, full, parquetRow{ID: 2, At: at}, parquetRow{ID: 3, At: at, Tags: []string{"c"}})
	want := []string{
		`{"id":1,"name":"x","price":2.5,"at":"2026-01-05T10:00:00.123456Z","day":"2026-01-05","cents":-12.34,"raw":"AQI=","tags":["a","b"],"plain":[7,8],"item":{"Sku":"s"},` +
			`"lines":[{"n":1,"tags":["p","q"]},{"n":2,"tags":[]},{"n":3,"tags":["r"]}],"attr":{"k":"v"},"big":9223372036854775808,"ok":true}`,
		`{"id":2,"name":"","price":null,"at":"2026-01-05T10:00:00.123456Z","day":"1970-01-01","cents":0,"raw":"","tags":[],"plain":[],"item":{"Sku":""},"lines":[],"attr":{},"big":0,"ok":false}`,
		`{"id":3,"name":"","price":null,"at":"2026-01-05T10:00:00.123456Z","day":"1970-01-01","cents":0,"raw":"","tags":["c"],"plain":[],"item":{"Sku":""},"lines":[],"attr":{},"big":0,"ok":false}`,
	}
	for row := range 4 {
		if got := readParquet(file, int64(row)); got != strings.Join(want[row:], "\n") {
			t.Errorf("from row %d on: got\n%s\nwant\n%s", row, got, strings.Join(want[row:], "\n"))
		}
	}
	for want, damaged := range map[string][]byte{
		"error: not a Parquet file: it is too short":             []byte("PAR1"),
		"error: the file is cut off: it does not end with PAR1":  file[:len(file)/2],
		"error: not a Parquet file: it does not begin with PAR1": append([]byte("xxxx"), file[4:]...),
		"error: the footer is damaged: it is longer than can be": append(file[:len(file)-8:len(file)-8], "\xff\xff\xff\x7fPAR1"...),
	} {
		if got := readParquet(damaged, 0); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestParquetDamaged changes single bytes: there are rows or an error, and never a panic.
func TestParquetDamaged(t *testing.T) {
	file := parquetFile(t, parquetRow{ID: 1, Name: "x", Tags: []string{"a"}})
	for at := 0; at < len(file); at += 11 {
		for _, b := range []byte{1, 0xff} {
			damaged := bytes.Clone(file)
			damaged[at] ^= b
			if got := readParquet(damaged, 0); got == "" {
				t.Errorf("byte %d: got neither rows nor an error", at)
			}
		}
	}
}

func benchParquet(b *testing.B, file []byte, want int) {
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		r, err := NewParquetReader(bytes.NewReader(file), int64(len(file)), 0)
		if err != nil {
			b.Fatal(err)
		}
		for n = 0; ; {
			rows, err := r.Read(256)
			n += len(rows)
			if err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if n != want {
		b.Fatalf("got %d rows, want %d", n, want)
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkParquet(b *testing.B) {
	type row struct {
		ID    int64     `parquet:"id"`
		At    time.Time `parquet:"at,timestamp(millisecond)"`
		User  string    `parquet:"user"`
		Event string    `parquet:"event,dict"`
		Price *float64  `parquet:"price,optional"`
		N     int32     `parquet:"n"`
	}
	price := 9.75
	rows := make([]row, 20_000)
	for i := range rows {
		rows[i] = row{ID: int64(i), At: time.UnixMilli(int64(i) * 731), User: fmt.Sprintf("u%07d", i*7919%40_000), Event: []string{"view", "cart", "purchase"}[i%3], N: int32(i % 10)}
		if i%3 > 0 {
			rows[i].Price = &price
		}
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file)
	if _, err := w.Write(rows); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	benchParquet(b, file.Bytes(), len(rows))
}

func BenchmarkParquetNested(b *testing.B) {
	price := 2.5
	rows := make([]parquetRow, 5_000)
	for i := range rows {
		rows[i] = parquetRow{ID: int64(i), Name: "a name", Price: &price, At: time.UnixMilli(int64(i)), Day: 20458, Cents: -1234, Tags: []string{"a", "b"}, Plain: []int32{7, 8, int32(i)},
			Lines: []parquetLine{{1, []string{"p", "q"}}, {2, nil}, {i, []string{"r"}}}, Attr: map[string]string{"k": "v"}, OK: true}
	}
	benchParquet(b, parquetFile(b, rows...), len(rows))
}
