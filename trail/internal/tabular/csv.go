package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// A csvSource reads comma-separated values as RFC 4180 has them, with CRLF or LF,
// after a byte order mark or not. A quote in the middle of a field that does not
// start with one is taken as it is. Empty lines are passed over.
type csvSource struct {
	records records
	width   int   // fields of a record
	role    []int // by field: colUser …, or roles + index of the property, or one of those below
	unit    unit
	opt     Options
	fields  event.Schema
	names   []string // of all columns
	values  []event.Value
	bad     []BadRow
}

// Roles of fields other than properties.
const (
	leftOut = -1
	// late is a column without values in the rows that decide the types. It becomes a
	// string property with its first value. A column without any value gets no type,
	// so it cannot conflict with the next file.
	late = -2
)

func newCSV(in *input, opt Options) (*csvSource, error) {
	s := &csvSource{opt: opt}
	s.unit, _ = unitOf(opt.TimeUnit) // checked by Options.check
	header := records{window: newWindow(in)}
	if err := s.readHeader(&header); err != nil {
		return nil, err
	}
	guesses, err := guessTypes(&header, s.width)
	if err != nil {
		return nil, err
	}
	for i, role := range s.role {
		if role != late {
			continue
		}
		t, err := opt.propertyType(s.names[i], guesses[i].best())
		if err != nil {
			return nil, err
		}
		if t != event.Unknown {
			s.add(i, t)
		}
	}
	if err := in.rewind(); err != nil {
		return nil, err
	}
	s.records = records{window: newWindow(in)}
	if err := s.records.next(); err != nil && err != io.EOF { // the header
		return nil, err
	}
	return s, nil
}

func (s *csvSource) readHeader(r *records) error {
	opt := &s.opt
	if err := r.next(); err != nil {
		if err == io.EOF {
			return errors.New("the file is empty: line 1 must have the names of the columns")
		}
		return err
	}
	if r.bad != "" {
		return fmt.Errorf("line %d, which must have the names of the columns: %s", r.line, r.bad)
	}
	if !utf8.Valid(r.record) {
		return errors.New("line 1, which must have the names of the columns, is not valid UTF-8")
	}
	s.width = len(r.fields)
	for i, f := range r.fields {
		name := string(f)
		if name == "" { // pandas writes its index like this
			name = fmt.Sprintf("column%d", i+1)
		}
		s.names = append(s.names, name)
	}
	if err := opt.checkColumns(s.names); err != nil {
		return err
	}
	names, err := opt.resolve(s.names)
	if err != nil {
		return err
	}
	for _, name := range s.names {
		role := slices.Index(names[:], name)
		switch {
		case role >= 0:
		case opt.skips(name):
			role = leftOut
		default:
			role = late // until its type is known
		}
		s.role = append(s.role, role)
	}
	return nil
}

func (s *csvSource) add(column int, t event.Type) {
	s.role[column] = roles + len(s.fields)
	s.fields = append(s.fields, event.Field{Name: s.names[column], Type: t})
}

// guessTypes looks at the first records for what the columns hold.
func guessTypes(r *records, width int) ([]guess, error) {
	guesses := make([]guess, width)
	for range sampleRows {
		switch err := r.next(); {
		case err == io.EOF:
			return guesses, nil
		case err != nil:
			return nil, err
		case r.bad != "" || len(r.fields) != width:
			continue
		}
		for i := range guesses {
			guesses[i].see(lend(r.fields[i]))
		}
	}
	return guesses, nil
}

func (s *csvSource) schema() event.Schema { return s.fields }

func (s *csvSource) close() {}

func (s *csvSource) next(rows []Row) (n int, bad []BadRow, err error) {
	width := len(s.fields)
	limit := min(len(rows), max(1, maxValues/max(1, width)))
	if need := limit * width; len(s.values) < need {
		s.values = make([]event.Value, need)
	}
	s.bad = s.bad[:0]
	for n < limit && len(s.bad) < maxBad {
		// What was lent out must stay: the window moves on when nothing was.
		ok, err := s.records.lent(n == 0 && len(s.bad) == 0)
		if err != nil {
			return n, s.bad, err
		}
		if !ok {
			break
		}
		rows[n].Values = s.values[n*width : (n+1)*width : (n+1)*width]
		if reason := s.take(&rows[n]); reason != "" {
			s.bad = append(s.bad, BadRow{Line: s.records.line, Reason: reason})
		} else {
			n++
		}
		if len(s.fields) > width {
			break // the next rows are wider
		}
	}
	return n, s.bad, nil
}

// take turns the record into a row, or returns why it is bad.
func (s *csvSource) take(row *Row) (reason string) {
	r := &s.records
	if r.bad != "" {
		return r.bad
	}
	if len(r.fields) != s.width {
		return fmt.Sprintf("%d fields, but line 1 has %d", len(r.fields), s.width)
	}
	if !utf8.Valid(r.record) {
		return "not valid UTF-8"
	}
	row.ID = ""
	for i, f := range r.fields {
		text := lend(f)
		switch role := s.role[i]; role {
		case colUser:
			if row.User = text; text == "" {
				return s.names[i] + " is empty"
			}
		case colEvent:
			if row.Name = text; text == "" {
				return s.names[i] + " is empty"
			}
		case colID:
			row.ID = text
		case colTime:
			t, err := parseTime(text, s.unit)
			if err == nil {
				err = s.opt.checkTime(t)
			}
			if err != nil {
				return fmt.Sprintf("%s %s: %v", s.names[i], quote(text), err)
			}
			row.Time = t
		case leftOut:
		case late:
			if text != "" {
				s.add(i, event.String)
				row.Values = append(row.Values, event.StringOf(text))
			}
		default:
			v, ok := parseValue(text, s.fields[role-roles].Type)
			if !ok {
				return s.opt.mismatch(s.names[i], text, s.fields[role-roles].Type).Error()
			}
			row.Values[role-roles] = v
		}
	}
	return ""
}

// lend returns bytes of a window as a string, as long as they stay there.
func lend(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// records splits a stream into records and fields.
type records struct {
	window *window
	after  int64  // lines used up
	begun  bool   // the byte order mark is behind
	arena  []byte // fields with doubled quotes, without them

	// The record that was read last.
	line   int64 // where it starts
	record []byte
	fields [][]byte
	bad    string // why it is bad
}

// next reads a record. Everything lent before becomes invalid.
func (r *records) next() error {
	ok, err := r.lent(true)
	if err == nil && !ok {
		err = io.EOF
	}
	return err
}

// lent reads a record. Unless move is set, it does not move the window, so everything
// lent before stays valid; it is not ok if it would have to move. With move, the error
// is io.EOF at the end of the stream.
func (r *records) lent(move bool) (ok bool, err error) {
	if move {
		r.arena = r.arena[:0]
	}
	for {
		rest := r.window.rest()
		if !r.begun && len(rest) >= 3 {
			r.begun = true
			if bytes.HasPrefix(rest, []byte("\xef\xbb\xbf")) {
				r.window.lo += 3
				continue
			}
		}
		if len(rest) > 0 && (r.begun || r.window.eof) {
			used, lines, whole := r.parse(rest)
			if whole && used > maxRecord {
				r.line = r.after + 1
				r.long()
				return true, nil
			}
			if whole {
				r.line = r.after + 1
				r.after += lines
				r.record = rest[:used]
				r.window.lo += used
				if len(r.fields) == 0 && r.bad == "" { // an empty line
					continue
				}
				return true, nil
			}
			if len(rest) > maxRecord {
				if !move {
					return false, nil
				}
				r.line = r.after + 1
				r.long()
				return true, nil
			}
		}
		if !move {
			return false, nil
		}
		if r.window.eof {
			if r.window.err != nil {
				return false, r.window.err
			}
			return false, io.EOF
		}
		r.window.fill()
	}
}

// long skips the first line of a record that is too long. The lines after it may
// belong to the record, or a quote was not closed.
func (r *records) long() {
	r.fields = r.fields[:0]
	r.after++
	if i := bytes.IndexByte(r.window.rest(), '\n'); i >= 0 && i < maxRecord {
		r.bad = "a quote is not closed, or the row is longer than 1 MiB; what follows is read from the next line on"
		r.window.lo += i + 1
		return
	}
	r.bad = "the line is longer than 1 MiB"
	r.window.skipLine()
}

// parse finds the fields of the record that b begins with, or why it is bad. whole
// says whether b has all of it; used and lines are its length.
func (r *records) parse(b []byte) (used int, lines int64, whole bool) {
	r.fields, r.bad = r.fields[:0], ""
	lines = 1
	i := 0
	for {
		if i < len(b) && b[i] == '"' {
			end, newlines, doubled, state := quoted(b[i:])
			switch {
			case state == unclosed && !r.window.whole():
				return 0, 0, false
			case state == unclosed:
				return r.broken(b, "a quote is not closed")
			case state == astray:
				return r.broken(b, "text behind a closing quote")
			}
			field := b[i+1 : i+end-1]
			if doubled {
				field = r.single(field)
			}
			r.fields = append(r.fields, field)
			lines += newlines
			i += end
			if i == len(b) {
				return i, lines, r.window.whole()
			}
			switch b[i] {
			case ',':
				i++
				continue
			case '\r':
				if i+1 == len(b) {
					return i + 1, lines, r.window.whole()
				}
				i++
			}
			return i + 1, lines, true // behind the newline
		}
		start := i
		for i < len(b) && b[i] != ',' && b[i] != '\n' {
			i++
		}
		if i == len(b) && !r.window.whole() {
			return 0, 0, false
		}
		end := i
		if i == len(b) || b[i] == '\n' {
			if end > start && b[end-1] == '\r' {
				end--
			}
		}
		if i < len(b) && b[i] == ',' {
			r.fields = append(r.fields, b[start:end])
			i++
			continue
		}
		if end > 0 || len(r.fields) > 0 { // not an empty line
			r.fields = append(r.fields, b[start:end])
		}
		return min(i+1, len(b)), lines, true
	}
}

// broken ends a bad record at its first line, so a wrong quote costs one line.
func (r *records) broken(b []byte, reason string) (used int, lines int64, whole bool) {
	r.fields, r.bad = r.fields[:0], reason
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		if !r.window.whole() {
			return 0, 0, false
		}
		i = len(b) - 1
	}
	return i + 1, 1, true
}

// single copies a field with its doubled quotes made single ones.
func (r *records) single(field []byte) []byte {
	start := len(r.arena)
	for {
		i := bytes.IndexByte(field, '"')
		if i < 0 {
			break
		}
		r.arena = append(r.arena, field[:i+1]...)
		field = field[i+2:]
	}
	r.arena = append(r.arena, field...)
	return r.arena[start:len(r.arena):len(r.arena)]
}

// States of a quoted field.
const (
	closed   = iota
	unclosed // the end was not seen yet
	astray   // behind the closing quote stands what may not
)

// quoted finds the end of the quoted field that b begins with: behind its closing
// quote.
func quoted(b []byte) (end int, newlines int64, doubled bool, state int) {
	i := 1
	for {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return 0, 0, false, unclosed
		}
		newlines += int64(bytes.Count(b[i:i+j], []byte{'\n'}))
		i += j + 1
		if i == len(b) {
			return i, newlines, doubled, closed
		}
		switch b[i] {
		case '"':
			doubled = true
			i++
		case ',', '\n':
			return i, newlines, doubled, closed
		case '\r':
			if i+1 == len(b) || b[i+1] == '\n' {
				return i, newlines, doubled, closed
			}
			return i, newlines, doubled, astray
		default:
			return i, newlines, doubled, astray
		}
	}
}
