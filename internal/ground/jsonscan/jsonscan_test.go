package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func scan(s *Scanner, b []byte) error {
	end, err := s.Value(b, Space(b, 0))
	if err == nil {
		if end = Space(b, end); end < len(b) {
			err = Unexpected(b, end, "the end")
		}
	}
	return err
}

// FuzzValue agrees with encoding/json on what is JSON, on the text of strings, and
// on the value without white space.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		``, ` `, `[]`, `[ ]`, `[1]`, "[\n1 ,\n\t{\"a\": [true,false,null]} ]", `[1`, `[1,`, `[1,]`, `[,1]`, `[]]`, `{}`, `[}`, `{]`, `{"a":1}{"a":2}`,
		`["a\"b","\\","\u00e9\ud83d","\ud83d\ude00\ude00","\/\b\f\n\r\t"]`, `["a\x"]`, "[\"a\nb\"]", `["\u12g4"]`, `"\u12`, `[-0.5e+10,-0,0.1,1E5]`, `[01]`, `[-]`, `[1.]`, `[1e]`, `[+1]`,
		`nul`, `nulx`, `{"a" :1,"b": {"c":[]}}`, `{"a"}`, `{1:2}`, `{"a":1,}`, "\"\xff\"", strings.Repeat("[", 40) + strings.Repeat("]", 40), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
		`["` + strings.Repeat("long string ", 10) + `\t` + strings.Repeat("é", 20) + `"]`, "1\x00", "\"0123456\x1f\"", "\"01234567\x1f\"", `"\ud83d\u0041"`, `"\ud83d\ud83d\ude00"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Scanner
		err := scan(&s, b)
		if (err == nil) != json.Valid(b) {
			t.Fatalf("%q: got %v, encoding/json says %v", b, err, json.Valid(b))
		}
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Offset < 0 || e.Offset > len(b) {
				t.Fatalf("%q: got %#v", b, err)
			}
			return
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, b); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Clone(b); string(got[:Compact(got, got)]) != compact.String() {
			t.Fatalf("%q: got %q, want %q", b, got, compact.String())
		}
		b = bytes.TrimSpace(b)
		switch c := b[0]; {
		case c == '"' && utf8.Valid(b):
			var want string
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			_, escaped, _ := String(b, 0)
			if got := AppendText(nil, b[1:len(b)-1]); string(got) != want || escaped != bytes.Contains(b, []byte{'\\'}) {
				t.Fatalf("%s: got %q, escaped %v, want %q", b, got, escaped, want)
			}
		case c == '-' || digit(c):
			if _, integer, _ := Number(b, 0); integer != !bytes.ContainsAny(b, ".eE") {
				t.Fatalf("%s: got integer %v", b, integer)
			}
		}
	})
}

// TestDepth refuses values that are nested too deep.
func TestDepth(t *testing.T) {
	s := Scanner{MaxDepth: 2}
	for text, want := range map[string]string{`[[1],{"a":2}]`: "", `[[[1]]]`: "byte 2: nested deeper than 2", `[{"a":{}}]`: "byte 6: nested deeper than 2"} {
		if err := scan(&s, []byte(text)); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestAllocations allows none for values.
func TestAllocations(t *testing.T) {
	text := []byte(`{"a":[1,2.5,{"b":"c\n"}],"d":null}`)
	var s Scanner
	if n := testing.AllocsPerRun(100, func() {
		if scan(&s, text) != nil {
			t.Fatal("not JSON")
		}
	}); n > 0 {
		t.Errorf("got %v allocations", n)
	}
}

func BenchmarkValue(b *testing.B) {
	text := []byte(`{"id":10000001,"type":"page_view","user":"u-000001","path":"/products/00001","ts":"2026-01-02T03:04:05.678Z","ok":true,"n":12.5}`)
	var s Scanner
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := s.Value(text, 0); err != nil {
			b.Fatal(err)
		}
	}
}
