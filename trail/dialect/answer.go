package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Answer reads the rows that the statement gave as the answer of the query. Values
// are what drivers and JSON decoders make of SQL: nil, bool, integers, floats,
// json.Number, *big.Int, time.Time, strings (of numbers and dates too), and []any
// of these. Numbers of a sample are scaled to the whole here. Users who were asked for
// come with their ids.
func (s *Statement) Answer(rows [][]any) (*query.Answer, error) {
	a := &query.Answer{Stats: query.Stats{Sample: share(s.query), Warnings: slices.Clone(s.Warnings)}}
	r := &reader{sample: share(s.query)}
	s.read(s, r, rows, a)
	if r.err != nil {
		return nil, r.err
	}
	return a, nil
}

// compareMeasured orders what was measured, null first.
func compareMeasured(a, b query.Measured) int {
	amount := func(m query.Measured) float64 {
		switch m.Type {
		case event.Int:
			return float64(m.Int)
		case event.Float:
			return m.Float
		}
		return math.Inf(-1)
	}
	if a.Type == event.Int && b.Type == event.Int {
		return cmp.Compare(a.Int, b.Int)
	}
	return cmp.Compare(amount(a), amount(b))
}

// A reader reads values of rows. It keeps the first error.
type reader struct {
	sample float64
	err    error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) at(row []any, i int) any {
	if i >= len(row) {
		r.fail(fmt.Errorf("a row of %d columns, want %d or more", len(row), i+1))
		return nil
	}
	return row[i]
}

// integer reads a whole number that fits 64 bits.
func (r *reader) integer(v any) int64 {
	i, ok := whole(v)
	if !ok || !i.IsInt64() {
		r.fail(fmt.Errorf("%v (%T) is not an integer", v, v))
		return 0
	}
	return i.Int64()
}

// whole returns a value as a whole number, if it is one.
func whole(v any) (*big.Int, bool) {
	switch v := v.(type) {
	case *big.Int:
		return v, true
	case json.Number:
		return new(big.Int).SetString(v.String(), 10)
	case string:
		return new(big.Int).SetString(v, 10)
	case float64:
		if v != math.Trunc(v) || math.IsInf(v, 0) {
			return nil, false
		}
		i, _ := big.NewFloat(v).Int(nil)
		return i, true
	}
	switch v := reflect.ValueOf(v); {
	case v.CanInt():
		return big.NewInt(v.Int()), true
	case v.CanUint():
		return new(big.Int).SetUint64(v.Uint()), true
	}
	return nil, false
}

func (r *reader) float(v any) float64 {
	var f float64
	var err error
	switch v := v.(type) {
	case float64:
		f = v
	case float32:
		f = float64(v)
	case json.Number:
		f, err = v.Float64()
	case string:
		f, err = strconv.ParseFloat(v, 64)
	default:
		i, ok := whole(v)
		if !ok {
			err = errors.New("no number")
		} else {
			f, _ = new(big.Float).SetInt(i).Float64()
		}
	}
	if err != nil {
		r.fail(fmt.Errorf("%v (%T): %w", v, v, err))
	}
	return f
}

func (r *reader) text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	r.fail(fmt.Errorf("%v (%T) is not text", v, v))
	return ""
}

// date reads a day as 2026-01-05.
func (r *reader) date(v any) string {
	if t, ok := v.(time.Time); ok {
		return t.Format(time.DateOnly)
	}
	day, _, _ := strings.Cut(r.text(v), " ")
	return day
}

func (r *reader) value(v any, t event.Type) event.Value {
	if v == nil {
		return event.Value{}
	}
	switch t {
	case event.Int:
		return event.IntOf(r.integer(v))
	case event.Float:
		return event.FloatOf(r.float(v))
	case event.Bool:
		switch v := v.(type) {
		case bool:
			return event.BoolOf(v)
		case string:
			return event.BoolOf(v == "true" || v == "1")
		}
		return event.BoolOf(r.integer(v) != 0)
	}
	return event.StringOf(r.text(v))
}

func (r *reader) users(v any) query.Number {
	n := r.integer(v)
	return query.ScaleCount(n, float64(n), r.sample)
}

// measured reads a measure of a property of a type, and the squares next to it if
// it is to be scaled.
func (r *reader) measured(row []any, kind query.MeasureKind, t event.Type) query.Measured {
	v := r.at(row, 0)
	if v == nil {
		return query.Measured{}
	}
	squares := func() float64 {
		if kind == query.Users {
			return r.float(v)
		}
		if s := r.at(row, 1); s != nil {
			return r.float(s)
		}
		return 0
	}
	switch {
	case kind == query.Count || kind == query.Users:
		var spread float64
		if r.sample < 1 {
			spread = squares()
		}
		n := query.ScaleCount(r.integer(v), spread, r.sample)
		return query.Measured{Type: event.Int, Int: n.N, Low: float64(n.Low), High: float64(n.High), Sampled: n.Sampled}
	case kind == query.Sum && r.sample < 1:
		m := query.Measured{Type: event.Float, Sampled: true}
		m.Float, m.Low, m.High = query.ScaleSum(r.float(v), squares(), r.sample)
		if t == event.Int {
			m.Type, m.Int, m.Float = event.Int, int64(math.Round(m.Float)), 0
		}
		return m
	case kind == query.Avg || t == event.Float:
		f := r.float(v)
		if math.IsNaN(f) {
			return query.Measured{} // ClickHouse: of no values
		}
		return query.Measured{Type: event.Float, Float: f}
	}
	if i, ok := whole(v); ok && i.IsInt64() {
		return query.Measured{Type: event.Int, Int: i.Int64()}
	}
	return query.Measured{Type: event.Float, Float: r.float(v)}
}
