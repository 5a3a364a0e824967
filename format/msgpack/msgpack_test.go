package msgpack

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestBothWays encodes and decodes values of all kinds.
func TestBothWays(t *testing.T) {
	deep := value.Int(1)
	for range 500 {
		deep = value.List(deep)
	}
	for _, v := range []value.Value{
		value.Null(), value.Bool(true), value.Bool(false), value.Int(0), value.Int(-1), value.Int(127), value.Int(-33), value.Int(70_000), value.Int(math.MaxInt64), value.Int(math.MinInt64),
		value.Uint(math.MaxUint64), value.Float(1.5), value.Float(math.Inf(1)), value.String(""), value.String("grün"), value.String(strings.Repeat("x", 70_000)),
		value.Binary([]byte{}), value.Binary([]byte{0, 255}), value.Time(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)), value.Time(time.Unix(1<<35, 0).UTC()), value.Time(time.Unix(-5, 1).UTC()),
		value.List(), value.Map(), value.List(value.Int(1), value.List(value.String("a"))), deep,
		value.Map(value.Field{Name: "z", Value: value.Int(1)}, value.Field{Name: "a", Value: value.Map(value.Field{Name: "", Value: value.Null()})}),
	} {
		data, err := Append([]byte("before"), v)
		if err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		got, err := Decode(bytes.TrimPrefix(data, []byte("before")))
		if err != nil || !got.Equal(v) || got.Kind() != v.Kind() {
			t.Errorf("got %v, %v, want %v", got, err, v)
		}
	}
	data, err := Append(nil, value.Duration(90*time.Second))
	if got, decodeErr := Decode(data); err != nil || decodeErr != nil || !got.Equal(value.String("1m30s")) {
		t.Errorf("a duration: got %v, %v, %v", got, err, decodeErr)
	}
}

// TestForeign decodes what other encoders write: the examples of the specification, and
// numbers in forms that are longer than needed.
func TestForeign(t *testing.T) {
	for in, want := range map[string]string{
		"82a7636f6d70616374c3a6736368656d6100": `{"compact":true,"schema":0}`,
		"ca3fc00000":                           `1.5`,
		"cf0000000000000001":                   `1`,
		"d300000000000000ff":                   `255`,
		"dc0002c0c2":                           `[null,false]`,
		"df00000001d90161a0":                   `{"a":""}`,
		"d6ff00000001":                         `"1970-01-01T00:00:01Z"`,
		"c403010203":                           `"AQID"`,
	} {
		raw, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Decode(raw)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, err := v.AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
}

// TestBad refuses what is damaged, with the place.
func TestBad(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "at byte 0: EOF",
		"c1":                              "0xc1 is not a type",
		"c0c0":                            "1 bytes follow the value",
		"ddffffffff":                      "4294967295 bytes or elements are announced, and 0 bytes are left",
		"dfffffffff":                      "elements are announced",
		"8101c0":                          "a key of a map is not a text",
		"a2ff":                            "2 bytes or elements are announced, and 1 bytes are left",
		"a1ff":                            "a text is not UTF-8",
		"c7010500":                        "extension 5 is not known",
		"c702ff0000":                      "a time has 2 bytes",
		"c70cffffffffff00000000000000":    "unexpected EOF",
		strings.Repeat("91", 1100) + "c0": "it is nested deeper than 1000",
	} {
		raw, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %v, want %s", in, err, want)
		}
	}
}

// FuzzDecode decodes any bytes. What is read is the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	for _, in := range []string{"\x82\xa7compact\xc3\xa6schema\x00", "\xdd\xff\xff\xff\xff", "\xd6\xff\x00\x00\x00\x01", "\xc4\x03abc", "\x91\x91\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(again)
		if err != nil || got.Compare(v) != 0 {
			t.Errorf("%x: got %v, %v, want %v", data, got, err, v)
		}
	})
}
