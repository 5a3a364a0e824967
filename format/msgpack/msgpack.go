// Package msgpack reads and writes values as MessagePack.
//
// Times are the extension of the specification. What MessagePack has no type for is as JSON
// has it: a duration is text. Input is not trusted: see the package format.
//
// It must not know where bytes come from.
package msgpack

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/uniflow-labs/uniflow/value"
)

// timeExtension is the type of times.
const timeExtension = -1

// Append appends the encoding of a value. An error among its parts is written as JSON
// writes it.
func Append(dst []byte, v value.Value) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(b)
	e.UseCompactInts(true)
	err := write(e, v)
	return b.Bytes(), err
}

func write(e *msgpack.Encoder, v value.Value) error {
	switch v.Kind() {
	case value.KindNull:
		return e.EncodeNil()
	case value.KindBool:
		return e.EncodeBool(v.Truth())
	case value.KindInt:
		i, _ := v.AsInt()
		return e.EncodeInt(i)
	case value.KindUint:
		u, _ := v.AsUint()
		return e.EncodeUint(u)
	case value.KindFloat:
		f, _ := v.AsFloat()
		return e.EncodeFloat64(f)
	case value.KindDuration:
		d, _ := v.AsDuration()
		return e.EncodeString(d.String())
	case value.KindTime:
		t, _ := v.AsTime()
		return e.EncodeTime(t)
	case value.KindString:
		s, _ := v.AsString()
		return e.EncodeString(s)
	case value.KindBinary:
		b, _ := v.AsBinary()
		if b == nil {
			b = []byte{} // nil would be null
		}
		return e.EncodeBytes(b)
	case value.KindList:
		if err := e.EncodeArrayLen(v.Len()); err != nil {
			return err
		}
		for _, elem := range v.Elems() {
			if err := write(e, elem); err != nil {
				return err
			}
		}
		return nil
	case value.KindMap:
		if err := e.EncodeMapLen(v.Len()); err != nil {
			return err
		}
		for name, field := range v.Fields() {
			if err := errors.Join(e.EncodeString(name), write(e, field)); err != nil {
				return err
			}
		}
		return nil
	default:
		return write(e, value.ErrorMap(v))
	}
}

// Decode reads the one value that data holds. It may not share data. Keys of maps that are
// not texts, and extensions other than times, are an error.
func Decode(data []byte) (value.Value, error) {
	r := bytes.NewReader(data)
	d := decoder{msgpack.GetDecoder(), r}
	defer msgpack.PutDecoder(d.Decoder)
	d.Reset(r)
	v, err := d.value(0)
	if err == nil && r.Len() > 0 {
		err = fmt.Errorf("%d bytes follow the value", r.Len())
	}
	if err != nil {
		return value.Value{}, fmt.Errorf("at byte %d: %w", len(data)-r.Len(), err)
	}
	return v, nil
}

type decoder struct {
	*msgpack.Decoder
	rest *bytes.Reader
}

func (d decoder) value(depth int) (value.Value, error) {
	if depth > value.MaxDepth {
		return value.Value{}, fmt.Errorf("it is nested deeper than %d", value.MaxDepth)
	}
	code, err := d.PeekCode()
	if err != nil {
		return value.Value{}, err
	}
	switch {
	case code == msgpcode.Nil:
		return value.Null(), d.DecodeNil()
	case code == msgpcode.True || code == msgpcode.False:
		b, err := d.DecodeBool()
		return value.Bool(b), err
	case code == msgpcode.Float:
		f, err := d.DecodeFloat32()
		return value.Float(float64(f)), err
	case code == msgpcode.Double:
		f, err := d.DecodeFloat64()
		return value.Float(f), err
	case code == msgpcode.Uint64:
		u, err := d.DecodeUint64()
		if u <= math.MaxInt64 {
			return value.Int(int64(u)), err
		}
		return value.Uint(u), err
	case msgpcode.IsFixedNum(code) || code >= msgpcode.Uint8 && code <= msgpcode.Int64:
		i, err := d.DecodeInt64()
		return value.Int(i), err
	case msgpcode.IsString(code):
		s, err := d.text()
		return value.String(s), err
	case msgpcode.IsBin(code):
		b, err := d.bytes()
		return value.Binary(b), err
	case msgpcode.IsFixedArray(code) || code == msgpcode.Array16 || code == msgpcode.Array32:
		return d.list(depth)
	case msgpcode.IsFixedMap(code) || code == msgpcode.Map16 || code == msgpcode.Map32:
		return d.mapping(depth)
	case msgpcode.IsExt(code):
		return d.extension()
	}
	return value.Value{}, fmt.Errorf("0x%02x is not a type", code)
}

func (d decoder) text() (string, error) {
	b, err := d.bytes()
	if err == nil && !utf8.Valid(b) {
		err = errors.New("a text is not UTF-8")
	}
	return string(b), err
}

// bytes reads a text or bytes.
func (d decoder) bytes() ([]byte, error) {
	n, err := d.count(d.DecodeBytesLen())
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	return b, d.ReadFull(b)
}

// count checks a number of bytes or elements: each needs a byte of what is left.
func (d decoder) count(n int, err error) (int, error) {
	if err == nil && n > d.rest.Len() {
		err = fmt.Errorf("%d bytes or elements are announced, and %d bytes are left", n, d.rest.Len())
	}
	return n, err
}

func (d decoder) list(depth int) (value.Value, error) {
	n, err := d.count(d.DecodeArrayLen())
	if err != nil {
		return value.Value{}, err
	}
	var elems []value.Value
	for range n {
		elem, err := d.value(depth + 1)
		if err != nil {
			return value.Value{}, err
		}
		elems = append(elems, elem)
	}
	return value.List(elems...), nil
}

func (d decoder) mapping(depth int) (value.Value, error) {
	n, err := d.count(d.DecodeMapLen())
	if err != nil {
		return value.Value{}, err
	}
	var b value.MapBuilder
	for range n {
		code, err := d.PeekCode()
		if err != nil {
			return value.Value{}, err
		}
		if !msgpcode.IsString(code) {
			return value.Value{}, errors.New("a key of a map is not a text")
		}
		name, err := d.text()
		if err != nil {
			return value.Value{}, err
		}
		field, err := d.value(depth + 1)
		if err != nil {
			return value.Value{}, err
		}
		b.Set(name, field)
	}
	return b.Build(), nil
}

func (d decoder) extension() (value.Value, error) {
	id, n, err := d.DecodeExtHeader()
	if err != nil {
		return value.Value{}, err
	}
	if id != timeExtension {
		return value.Value{}, fmt.Errorf("extension %d is not known: only times (%d) are", id, timeExtension)
	}
	if n != 4 && n != 8 && n != 12 {
		return value.Value{}, fmt.Errorf("a time has %d bytes", n)
	}
	raw := make([]byte, n)
	if err := d.ReadFull(raw); err != nil {
		return value.Value{}, err
	}
	return readTime(raw)
}

// readTime reads the three forms of a time.
func readTime(raw []byte) (value.Value, error) {
	var seconds int64
	var nanoseconds uint64
	switch len(raw) {
	case 4:
		seconds = int64(be(raw))
	case 8:
		n := be(raw)
		seconds, nanoseconds = int64(n&(1<<34-1)), n>>34
	default:
		seconds, nanoseconds = int64(be(raw[4:])), be(raw[:4])
	}
	if nanoseconds > 999_999_999 {
		return value.Value{}, errors.New("a time has more than 999,999,999 nanoseconds")
	}
	t := time.Unix(seconds, int64(nanoseconds)).UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return value.Value{}, errors.New("a time is not of the years 1 to 9999")
	}
	return value.Time(t), nil
}

func be(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}
