package value_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

func TestParseJSON(t *testing.T) {
	f := func(text string, want value.Value) {
		t.Helper()
		got, err := value.ParseJSON([]byte(text))
		if err != nil || !got.Equal(want) || got.Kind() != want.Kind() {
			t.Errorf("%q: got %s %v, %v, want %s %v", text, got.Kind(), got, err, want.Kind(), want)
		}
	}
	s := value.String
	f("null", value.Null())
	f(" \t\r\n true ", value.Bool(true))
	f("false", value.Bool(false))
	f("0", value.Int(0))
	f("-12", value.Int(-12))
	f("9223372036854775807", value.Int(math.MaxInt64))
	f("-9223372036854775808", value.Int(math.MinInt64))
	f("9223372036854775808", value.Uint(1<<63))
	f("18446744073709551615", value.Uint(math.MaxUint64))
	f("18446744073709551616", value.Float(1<<64))
	f("-9223372036854775809", value.Float(-1<<63))
	f("1"+strings.Repeat("0", 300), value.Float(1e300))
	f("1.0", value.Float(1))
	f("1e2", value.Float(100))
	f("1E+2", value.Float(100))
	f("123.456e-2", value.Float(1.23456))
	f("0.1", value.Float(0.1))
	f("5e-324", value.Float(5e-324))
	f("1e-999", value.Float(0))
	f("9007199254740993.0", value.Float(9007199254740992))
	f("12345678901234567890123.5", value.Float(12345678901234567890123.5))
	f("1.7976931348623157e308", value.Float(math.MaxFloat64))
	f(`""`, s(""))
	f(`"a"`, s("a"))
	f(`"\"\\\/\b\f\n\r\t\u0041"`, s("\"\\/\b\f\n\r\tA"))
	f(`"größe 世界"`, s("größe 世界"))
	f(`"\ud83d\ude00"`, s("😀"))
	f(`"\ud83d"`, s("\uFFFD"))
	f(`"\ude00x"`, s("\uFFFDx"))
	f(`"\ud83d\ud83d\ude00"`, s("\uFFFD😀"))
	f(`"\ud83d\u0041"`, s("\uFFFDA"))
	f("\"a\xffb\"", s("a\uFFFDb"))
	f("\"long enough for words \xc3\x28 and more\"", s("long enough for words \uFFFD( and more"))
	f("\"\xed\xa0\x80\"", s("\uFFFD\uFFFD\uFFFD"))
	f(`"`+strings.Repeat("x", 5000)+`"`, s(strings.Repeat("x", 5000)))
	f("[]", value.List())
	f("[ 1 , [ ] ]", value.List(value.Int(1), value.List()))
	f("{}", value.Map())
	f(`{ "a" : {} }`, value.Map(value.Field{Name: "a", Value: value.Map()}))

	minus, err := value.ParseJSON([]byte("-0"))
	if fl, ok := minus.AsFloat(); err != nil || minus.Kind() != value.KindFloat || !ok || !math.Signbit(fl) {
		t.Errorf("-0: got %s %v, %v", minus.Kind(), minus, err)
	}
}

func TestParseJSONErrors(t *testing.T) {
	f := func(text string, offset, line, col int, msg string) {
		t.Helper()
		got, err := value.ParseJSON([]byte(text))
		var je *value.JSONError
		if !errors.As(err, &je) {
			t.Errorf("%q: got %v, %v, want a JSONError", text, got, err)
			return
		}
		if je.Offset != offset || je.Line != line || je.Col != col || !strings.Contains(je.Msg, msg) {
			t.Errorf("%q: got %d, %d:%d %q, want %d, %d:%d %q", text, je.Offset, je.Line, je.Col, je.Msg, offset, line, col, msg)
		}
	}
	f("", 0, 1, 1, "unexpected end, want a value")
	f("  ", 2, 1, 3, "unexpected end")
	f("\xEF\xBB\xBF1", 0, 1, 1, "byte order mark")
	f("1 2", 2, 1, 3, "unexpected '2', want end of text")
	f("{}\n\n x", 5, 3, 2, "want end of text")
	f("nul", 0, 1, 1, "want null")
	f("nil", 0, 1, 1, "want null")
	f("[1,]", 3, 1, 4, "want a value")
	f("[1 2]", 3, 1, 4, "want ',' or ']'")
	f("[", 1, 1, 2, "unexpected end")
	f("[[[]", 4, 1, 5, "unexpected end")
	f(`{"a":1,}`, 7, 1, 8, "want a name in quotes")
	f(`{"a" 1}`, 5, 1, 6, "want ':'")
	f(`{a:1}`, 1, 1, 2, "want a name in quotes")
	f(`{"a":1 "b":2}`, 7, 1, 8, "want ',' or '}'")
	f(`{"a":`, 5, 1, 6, "unexpected end")
	f(`"abc`, 4, 1, 5, "string without end")
	f(`"abc\`, 5, 1, 6, "string without end")
	f(`"\x"`, 1, 1, 2, "unknown escape")
	f(`"\u12g4"`, 1, 1, 2, "hexadecimal")
	f(`"\u12`, 1, 1, 2, "hexadecimal")
	f("\"a\nb\"", 2, 1, 3, "control character")
	f("\"0123456789\x01\"", 11, 1, 12, "control character")
	f("01", 0, 1, 1, "starts with 0")
	f("-", 1, 1, 2, "want a digit")
	f("-a", 1, 1, 2, "want a digit")
	f("1.", 2, 1, 3, "want a digit")
	f("1.e5", 2, 1, 3, "want a digit")
	f("1e", 2, 1, 3, "want a digit")
	f("1e+", 3, 1, 4, "want a digit")
	f("+1", 0, 1, 1, "want a value")
	f(".5", 0, 1, 1, "want a value")
	f("[\n1e999]", 2, 2, 1, "number out of range")
	f("1"+strings.Repeat("0", 400), 0, 1, 1, "number out of range")
	f(strings.Repeat("[", 513), 512, 1, 513, "nests deeper than 512 levels")
	f(strings.Repeat(`{"a":`, 100000), 512*5, 1, 512*5+1, "nests deeper than 512 levels")
}

func TestParseJSONLimits(t *testing.T) {
	f := func(text string, o value.JSONOptions, msg string) {
		t.Helper()
		_, err := value.ParseJSONWith([]byte(text), o)
		if (err == nil) != (msg == "") || err != nil && !strings.Contains(err.Error(), msg) {
			t.Errorf("%.20s %+v: got %v, want %q", text, o, err, msg)
		}
	}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	f("[[]]", value.JSONOptions{MaxDepth: 2}, "")
	f("[[[]]]", value.JSONOptions{MaxDepth: 2}, "line 1, column 3: nests deeper than 2 levels")
	f(nested(512), value.JSONOptions{}, "")
	f(nested(value.MaxDepth), value.JSONOptions{MaxDepth: 1e6}, "")
	f(nested(value.MaxDepth+1), value.JSONOptions{MaxDepth: 1e6}, "nests deeper than 1000 levels")
	f("12345", value.JSONOptions{MaxBytes: 5}, "")
	f("123456", value.JSONOptions{MaxBytes: 5}, "longer than 5 bytes")
	f(`{"a":1,"a":2}`, value.JSONOptions{}, "")
	f(`{"a":1,"b":{"a":1}}`, value.JSONOptions{RejectDuplicates: true}, "")
	f(`{"a":1,"b":2,"a":3}`, value.JSONOptions{RejectDuplicates: true}, `column 14: the name "a" occurs twice`)
}

func TestJSONDuplicates(t *testing.T) {
	if got := toJSON(t, parse(t, `{"a":1,"b":2,"\u0061":3}`)); got != `{"a":3,"b":2}` {
		t.Errorf("got %s, want the later value in the earlier place", got)
	}
	f := func(text, want string) {
		t.Helper()
		if got := toJSON(t, parse(t, text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	// Objects of a list: the parser expects the names of the one before.
	f(`[{"a":1,"b":2},{"a":3,"b":4},{"a":5,"a":6},{"b":7,"a":8,"b":9},{}]`, `[{"a":1,"b":2},{"a":3,"b":4},{"a":6},{"b":9,"a":8},{}]`)
	f(`[{"a":1},{"a":2,"b":3,"a":4,"b":5},{"a":6,"c":{"a":7},"b":8}]`, `[{"a":1},{"a":4,"b":5},{"a":6,"c":{"a":7},"b":8}]`)
	f(`[{"x\\":1},{"x\\":2,"y":3}]`, `[{"x\\":1},{"x\\":2,"y":3}]`)
	f(`[{},{"x\"y":1},{"x":2}]`, `[{},{"x\"y":1},{"x":2}]`)
	// Many names, twice, in time that is not quadratic.
	var text strings.Builder
	text.WriteByte('{')
	const n = 20000
	for i := range 2 * n {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(`"name` + value.Int(int64(i%n)).String() + `":` + value.Int(int64(i)).String())
	}
	text.WriteByte('}')
	v := parse(t, text.String())
	if got, _ := v.Get("name7"); v.Len() != n || !got.Equal(value.Int(n+7)) {
		t.Errorf("got %d fields, name7 is %v, want %d and %d", v.Len(), got, n, n+7)
	}
}

// TestJSONCopies checks that a value does not change with the text it is from,
// nor with what the parser, which is pooled, reads next.
func TestJSONCopies(t *testing.T) {
	text := []byte(`{"name":"value","esc\n":"a\tb","größe":["ä"]}`)
	v, err := value.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	want := v.String()
	for i := range text {
		text[i] = 'x'
	}
	for range 100 {
		parse(t, `{"other":"thing","x\n":"c\td","länge":["ö"]}`)
	}
	if got := v.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAppendJSON(t *testing.T) {
	f := func(v value.Value, want string) {
		t.Helper()
		got, err := v.AppendJSON([]byte("x"))
		if err != nil || string(got) != "x"+want {
			t.Errorf("got %s, %v, want x%s", got, err, want)
		}
	}
	f(value.Null(), "null")
	f(value.Bool(true), "true")
	f(value.Int(math.MinInt64), "-9223372036854775808")
	f(value.Uint(math.MaxUint64), "18446744073709551615")
	f(value.Float(1), "1")
	f(value.Float(-1.5), "-1.5")
	f(value.Float(math.Copysign(0, -1)), "-0")
	f(value.Float(20000000000000008), "20000000000000008")
	f(value.Float(-1<<63), "-9223372036854775808")
	f(value.Float(1<<63), "9223372036854775808")
	f(value.Float(1<<64-2048), "18446744073709549568")
	f(value.Float(1e20), "100000000000000000000")
	f(value.Float(1e21), "1e+21")
	f(value.Float(1e-6), "0.000001")
	f(value.Float(1e-7), "1e-7")
	f(value.Float(0.1), "0.1")
	f(value.String("<a&b>"), `"<a&b>"`)
	f(value.String("\"\\\b\f\n\r\t\x00\x1f\x7f"), `"\"\\\b\f\n\r\t\u0000\u001f`+"\x7f\"")
	f(value.String("größe 世界 and enough for words"), `"größe 世界 and enough for words"`)
	f(value.String("a\xffb\u2028"), "\"a\uFFFDb\u2028\"")
	f(value.Binary([]byte("hello")), `"aGVsbG8="`)
	f(value.Duration(90*time.Second), `"1m30s"`)
	f(value.Time(time.Date(2024, 5, 17, 10, 30, 0, 5000, time.FixedZone("", 7200))), `"2024-05-17T10:30:00.000005+02:00"`)
	f(value.List(value.List(), value.Map(), value.Null()), `[[],{},null]`)
	f(value.Map(value.Field{Name: "b\n", Value: value.Int(1)}, value.Field{Name: "a", Value: value.Int(2)}), `{"b\n":1,"a":2}`)
	f(value.Error(io.EOF), `{"message":"EOF"}`)
	f(value.Error(mirror{}), `{"self":"mirror"}`)

	deep := value.Value{}
	for range value.MaxDepth {
		deep = value.Map(value.Field{Name: "a", Value: deep})
	}
	f(deep, strings.Repeat(`{"a":`, value.MaxDepth)+"null"+strings.Repeat("}", value.MaxDepth))
}

func TestAppendJSONErrors(t *testing.T) {
	f := func(v value.Value, want string) {
		t.Helper()
		got, err := v.AppendJSON([]byte("x"))
		var ce *value.ConvertError
		if !errors.As(err, &ce) || err.Error() != want || string(got) != "x" {
			t.Errorf("got %s, %v, want error %s", got, err, want)
		}
	}
	nan := value.Float(math.NaN())
	f(nan, "cannot turn NaN into JSON")
	f(value.Float(math.Inf(1)), "cannot turn Infinity into JSON")
	f(value.Map(value.Field{Name: "a", Value: value.List(value.Int(1), value.Map(value.Field{Name: "b.c", Value: nan}))}),
		`a[1]["b.c"]: cannot turn NaN into JSON`)
}

// mirror is an error that has itself as a field.
type mirror struct{}

func (mirror) Error() string { return "mirror" }
func (mirror) ErrorFields() []value.Field {
	return []value.Field{{Name: "self", Value: value.Error(mirror{})}}
}

func TestValueInJSON(t *testing.T) {
	var got struct{ Payload value.Value }
	if err := json.Unmarshal([]byte(`{"Payload":{"b":1,"a":[null]}}`), &got); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil || string(text) != `{"Payload":{"b":1,"a":[null]}}` {
		t.Errorf("got %s, %v", text, err)
	}
}

func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{
		"null", "[null]", `{"a":[{}]}`, "-0", "1e5", "1.5e-3", "18446744073709551616", `"\ud83d\ude00\ud83d"`, "\"\xff\"", `{"a":1,"a":{"b":2}}`,
		`[1,2.5,"x",true,false,null,{"k":"v"}]`, "\xEF\xBB\xBF{}", "[[[[[[", `{"a`, "01", "1e999", "123456789012345678901234567890", string(apiBody),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := value.ParseJSON(data)
		var plain any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		theirs := dec.Decode(&plain)
		if theirs == nil {
			if _, more := dec.Token(); more != io.EOF {
				theirs = errors.New("more text")
			}
		}
		if err != nil {
			var je *value.JSONError
			if !errors.As(err, &je) || je.Offset > len(data) || je.Line < 1 || je.Col < 1 {
				t.Fatalf("got error %#v", err)
			}
			if theirs == nil && !strings.Contains(je.Msg, "out of range") && !strings.Contains(je.Msg, "nests deeper") {
				t.Fatalf("%q: got %v, encoding/json takes it", data, err)
			}
			return
		}
		if theirs != nil {
			t.Fatalf("%q: got %v, encoding/json says %v", data, v, theirs)
		}
		want, err := value.Encode(plain)
		if err != nil || !v.Equal(want) {
			t.Fatalf("%q: got %v, encoding/json reads %v (%v)", data, v, want, err)
		}
		text, err := v.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) {
			t.Fatalf("%q: written as %q, which encoding/json refuses", data, text)
		}
		again, err := value.ParseJSON(text)
		if err != nil || !again.Equal(v) || again.Hash() != v.Hash() {
			t.Fatalf("%q: written as %q, read as %v, %v", data, text, again, err)
		}
	})
}
