package format

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

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

// A Row is the memory of a row of CSV, and the source of its fields: they are cut out of
// its text when they are read.
type Row struct {
	lazy    value.Lazy
	decoder *Decoder
	text    string
	ends    []uint32 // of the fields in text, one for each column
}

// Rows returns the memory of n rows of CSV, which are allocated together: keeping one of
// them, or its map, keeps all.
func (d *Decoder) Rows(n int) []Row {
	rows, columns := make([]Row, n), len(d.columns)
	ends := make([]uint32, n*columns)
	for i := range rows {
		rows[i].decoder, rows[i].ends = d, ends[i*columns:(i+1)*columns:(i+1)*columns]
	}
	return rows
}

// Decode makes the map of a row in the memory of r, which was not used before. It takes
// ownership of raw, which is one row that a [Reader] has found.
func (r *Row) Decode(raw []byte) (value.Value, error) {
	if !utf8.Valid(raw) {
		return value.Value{}, errUTF8
	}
	r.text = unsafe.String(unsafe.SliceData(raw), len(raw))
	if n := cut(r.text, r.decoder.delimiter, r.ends); n != len(r.ends) {
		return value.Value{}, fmt.Errorf("the row has %d fields, and there are %d columns", n, len(r.ends))
	}
	return r.lazy.Map(r, r.decoder.size+len(r.text), 1), nil
}

// cut notes where the fields of a row end, as far as ends has room, and returns how many
// there are.
func cut(text string, delimiter byte, ends []uint32) (n int) {
	for at := 0; ; n++ {
		end := len(text)
		if at < end && text[at] == '"' {
			c := fields{rest: text[at:], delimiter: delimiter}
			if c.next(); !c.ended {
				end -= len(c.rest) + 1
			}
		} else if i := strings.IndexByte(text[at:], delimiter); i >= 0 {
			end = at + i
		}
		if n < len(ends) {
			ends[n] = uint32(end)
		}
		if end == len(text) {
			return n + 1
		}
		at = end + 1
	}
}

// field returns the text of a column.
func (r *Row) field(i int) value.Value {
	at := uint32(0)
	if i > 0 {
		at = r.ends[i-1] + 1
	}
	text := r.text[at:r.ends[i]]
	if text != "" && text[0] == '"' {
		c := fields{rest: text, delimiter: r.decoder.delimiter}
		c.next()
		text = c.field
	}
	return value.String(text)
}

// Fields implements [value.FieldSource].
func (r *Row) Fields() []value.Field {
	fields := make([]value.Field, len(r.ends))
	for i, name := range r.decoder.columns {
		fields[i] = value.Field{Name: name, Value: r.field(i)}
	}
	return fields
}

// mostScanned is how many names of columns are compared before a map is faster.
const mostScanned = 12

// Field implements [value.FieldFinder].
func (r *Row) Field(name string) (field value.Value, ok bool) {
	if index := r.decoder.index; index != nil {
		i, ok := index[name]
		if !ok {
			return value.Value{}, false
		}
		return r.field(i), true
	}
	for i, column := range r.decoder.columns {
		if column == name {
			return r.field(i), true
		}
	}
	return value.Value{}, false
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
