package tabular

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	fastgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// dump shows rows, bad rows and the schema of a file, one a line.
func dump(t *testing.T, path string, opt Options, batch int) string {
	t.Helper()
	r, err := Open(path, nil, opt)
	if err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), path, "F")
	}
	rows, bad, err := all(t, r, batch)
	var b strings.Builder
	for _, f := range r.Schema() {
		fmt.Fprintf(&b, "%s:%s ", f.Name, f.Type)
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "\n%s %d %s", row.User, row.Time, row.Name)
		if row.ID != "" {
			fmt.Fprintf(&b, " #%s", row.ID)
		}
		for i, v := range row.Values {
			if !v.Missing() {
				fmt.Fprintf(&b, " %s=%s", r.Schema()[i].Name, v)
			}
		}
	}
	for _, x := range bad {
		fmt.Fprintf(&b, "\n! %d %s", x.Line, x.Reason)
	}
	if err != nil {
		fmt.Fprintf(&b, "\nerror: %s", strings.ReplaceAll(err.Error(), path, "F"))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func file(t testing.TB, name, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const head = "user_id,time,event"

func TestCSV(t *testing.T) {
	types := func(kv ...any) map[string]event.Type {
		m := make(map[string]event.Type)
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1].(event.Type)
		}
		return m
	}
	long := strings.Repeat("x", maxRecord)
	for _, tt := range []struct {
		name, data string
		opt        Options
		want       string
	}{
		{"plain", head + "\nada,1,view\nbob,2,buy\n", Options{}, "\nada 1000 view\nbob 2000 buy"},
		{"no newline at the end", head + "\nada,1,view", Options{}, "\nada 1000 view"},
		{"crlf", head + ",p\r\nada,1,view,x\r\nbob,2,buy,\r\n", Options{}, "p:string \nada 1000 view p=x\nbob 2000 buy"},
		{"byte order mark", "\xef\xbb\xbf" + head + "\nada,1,view\n", Options{}, "\nada 1000 view"},
		{"quotes", head + ",p\n\"ada\",\"1\",\"vi\"\"ew\",\"a,b\nc\"\n\"bob\",2,buy,x\"y\n", Options{}, "p:string \nada 1000 vi\"ew p=a,b\nc\nbob 2000 buy p=x\"y"},
		{"lines of the file", head + ",p\nada,1,view,\"1\n2\n3\"\n\nbob,never,buy,\n", Options{}, "p:string \nada 1000 view p=1\n2\n3\n! 6 time \"never\": not a time: want RFC 3339 or a number"},
		{"quoted header", "\"user_id\",\"ti\nme\",event\nada,1,view\nbob,x,view\n", Options{Time: "ti\nme"}, "\nada 1000 view\n! 4 ti\nme \"x\": not a time: want RFC 3339 or a number"},
		{"types", head + ",i,n,b,s,e\na,1,v,1,1,true,1,\na,1,v,-2,2.5,False,x,\n", Options{}, "i:integer n:number b:boolean s:string \na 1000 v i=1 n=1 b=true s=1\na 1000 v i=-2 n=2.5 b=false s=x"},
		{"zip codes are text", head + ",zip\na,1,v,01234\na,1,v,56789\n", Options{}, "zip:string \na 1000 v zip=01234\na 1000 v zip=56789"},
		{"forced", head + ",i,n\na,1,v,1,1\na,1,v,x,2\n", Options{Types: types("i", event.Int, "n", event.String)}, "i:integer n:string \na 1000 v i=1 n=1\n! 3 i: \"x\" is not an integer"},
		{"left out", head + ",i,n\na,1,v,1,1\n", Options{Types: types("i", event.Unknown)}, "n:integer \na 1000 v n=1"},
		{"too few and too many", head + "\na,1\na,1,v\na,1,v,x\n", Options{}, "\na 1000 v\n! 2 2 fields, but line 1 has 3\n! 4 4 fields, but line 1 has 3"},
		{"empty", head + "\n,1,v\na,,v\na,1,\n", Options{}, "\n! 2 user_id is empty\n! 3 time \"\": not a time: want RFC 3339 or a number\n! 4 event is empty"},
		{"not UTF-8", head + "\na\xff,1,v\n", Options{}, "\n! 2 the text is not valid UTF-8"},
		{"text behind a quote", head + "\n\"a\"b,1,v\nb,1,v\n", Options{}, "\nb 1000 v\n! 2 text follows a closing quote; what follows is read from the next line on"},
		{"quote not closed", head + "\na,1,v\n\"b,2,v\nc,3,v\n", Options{}, "\na 1000 v\nc 3000 v\n! 3 a quote is not closed; what follows is read from the next line on"},
		{"long line", head + "\na,1,v\n" + long + ",1,v\nb,2,v\n", Options{}, "\na 1000 v\nb 2000 v\n! 3 the record is longer than 1 MiB"},
		{"long last line", head + "\na,1,v\n" + long + ",1,v", Options{}, "\na 1000 v\n! 3 the record is longer than 1 MiB"},
		{"quote not closed in a long file", head + "\n\"b,2,v\n" + strings.Repeat("c,3,v\n", maxRecord/6) + "d,4,v\n\"", Options{},
			"" + strings.Repeat("\nc 3000 v", maxRecord/6) + "\nd 4000 v\n! 2 a quote is not closed, or the record is longer than 1 MiB; what follows is read from the next line on\n! 174766 a quote is not closed; what follows is read from the next line on"},
		{"names", "user,ts,name,id\na,1,v,x\n", Options{ID: "id"}, "\na 1000 v #x"},
		{"the first default counts", "user,user_id,timestamp,ts,event,name\nu,a,5,1,v,n\n", Options{}, "user:string timestamp:integer name:string \na 1000 v user=u timestamp=5 name=n"},
		{"chosen", "who,at,what,user\na,1,v,x\n", Options{User: "who", Time: "at", Event: "what", TimeUnit: "ms"}, "user:string \na 1 v user=x"},
		{"nameless", head + ",\na,1,v,7\n", Options{}, "column4:integer \na 1000 v column4=7"},
		{"header alone and a property", head + ",p\n", Options{}, ""},
		{"header alone", head + "\n", Options{}, ""},
		{"known widens", head + ",i\na,1,v,7\n", Options{Known: event.Schema{{Name: "i", Type: event.Float}}}, "i:number \na 1000 v i=7"},
		{"known is wider by the file", head + ",i\na,1,v,7.5\n", Options{Known: event.Schema{{Name: "i", Type: event.Int}}}, "i:number \na 1000 v i=7.5"},
		{"known and empty", head + ",i\na,1,v,\n", Options{Known: event.Schema{{Name: "i", Type: event.Bool}}}, "i:boolean \na 1000 v"},
		{"known differs", head + ",i\na,1,v,7\n", Options{Known: event.Schema{{Name: "i", Type: event.String}}}, `error: F: property "i" is a string, and comes as an integer`},
		{"least integer", head + ",i\na,1,v,-9223372036854775808\na,1,v,7\n", Options{}, "i:integer \na 1000 v i=7\n! 2 i: integers begin at -9223372036854775807"},
		{"known boolean, file 0 and 1", head + ",b\na,1,v,1\n", Options{Known: event.Schema{{Name: "b", Type: event.Bool}}}, `error: F: property "b" is a boolean, and comes as an integer`},
		{"0 and 1 for booleans", head + ",b\na,1,v,1\na,1,v,0\n", Options{Types: types("b", event.Bool), Known: event.Schema{{Name: "b", Type: event.Bool}}}, "b:boolean \na 1000 v b=true\na 1000 v b=false"},
		{"nothing", "", Options{}, "error: F: the file is empty: line 1 must have the names of the columns"},
		{"no user", "usr_id,time,event\n", Options{}, "error: F: there is no column user_id or user among usr_id, time, event"},
		{"no time", "user,when,event\n", Options{}, "error: F: there is no column time, ts or timestamp among user, when, event"},
		{"twice", "user,time,event,p,p\n", Options{}, `error: F: line 1 must have the names of the columns: two columns have the name "p"`},
		{"no id", head + "\n", Options{ID: "eid"}, `error: F: there is no column "eid" among user_id, time, event`},
	} {
		path := file(t, "x.csv", tt.data)
		for _, batch := range []int{1, 1000} {
			if batch == 1 && len(tt.data) > maxRecord {
				continue
			}
			if got := dump(t, path, tt.opt, batch); got != tt.want {
				t.Errorf("%s, batches of %d: got\n%.200s\nwant\n%.200s", tt.name, batch, got, tt.want)
			}
		}
	}
}

// TestCSVTypesOfTheFirstRows reads a value that does not fit the type guessed from the
// first 10,000 rows.
func TestCSVTypesOfTheFirstRows(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + ",n\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "a,1,v,%d\n", i)
	}
	b.WriteString("a,1,v,1.5\na,1,v,7\n")
	got := dump(t, file(t, "x.csv", b.String()), Options{}, 999)
	late := strings.ReplaceAll(strings.Replace(b.String(), head, head+",x,y", 1), ",v,", ",v,,,") + "b,1,v,5,6,7\nc,1,,8,9,7\nd,1,v,8,9,7\n"
	gotLate := dump(t, file(t, "x.csv", late), Options{}, 999)
	if !strings.HasPrefix(gotLate, "n:integer x:string y:string ") || !strings.Contains(gotLate, "\nb 1000 v n=7 x=5 y=6\nd 1000 v n=7 x=8 y=9\n! 10002 ") {
		t.Errorf("columns that begin late: got %.40s…%s", gotLate, gotLate[len(gotLate)-200:])
	}
	if !strings.HasPrefix(got, "n:integer ") || !strings.HasSuffix(got, "n=7\n! 10002 n: \"1.5\" is not an integer") {
		t.Errorf("got …%s", got[len(got)-100:])
	}
}

func TestPacked(t *testing.T) {
	data := []byte(head + ",n\n" + strings.Repeat("a,1,v,7\n", 100_000))
	var gz, zst bytes.Buffer
	g := fastgzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{werr(g.Write(data)), g.Close(), werr(z.Write(data)), z.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, packed := range map[string][]byte{"x.csv.gz": gz.Bytes(), "X.CSV.ZST": zst.Bytes()} {
		path := file(t, name, string(packed))
		if rows, bad, err := readAll(path, Options{}); rows != 100_000 || bad != 0 || err != nil {
			t.Errorf("%s: got %d rows, %d bad, %v", name, rows, bad, err)
		}
		r, err := Open(path, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := all(t, r, 1024); err != nil {
			t.Fatal(err)
		}
		if done, total := r.Progress(); done != int64(len(packed)) || total != done {
			t.Errorf("%s: got progress %d of %d, want %d", name, done, total, len(packed))
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readAll(file(t, name, string(packed[:len(packed)-9])), Options{}); !strings.Contains(errText(err), "ends too early") && !strings.Contains(errText(err), "zstd") {
			t.Errorf("%s cut off: got %v", name, err)
		}
		if _, err := Open(file(t, name, string(data)), nil, Options{}); !strings.Contains(errText(err), "is not packed with") {
			t.Errorf("%s not packed: got %v", name, err)
		}
	}
}

func werr(_ int, err error) error { return err }

func TestOpen(t *testing.T) {
	for name, want := range map[string]string{
		"x.txt":         "x.txt: unknown format: the extension must be .csv, .ndjson or .jsonl, also with .gz or .zst after it, or .parquet",
		"x.parquet.gz":  "x.parquet.gz: unknown format: the extension must be .csv, .ndjson or .jsonl, also with .gz or .zst after it, or .parquet",
		"/nowhere.csv":  "open /nowhere.csv: no such file or directory",
		"-":             "standard input: there is no standard input",
		"testdata/.csv": "open testdata/.csv: no such file or directory",
	} {
		if _, err := Open(name, nil, Options{}); errText(err) != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	dir := filepath.Join(t.TempDir(), "a.csv")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil, Options{}); !strings.Contains(errText(err), "is a folder") {
		t.Errorf("got %v, want that it is a folder", err)
	}
}

// TestAllocs keeps the readers from taking memory for each row.
func TestAllocs(t *testing.T) {
	if invariant.Race {
		return // budgets mean nothing then
	}
	schema, rows := benchRows2()
	for _, tt := range []struct {
		path   string
		budget float64 // for each 1,000 rows
	}{
		{file(t, "a.csv", string(benchCSV())), 0.5},
		{file(t, "a.ndjson", string(benchNDJSON())), 0.5},
		{writeTo(t, "a.parquet", schema, rows), 5},
	} {
		got := testing.AllocsPerRun(3, func() {
			if n, _, err := readAll(tt.path, Options{}); n != benchRows || err != nil {
				t.Fatal(n, err)
			}
		})
		if got > 150+tt.budget*benchRows/1000 {
			t.Errorf("%s: got %.0f allocations for %d rows", filepath.Ext(tt.path), got, benchRows)
		}
	}
}

func TestSchemaIsKept(t *testing.T) {
	path := file(t, "x.ndjson", `{"user":"a","ts":1,"event":"v","p":1}`+"\n"+`{"user":"a","ts":1,"event":"v","p":2}`+"\n"+`{"user":"a","ts":1,"event":"v","p":2.5,"q":"x"}`+"\n")
	r, err := Open(path, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]Row, 1)
	if _, _, err := r.Next(rows); err != nil {
		t.Fatal(err)
	}
	before := r.Schema()
	rows = make([]Row, 2)
	if n, _, err := r.Next(rows); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if want := (event.Schema{{Name: "p", Type: event.Int}}); !reflect.DeepEqual(before, want) {
		t.Errorf("got %v, want %v: the schema of before must stay", before, want)
	}
	if want := (event.Schema{{Name: "p", Type: event.Float}, {Name: "q", Type: event.String}}); !reflect.DeepEqual(r.Schema(), want) {
		t.Errorf("got %v, want %v", r.Schema(), want)
	}
	if got := rows[0].Values[0]; got != event.FloatOf(2) {
		t.Errorf("got %v (%s), want it widened with the batch", got, got.Type())
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
