package streams

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/value"
)

func TestEncode(t *testing.T) {
	run := func(kind, config string, in value.Value) string {
		t.Helper()
		f := flowtest.New(t, decodeDef(), encodeDef())
		f.Load("- {kind: " + kind + ", name: n, " + config + "}")
		return flowtest.Show(f.Send("n", in))
	}
	f := func(config, in, text, back string) {
		t.Helper()
		v, err := value.ParseJSON([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := run("encode", config, v); got != quoted(text) {
			t.Errorf("encode %s %s: got %s, want %q", config, in, got, text)
		}
		for _, encoded := range []value.Value{value.String(text), value.Binary([]byte(text))} {
			if got := run("decode", config, encoded); got != back {
				t.Errorf("decode %s %q: got %s, want %s", config, text, got, back)
			}
		}
	}
	f("format: json", `{"a":[1]}`, `{"a":[1]}`, `{"a":[1]}`)
	f("format: ndjson", `[1,{"a":2}]`, "1\n{\"a\":2}\n", `[1,{"a":2}]`)
	f("format: ndjson", `{"a":2}`, "{\"a\":2}\n", `[{"a":2}]`)
	f("format: lines", `["a","",1]`, "a\n\n1\n", `["a","","1"]`)
	f("format: csv", `[{"a":1,"b":"x,y"},{"b":"z"}]`, "a,b\n1,\"x,y\"\n,z\n", `[{"a":"1","b":"x,y"},{"a":"","b":"z"}]`)
	f("format: csv", `[]`, "", `[]`)
	if got := run("encode", "format: csv, columns: [a], header: false", value.List(value.List(value.Int(1)))); got != `"1\n"` {
		t.Errorf("without a header: got %s", got)
	}

	bad := func(kind, config string, in value.Value, want string) {
		t.Helper()
		if got := run(kind, config, in); !strings.Contains(got, want) {
			t.Errorf("%s %s: got %s, want %s", kind, config, got, want)
		}
	}
	bad("decode", "format: json", value.Int(1), "decode json: must be text or binary, got integer")
	bad("decode", "format: json", value.Binary([]byte("\"\xff\"")), "not valid UTF-8")
	bad("decode", "format: csv", value.String("a\n1\n1,2\n"), "decode csv: line 3: the row has 2 fields, and there are 1 columns")
	bad("decode", "format: lines", value.String("a\n\xff\n"), "decode lines: line 2: the text is not valid UTF-8")
	// As packets, so long payloads end their process before.
	if _, err := decode(textual{Options: format.Options{Name: "lines"}}, value.Binary(make([]byte, maxDecoded+1))); err == nil || !strings.Contains(err.Error(), "it has 67108865 bytes, and at most 67108864 are allowed") {
		t.Errorf("got %v", err)
	}
	bad("encode", "format: csv", value.List(value.Int(1)), "record 0: want a map or a list for a row of CSV, got integer")
}

func FuzzDecode(f *testing.F) {
	f.Add("a,b\n1,2\n", uint8(1))
	f.Fuzz(func(t *testing.T, text string, name uint8) {
		formats := []string{"json", "csv", "ndjson", "lines"}
		_, _ = decode(textual{Options: format.Options{Name: formats[int(name)%len(formats)]}}, value.String(text)) // must not panic
	})
}

func quoted(text string) string {
	b, err := value.String(text).AppendJSON(nil)
	if err != nil {
		panic(err)
	}
	return string(b)
}
