package tabular

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/internal/records/parquet"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A target is what values are made for: a property of a type, or the time.
type target struct {
	parquet.Type
	typ  event.Type
	time bool // to milliseconds, as an Int
	unit unit // of times without one of their own
}

// natural returns the type of property that a column is read as. Dates and times
// are texts that sort by time, as a CSV file would have them.
func (a *target) natural() event.Type {
	switch a.Meaning {
	case parquet.Plain, parquet.Unsigned:
		switch a.Physical {
		case format.Boolean:
			return event.Bool
		case format.Float, format.Double:
			return event.Float
		}
		return event.Int
	case parquet.Decimal:
		if a.Scale == 0 && a.Physical != format.ByteArray && a.Physical != format.FixedLenByteArray {
			return event.Int
		}
		return event.Float
	case parquet.Half:
		return event.Float
	}
	return event.String
}

// of makes a value of the i-th stored one.
func (a *target) of(stored *parquet.Values, i int) (event.Value, error) {
	switch a.Physical {
	case format.Boolean:
		return a.ofBool(stored.Ints[i] != 0)
	case format.Int32, format.Int64:
		return a.ofInt(stored.Ints[i])
	case format.Int96:
		return a.of96(stored.Bytes[i])
	case format.Float, format.Double:
		return a.ofFloat(stored.Floats[i])
	}
	return a.ofBytes(stored.Bytes[i])
}

func (a *target) ofInt(v int64) (event.Value, error) {
	if a.Physical == format.Int32 && a.Meaning == parquet.Unsigned {
		v = int64(uint32(v))
	}
	if a.time {
		u := a.unit
		switch a.Meaning {
		case parquet.Date:
			u = milliseconds
			v *= 86_400_000 // of 32 bits: it fits
		case parquet.Timestamp:
			u = unit(a.PerSecond)
		}
		t, err := millisOf(v, u)
		return event.IntOf(t), err
	}
	switch a.Meaning {
	case parquet.Date:
		return a.finish(event.StringOf(time.Unix(v*86_400, 0).UTC().Format(time.DateOnly)))
	case parquet.Clock:
		return a.finish(event.StringOf(clock(v, unit(a.PerSecond))))
	case parquet.Timestamp:
		if a.typ == event.Int || a.typ == event.Float {
			t, err := millisOf(v, unit(a.PerSecond))
			if err != nil {
				return event.Value{}, err
			}
			return a.finish(event.IntOf(t))
		}
		s := stamp(floorDiv(v, a.PerSecond), modulo(v, a.PerSecond), unit(a.PerSecond))
		return a.finish(event.StringOf(s))
	case parquet.Decimal:
		if a.Scale > 0 {
			return a.finish(event.FloatOf(decimal(big.NewInt(v), a.Scale)))
		}
	case parquet.Unsigned:
		if v < 0 {
			return a.parse(strconv.FormatUint(uint64(v), 10))
		}
	}
	return a.finish(event.IntOf(v))
}

// of96 makes a value of a timestamp as Impala once stored them: nanoseconds of the
// day and the Julian day.
func (a *target) of96(b []byte) (event.Value, error) {
	nanos := int64(binary.LittleEndian.Uint64(b))
	day := int64(binary.LittleEndian.Uint32(b[8:])) - 2_440_588
	if nanos < 0 || nanos >= 86_400_000_000_000 {
		return event.Value{}, errTime
	}
	ms := day*86_400_000 + nanos/1_000_000
	if ms < event.MinTime || ms > event.MaxTime {
		return event.Value{}, errTimeRange
	}
	if a.time {
		return event.IntOf(ms), nil
	}
	if a.typ == event.Int || a.typ == event.Float {
		return a.finish(event.IntOf(ms))
	}
	return a.finish(event.StringOf(stamp(day*86_400+nanos/1_000_000_000, nanos%1_000_000_000, nanoseconds)))
}

func (a *target) ofFloat(v float64) (event.Value, error) {
	if !a.time {
		return a.finish(event.FloatOf(v))
	}
	t, err := millisOfFloat(v, a.unit)
	return event.IntOf(t), err
}

func (a *target) ofBool(v bool) (event.Value, error) {
	if a.time {
		return event.Value{}, errTime
	}
	return a.finish(event.BoolOf(v))
}

// ofBytes makes a value of stored bytes. A String shares their memory.
func (a *target) ofBytes(b []byte) (event.Value, error) {
	switch a.Meaning {
	case parquet.Decimal:
		v, err := parquet.Integer(b)
		if err != nil {
			return event.Value{}, err
		}
		if a.Scale == 0 && !a.time {
			return a.parse(v.String())
		}
		return a.ofFloat(decimal(v, a.Scale))
	case parquet.Half:
		return a.ofFloat(half(binary.LittleEndian.Uint16(b)))
	case parquet.UUID:
		return a.finish(event.StringOf(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])))
	}
	if len(b) > maxRecord {
		return event.Value{}, errors.New("longer than 1 MiB")
	}
	if !utf8.Valid(b) {
		return event.Value{}, records.ErrUTF8
	}
	if a.time {
		if len(b) == 0 {
			return event.Value{}, nil
		}
		t, err := parseTime(lend(b), a.unit)
		if err != nil {
			return event.Value{}, fmt.Errorf("%s: %w", quote(lend(b)), err)
		}
		return event.IntOf(t), nil
	}
	return a.finish(event.StringOf(lend(b)))
}

func (a *target) finish(v event.Value) (event.Value, error) {
	if w, ok := v.As(a.typ); ok && v.Exact(a.typ) {
		if w.Type() == event.Int && w.Int() == math.MinInt64 {
			return event.Value{}, errLeast
		}
		return w, nil
	}
	return a.parse(v.String())
}

func (a *target) parse(text string) (event.Value, error) {
	v, ok := parseValue(text, a.typ)
	if ok {
		return v, nil
	}
	if err := tooLarge(text, a.typ); err != nil {
		return event.Value{}, fmt.Errorf("%w; as a string it can be kept", err)
	}
	return event.Value{}, fmt.Errorf("%s is not %s", quote(text), article(a.typ))
}

// stamp writes a time in a form that sorts by time: with the digits of its unit.
func stamp(sec, fraction int64, u unit) string {
	t := time.Unix(sec, fraction*int64(nanoseconds/u)).UTC()
	switch u {
	case milliseconds:
		return t.Format("2006-01-02T15:04:05.000Z")
	case microseconds:
		return t.Format("2006-01-02T15:04:05.000000Z")
	}
	return t.Format("2006-01-02T15:04:05.000000000Z")
}

func clock(v int64, u unit) string {
	s := stamp(floorDiv(v, int64(u)), modulo(v, int64(u)), u)
	return strings.TrimSuffix(s[strings.IndexByte(s, 'T')+1:], "Z")
}

func modulo(a, b int64) int64 { return a - floorDiv(a, b)*b }

// decimal returns the nearest number to v * 10^-scale.
func decimal(v *big.Int, scale int) float64 {
	f, err := strconv.ParseFloat(v.String()+"e-"+strconv.Itoa(scale), 64)
	if err != nil { // too large for any
		return math.Inf(1)
	}
	return f
}

func half(b uint16) float64 {
	exponent, fraction := int(b>>10&31), float64(b&1023)
	v := math.NaN()
	switch {
	case exponent == 0:
		v = math.Ldexp(fraction, -24)
	case exponent < 31:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if b>>15 == 1 {
		v = -v
	}
	return v
}
