package tabular

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// benchRows is the number of rows in a file. They are the events of a shop: a user, a time,
// an event and four properties, one of them missing in 40 % of the rows.
const benchRows = 100_000

func benchRow(i int) (user, at, name, country, item, price, campaign string) {
	h := uint64(i) * 0x9E3779B97F4A7C15
	h ^= h >> 29
	user = fmt.Sprintf("u%07d", h%40_000)
	at = time.UnixMilli(1_767_225_600_000 + int64(i)*731).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	name = []string{"view", "view", "view", "cart", "purchase"}[h>>8%5]
	country = []string{"KR", "US", "FR", "DE", "JP", "BR"}[h>>16%6]
	item = fmt.Sprint(h >> 24 % 100_000)
	price = fmt.Sprintf("%d.%02d", h>>32%500, h>>40%100)
	if h>>48%10 >= 4 {
		campaign = []string{"spring", "autumn", "newsletter"}[h>>52%3]
	}
	return
}

func benchCSV() []byte {
	var b bytes.Buffer
	b.WriteString("user_id,time,event,country,item,price,campaign\n")
	for i := range benchRows {
		user, at, name, country, item, price, campaign := benchRow(i)
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s,%s,%s\n", user, at, name, country, item, price, campaign)
	}
	return b.Bytes()
}

func benchNDJSON() []byte {
	var b bytes.Buffer
	for i := range benchRows {
		user, at, name, country, item, price, campaign := benchRow(i)
		fmt.Fprintf(&b, `{"user_id":%q,"time":%q,"event":%q,"country":%q,"item":%s,"price":%s`, user, at, name, country, item, price)
		if campaign != "" {
			fmt.Fprintf(&b, `,"campaign":%q`, campaign)
		}
		b.WriteString("}\n")
	}
	return b.Bytes()
}

func benchFile(b *testing.B, name string, data []byte) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

func benchRead(b *testing.B, path string) {
	b.Helper()
	rows := make([]Row, 1024)
	stat, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(stat.Size())
	b.ReportAllocs()
	total := 0
	for b.Loop() {
		r, err := Open(path, nil, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for {
			n, bad, err := r.Next(rows)
			total += n
			if err == io.EOF {
				break
			}
			if err != nil || len(bad) > 0 {
				b.Fatal(err, bad)
			}
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if total != benchRows*b.N {
		b.Fatalf("got %d rows, want %d", total, benchRows*b.N)
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkCSV(b *testing.B)    { benchRead(b, benchFile(b, "a.csv", benchCSV())) }
func BenchmarkNDJSON(b *testing.B) { benchRead(b, benchFile(b, "a.ndjson", benchNDJSON())) }

// BenchmarkBaselineCSV is encoding/csv alone: fields, not types.
func BenchmarkBaselineCSV(b *testing.B) {
	data := benchCSV()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		r := csv.NewReader(bytes.NewReader(data))
		r.ReuseRecord = true
		for {
			if _, err := r.Read(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkBaselineNDJSON is encoding/json alone, into a struct that knows the
// names beforehand.
func BenchmarkBaselineNDJSON(b *testing.B) {
	data := benchNDJSON()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		for line := range bytes.Lines(data) {
			var row struct {
				User     string  `json:"user_id"`
				Time     string  `json:"time"`
				Event    string  `json:"event"`
				Country  string  `json:"country"`
				Item     int64   `json:"item"`
				Price    float64 `json:"price"`
				Campaign string  `json:"campaign"`
			}
			if err := json.Unmarshal(line, &row); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkParseEvent is one line at a time into an event that can be kept.
func BenchmarkParseEvent(b *testing.B) {
	line := []byte(`{"user_id":"u0000042","time":"2026-01-05T10:00:00.123Z","event":"purchase","country":"KR","item":4711,"price":9.99}`)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	p, err := NewParser(Options{})
	if err != nil {
		b.Fatal(err)
	}
	var e event.Event
	for b.Loop() {
		if e, err = p.Parse(line); err != nil {
			b.Fatal(err)
		}
	}
	if e.User != "u0000042" {
		b.Fatal(e)
	}
}

func benchRows2() (event.Schema, []Row) {
	schema := event.Schema{{Name: "country", Type: event.String}, {Name: "item", Type: event.Int}, {Name: "price", Type: event.Float}, {Name: "campaign", Type: event.String}}
	rows := make([]Row, benchRows)
	for i := range rows {
		user, _, name, country, item, price, campaign := benchRow(i)
		n, _ := parseInt(item)
		p, err := parseFloat(price)
		if err != nil {
			panic(err)
		}
		rows[i] = Row{User: user, Time: 1_767_225_600_000 + int64(i)*731, Name: name,
			Values: []event.Value{event.StringOf(country), event.IntOf(n), event.FloatOf(p), event.StringOf(campaign)}}
	}
	return schema, rows
}

func BenchmarkParquet(b *testing.B) {
	schema, rows := benchRows2()
	benchRead(b, writeTo(b, "a.parquet", schema, rows))
}

func BenchmarkWriteParquet(b *testing.B) {
	schema, rows := benchRows2()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := WriteParquet(io.Discard, schema, seq(rows)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
}
