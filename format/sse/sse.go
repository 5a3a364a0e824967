// Package sse reads server-sent events, as the specification of HTML has them.
//
// The package must not know HTTP.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// A Reader reads the events of a stream. One goroutine uses it.
type Reader struct {
	LastID string        // of the last event that had one; set it before the first Next to go on after an event
	Retry  time.Duration // how long to wait before connecting again; 0 until the stream has said it

	r      *bufio.Reader
	max    int  // bytes of an event
	skipLF bool // after a CR
	begun  bool
	line   []byte
}

// An Event is one that was dispatched.
type Event struct {
	Name string // "message" unless it has one
	ID   string // that it has given itself; may be empty
	Data []byte // its lines, joined by LF; the caller's
}

// ErrTooLong is the error of an event that has more bytes than allowed.
var ErrTooLong = errors.New("an event is too long")

// NewReader returns a reader of events of at most so many bytes each.
func NewReader(r io.Reader, most int) *Reader { return &Reader{r: bufio.NewReader(r), max: most} }

// Buffered reports whether bytes are there that have not been read.
func (p *Reader) Buffered() bool { return p.r.Buffered() > 0 }

// Next reads the next event that has data. At the end of the stream the error is
// [io.ErrUnexpectedEOF]; an event that the end cuts off is dropped.
func (p *Reader) Next() (e Event, err error) {
	var hasData bool
	size := 0
	id := p.LastID
	for {
		line, err := p.readLine(p.max - size)
		if err != nil {
			return Event{}, err
		}
		if len(line) > 0 && line[0] == ':' {
			continue // a comment, which keeps the connection alive: any number may come
		}
		size += len(line) + 1
		if len(line) == 0 {
			p.LastID = id
			if hasData {
				if e.Name == "" {
					e.Name = "message"
				}
				return e, nil
			}
			e, size = Event{}, 0
			continue
		}
		name, text := line, []byte(nil)
		for i, c := range line {
			if c == ':' {
				name, text = line[:i], line[i+1:]
				if len(text) > 0 && text[0] == ' ' {
					text = text[1:]
				}
				break
			}
		}
		switch string(name) {
		case "data":
			if hasData {
				e.Data = append(e.Data, '\n')
			}
			e.Data, hasData = append(e.Data, text...), true
		case "event":
			e.Name = string(text)
		case "id":
			if s := string(text); isHeader(s) { // it is sent back as a header
				e.ID, id = s, s
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(text), 10, 32); err == nil {
				p.Retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// readLine returns a line, which is valid until the next call, without its end: LF, CR
// or both. It does not wait for what follows a CR.
func (p *Reader) readLine(most int) ([]byte, error) {
	p.line = p.line[:0]
	for {
		if _, err := p.r.Peek(1); err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
		text, _ := p.r.Peek(p.r.Buffered()) // it is there
		if p.skipLF {
			if p.skipLF = false; text[0] == '\n' {
				_, _ = p.r.Discard(1) // likewise, as below
				continue
			}
		}
		end := bytes.IndexByte(text, '\n')
		if end >= 0 {
			text = text[:end+1]
		}
		if cr := bytes.IndexByte(text, '\r'); cr >= 0 {
			end, text = cr, text[:cr+1]
		}
		if len(p.line)+len(bytes.TrimRight(text, "\r\n")) > most {
			return nil, ErrTooLong
		}
		p.line = append(p.line, text...)
		_, _ = p.r.Discard(len(text))
		if end < 0 {
			continue
		}
		last := len(p.line) - 1
		p.skipLF = p.line[last] == '\r'
		p.line = p.line[:last]
		if !p.begun {
			p.begun = true
			p.line = bytes.TrimPrefix(p.line, []byte("\ufeff"))
		}
		return p.line, nil
	}
}

// isHeader reports whether an id can be sent back in a header.
func isHeader(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
