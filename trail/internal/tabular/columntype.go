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

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A columnType is what the stored values of a Parquet column mean.
type columnType struct {
	physical format.Type
	length   int // bytes of a value of fixed length
	meaning  meaning
	unit     unit // of a timestamp or a time of day
	scale    int  // of a decimal: digits behind the point
}

type meaning uint8

const (
	meansNothing meaning = iota // not one that can be read
	meansItself
	meansUnsigned
	meansText
	meansDate    // days since 1970
	meansClock   // units since midnight
	meansStamp   // units since 1970
	meansDecimal // an integer times 10^-scale
	meansUUID
	meansHalf // a number of 16 bits
)

func columnTypeOf(e *format.SchemaElement) columnType {
	f := columnType{physical: e.Type.V, length: int(e.TypeLength.V), meaning: meansItself}
	bytes := f.physical == format.ByteArray || f.physical == format.FixedLenByteArray
	if f.physical == format.FixedLenByteArray && (f.length <= 0 || f.length > maxRecord) {
		return columnType{}
	}
	switch t := e.LogicalType.Value.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		f.meaning = meansText
	case *format.DateType:
		f.meaning = meansDate
	case *format.TimestampType:
		f.meaning, f.unit = meansStamp, unitOfDuration(t.Unit.Value)
	case *format.TimeType:
		f.meaning, f.unit = meansClock, unitOfDuration(t.Unit.Value)
	case *format.DecimalType:
		f.meaning, f.scale = meansDecimal, int(t.Scale)
	case *format.IntType:
		if !t.IsSigned {
			f.meaning = meansUnsigned
		}
	case *format.UUIDType:
		f.meaning = meansUUID
	case *format.Float16Type:
		f.meaning = meansHalf
	case nil:
		f = f.converted(e)
	default:
		f.meaning = meansNothing
	}
	integer := f.physical == format.Int32 || f.physical == format.Int64
	sound := true
	switch f.meaning {
	case meansItself:
		if bytes {
			f.meaning = meansText
		}
		if f.physical == format.Int96 {
			f.meaning = meansStamp
		}
	case meansText:
		sound = bytes
	case meansUnsigned:
		sound = integer
	case meansDate:
		sound = f.physical == format.Int32
	case meansStamp, meansClock:
		sound = integer && f.unit != bySize
	case meansDecimal:
		sound = (integer || bytes) && f.scale >= 0 && f.scale <= 300
	case meansUUID:
		sound = f.physical == format.FixedLenByteArray && f.length == 16
	case meansHalf:
		sound = f.physical == format.FixedLenByteArray && f.length == 2
	}
	if !sound {
		f.meaning = meansNothing
	}
	return f
}

// converted takes the type as older writers have it.
func (f columnType) converted(e *format.SchemaElement) columnType {
	if !e.ConvertedType.Valid {
		return f
	}
	switch e.ConvertedType.V {
	case deprecated.UTF8, deprecated.Enum, deprecated.Json:
		f.meaning = meansText
	case deprecated.Date:
		f.meaning = meansDate
	case deprecated.TimestampMillis:
		f.meaning, f.unit = meansStamp, milliseconds
	case deprecated.TimestampMicros:
		f.meaning, f.unit = meansStamp, microseconds
	case deprecated.TimeMillis:
		f.meaning, f.unit = meansClock, milliseconds
	case deprecated.TimeMicros:
		f.meaning, f.unit = meansClock, microseconds
	case deprecated.Decimal:
		f.meaning, f.scale = meansDecimal, int(e.Scale.V)
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		f.meaning = meansUnsigned
	case deprecated.Bson, deprecated.Interval:
		f.meaning = meansNothing
	}
	return f
}

func unitOfDuration(u format.TimeUnitValue) unit {
	if u == nil {
		return bySize
	}
	return unit(time.Second / u.Duration())
}

// natural returns the type of property that a column is read as. Dates and times
// are texts that sort by time, as a CSV file would have them.
func (f columnType) natural() event.Type {
	switch f.meaning {
	case meansItself, meansUnsigned:
		switch f.physical {
		case format.Boolean:
			return event.Bool
		case format.Float, format.Double:
			return event.Float
		}
		return event.Int
	case meansDecimal:
		if f.scale == 0 && f.physical != format.ByteArray && f.physical != format.FixedLenByteArray {
			return event.Int
		}
		return event.Float
	case meansHalf:
		return event.Float
	}
	return event.String
}

// A target is what values are made for: a property of a type, or the time.
type target struct {
	columnType
	typ  event.Type
	time bool // to milliseconds, as an Int
	unit unit // of times without one of their own
}

func (a *target) ofInt(v int64) (event.Value, error) {
	if a.physical == format.Int32 {
		v = int64(int32(v))
		if a.meaning == meansUnsigned {
			v = int64(uint32(v))
		}
	}
	if a.time {
		u := a.unit
		switch a.meaning {
		case meansDate:
			u = milliseconds
			v *= 86_400_000 // of 32 bits: it fits
		case meansStamp:
			u = a.columnType.unit
		}
		t, err := millisOf(v, u)
		return event.IntOf(t), err
	}
	switch a.meaning {
	case meansDate:
		return a.finish(event.StringOf(time.Unix(v*86_400, 0).UTC().Format(time.DateOnly)))
	case meansClock:
		return a.finish(event.StringOf(clock(v, a.columnType.unit)))
	case meansStamp:
		if a.typ == event.Int || a.typ == event.Float {
			t, err := millisOf(v, a.columnType.unit)
			if err != nil {
				return event.Value{}, err
			}
			return a.finish(event.IntOf(t))
		}
		s := stamp(floorDiv(v, int64(a.columnType.unit)), modulo(v, int64(a.columnType.unit)), a.columnType.unit)
		return a.finish(event.StringOf(s))
	case meansDecimal:
		if a.scale > 0 {
			return a.finish(event.FloatOf(decimal(big.NewInt(v), a.scale)))
		}
	case meansUnsigned:
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

// ofBytes makes a value of stored bytes, which it lends.
func (a *target) ofBytes(b []byte) (event.Value, error) {
	switch a.meaning {
	case meansDecimal:
		if len(b) > 64 { // over 150 digits; writing them out takes time that grows with the square
			return event.Value{}, fmt.Errorf("a decimal of %d bytes is too large", len(b))
		}
		v := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		if a.scale == 0 && !a.time {
			return a.parse(v.String())
		}
		return a.ofFloat(decimal(v, a.scale))
	case meansHalf:
		return a.ofFloat(half(binary.LittleEndian.Uint16(b)))
	case meansUUID:
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
