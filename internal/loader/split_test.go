package loader

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func seeds() []string {
	return []string{
		``, ` `, `[]`, `[ ]`, `[1]`, `[1,2]`, "[\n1 ,\n\t{\"a\": [true,false,null]} ]", `[1`, `[1,`, `[1,]`, `[,1]`, `[]]`, `{}`, `[{"a":1}{"a":2}]`,
		`["a\"b","\\","\u00e9\ud83d","\/"]`, `["a\x"]`, "[\"a\nb\"]", `["\u12g4"]`, `[-0.5e+10,-0,0.1,1E5]`, `[01]`, `[-]`, `[1.]`, `[1e]`, `[+1]`, `[nul]`,
		`[{"a" :1,"b": {"c":[]}}]`, `[{"a"}]`, `[{1:2}]`, `[{"a":1,}]`, "[\"\xff\"]", "1\n2\n", "1\r\n\r\n{\"a\":\r1}\nx\n3", "\"a\n\"", strings.Repeat("[", 40) + strings.Repeat("]", 40),
		`["` + strings.Repeat("long string ", 10) + `\t` + strings.Repeat("é", 20) + `"]`, "[1]\x00", "[\"0123456\x1f\"]", "[\"01234567\x1f\"]",
	}
}

// FuzzArray agrees with encoding/json on arrays.
func FuzzArray(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want []json.RawMessage
		// A null is an array to encoding/json.
		wantErr := json.Unmarshal(body, &want) != nil || bytes.HasPrefix(bytes.TrimSpace(body), []byte("null"))
		const limit = 64
		var s splitter
		err := s.array(slices.Clone(body), limit)
		if (err != nil) != wantErr && err != errRejected {
			t.Fatalf("%q: got error %v, want one: %v", body, err, wantErr)
		}
		if err != nil {
			return
		}
		check(t, &s, want, limit)
	})
}

// check checks that there are lines for the good events, and verdicts for the others.
func check(t *testing.T, s *splitter, events []json.RawMessage, limit int) {
	t.Helper()
	var lines bytes.Buffer
	var refused []int
	n := 0
	for i, event := range events {
		event = bytes.Trim(event, " \t\r\n")
		if !json.Valid(event) || len(event) > limit || !utf8.Valid(event) {
			refused = append(refused, i)
			continue
		}
		if bytes.ContainsAny(event, "\r\n") {
			if err := json.Compact(&lines, event); err != nil {
				t.Fatal(err)
			}
		} else {
			lines.Write(event)
		}
		lines.WriteByte('\n')
		n++
	}
	if got := string(s.out); got != lines.String() || s.events != n {
		t.Fatalf("got %d lines %q, want %d %q", s.events, got, n, lines.String())
	}
	var verdicts []struct{ Index int }
	if err := json.Unmarshal([]byte("["+string(s.rejected)+"]"), &verdicts); err != nil {
		t.Fatalf("%s: %v", s.rejected, err)
	}
	var got []int
	for _, v := range verdicts {
		got = append(got, v.Index)
	}
	if !slices.Equal(got, refused) || s.verdicts != len(refused) {
		t.Fatalf("got verdicts on %v, want %v", got, refused)
	}
}

// FuzzLines agrees with encoding/json on each line.
func FuzzLines(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var events []json.RawMessage
		for _, line := range bytes.Split(body, []byte("\n")) {
			if line := bytes.Trim(line, " \t\r"); len(line) > 0 {
				events = append(events, line)
			}
		}
		const limit = 64
		var s splitter
		if err := s.lines(slices.Clone(body), limit); err != nil {
			return // too many verdicts
		}
		// A line with much white space around it counts as large, white space and all.
		if slices.ContainsFunc(bytes.Split(body, []byte("\n")), func(line []byte) bool { return len(line) > limit }) {
			return
		}
		check(t, &s, events, limit)
	})
}

// FuzzString writes any bytes as a JSON string, and reads them back.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "p/1/0/7", "a\"b\\", "\x00\xff\u00e9", `\u0041`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := appendString(nil, s)
		if !json.Valid(text) {
			t.Fatalf("%q: got %s, which is not JSON", s, text)
		}
		var runes string
		if err := json.Unmarshal(text, &runes); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, r := range runes {
			got = append(got, byte(r))
		}
		if string(got) != s {
			t.Fatalf("got %q, want %q", got, s)
		}
	})
}

// batchOf returns n events of about 150 bytes.
func batchOf(n int, ndjson bool) []byte {
	var b bytes.Buffer
	for i := range n {
		if !ndjson {
			b.WriteByte("[,"[min(i, 1)])
		}
		fmt.Fprintf(&b, `{"id":%08d,"type":"page_view","user":"u-%06d","path":"/products/%05d","ts":"2026-01-02T03:04:05.678Z","ok":true,"n":12.5,"pad":"xxxxxxx"}`, i+10000000, i, i)
		if ndjson {
			b.WriteByte('\n')
		}
	}
	if !ndjson {
		b.WriteByte(']')
	}
	return b.Bytes()
}

func BenchmarkSplit(b *testing.B) {
	for _, c := range []struct {
		name  string
		split func(s *splitter, body []byte) error
		body  []byte
	}{
		{"array", func(s *splitter, body []byte) error { return s.array(body, 1<<20) }, batchOf(1000, false)},
		{"lines", func(s *splitter, body []byte) error { return s.lines(body, 1<<20) }, batchOf(1000, true)},
		{"encoding-json", func(_ *splitter, body []byte) error {
			if !json.Valid(body) {
				return errRejected
			}
			return nil
		}, batchOf(1000, false)},
	} {
		b.Run(c.name, func(b *testing.B) {
			var s splitter
			body := make([]byte, len(c.body))
			b.ReportAllocs()
			b.SetBytes(int64(len(c.body)))
			for b.Loop() {
				copy(body, c.body) // it is written over
				if err := c.split(&s, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
