package tabular

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
	"unsafe"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A csvSource reads comma-separated values.
type csvSource struct {
	in     *records.Reader
	ends   []uint32 // of the fields of a record
	memory []byte   // of fields with doubled quotes
	role   []int    // by field: colUser …, or roles + index of the property, or one of those below
	unit   unit
	opt    Options
	fields event.Schema
	names  []string // of all columns
	values []event.Value
	bad    []BadRow
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
	s.in = in.records(records.CSV)
	if err := s.readHeader(); err != nil {
		return nil, err
	}
	guesses, err := s.guessTypes()
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
	s.in = in.records(records.CSV)
	_, err = s.in.Read() // the header
	return s, err
}

func (s *csvSource) readHeader() error {
	opt := &s.opt
	rec, err := s.in.Read()
	if err == io.EOF {
		return errors.New("the file is empty: line 1 must have the names of the columns")
	} else if err != nil {
		return err
	}
	if s.names, err = records.Header(rec, ','); err != nil {
		return err
	}
	s.ends = make([]uint32, len(s.names))
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

// guessTypes guesses what the columns hold from the first records.
func (s *csvSource) guessTypes() ([]guess, error) {
	guesses := make([]guess, len(s.names))
	for range sampleRows {
		s.memory = s.memory[:0]
		rec, err := s.in.Read()
		switch {
		case err == io.EOF:
			return guesses, nil
		case err != nil:
			return nil, err
		}
		text := lend(rec.Raw)
		if rec.Err != nil || records.Cut(text, ',', s.ends) != len(s.ends) {
			continue
		}
		at := uint32(0)
		for i, end := range s.ends {
			var field string
			field, s.memory = records.Field(text[at:end], s.memory)
			guesses[i].see(field)
			at = end + 1
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
	s.bad, s.memory = s.bad[:0], s.memory[:0]
	s.in.Return()
	for n < limit && len(s.bad) < maxBad {
		rec, ok := s.in.Next()
		if !ok {
			if n > 0 || len(s.bad) > 0 { // rows that are returned refer to the buffer
				break
			}
			if err := s.in.More(); err != nil {
				return 0, nil, err
			}
			continue
		}
		rows[n].Values = s.values[n*width : (n+1)*width : (n+1)*width]
		if reason := s.take(&rec, &rows[n]); reason != "" {
			s.bad = append(s.bad, BadRow{Line: rec.Line, Reason: reason})
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
func (s *csvSource) take(rec *records.Record, row *Row) (reason string) {
	if rec.Err != nil {
		return rec.Err.Error()
	}
	record := lend(rec.Raw)
	if n := records.Cut(record, ',', s.ends); n != len(s.ends) {
		return fmt.Sprintf("%d fields, but line 1 has %d", n, len(s.ends))
	}
	if !utf8.Valid(rec.Raw) {
		return records.ErrUTF8.Error()
	}
	at := uint32(0)
	row.ID = ""
	for i, end := range s.ends {
		text := record[at:end]
		at = end + 1
		if text != "" && text[0] == '"' {
			text, s.memory = records.Field(text, s.memory)
		}
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

// lend returns bytes of a record as a string, as long as they stay there.
func lend(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
