package sse

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestReader(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			p := NewReader(r, 1<<10)
			var got []string
			for {
				e, err := p.Next()
				if err != nil {
					if !errors.Is(err, io.ErrUnexpectedEOF) {
						got = append(got, err.Error())
					}
					break
				}
				got = append(got, fmt.Sprintf("%s %q %q", e.Name, e.ID, e.Data))
			}
			got = append(got, fmt.Sprintf("last %q retry %v", p.LastID, p.Retry))
			if text := strings.Join(got, "; "); text != want {
				t.Errorf("%q: got %s, want %s", in, text, want)
			}
		}
	}
	f("data: a\n\ndata:b\n\n", `message "" "a"; message "" "b"; last "" retry 0s`)
	f("\ufeffdata: a\r\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n", `message "" "a\nb"; message "" "c"; message "" "d"; last "" retry 0s`)
	f("event: x\nid: 7\nretry: 50\ndata\n\n", `x "7" ""; last "7" retry 50ms`)
	f("id: 1\n\nevent: no data\n\ndata: a\n\n", `message "" "a"; last "1" retry 0s`)
	f("id: a\x00b\nid: \u00e9\x01\nretry: x\nretry: 99999999999\n: comment\nother: x\ndata: a\n\n", `message "" "a"; last "" retry 0s`)
	f("id: 1\ndata: a\n\nid: 2\ndata: cut", `message "1" "a"; last "1" retry 0s`)
	f("id: 1\ndata: a\n\nid\ndata: b\n\n", `message "1" "a"; message "" "b"; last "" retry 0s`)
	f("data:  two\n\n", `message "" " two"; last "" retry 0s`)
	f("data: "+strings.Repeat("x", 2000)+"\n\n", `an event is too long; last "" retry 0s`)
	f(strings.Repeat("data: xxxxxxxxxxxxxxxxxxxxxxxxxx\n", 100)+"\n", `an event is too long; last "" retry 0s`)
	f(strings.Repeat(":comment\n\n", 1000)+"data: a\n\n", `message "" "a"; last "" retry 0s`)
	f(strings.Repeat(":comment without a line after it\n", 1000)+"data: a\n\n", `message "" "a"; last "" retry 0s`)
	f("", `last "" retry 0s`)
}

// FuzzReader checks that no stream panics, that no event is longer than allowed, and
// that ids can be sent back.
func FuzzReader(f *testing.F) {
	f.Add("data: a\n\n")
	f.Add("\ufeffid: 1\r\nevent: x\rdata\n\nretry: 9\n\n")
	f.Add("data: a\ndata: b\n\n: c\n\nid\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		const most = 256
		p := NewReader(strings.NewReader(in), most)
		for {
			e, err := p.Next()
			if err != nil {
				return
			}
			if len(e.Data) > most || e.Name == "" || !isHeader(p.LastID) || p.Retry < 0 || p.Retry > 2000*time.Hour {
				t.Fatalf("got %+v, last %q, retry %v", e, p.LastID, p.Retry)
			}
		}
	})
}

// FuzzStream compares the reader with another, which has all of the text, as the text of
// the specification has it; the reader gets it byte by byte, too.
func FuzzStream(f *testing.F) {
	f.Add("\ufeffid: 1\r\nevent: x\rdata\n\nretry: 9\n\n")
	f.Add("data: a\ndata:  b\r\r\n: c\n\nid\n\nevent\ndata:\n\n")
	f.Add("id: a\x00\nid: b\n\nid: c\ndata\r\n\r\n\r\ndata: cut")
	f.Fuzz(func(t *testing.T, in string) {
		want := plainEventsOf(in)
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			p := NewReader(r, len(in)+1)
			var got []string
			for {
				e, err := p.Next()
				if err != nil {
					break
				}
				got = append(got, fmt.Sprintf("%s %q %q", e.Name, p.LastID, e.Data))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%q: got %s, want %s", in, got, want)
			}
		}
	})
}

// plainEventsOf returns the events of a text, each with the last id.
func plainEventsOf(in string) (list []string) {
	in = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(in, "\ufeff"))
	lines := strings.Split(in, "\n")
	var id, name string
	var data []string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != nil {
				list = append(list, fmt.Sprintf("%s %q %q", cmp.Or(name, "message"), id, strings.Join(data, "\n")))
			}
			name, data = "", nil
			continue
		}
		field, text, _ := strings.Cut(line, ":")
		text = strings.TrimPrefix(text, " ")
		switch field {
		case "data":
			data = append(data, text)
		case "event":
			name = text
		case "id":
			if isHeader(text) {
				id = text
			}
		}
	}
	return list
}
