package tabular

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// line makes a line of an event with more members.
func line(more string) string { return `{"user_id":"a","time":1,"event":"v"` + more + "}\n" }

func TestNDJSON(t *testing.T) {
	str, skip := event.String, event.Unknown
	for _, tt := range []struct {
		name, data string
		opt        Options
		want       string
	}{
		{"plain", line("") + line(`,"p":"x"`), Options{}, "p:string \na 1000 v\na 1000 v p=x"},
		{"white space", " { \"user_id\" : \"a\" ,\t\"time\":1,\"event\":\"v\" } \r\n\r\n  \n" + line(`,"p":[`), Options{}, "\na 1000 v\n! 4 JSON: byte 41: want a value, got \"}\""},
		{"byte order mark", "\xef\xbb\xbf" + line(""), Options{}, "\na 1000 v"},
		{"no newline at the end", strings.TrimSpace(line("")), Options{}, "\na 1000 v"},
		{"types", line(`,"s":"1","i":1,"n":1.0,"b":true,"z":null,"e":""`), Options{}, "s:string i:integer n:number b:boolean \na 1000 v s=1 i=1 n=1 b=true"},
		{"integers widen", line(`,"p":1`) + line(`,"p":1.5`) + line(`,"p":2`), Options{}, "p:number \na 1000 v p=1\na 1000 v p=1.5\na 1000 v p=2"},
		{"beyond integers", line(`,"p":1`) + line(`,"p":9223372036854775808`), Options{}, "p:number \na 1000 v p=1\na 1000 v p=9.223372036854776e+18"},
		{"beyond numbers", line(`,"p":1e999`), Options{}, "\n! 1 p: \"1e999\" is too large a number"},
		{"other type", line(`,"p":1`) + line(`,"p":"x"`) + line(`,"p":true`), Options{}, "p:integer \na 1000 v p=1\n! 2 property \"p\" is an integer, and comes as a string\n! 3 property \"p\" is an integer, and comes as a boolean"},
		{"a bad row teaches nothing", `{"user_id":"","time":1,"event":"v","p":1}` + "\n" + line(`,"p":"x"`), Options{}, "p:string \na 1000 v p=x\n! 1 user_id is empty or missing"},
		{"nested", line(`,"a":{"b":{"c":{"d":1}},"e":{}}`) + line(`,"a":{"b":{"c":{"d":{"e":1}}}}`), Options{}, "a.b.c.d:integer \na 1000 v a.b.c.d=1\n! 2 property \"a.b.c.d\" is an object nested more than 4 deep: want a string, a number or a boolean"},
		{"nested user", `{"u":{"id":7,"x":"y"},"time":1,"event":"v"}` + "\n", Options{User: "u.id"}, "u.x:string \n7 1000 v u.x=y"},
		{"array", line(`,"a":[1,{"x":"]"},[]]`) + line(`,"b":1`), Options{}, "b:integer \na 1000 v b=1\n! 1 property \"a\" is an array: want a string, a number or a boolean"},
		{"left out", line(`,"a":[1,{"x":"]"},[]],"b":2`), Options{Types: map[string]event.Type{"a": skip}}, "b:integer \na 1000 v b=2"},
		{"forced", line(`,"a":1.50,"b":"7"`) + line(`,"a":true,"b":"x"`), Options{Types: map[string]event.Type{"a": str, "b": event.Int}}, "a:string b:integer \na 1000 v a=1.50 b=7\n! 2 b: \"x\" is not an integer"},
		{"forced integer", line(`,"b":1`) + line(`,"b":1.5`), Options{Types: map[string]event.Type{"b": event.Int}}, "b:integer \na 1000 v b=1\n! 2 b: \"1.5\" is not an integer"},
		{"known", line(`,"i":1,"n":2`) + line(`,"i":1.5`) + line(`,"s":1`), Options{Known: event.Schema{{Name: "i", Type: event.Int}, {Name: "n", Type: event.Float}, {Name: "s", Type: str}}}, "i:number n:number \na 1000 v i=1 n=2\na 1000 v i=1.5\n! 3 property \"s\" is a string, and comes as an integer"},
		{"of two with a name the last", line(`,"p":1,"p":2`), Options{}, "p:integer \na 1000 v p=2"},
		{"escapes", line(`,"p":"\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00\ud800x","\u0071":"y"`), Options{}, "p:string q:string \na 1000 v p=\"\\/\b\f\n\r\tü😀�x q=y"},
		{"ids", line(`,"id":"x"`) + line(`,"id":18446744073709551615`) + line(`,"id":null`) + line(`,"id":true`), Options{ID: "id"}, "\na 1000 v #x\na 1000 v #18446744073709551615\na 1000 v\n! 4 id is a boolean: want a string or an integer"},
		{"times", `{"user":1,"ts":"2026-01-05","name":"v"}` + "\n" + `{"user":1,"ts":1.5,"name":"v"}` + "\n" + `{"user":1,"ts":true,"name":"v"}` + "\n" + `{"user":1,"ts":"x","name":"v"}` + "\n" + `{"user":1,"name":"v"}` + "\n", Options{},
			"\n1 1767571200000 v\n1 1500 v\n! 3 ts is a boolean: want a time\n! 4 ts \"x\": not a time: want RFC 3339 or a number\n! 5 ts is missing"},
		{"not objects", line("") + "[1]\n\"x\"\nnull\n{\n{]\n{}x\n{\"a\" 1}\n{\"a\":01}\n{\"a\":tru}\n{\"a\":\"x\n{\"a\":\"\x01\"}\n{\"\":1}\n{\"a\":\"\xff\"}\n{\"a\":\"\\x\"}\n", Options{},
			"\na 1000 v\n! 2 not a JSON object\n! 3 not a JSON object\n! 4 not a JSON object\n! 5 JSON: byte 1: want a name in quotes, got the end\n! 6 JSON: byte 1: want a name in quotes, got \"]\"\n! 7 JSON: byte 2: want the end of the line, got \"x\"\n! 8 JSON: byte 5: want \":\", got \"1\"\n! 9 JSON: byte 6: want \",\" or \"}\", got \"1\"\n! 10 JSON: byte 8: want true, got \"}\"\n! 11 JSON: byte 7: want the \"\\\"\" that ends a string, got the end\n! 12 JSON: byte 6: control character 0x1 in a string\n! 13 JSON: a property without a name\n! 14 the text is not valid UTF-8\n! 15 JSON: byte 7: want an escape, got \"x\""},
		{"long line", line("") + line(`,"p":"`+strings.Repeat("x", maxRecord)+`"`) + line(`,"p":"y"`), Options{}, "p:string \na 1000 v\na 1000 v p=y\n! 2 the record is longer than 1 MiB"},
		{"very long line", line("") + strings.Repeat("x", 5*maxRecord) + "\n" + line(`,"p":"y"`), Options{}, "p:string \na 1000 v\na 1000 v p=y\n! 2 the record is longer than 1 MiB"},
		{"names behind a very long line", strings.Repeat("x", 3*maxRecord) + "\n{}\n" + `{"user":"b","ts":1,"name":"e","p":"y"}` + "\n", Options{}, "p:string \nb 1000 e p=y\n! 1 the record is longer than 1 MiB\n! 2 user is empty or missing"},
		{"no user behind a very long line", strings.Repeat("x", 3*maxRecord) + "\n" + `{"usr":"b","ts":1,"name":"e"}` + "\n", Options{}, "\n! 1 the record is longer than 1 MiB\nerror: F: there is no column user_id or user among usr, ts, name"},
		{"no members", "{}\n", Options{}, "\n! 1 user_id is empty or missing"},
		{"least integer", line(`,"p":-9223372036854775807`) + line(`,"p":-9223372036854775808`), Options{}, "p:integer \na 1000 v p=-9223372036854775807\n! 2 p: integers begin at -9223372036854775807"},
		{"0 and 1 for booleans", line(`,"p":1,"q":"0"`) + line(`,"p":2`), Options{Types: map[string]event.Type{"p": event.Bool, "q": event.Bool}}, "p:boolean q:boolean \na 1000 v p=true q=false\n! 2 p: \"2\" is not a boolean"},
		{"hints that help", line(`,"b":1`) + line(`,"i":true`) + line(`,"n":"x"`), Options{Known: event.Schema{{Name: "b", Type: event.Bool}, {Name: "i", Type: event.Int}, {Name: "n", Type: event.Float}}},
			"\n! 1 property \"b\" is a boolean, and comes as an integer\n" +
				"! 2 property \"i\" is an integer, and comes as a boolean\n" +
				"! 3 property \"n\" is a number, and comes as a string"},
		{"nothing", "", Options{}, ""},
		{"rubbish", "x\n", Options{}, "\n! 1 not a JSON object"},
		{"no user", `{"usr":"a","time":1,"event":"v"}` + "\n", Options{}, "error: F: there is no column user_id or user among usr, time, event"},
		{"no id", line(""), Options{ID: "id"}, `error: F: there is no column "id" among user_id, time, event`},
	} {
		path := file(t, "x.ndjson", tt.data)
		for _, batch := range []int{1, 3, 1000} {
			if got := dump(t, path, tt.opt, batch); got != tt.want {
				t.Errorf("%s, batches of %d: got\n%.600s\nwant\n%.600s", tt.name, batch, got, tt.want)
			}
		}
	}
}

func TestStdin(t *testing.T) {
	r, err := Open("-", strings.NewReader(line("")+line("")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rows, bad, err := all(t, r, 10); len(rows) != 2 || len(bad) > 0 || err != nil {
		t.Errorf("got %d rows, %v, %v", len(rows), bad, err)
	}
	if done, total := r.Progress(); done != int64(2*len(line(""))) || total != -1 {
		t.Errorf("got %d of %d", done, total)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Next(make([]Row, 1)); err == nil {
		t.Error("got rows of a closed reader")
	}
	broken := errors.New("the cable is cut")
	if r, err = Open("-", &cut{data: line("") + "{", err: broken}, Options{}); err != nil {
		t.Fatal(err)
	}
	rows, _, err := all(t, r, 10)
	if len(rows) != 1 || !errors.Is(err, broken) || errText(err) != "standard input: the cable is cut" {
		t.Errorf("got %d rows, %v, want 1 and the error of the stream", len(rows), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// A cut stream ends with an error.
type cut struct {
	data string
	err  error
}

func (c *cut) Read(p []byte) (int, error) {
	n := copy(p, c.data)
	c.data = c.data[n:]
	if n == 0 {
		return 0, c.err
	}
	return n, nil
}

func TestManyProperties(t *testing.T) {
	var b strings.Builder
	for i := range maxProperties + 2 {
		b.WriteString(line(fmt.Sprintf(`,"p%d":1`, i)))
	}
	b.WriteString(line(`,"` + strings.Repeat("n", maxName+1) + `":1`))
	r, err := Open(file(t, "x.jsonl", b.String()), nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows, bad, err := all(t, r, 100)
	if len(rows) != maxProperties || len(bad) != 3 || err != nil || len(r.Schema()) != maxProperties {
		t.Errorf("got %d rows, %d bad, %v", len(rows), len(bad), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func parseEvent(object []byte, opt Options) (event.Event, error) {
	p, err := NewParser(opt)
	if err != nil {
		return event.Event{}, err
	}
	return p.Parse(object)
}

func TestParseEvent(t *testing.T) {
	str := event.StringOf
	for _, tt := range []struct {
		object string
		opt    Options
		want   event.Event
		err    string
	}{
		{`{"user":"a","ts":"2026-01-05T00:00:00Z","event":"v","id":"x","n":{"a":1,"b":[]},"z":null,"e":""}`, Options{ID: "id", Types: map[string]event.Type{"n.b": event.Unknown}},
			event.Event{User: "a", Time: 1767571200000, Name: "v", ID: "x", Properties: []event.Property{{Name: "n.a", Value: event.IntOf(1)}}}, ""},
		{`{"user":"u","user_id":"a","time":1,"event":"v","name":"n"}`, Options{}, event.Event{User: "a", Time: 1000, Name: "v", Properties: []event.Property{{Name: "user", Value: str("u")}, {Name: "name", Value: str("n")}}}, ""},
		{`{"who":7,"at":5,"what":"v","p":1}`, Options{User: "who", Time: "at", Event: "what", TimeUnit: "ms", Known: event.Schema{{Name: "p", Type: event.Float}}}, event.Event{User: "7", Time: 5, Name: "v", Properties: []event.Property{{Name: "p", Value: event.FloatOf(1)}}}, ""},
		{`{"user":"a","user":"b","time":1,"event":"v"}`, Options{}, event.Event{User: "b", Time: 1000, Name: "v"}, ""},
		{`{"user":"","time":1,"event":"v"}`, Options{}, event.Event{}, "user is empty"},
		{`{"user":"a","event":"v"}`, Options{}, event.Event{}, "time or ts or timestamp is missing"},
		{`{"user":"a","time":1}`, Options{Event: "what"}, event.Event{}, "what is missing"},
		{`{"user":"a","time":1,"event":"v","p":1}`, Options{Known: event.Schema{{Name: "p", Type: event.String}}}, event.Event{}, `property "p" is a string, and comes as an integer`},
		{`{"user":"a","time":1,"event":"v","p":[]}`, Options{}, event.Event{}, `property "p" is an array: want a string, a number or a boolean`},
		{`{"user":"a","time":1,"event":"v","p":-9223372036854775808}`, Options{}, event.Event{}, `p: integers begin at -9223372036854775807`},
		{`[]`, Options{}, event.Event{}, "not a JSON object"},
		{``, Options{}, event.Event{}, "not a JSON object"},
	} {
		raw := []byte(tt.object)
		got, err := parseEvent(raw, tt.opt)
		for i := range raw {
			raw[i] = '#' // the event must be a copy
		}
		if errText(err) != tt.err || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, %v, want %v, %s", tt.object, got, err, tt.want, tt.err)
		}
	}
}

func FuzzParser(f *testing.F) {
	f.Add(line("") + line(`,"a":{"b":[1,{"c":"]"}]},"\u0071":-1.5e3`) + "\n{]\n")
	f.Add(line(`,"p":"\ud83d\ude00\ud800"`) + line(`,"p":9223372036854775808`))
	f.Add("\xef\xbb\xbf" + `{"user":1,"ts":"2026-01-05","name":"v"}`)
	f.Fuzz(func(t *testing.T, data string) {
		path := file(t, "x.ndjson", data)
		if _, _, err := readAll(path, Options{}); err != nil && !strings.HasPrefix(err.Error(), path) {
			t.Errorf("got %v, want the name of the file first", err)
		}
		for _, l := range strings.Split(data, "\n") {
			var s scanner
			err := s.object([]byte(l))
			var m map[string]any
			if json.Valid([]byte(l)) && json.Unmarshal([]byte(l), &m) == nil && m != nil && err != nil && err != records.ErrUTF8 && err != errName && !strings.Contains(err.Error(), "deep") {
				t.Errorf("%q: got %v of valid JSON", l, err)
			}
			if err == nil && !json.Valid([]byte(l)) {
				t.Errorf("%q: taken, but not JSON", l)
			}
			if e, err := parseEvent([]byte(l), Options{}); err == nil && (e.User == "" || e.Name == "") {
				t.Errorf("%q: got %v", l, e)
			}
		}
	})
}
