package records

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"
)

const goesOn = "what follows is read from the next line on"

var (
	errUnclosed = errors.New("a quote is not closed; " + goesOn)
	errBehind   = errors.New("text follows a closing quote; " + goesOn)

	// ErrUTF8 is for records that must be text.
	ErrUTF8 = errors.New("the text is not valid UTF-8")
)

// A rowScan finds the end of a row. It goes on where it stopped when there was no more, so
// that no byte of a row that comes in small pieces is read twice.
type rowScan struct {
	at    int // bytes that were read
	state rowState
	lines int64 // that have ended within quotes
	err   error
}

type rowState uint8

const (
	atField     rowState = iota // a field begins
	inField                     // without quotes; quotes in the middle are taken as they are
	inQuotes                    // up to the next quote
	behindQuote                 // a second quote, or the end of the field
	behindCR                    // the line feed of a CRLF
	inDamage                    // the row ends with its first line
)

// find returns the size of the row that b begins with, its line end included, and its
// lines; 0 if more must be read. b is what it was, or longer, since the last call.
func (s *rowScan) find(b []byte, delimiter byte, last bool) (used int, lines int64, err error) {
	if s.at == 0 {
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			quote := bytes.IndexByte(b[:i], '"')
			if quote < 0 {
				return i + 1, 1, nil
			}
			if quote > 0 && b[quote-1] == delimiter { // the fields before it have no quotes
				s.at, s.state = quote+1, inQuotes
			}
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
				s.state, s.err = inDamage, errBehind
			case c == '"':
				s.state = inQuotes
			case c == delimiter:
				s.state = atField
			case c == '\r':
				s.state = behindCR
			default:
				s.state, s.err = inDamage, errBehind
			}
			s.at++
		}
	}
	if last && s.state == inQuotes {
		s.state, s.err = inDamage, errUnclosed
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

// A HeaderError says why the first record of CSV does not name the columns.
type HeaderError struct {
	Line int64
	Err  error
}

func (e *HeaderError) Error() string {
	return fmt.Sprintf("line %d must have the names of the columns: %v", e.Line, e.Err)
}

// Unwrap lets errors.Is find the reason.
func (e *HeaderError) Unwrap() error { return e.Err }

// maxColumns is how many columns a header may have: each costs a hundred bytes or so, and
// some in each row.
const maxColumns = 1 << 16

// Header returns the names of the columns that the first record of CSV has; a nameless
// column is column and its number, from 1. The error is a *HeaderError.
func Header(rec Record, delimiter byte) ([]string, error) {
	names, err := header(rec, delimiter)
	if err != nil {
		return nil, &HeaderError{rec.Line, err}
	}
	return names, nil
}

func header(rec Record, delimiter byte) (names []string, err error) {
	if rec.Err != nil {
		return nil, rec.Err
	}
	if !utf8.Valid(rec.Raw) {
		return nil, ErrUTF8
	}
	text := string(rec.Raw)
	n := Cut(text, delimiter, nil)
	if n > maxColumns {
		return nil, fmt.Errorf("there are %d columns; at most %d are taken", n, maxColumns)
	}
	ends := make([]uint32, n)
	Cut(text, delimiter, ends)
	at := uint32(0)
	for i, end := range ends {
		name, _ := Field(text[at:end], nil)
		if name == "" { // pandas writes its index like this
			name = fmt.Sprintf("column%d", i+1)
		}
		names = append(names, name)
		at = end + 1
	}
	return names, CheckColumns(names)
}

// CheckColumns returns why names cannot name the columns of one table.
func CheckColumns(names []string) error {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if name == "" {
			return errors.New("a column has an empty name")
		}
		if seen[name] {
			return fmt.Errorf("two columns have the name %q", name)
		}
		seen[name] = true
	}
	return nil
}

// Cut notes where the fields of a row end, as far as ends has room, and returns how many
// there are. A field begins behind the delimiter after the one before.
func Cut(row string, delimiter byte, ends []uint32) (n int) {
	for at := 0; ; n++ {
		from := at
		if at < len(row) && row[at] == '"' {
			from = closing(row, at)
		}
		end := len(row)
		if i := strings.IndexByte(row[from:], delimiter); i >= 0 {
			end = from + i
		}
		if n < len(ends) {
			ends[n] = uint32(end)
		}
		if end == len(row) {
			return n + 1
		}
		at = end + 1
	}
}

// closing returns where the text behind the quoted field begins that begins at a place.
func closing(row string, at int) int {
	for at++; ; at++ {
		i := strings.IndexByte(row[at:], '"')
		if i < 0 { // not in a row that a Reader found undamaged
			return len(row)
		}
		if at += i + 1; at == len(row) || row[at] != '"' {
			return at
		}
	}
}

// Field returns what a field says, without quotes. The result is a part of text unless
// quotes are doubled in it: then it is appended to memory, which is returned.
func Field(text string, memory []byte) (string, []byte) {
	if text == "" || text[0] != '"' {
		return text, memory
	}
	text = strings.TrimSuffix(text[1:], `"`)
	i := strings.IndexByte(text, '"')
	if i < 0 {
		return text, memory
	}
	start := len(memory)
	for ; i >= 0; i = strings.IndexByte(text, '"') {
		memory = append(memory, text[:i+1]...)
		text = text[min(i+2, len(text)):]
	}
	memory = append(memory, text...)
	quoted := memory[start:]
	return unsafe.String(unsafe.SliceData(quoted), len(quoted)), memory
}
