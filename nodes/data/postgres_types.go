package data

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/value"
)

// Types of PostgreSQL, by number. The package pgtype of the library has them, too, with 1 MB
// of code.
const (
	typeBool        = 16
	typeInt2        = 21
	typeInt4        = 23
	typeInt8        = 20
	typeFloat4      = 700
	typeFloat8      = 701
	typeNumeric     = 1700
	typeText        = 25
	typeVarchar     = 1043
	typeBPChar      = 1042
	typeName        = 19
	typeUUID        = 2950
	typeDate        = 1082
	typeTime        = 1083
	typeInterval    = 1186
	typeTimestamp   = 1114
	typeTimestamptz = 1184
	typeJSON        = 114
	typeJSONB       = 3802
	typeBytea       = 17
	typeInet        = 869
	typeCIDR        = 650
	typeOID         = 26
	typeUnknown     = 705
)

// The forms of arguments and columns.
const (
	formatText   = 0
	formatBinary = 1
)

// binaryColumns are the types that are read in their binary form; all others are
// read as text.
var binaryColumns = map[uint32]bool{
	typeBool: true, typeInt2: true, typeInt4: true, typeInt8: true, typeOID: true,
	typeFloat4: true, typeFloat8: true, typeBytea: true, typeUUID: true,
	typeTimestamp: true, typeTimestamptz: true, typeJSONB: true,
}

// An arena makes strings that share memory, small ones only, so that a string that is
// kept does not keep much else.
type arena struct{ free []byte }

const (
	arenaBlock  = 1 << 10
	arenaString = arenaBlock / 4
)

func (a *arena) string(b []byte) value.Value {
	if len(b) > arenaString {
		return value.String(string(b))
	}
	if len(a.free) < len(b) {
		a.free = make([]byte, arenaBlock)
	}
	n := copy(a.free, b)
	s := unsafe.String(unsafe.SliceData(a.free), n) // never written to again
	a.free = a.free[n:]
	return value.String(s)
}

// epoch is the time 0 of the binary form of times.
const epoch = 946684800 // 2000-01-01, in Unix seconds

// postgresValue makes a value of a column that is not NULL. The data are not kept.
func postgresValue(data []byte, oid, elem uint32, texts *arena) value.Value {
	switch oid {
	case typeInt4:
		return value.Int(int64(int32(binary.BigEndian.Uint32(data))))
	case typeInt8:
		return value.Int(int64(binary.BigEndian.Uint64(data)))
	case typeText, typeVarchar, typeBPChar, typeName, typeNumeric, typeDate:
		return texts.string(data)
	case typeBool:
		return value.Bool(data[0] != 0)
	case typeFloat8:
		return value.Float(math.Float64frombits(binary.BigEndian.Uint64(data)))
	case typeFloat4:
		return shortFloat(math.Float32frombits(binary.BigEndian.Uint32(data)))
	case typeInt2:
		return value.Int(int64(int16(binary.BigEndian.Uint16(data))))
	case typeOID:
		return value.Int(int64(binary.BigEndian.Uint32(data)))
	case typeTimestamp, typeTimestamptz:
		micros := int64(binary.BigEndian.Uint64(data))
		switch micros {
		case math.MaxInt64:
			return value.String("infinity")
		case math.MinInt64:
			return value.String("-infinity")
		}
		seconds := micros / 1e6
		return value.Time(time.Unix(epoch+seconds, (micros-seconds*1e6)*1e3).UTC())
	case typeBytea:
		return value.Binary(append([]byte{}, data...))
	case typeUUID:
		var text [36]byte
		hex.Encode(text[:8], data[:4])
		hex.Encode(text[9:13], data[4:6])
		hex.Encode(text[14:18], data[6:8])
		hex.Encode(text[19:23], data[8:10])
		hex.Encode(text[24:], data[10:16])
		text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
		return texts.string(text[:])
	case typeJSON:
		return parseJSON(data)
	case typeJSONB:
		return parseJSON(data[1:]) // after the version
	}
	if elem != 0 {
		if v, rest, ok := parseArray(string(data), elem); ok && rest == "" {
			return v
		}
	}
	return texts.string(data)
}

// shortFloat is the float64 that reads like the float32: 0.1 and not 0.10000000149.
func shortFloat(f float32) value.Value {
	long, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	if err != nil {
		long = float64(f)
	}
	return value.Float(long)
}

// parseArray reads an array such as {1,NULL,"a b"} or [0:1]={1,2}.
func parseArray(s string, elem uint32) (list value.Value, rest string, ok bool) {
	if strings.HasPrefix(s, "[") { // its bounds
		_, after, found := strings.Cut(s, "=")
		if !found {
			return list, s, false
		}
		s = after
	}
	if !strings.HasPrefix(s, "{") {
		return list, s, false
	}
	var elems []value.Value
	for s = s[1:]; ; {
		switch {
		case s == "":
			return list, s, false
		case s[0] == '}':
			return value.List(elems...), s[1:], true
		case s[0] == ',':
			s = s[1:]
		case s[0] == '{':
			inner, after, ok := parseArray(s, elem)
			if !ok {
				return list, s, false
			}
			elems, s = append(elems, inner), after
		case s[0] == '"':
			var text strings.Builder
			i := 1
			for i < len(s) && s[i] != '"' {
				if s[i] == '\\' && i+1 < len(s) {
					i++
				}
				text.WriteByte(s[i])
				i++
			}
			if i >= len(s) {
				return list, s, false
			}
			elems, s = append(elems, elementValue(text.String(), elem)), s[i+1:]
		default:
			end := strings.IndexAny(s, ",}")
			if end < 0 {
				return list, s, false
			}
			if text := s[:end]; text == "NULL" {
				elems = append(elems, value.Null())
			} else {
				elems = append(elems, elementValue(text, elem))
			}
			s = s[end:]
		}
	}
}

// elementValue makes a value of the text of an element.
func elementValue(s string, oid uint32) value.Value {
	switch oid {
	case typeInt2, typeInt4, typeInt8, typeOID:
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return value.Int(i)
		}
	case typeFloat4, typeFloat8:
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return value.Float(f)
		}
	case typeBool:
		return value.Bool(s == "t")
	case typeJSON, typeJSONB:
		return parseJSON([]byte(s))
	case typeTimestamp, typeTimestamptz:
		return postgresTime(s)
	case typeBytea:
		if b, err := hex.DecodeString(strings.TrimPrefix(s, `\x`)); err == nil {
			return value.Binary(b)
		}
	}
	return value.String(s)
}

// postgresTime reads a time, of years that [time.Parse] does not take, too: those before Christ, and
// those of more than four digits. Its text stays if it is none, such as infinity.
func postgresTime(s string) value.Value {
	if v, ok := parseTime(s); ok {
		return v
	}
	text, before := strings.CutSuffix(s, " BC")
	digits, rest, _ := strings.Cut(text, "-")
	year, err := strconv.Atoi(digits)
	if err != nil {
		return value.String(s)
	}
	if before {
		year = 1 - year
	}
	like := 2000 + (year%400+400)%400 // the calendar repeats itself after 400 years
	v, ok := parseTime(strconv.Itoa(like) + "-" + rest)
	if !ok {
		return value.String(s)
	}
	t, _ := v.AsTime()
	return value.Time(time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location()))
}

var errJSON = errors.New("cannot be written as JSON")

// appendArgument writes an argument as PostgreSQL reads it from text.
func appendArgument(dst []byte, v value.Value, oid uint32) ([]byte, error) {
	switch v.Kind() {
	case value.KindInt:
		i, _ := v.AsInt()
		return strconv.AppendInt(dst, i, 10), nil
	case value.KindFloat:
		f, _ := v.AsFloat()
		if i, ok := v.AsInt(); ok && (oid == typeInt2 || oid == typeInt4 || oid == typeInt8) {
			return strconv.AppendInt(dst, i, 10), nil
		}
		return strconv.AppendFloat(dst, f, 'g', -1, 64), nil
	case value.KindTime:
		t, _ := v.AsTime()
		return t.UTC().AppendFormat(dst, "2006-01-02 15:04:05.999999999Z07:00"), nil
	case value.KindDuration:
		if d, _ := v.AsDuration(); oid == typeInterval {
			return append(strconv.AppendInt(dst, d.Microseconds(), 10), " microseconds"...), nil
		}
	case value.KindBinary:
		if b, _ := v.AsBinary(); oid != typeText {
			return hex.AppendEncode(append(dst, `\x`...), b), nil
		}
	case value.KindString:
		s, _ := v.AsString()
		return append(dst, s...), nil
	case value.KindList:
		switch oid {
		case typeJSON, typeJSONB, typeText, typeVarchar, typeUnknown:
			return appendJSON(dst, v)
		}
		return appendArray(dst, v)
	case value.KindMap:
		return appendJSON(dst, v)
	}
	return append(dst, v.String()...), nil
}

func appendJSON(dst []byte, v value.Value) ([]byte, error) {
	dst, err := v.AppendJSON(dst)
	if err != nil {
		return nil, errJSON
	}
	return dst, nil
}

// appendArray writes a list as an array.
func appendArray(dst []byte, list value.Value) ([]byte, error) {
	dst = append(dst, '{')
	for i, e := range list.Elems() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		switch e.Kind() {
		case value.KindNull:
			dst = append(dst, "NULL"...)
			continue
		case value.KindList:
			if dst, err = appendArray(dst, e); err != nil {
				return nil, err
			}
			continue
		}
		var text []byte
		if text, err = appendArgument(nil, e, 0); err != nil {
			return nil, err
		}
		dst = append(dst, '"')
		for _, c := range text {
			if c == '"' || c == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, c)
		}
		dst = append(dst, '"')
	}
	return append(dst, '}'), nil
}
