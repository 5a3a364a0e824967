package format

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/value"
)

var (
	errQuote = errors.New("a quote is not closed, or text follows a closing one; what follows is read from the next line on")
	errUTF8  = errors.New("the text is not valid UTF-8")
)

// A rowScan finds the end of a row. It goes on where it stopped when there was no more, so
// that no byte of a row that comes in small pieces is looked at twice.
type rowScan struct {
	at    int // what was looked at
	state rowState
	lines int64 // that have ended within quotes
	err   error
}

type rowState uint8

const (
	atField     rowState = iota // a field begins
	inField                     // without quotes; those in the middle are taken as they are
	inQuotes                    // up to the next quote
	behindQuote                 // a second quote, or the end of the field
	behindCR                    // the line feed of a CRLF
	inDamage                    // the row ends with its first line
)

// find returns the size of the row that b begins with, its line end included, and its
// lines; 0 if more must be read. b is what it was, or longer, since the last call.
func (s *rowScan) find(b []byte, delimiter byte, last bool) (used int, lines int64, err error) {
	if s.at == 0 {
		if i := bytes.IndexByte(b, '\n'); i >= 0 && bytes.IndexByte(b[:i], '"') < 0 {
			return i + 1, 1, nil
		}
	}
	for s.at < len(b) && s.state != inDamage {
		c := b[s.at]
		switch s.state {
		case atField:
			s.state = inField
			if c == '"' {
				s.state = inQuotes
				s.at++
			}
		case inField:
			i := s.at
			for i < len(b) && b[i] != delimiter && b[i] != '\n' {
				i++
			}
			s.at = i
			if i < len(b) {
				s.at++
				if b[i] == '\n' {
					return s.at, s.lines + 1, nil
				}
				s.state = atField
			}
		case inQuotes:
			i := bytes.IndexByte(b[s.at:], '"')
			if i < 0 {
				s.lines += int64(bytes.Count(b[s.at:], []byte{'\n'}))
				s.at = len(b)
				break
			}
			s.lines += int64(bytes.Count(b[s.at:s.at+i], []byte{'\n'}))
			s.at += i + 1
			s.state = behindQuote
		case behindQuote, behindCR:
			switch {
			case c == '\n':
				return s.at + 1, s.lines + 1, nil
			case s.state == behindCR:
				s.state, s.err = inDamage, errQuote
			case c == '"':
				s.state = inQuotes
			case c == delimiter:
				s.state = atField
			case c == '\r':
				s.state = behindCR
			default:
				s.state, s.err = inDamage, errQuote
			}
			s.at++
		}
	}
	if last && s.state == inQuotes {
		s.state, s.err = inDamage, errQuote
	}
	if s.state == inDamage {
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			return i + 1, 1, s.err
		}
	}
	if last {
		return len(b), s.lines + 1, s.err
	}
	return 0, 0, nil
}

// headerOf returns the names of the columns.
func headerOf(raw []byte, delimiter byte) ([]string, error) {
	if !utf8.Valid(raw) {
		return nil, errUTF8
	}
	var names []string
	c := fields{rest: string(raw), delimiter: delimiter}
	for c.next() {
		name := c.field
		if name == "" { // pandas writes its index like this
			name = fmt.Sprintf("column%d", len(names)+1)
		}
		names = append(names, name)
	}
	return names, checkColumns(names)
}

// fields cuts a row that rowScan has found whole.
type fields struct {
	rest      string
	delimiter byte
	field     string
	ended     bool
}

func (c *fields) next() bool {
	if c.ended {
		return false
	}
	if strings.HasPrefix(c.rest, `"`) {
		rest := c.rest[1:]
		end, doubled := 0, false
		for {
			i := strings.IndexByte(rest[end:], '"')
			if i < 0 { // not after rowScan
				c.field, c.ended = rest, true
				return true
			}
			end += i
			if end+1 == len(rest) || rest[end+1] != '"' {
				break
			}
			doubled = true
			end += 2
		}
		c.field = rest[:end]
		if doubled {
			c.field = strings.ReplaceAll(c.field, `""`, `"`)
		}
		if rest = rest[end+1:]; rest == "" || rest[0] != c.delimiter {
			c.ended = true
		} else {
			c.rest = rest[1:]
		}
		return true
	}
	i := strings.IndexByte(c.rest, c.delimiter)
	if i < 0 {
		c.field, c.ended = c.rest, true
	} else {
		c.field, c.rest = c.rest[:i], c.rest[i+1:]
	}
	return true
}

// row makes a map of the texts of a row: two allocations, unless a field has quotes in it.
func (d *Decoder) row(raw []byte) (value.Value, error) {
	if !utf8.Valid(raw) {
		return value.Value{}, errUTF8
	}
	want := len(d.columns)
	var few [24]value.Value
	values := few[:0]
	if want > len(few) {
		values = make([]value.Value, 0, want)
	}
	c := fields{rest: string(raw), delimiter: d.delimiter}
	n := 0
	for c.next() {
		if n++; n <= want {
			values = append(values, value.String(c.field))
		}
	}
	if n != want {
		return value.Value{}, fmt.Errorf("the row has %d fields, and there are %d columns", n, want)
	}
	return d.shape.Map(values...), nil
}

// appendField appends a field of CSV, with quotes if it needs them.
func appendField(dst []byte, text string, delimiter byte) []byte {
	quote := text != "" && (text[0] == ' ' || text[len(text)-1] == ' ')
	for i := 0; i < len(text) && !quote; i++ {
		c := text[i]
		quote = c == delimiter || c == '"' || c == '\n' || c == '\r'
	}
	if !quote {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for {
		i := strings.IndexByte(text, '"')
		if i < 0 {
			break
		}
		dst = append(dst, text[:i+1]...)
		dst = append(dst, '"')
		text = text[i+1:]
	}
	dst = append(dst, text...)
	return append(dst, '"')
}
