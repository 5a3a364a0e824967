package format

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/value"
)

// A Decoder makes values of records. Any goroutine may use it.
type Decoder struct {
	name      string
	delimiter byte
	columns   []string
	index     map[string]int // of the columns, if they are many
	size      int            // of a row without its text
}

func newDecoder(o Options) *Decoder {
	d := &Decoder{name: o.Name, delimiter: o.Delimiter, columns: o.Columns}
	d.size = value.NewShape(o.Columns...).Map(make([]value.Value, len(o.Columns))...).Size()
	if len(o.Columns) > mostScanned {
		d.index = make(map[string]int, len(o.Columns))
		for i, name := range o.Columns {
			d.index[name] = i
		}
	}
	return d
}

// CSV reports whether the decoder makes maps of rows: see [Decoder.Rows].
func (d *Decoder) CSV() bool { return d.name == CSV }

// Whole reports whether all bytes of a stream are one record.
func (d *Decoder) Whole() bool { return d.name == JSON || d.name == Raw }

// NewDecoder returns a decoder of the records of a format. CSV needs Options.Columns.
func NewDecoder(o Options) *Decoder { return newDecoder(o.withDefaults()) }

// Decode makes the value of a record: text of a line, what JSON says, a map of texts of a
// row of CSV, and binary of what is raw. What a line of JSON has is made when it is read: see
// [value.JSONOptions]. The value may share the bytes, which must not be changed any more.
func (d *Decoder) Decode(raw []byte) (value.Value, error) {
	if d.name == Lines {
		if err := checkLine(raw); err != nil {
			return value.Value{}, err
		}
		return value.String(unsafe.String(unsafe.SliceData(raw), len(raw))), nil
	}
	return d.decode(raw, value.JSONOptions{OnDemand: d.name == NDJSON, Owned: true})
}

// decode is Decode with copies of texts.
func (d *Decoder) decode(raw []byte, o value.JSONOptions) (value.Value, error) {
	switch d.name {
	case Lines:
		return value.String(string(raw)), checkLine(raw)
	case CSV:
		return d.Rows(1)[0].Decode(bytes.Clone(raw))
	case Raw:
		return value.Binary(raw), nil
	}
	return value.ParseJSONWith(raw, o)
}

func checkLine(raw []byte) error {
	if !utf8.Valid(raw) {
		return records.ErrUTF8
	}
	return nil
}

// All makes a list of the records of a text that is not longer than limit bytes, and of
// JSON and raw bytes the one value. Damaged records are an error.
func All(text string, o Options, limit int64) (value.Value, error) {
	if int64(len(text)) > limit {
		return value.Value{}, fmt.Errorf("the text has %d bytes, and at most %d are allowed", len(text), limit)
	}
	o.MaxRecord = max(1, len(text))
	r := NewReader(strings.NewReader(text), o, 0, 1)
	r.End()
	var elems []value.Value
	var records []Record
	for {
		var err error
		if records, err = r.Read(records[:0], 1024, limit); err == io.EOF {
			break
		} else if err != nil {
			return value.Value{}, err
		}
		elems = slices.Grow(elems, len(records))
		for _, rec := range records {
			v, err := value.Value{}, rec.Err
			if err == nil {
				v, err = r.Decoder().decode(rec.Raw, value.JSONOptions{}) // all of them are kept
			}
			if err != nil {
				if o.whole() {
					return value.Value{}, err
				}
				return value.Value{}, fmt.Errorf("line %d: %w", rec.Line, err)
			}
			if o.whole() {
				return v, nil
			}
			elems = append(elems, v)
		}
	}
	return value.List(elems...), nil
}
