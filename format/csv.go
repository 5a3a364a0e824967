package format

import (
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/value"
)

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
		return value.Value{}, records.ErrUTF8
	}
	r.text = unsafe.String(unsafe.SliceData(raw), len(raw))
	if n := records.Cut(r.text, r.decoder.delimiter, r.ends); n != len(r.ends) {
		return value.Value{}, fmt.Errorf("the row has %d fields, and there are %d columns", n, len(r.ends))
	}
	return r.lazy.Map(r, r.decoder.size+len(r.text), 1), nil
}

// field returns the text of a column.
func (r *Row) field(i int) value.Value {
	at := uint32(0)
	if i > 0 {
		at = r.ends[i-1] + 1
	}
	text, _ := records.Field(r.text[at:r.ends[i]], nil)
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
