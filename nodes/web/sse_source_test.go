package web

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

func TestEventParser(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			p := newEventParser(r, 1<<10)
			var got []string
			for {
				e, err := p.next()
				if err != nil {
					if !errors.Is(err, io.ErrUnexpectedEOF) {
						got = append(got, err.Error())
					}
					break
				}
				got = append(got, fmt.Sprintf("%s %q %q", e.name, e.id, e.data))
			}
			got = append(got, fmt.Sprintf("last %q retry %v", p.lastID, p.retry))
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
	f("data: "+strings.Repeat("x", 2000)+"\n\n", `an event is longer than max_event; last "" retry 0s`)
	f(strings.Repeat("data: xxxxxxxxxxxxxxxxxxxxxxxxxx\n", 100)+"\n", `an event is longer than max_event; last "" retry 0s`)
	f(strings.Repeat(":comment\n\n", 1000)+"data: a\n\n", `message "" "a"; last "" retry 0s`)
	f(strings.Repeat(":comment without a line after it\n", 1000)+"data: a\n\n", `message "" "a"; last "" retry 0s`)
	f("", `last "" retry 0s`)
}

// FuzzEventParser checks that no stream panics, that no event is longer than allowed, and
// that ids can be sent back.
func FuzzEventParser(f *testing.F) {
	f.Add("data: a\n\n")
	f.Add("\ufeffid: 1\r\nevent: x\rdata\n\nretry: 9\n\n")
	f.Add("data: a\ndata: b\n\n: c\n\nid\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		const most = 256
		p := newEventParser(strings.NewReader(in), most)
		for {
			e, err := p.next()
			if err != nil {
				return
			}
			if len(e.data) > most || e.name == "" || !validHeaderValue(p.lastID) || p.retry < 0 || p.retry > 2000*time.Hour {
				t.Fatalf("got %+v, last %q, retry %v", e, p.lastID, p.retry)
			}
		}
	})
}

// FuzzEventStream compares the parser with another, which has all of the text, as the text of
// the specification has it; the parser gets it byte by byte, too.
func FuzzEventStream(f *testing.F) {
	f.Add("\ufeffid: 1\r\nevent: x\rdata\n\nretry: 9\n\n")
	f.Add("data: a\ndata:  b\r\r\n: c\n\nid\n\nevent\ndata:\n\n")
	f.Add("id: a\x00\nid: b\n\nid: c\ndata\r\n\r\n\r\ndata: cut")
	f.Fuzz(func(t *testing.T, in string) {
		want := plainEventsOf(in)
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			p := newEventParser(r, len(in)+1)
			var got []string
			for {
				e, err := p.next()
				if err != nil {
					break
				}
				got = append(got, fmt.Sprintf("%s %q %q", e.name, p.lastID, e.data))
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
			if validHeaderValue(text) {
				id = text
			}
		}
	}
	return list
}

// FuzzAppendEvent checks that what a listener sends is what sse_source reads.
func FuzzAppendEvent(f *testing.F) {
	f.Add("a\r\nb\rc\n", "name", "7")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, data, name, id string) {
		v := parse(t, "{}").With("data", textValue(data)).With("event", textValue(name)).With("id", textValue(id))
		sent, err := appendEvent(nil, v, "")
		if err != nil {
			if !strings.ContainsAny(name+id, "\r\n\x00") {
				t.Fatalf("%q: %v", v, err)
			}
			return
		}
		p := newEventParser(strings.NewReader(string(sent)), 1<<20)
		e, err := p.next()
		if err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		if name == "" {
			name = "message"
		}
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		if string(e.data) != want || e.name != name {
			t.Fatalf("got %q %q, want %q %q", e.name, e.data, name, want)
		}
		if _, err := p.next(); err == nil {
			t.Fatalf("%q is more than one event", sent)
		}
	})
}
