package avro

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

const order = `{"type": "record", "name": "Order", "namespace": "shop", "fields": [
	{"name": "id", "type": "long"},
	{"name": "item", "type": "string"},
	{"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
	{"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["new", "paid"]}, "default": "new"},
	{"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": null},
	{"name": "weight", "type": "float", "default": 0.5},
	{"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
	{"name": "notes", "type": {"type": "map", "values": ["string", "long"]}, "default": {}},
	{"name": "parent", "type": ["null", "Order"], "default": null},
	{"name": "photo", "type": ["null", "bytes"], "default": null}
]}`

func codec(t testing.TB, schema string) *Codec {
	t.Helper()
	c, err := New(schema)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestBothWays encodes values and decodes them again. Fields come in the order of the
// schema, with defaults.
func TestBothWays(t *testing.T) {
	f := func(schema, in, want string) {
		t.Helper()
		c := codec(t, schema)
		data, err := c.Append([]byte("before"), parse(t, in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			return
		}
		v, err := c.Decode(data[len("before"):])
		if err != nil {
			t.Errorf("%s: %v", in, err)
			return
		}
		if got, err := v.AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
	f(order, `{"item": "tea", "id": 7, "price": "12.5"}`,
		`{"id":7,"item":"tea","price":"12.50","state":"new","at":null,"weight":0.5,"tags":[],"notes":{},"parent":null,"photo":null}`)
	f(order, `{"id": 7, "item": "", "price": 3, "state": "paid", "at": "2026-01-02T03:04:05.006Z", "weight": 0.1, "tags": ["a"], "notes": {"n": 5}, "photo": "x",
		"parent": {"id": 6, "item": "pot", "price": "-0.01", "notes": {"s": "t"}}}`,
		`{"id":7,"item":"","price":"3.00","state":"paid","at":"2026-01-02T03:04:05.006Z","weight":0.1,"tags":["a"],"notes":{"n":5},`+
			`"parent":{"id":6,"item":"pot","price":"-0.01","state":"new","at":null,"weight":0.5,"tags":[],"notes":{"s":"t"},"parent":null,"photo":null},"photo":"eA=="}`)
	f(`"long"`, `9007199254740993`, `9007199254740993`)
	f(`{"type": "int", "logicalType": "time-millis"}`, `"1m30s"`, `"1m30s"`)
	f(`{"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}`, `{"months":1,"days":2,"milliseconds":3}`, `{"months":1,"days":2,"milliseconds":3}`)
	f(`{"type": "string", "logicalType": "uuid"}`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`)
	f(`["null", {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}, {"type": "record", "name": "B", "fields": [{"name": "b", "type": "int"}]}]`, `{"b": 1}`, `{"b":1}`)
}

// TestErrors refuses what the schema has no place for, with the place.
func TestErrors(t *testing.T) {
	c := codec(t, order)
	for in, want := range map[string]string{
		`{"id": 1, "item": "a"}`:                                    "price",
		`{"id": "1", "item": "a", "price": 1}`:                      "id must be a number, got string",
		`{"id": 1, "item": 2, "price": 1}`:                          "item must be a text, got integer",
		`{"id": 1, "item": "a", "price": 1, "color": "red"}`:        "the schema has no field color",
		`{"id": 1, "item": "a", "price": "x"}`:                      `price must be a decimal, such as "12.50", got "x"`,
		`{"id": 1, "item": "a", "price": "0.001"}`:                  "price",
		`{"id": 1, "item": "a", "price": 1, "state": "lost"}`:       `state must be one of new, paid, got "lost"`,
		`{"id": 1, "item": "a", "price": 1, "parent": {"id": 1.5}}`: "parent.id must be an integer of 64 bits, got 1.5",
		`{"id": 1, "item": "a", "price": 1, "tags": ["a", 1]}`:      "tags[1] must be a text, got integer",
		`{"id": 1, "item": "a", "price": 1, "notes": {"n": true}}`:  "notes.n",
		`{"id": 1, "item": "a", "price": 1, "weight": 1e300}`:       "weight must be a float of 32 bits, got 1e+300",
		`[1]`: "the payload must be a map, for the record Order, got list",
	} {
		if data, err := c.Append(nil, parse(t, in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %x, %v, want %s", in, data, err, want)
		}
	}
	whole, err := c.Append(nil, parse(t, `{"id": 1, "item": "a", "price": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range [][]byte{nil, whole[:len(whole)-1], append(whole, 0), {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		if v, err := c.Decode(in); err == nil {
			t.Errorf("%x: got %v, want an error", in, v)
		}
	}
	if _, err := c.Decode(nil); err == nil || strings.Contains(err.Error(), "unsupported") {
		t.Errorf("got %v, want that the bytes end", err)
	}
	if v, err := codec(t, `"string"`).Decode([]byte{2, 0xff}); err == nil || err.Error() != "a text is not UTF-8" {
		t.Errorf("got %v, %v", v, err)
	}
	if _, err := New(`{"type": "record"}`); err == nil {
		t.Error("a record without a name was taken")
	}
}

// TestReading decodes what an older schema has written.
func TestReading(t *testing.T) {
	old := codec(t, `{"type": "record", "name": "U", "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]}`)
	c, err := codec(t, `{"type": "record", "name": "U", "fields": [{"name": "mail", "type": "string", "default": "none"}, {"name": "age", "type": "long"}]}`).Reading(old)
	if err != nil {
		t.Fatal(err)
	}
	data, err := old.Append(nil, parse(t, `{"name": "ann", "age": 7}`))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Decode(data); err != nil || v.String() != `{"mail":"none","age":7}` {
		t.Errorf("got %v, %v", v, err)
	}
	if _, err := codec(t, `"string"`).Reading(old); err == nil {
		t.Error("a text was read as a record")
	}
}

// FuzzDecode decodes any bytes. What is read is the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	c := codec(f, order)
	for _, in := range []string{`{"id": 1, "item": "a", "price": 1}`, `{"id": 1, "item": "a", "price": "1.5", "notes": {"a": 1}, "parent": {"id": 2, "item": "", "price": 0}}`} {
		data, err := c.Append(nil, parse(f, in))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := c.Decode(data)
		if err != nil {
			return
		}
		again, err := c.Append(nil, v)
		if err != nil {
			t.Fatalf("%x: %v: %v", data, v, err)
		}
		if got, err := c.Decode(again); err != nil || got.Compare(v) != 0 {
			t.Errorf("%x: got %v, %v, want %v", data, got, err, v)
		}
	})
}

// TestFiles writes container files and reads them, also with another schema, and refuses
// those that are damaged, or too large when they are unpacked.
func TestFiles(t *testing.T) {
	c := codec(t, order)
	records := parse(t, `[{"id": 1, "item": "tea", "price": "1.5"}, {"id": 2, "item": "pot", "price": 9, "notes": {"n": 1}}]`)
	data, err := c.EncodeFile(records)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []struct {
		reader *Codec
		want   string
	}{
		{nil, `"notes":{"n":1}`},
		{codec(t, `{"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "double"}]}`), `[{"id":1},{"id":2}]`},
	} {
		v, err := DecodeFile(data, in.reader, 1<<20)
		if got, jsonErr := v.AppendJSON(nil); err != nil || jsonErr != nil || v.Len() != 2 || !strings.Contains(string(got), in.want) {
			t.Errorf("got %s, %v, want %s", got, err, in.want)
		}
	}
	for _, bad := range [][]byte{nil, data[:20], data[:len(data)-8], append([]byte("x"), data...)} {
		if v, err := DecodeFile(bad, nil, 1<<20); err == nil {
			t.Errorf("got %v of a damaged file", v)
		}
	}
	if _, err := DecodeFile(data, nil, 100); err == nil {
		t.Error("a file that is too large was read")
	}
	if _, err := c.EncodeFile(parse(t, `[{"id": 1, "item": "tea", "price": 1}, {"id": 2}]`)); err == nil || !strings.Contains(err.Error(), "record 2: item is missing") {
		t.Errorf("got %v", err)
	}
}
