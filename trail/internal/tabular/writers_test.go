package tabular

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestWriters reads what pyarrow wrote in the ways that programs write Parquet:
// testdata/make.py has the events.
func TestWriters(t *testing.T) {
	files, err := filepath.Glob("testdata/parquet/*.parquet")
	if err != nil || len(files) < 20 {
		t.Fatalf("got %d files, want 20: %v", len(files), err)
	}
	text, num := event.StringOf, event.FloatOf
	none := event.Value{}
	want := []Row{
		{User: "ada", Time: 1767225600123, Name: "view", Values: []event.Value{text("KR"), event.IntOf(1), num(0.5), event.BoolOf(true)}},
		{User: "bob", Time: 1767225601000, Name: "view", Values: []event.Value{none, event.IntOf(2), none, event.BoolOf(false)}},
		{User: "ada", Time: 1767225602999, Name: "cart", Values: []event.Value{text("KR"), none, num(2.25)}},
		{User: "cleo", Time: -1, Name: "view", Values: []event.Value{text("FR"), event.IntOf(-4), none, event.BoolOf(true)}},
		{User: "bob", Time: 1767225604000, Name: "purchase", Values: []event.Value{none, event.IntOf(5), num(-1e9), event.BoolOf(false)}},
		{User: "dan", Time: 1767225605000, Name: "view", Values: []event.Value{text("ü本"), event.IntOf(6), num(3), event.BoolOf(true)}},
	}
	schema := event.Schema{{Name: "country", Type: event.String}, {Name: "qty", Type: event.Int}, {Name: "price", Type: event.Float}, {Name: "gift", Type: event.Bool}}
	for _, path := range files {
		if strings.HasSuffix(path, "others.parquet") {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			for _, batch := range []int{1, 4, 100} {
				opt := Options{}
				if strings.HasSuffix(path, "time-int-us.parquet") {
					opt.TimeUnit = "us" // by size, the one before 1970 would be seconds
				}
				r, err := Open(path, nil, opt)
				if err != nil {
					t.Fatal(err)
				}
				rows, bad, err := all(t, r, batch)
				if err != nil || len(bad) > 0 {
					t.Fatal(err, bad)
				}
				if !reflect.DeepEqual(r.Schema(), schema) {
					t.Errorf("got schema %v, want %v", r.Schema(), schema)
				}
				if !reflect.DeepEqual(rows, want) {
					t.Errorf("batches of %d: got\n%v\nwant\n%v", batch, rows, want)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestOtherTypes reads the logical types that events have none of.
func TestOtherTypes(t *testing.T) {
	const path = "testdata/parquet/others.parquet"
	_, err := Open(path, nil, Options{})
	if got, want := errText(err), `testdata/parquet/others.parquet: the column "tags" is a list`; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	r, err := Open(path, nil, Options{Types: map[string]event.Type{"tags": event.Unknown}})
	if err != nil {
		t.Fatal(err)
	}
	rows, bad, err := all(t, r, 10)
	if err != nil {
		t.Fatal(err)
	}
	if want := []BadRow{{1, "huge: \"18446744073709551615\" is an integer of more than 64 bits; as a string it can be kept"}}; !reflect.DeepEqual(bad, want) {
		t.Errorf("got bad rows %v, want %v", bad, want)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 5 || rows[0].User != "2" {
		t.Fatalf("got %v, want 5 rows, the first of user 2", rows)
	}

	types := map[string]event.Type{"tags": event.Unknown, "huge": event.String, "raw": event.Unknown, "at": event.Int}
	if r, err = Open(path, nil, Options{Types: types}); err != nil {
		t.Fatal(err)
	}
	rows, bad, err = all(t, r, 10)
	if err != nil || len(bad) > 0 || len(rows) != 6 {
		t.Fatal(err, bad, len(rows))
	}
	want := map[string][2]string{ // of the first and the third row
		"day": {"2026-01-05", "1969-12-31"}, "at": {"1767225600123", "-1"}, "clock": {"01:02:03.000004", ""},
		"cents": {"12.34", "-0.05"}, "small": {"255", "0"}, "huge": {"18446744073709551615", "0"},
		"uuid": {"00112233-4455-6677-8899-aabbccddeeff", ""}, "half": {"1.5", "-2"},
		"who.name": {"x", ""}, "who.age": {"3", "4"},
		"country": {"KR", "KR"}, "qty": {"1", ""}, "price": {"0.5", "2.25"}, "gift": {"true", ""},
	}
	for i, f := range r.Schema() {
		for k, row := range []int{0, 2} {
			got := ""
			if i < len(rows[row].Values) {
				got = rows[row].Values[i].String()
			}
			if w, ok := want[f.Name]; !ok || got != w[k] {
				t.Errorf("row %d, %s: got %q, want %q", row, f.Name, got, w[k])
			}
		}
	}
	if len(r.Schema()) != len(want) {
		t.Errorf("got %d properties, want %d", len(r.Schema()), len(want))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestParquetTypes(t *testing.T) {
	const path = "testdata/parquet/snappy.parquet"
	for _, tt := range []struct {
		name string
		opt  Options
		err  string // "" for none
	}{
		{"known wider", Options{Known: event.Schema{{Name: "qty", Type: event.Float}}}, ""},
		{"known narrower", Options{Known: event.Schema{{Name: "price", Type: event.Int}}}, ""},
		{"known text", Options{Known: event.Schema{{Name: "qty", Type: event.String}}}, `property "qty" is a string, and comes as an integer`},
		{"forced text", Options{Known: event.Schema{{Name: "qty", Type: event.String}}, Types: map[string]event.Type{"qty": event.String}}, ""},
		{"forced wrong", Options{Known: event.Schema{{Name: "qty", Type: event.String}}, Types: map[string]event.Type{"qty": event.Bool}}, `property "qty" is a string, and comes as a boolean`},
		{"no such user", Options{User: "usr_id"}, `there is no column "usr_id" among user_id, time, event, country, qty, price, gift`},
		{"no such type", Options{Types: map[string]event.Type{"cuntry": event.Int}}, `there is no column "cuntry" among user_id, time, event, country, qty, price, gift`},
		{"time of another type", Options{Time: "gift"}, `the column "gift" is a boolean, not a time`},
		{"user of another type", Options{User: "price"}, `the column "price" is a number: want a string or an integer`},
		{"twice", Options{User: "event"}, `user and event are both in the column "event"`},
		{"unit", Options{TimeUnit: "h"}, `time unit "h": want s, ms, us or ns`},
	} {
		r, err := Open(path, nil, tt.opt)
		want := tt.err
		if want != "" {
			want = path + ": " + want
		}
		if got := errText(err); got != want {
			t.Errorf("%s: got %s, want %s", tt.name, got, want)
		}
		if strings.Contains(tt.err, "property") && !errors.As(err, new(*event.TypeError)) {
			t.Errorf("%s: got %T, want an *event.TypeError in the chain", tt.name, err)
		}
		if err != nil {
			continue
		}
		rows, bad, err := all(t, r, 3)
		if err != nil || len(bad) > 0 || len(rows) != 6 {
			t.Errorf("%s: got %d rows, bad %v, %v", tt.name, len(rows), bad, err)
		}
		for _, row := range rows {
			for i, v := range row.Values {
				if f := r.Schema()[i]; v.Type() != f.Type && !v.Missing() {
					t.Errorf("%s: %s is %s, want %s", tt.name, f.Name, v.Type(), f.Type)
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedParquet turns bytes of small files around, one at a time, and cuts
// them: all that may come is an error or rows.
func TestDamagedParquet(t *testing.T) {
	for _, name := range []string{"snappy", "plain", "zstd-v2", "delta", "groups", "lz4", "checksums"} {
		data, err := os.ReadFile("testdata/parquet/" + name + ".parquet")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.parquet")
		errs := 0
		try := func(b []byte) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := readAll(path, Options{}); err != nil {
				if errs++; !strings.HasPrefix(err.Error(), path) {
					t.Fatalf("got %v, want the name of the file first", err)
				}
			}
		}
		for i := 0; i < len(data); i += 7 {
			b := slices.Clone(data)
			b[i] ^= 0xff
			try(b)
			if i%5 == 0 {
				try(data[:i])
			}
		}
		if errs < len(data)/28 {
			t.Errorf("%s: got %d errors of %d damages", name, errs, len(data))
		}
	}
}

// readAll reads a file and counts.
func readAll(path string, opt Options) (rows, bad int, err error) {
	r, err := Open(path, nil, opt)
	if err != nil {
		return 0, 0, err
	}
	buf := make([]Row, 100)
	for {
		n, b, err := r.Next(buf)
		rows += n
		bad += len(b)
		if err != nil {
			if e := r.Close(); e != nil {
				return rows, bad, e
			}
			if err.Error() == "EOF" {
				err = nil
			}
			return rows, bad, err
		}
	}
}
