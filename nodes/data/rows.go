package data

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// A rowMaker makes maps of rows whose fields have the same names. Several rows share
// one array of fields.
type rowMaker struct {
	names []string
	at    []int // index of the field of each column; nil if there is one for each
	free  []value.Field
	next  int // number of rows that the next array is for
}

// mostRows is how many rows share an array, so that a row that is kept does not keep
// many others.
const mostRows = 32

// newRowMaker makes maps with fields of the names of columns. Of those with equal names
// the last one counts.
func newRowMaker(columns []string) rowMaker {
	m := rowMaker{names: columns, next: 1}
	for i, name := range columns {
		first := slices.Index(columns, name)
		if first == i && m.at == nil {
			continue
		}
		if m.at == nil {
			m.names = slices.Clone(columns[:i])
			m.at = make([]int, i, len(columns))
			for j := range i {
				m.at[j] = j
			}
		}
		field := slices.Index(m.names, name)
		if field < 0 {
			field = len(m.names)
			m.names = append(m.names, name)
		}
		m.at = append(m.at, field)
	}
	return m
}

// row returns the fields of the next row, to set their values by set.
func (m *rowMaker) row() []value.Field {
	n := len(m.names)
	if len(m.free) < n {
		m.free = make([]value.Field, n*m.next)
		m.next = min(2*m.next, mostRows)
	}
	fields := m.free[:n:n]
	m.free = m.free[n:]
	for i := range fields {
		fields[i].Name = m.names[i]
	}
	return fields
}

// field returns the index of the field of a column.
func (m *rowMaker) field(column int) int {
	if m.at == nil {
		return column
	}
	return m.at[column]
}

// text returns an argument as text, if that is what a database gets of it.
func text(v value.Value) (s string, ok bool) {
	switch v.Kind() {
	case value.KindString:
		return v.AsString()
	case value.KindTime:
		t, _ := v.AsTime()
		return t.UTC().Format("2006-01-02 15:04:05.999999999"), true
	case value.KindDuration, value.KindError:
		return v.String(), true
	case value.KindList, value.KindMap:
		data, err := v.AppendJSON(nil)
		return string(data), err == nil
	}
	return "", false
}

// parseTime reads a time as databases write it, in UTC if it has no zone.
func parseTime(s string) (value.Value, bool) {
	for _, layout := range []string{"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, strings.Replace(s, "T", " ", 1)); err == nil {
			return value.Time(t), true
		}
	}
	return value.String(s), false
}

// parseInteger reads an integer of up to 64 bits.
func parseInteger(s string) (value.Value, bool) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return value.Int(i), true
	}
	u, err := strconv.ParseUint(s, 10, 64)
	return value.Uint(u), err == nil
}

// parseJSON reads a column of JSON; what is not JSON stays text.
func parseJSON(data []byte) value.Value {
	v, err := value.ParseJSON(data)
	if err != nil {
		return value.String(string(data))
	}
	return v
}
