package parquet

import (
	"fmt"
	"math/big"
	"time"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// A Type is what the stored values of a column mean.
type Type struct {
	Physical         format.Type
	Length           int // bytes of a value of fixed length
	Meaning          Meaning
	PerSecond        int64 // units of a timestamp or a time of day
	Scale, Precision int   // of a decimal: digits behind the point, and all digits
}

// A Meaning is what a value stands for.
type Meaning uint8

// The meanings, with what is stored.
const (
	Unknown   Meaning = iota // a type that is not known, or does not go with what is stored
	Plain                    // what is stored
	Unsigned                 // Int32 or Int64
	Text                     // bytes
	Date                     // Int32: days since 1970
	Clock                    // Int32 or Int64: units since midnight
	Timestamp                // Int32 or Int64: units since 1970; Int96: nanoseconds of a day and the Julian day
	Decimal                  // Int32, Int64 or bytes: an integer times 10^-Scale
	UUID                     // 16 bytes
	Half                     // 2 bytes: a number
	Null                     // no value is there
)

// maxLength is the longest value of a fixed length.
const maxLength = 1 << 20

func typeOf(e *format.SchemaElement) Type {
	t := Type{Physical: e.Type.V, Length: int(e.TypeLength.V), Meaning: Plain}
	switch l := e.LogicalType.Value.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		t.Meaning = Text
	case *format.DateType:
		t.Meaning = Date
	case *format.TimestampType:
		t.Meaning, t.PerSecond = Timestamp, perSecond(l.Unit.Value)
	case *format.TimeType:
		t.Meaning, t.PerSecond = Clock, perSecond(l.Unit.Value)
	case *format.DecimalType:
		t.Meaning, t.Scale, t.Precision = Decimal, int(l.Scale), int(l.Precision)
	case *format.IntType:
		if !l.IsSigned {
			t.Meaning = Unsigned
		}
	case *format.UUIDType:
		t.Meaning = UUID
	case *format.Float16Type:
		t.Meaning = Half
	case *format.NullType:
		t.Meaning = Null
	case nil:
		t.convert(e)
	default:
		t.Meaning = Unknown
	}
	fixed := t.Physical == format.FixedLenByteArray
	bytes := t.Physical == format.ByteArray || fixed
	integer := t.Physical == format.Int32 || t.Physical == format.Int64
	sound := !fixed || t.Length > 0 && t.Length <= maxLength
	switch t.Meaning {
	case Plain:
		if t.Physical == format.Int96 {
			t.Meaning = Timestamp
		}
	case Text:
		sound = sound && bytes
	case Unsigned:
		sound = integer
	case Date:
		sound = t.Physical == format.Int32
	case Timestamp, Clock:
		sound = integer && t.PerSecond > 0
	case Decimal:
		sound = sound && (integer || bytes) && t.Scale >= 0 && t.Scale <= 300
	case UUID:
		sound = fixed && t.Length == 16
	case Half:
		sound = fixed && t.Length == 2
	}
	if !sound {
		t.Meaning = Unknown
	}
	return t
}

// convert takes the meaning as older writers have it.
func (t *Type) convert(e *format.SchemaElement) {
	if !e.ConvertedType.Valid {
		return
	}
	switch e.ConvertedType.V {
	case deprecated.UTF8, deprecated.Enum, deprecated.Json:
		t.Meaning = Text
	case deprecated.Date:
		t.Meaning = Date
	case deprecated.TimestampMillis:
		t.Meaning, t.PerSecond = Timestamp, 1e3
	case deprecated.TimestampMicros:
		t.Meaning, t.PerSecond = Timestamp, 1e6
	case deprecated.TimeMillis:
		t.Meaning, t.PerSecond = Clock, 1e3
	case deprecated.TimeMicros:
		t.Meaning, t.PerSecond = Clock, 1e6
	case deprecated.Decimal:
		t.Meaning, t.Scale, t.Precision = Decimal, int(e.Scale.V), int(e.Precision.V)
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		t.Meaning = Unsigned
	case deprecated.Bson, deprecated.Interval:
		t.Meaning = Unknown
	}
}

func perSecond(u format.TimeUnitValue) int64 {
	if u == nil {
		return 0
	}
	return int64(time.Second / u.Duration())
}

// nesting reports whether a group is a list or a map by its logical type, or as older
// writers have it.
func nesting(e *format.SchemaElement) (list, dict bool) {
	switch e.LogicalType.Value.(type) {
	case *format.ListType:
		return true, false
	case *format.MapType:
		return false, true
	}
	c := e.ConvertedType
	return c.Valid && c.V == deprecated.List, c.Valid && c.V == deprecated.Map
}

// Integer returns the integer of a decimal that is stored as bytes: two's complement, the
// highest byte first.
func Integer(b []byte) (*big.Int, error) {
	if len(b) > 64 { // over 150 digits; writing them out takes time that grows with the square
		return nil, fmt.Errorf("a decimal of %d bytes is too large", len(b))
	}
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v, nil
}
