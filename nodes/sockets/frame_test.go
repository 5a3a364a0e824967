package sockets

import (
	"bytes"
	"errors"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame framing
		in    string
		last  bool
		want  string
		left  string
		err   error
	}{
		{"lines", frameLines, "a\nbc\r\n\nd", false, "a|bc||", "d", nil},
		{"last line", frameLines, "a\nd", true, "a|d|", "", nil},
		{"long line", frameLines, "123456789\n", false, "", "123456789\n", errTooLong},
		{"long line without an end", frameLines, "1234567890", false, "", "1234567890", errTooLong},
		{"length", frameLength, "\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01c\x00\x00", false, "ab||c|", "\x00\x00", nil},
		{"long length", frameLength, "\x00\x00\x00\x09ab", false, "", "\x00\x00\x00\x09ab", errTooLong},
		{"largest length", frameLength, "\xff\xff\xff\xff", false, "", "\xff\xff\xff\xff", errTooLong},
		{"raw", frameRaw, "123456789", false, "12345678|9|", "", nil},
	} {
		spans, used, err := c.frame.split(nil, []byte(c.in), 8, c.last)
		var got string
		for _, s := range spans {
			got += c.in[s.start:s.end] + "|"
		}
		if got != c.want || c.in[used:] != c.left || !errors.Is(err, c.err) {
			t.Errorf("%s: got %q, left %q, %v, want %q, left %q, %v", c.name, got, c.in[used:], err, c.want, c.left, c.err)
		}
	}
}

// FuzzSplit cuts bytes in two: what is split is the same as in one piece. What append
// makes, split takes apart.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("a\nbc\r\n\nd"), uint8(3), uint8(frameLines))
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x01c"), uint8(5), uint8(frameLength))
	f.Fuzz(func(t *testing.T, data []byte, at, kind uint8) {
		const longest = 16
		frame := framing(kind % 2)
		whole, used, err := frame.split(nil, data, longest, false)
		if used > len(data) {
			t.Fatalf("used %d of %d bytes", used, len(data))
		}
		cut := min(int(at), len(data))
		first, n, err1 := frame.split(nil, data[:cut], longest, false)
		if err1 != nil {
			return // it may be torn where only the whole shows that it fits
		}
		rest, m, err2 := frame.split(nil, data[n:], longest, false)
		if len(first)+len(rest) != len(whole) || n+m != used || (err == nil) != (err2 == nil) {
			t.Errorf("in one piece %v, %d, %v; cut at %d: %v, %d and %v, %d, %v", whole, used, err, cut, first, n, rest, m, err2)
		}
		if frame == frameLines && bytes.IndexByte(data, '\n') >= 0 || len(data) > longest || bytes.HasSuffix(data, []byte("\r")) {
			return
		}
		made, err := frame.append(nil, data)
		if err != nil {
			t.Fatal(err)
		}
		spans, used, err := frame.split(nil, made, longest, false)
		if err != nil || used != len(made) || len(spans) != 1 || !bytes.Equal(made[spans[0].start:spans[0].end], data) {
			t.Errorf("%q became %q, and then %v, %v", data, made, spans, err)
		}
	})
}
