package format_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/value"
)

func TestParquetWriter(t *testing.T) {
	columns := []format.ParquetColumn{
		{"text", "string"}, {"n", "int"}, {"x", "float"}, {"ok", "bool"}, {"at", "time"}, {"day", "date"}, {"raw", "binary"}, {"all", "json"},
	}
	if err := format.CheckParquetColumns(columns); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 31, 12, 0, 0, 123456000, time.UTC)
	row := value.Map(
		value.Field{Name: "n", Value: value.Int(7)}, value.Field{Name: "text", Value: value.String("é")}, value.Field{Name: "x", Value: value.Int(2)},
		value.Field{Name: "ok", Value: value.Bool(true)}, value.Field{Name: "at", Value: value.Time(at)}, value.Field{Name: "day", Value: value.String("1969-12-31")},
		value.Field{Name: "raw", Value: value.Binary([]byte{0, 255})}, value.Field{Name: "all", Value: value.List(value.Int(1))}, value.Field{Name: "more", Value: value.Int(1)},
	)
	for _, gzip := range []bool{false, true} {
		var file bytes.Buffer
		w := format.NewParquetWriter(&file, columns, gzip)
		const rows = 3000
		for i := range rows {
			v := row
			if i%2 == 1 {
				v = value.Map()
			}
			if err := w.Add(v); err != nil {
				t.Fatal(err)
			}
		}
		for _, bad := range []value.Value{value.Int(1), value.Map(value.Field{Name: "n", Value: value.String("7")}), value.Map(value.Field{Name: "at", Value: value.String("soon")})} {
			if err := w.Add(bad); !errors.As(err, new(*format.RowError)) {
				t.Errorf("%v: got %v, want an error of the row", bad, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := format.NewParquetReader(bytes.NewReader(file.Bytes()), int64(file.Len()), 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []value.Value
		for {
			more, err := r.Read(1000)
			if got = append(got, more...); err != nil {
				break
			}
		}
		if len(got) != rows {
			t.Fatalf("got %d rows, want %d", len(got), rows)
		}
		const want = `{"text":"é","n":7,"x":2,"ok":true,"at":"2026-01-31T12:00:00.123456Z","day":"1969-12-31","raw":"AP8=","all":"[1]"}`
		const none = `{"text":null,"n":null,"x":null,"ok":null,"at":null,"day":null,"raw":null,"all":null}`
		for i, want := range []string{want, none} {
			if text, err := got[i].AppendJSON(nil); err != nil || string(text) != want {
				t.Errorf("row %d: got %s, %v, want %s", i, text, err, want)
			}
		}
		r.Close()
	}
}

func TestCheckParquetColumns(t *testing.T) {
	for _, bad := range [][]format.ParquetColumn{nil, {{"a", "text"}}, {{"a", "int"}, {"a", "int"}}, {{"", "int"}}} {
		if format.CheckParquetColumns(bad) == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
}
