// Package wire writes values as bytes, and reads them again without a loss: JSON does not have all
// kinds of values.
//
// Read [Writer] first. What errors become is for its users to say: see [Writer.Error].
//
// The form must not change, as journals keep it. The package must not know who exchanges values.
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// A Writer appends values to Buf.
type Writer struct {
	Buf []byte

	// Error writes an error. It must be set if values may have errors.
	Error func(w *Writer, err error)

	// Mark returns what a map is besides its fields, and what is written for them. 0 is a map like any other, of which
	// fields is not used. Nil marks none.
	Mark func(v value.Value) (mark uint8, fields []value.Field)
}

// Value writes a value.
func (w *Writer) Value(v value.Value) {
	k := v.Kind()
	w.Byte(byte(k))
	switch k {
	case value.KindBool:
		w.Bool(v.Truth())
	case value.KindInt:
		i, _ := v.AsInt()
		w.Int(i)
	case value.KindUint:
		u, _ := v.AsUint()
		w.Uint(u)
	case value.KindFloat:
		f, _ := v.AsFloat()
		w.Buf = binary.BigEndian.AppendUint64(w.Buf, math.Float64bits(f))
	case value.KindDuration:
		d, _ := v.AsDuration()
		w.Int(int64(d))
	case value.KindTime:
		t, _ := v.AsTime()
		name, offset := t.Zone()
		w.Int(t.Unix())
		w.Int(int64(t.Nanosecond()))
		w.Int(int64(offset))
		w.Text(name)
	case value.KindString:
		s, _ := v.AsString()
		w.Text(s)
	case value.KindBinary:
		b, _ := v.AsBinary()
		w.Text(string(b))
	case value.KindList:
		w.Uint(uint64(v.Len()))
		for _, elem := range v.Elems() {
			w.Value(elem)
		}
	case value.KindMap:
		if w.Mark != nil {
			if mark, fields := w.Mark(v); mark > 0 {
				w.padded(uint64(len(fields)), mark)
				for _, f := range fields {
					w.Text(f.Name)
					w.Value(f.Value)
				}
				return
			}
		}
		w.Uint(uint64(v.Len()))
		for name, field := range v.Fields() {
			w.Text(name)
			w.Value(field)
		}
	case value.KindError:
		w.Error(w, v.AsError())
	}
}

// Text writes a text with its length.
func (w *Writer) Text(s string) {
	w.Uint(uint64(len(s)))
	w.Buf = append(w.Buf, s...)
}

// Int writes an integer, small ones in few bytes.
func (w *Writer) Int(i int64) { w.Buf = binary.AppendVarint(w.Buf, i) }

// Uint writes an integer, small ones in few bytes.
func (w *Writer) Uint(u uint64) { w.Buf = binary.AppendUvarint(w.Buf, u) }

// padded writes an integer in more bytes than it takes. Readers that know no marks read the same integer.
func (w *Writer) padded(u uint64, more uint8) {
	w.Uint(u)
	w.Buf[len(w.Buf)-1] |= 0x80
	for range more - 1 {
		w.Byte(0x80)
	}
	w.Byte(0)
}

// Byte writes a byte.
func (w *Writer) Byte(b byte) { w.Buf = append(w.Buf, b) }

// Bool writes a boolean.
func (w *Writer) Bool(b bool) {
	if b {
		w.Byte(1)
		return
	}
	w.Byte(0)
}

// A Reader reads what a [Writer] has written from Buf. Buf may come from anywhere: after what is
// not valid all that is read is zero, and Err says so.
type Reader struct {
	Buf   []byte
	Err   error
	Error func(r *Reader) error // reads what [Writer.Error] has written

	// Marked makes the map that [Writer.Mark] has marked. Nil makes maps like any other.
	Marked func(mark uint8, fields []value.Field) value.Value

	depth int
}

// reserved is for how many elements there is room at first: a length that is damaged must not take memory.
const reserved = 64

// ErrDamaged says that bytes are not what a [Writer] writes.
var ErrDamaged = errors.New("a value is damaged")

// Whole returns the value, which must be all that there is.
func (r *Reader) Whole() (value.Value, error) {
	v := r.Value()
	if r.Err == nil && len(r.Buf) > 0 {
		r.Err = ErrDamaged
	}
	return v, r.Err
}

// Value reads a value.
func (r *Reader) Value() value.Value {
	if r.depth > value.MaxDepth {
		r.Err = ErrDamaged
	}
	switch value.Kind(r.Byte()) {
	case value.KindNull:
		return value.Null()
	case value.KindBool:
		return value.Bool(r.Bool())
	case value.KindInt:
		return value.Int(r.Int())
	case value.KindUint:
		return value.Uint(r.Uint())
	case value.KindFloat:
		bits := r.bytes(8)
		if r.Err != nil {
			return value.Value{}
		}
		return value.Float(math.Float64frombits(binary.BigEndian.Uint64(bits)))
	case value.KindDuration:
		return value.Duration(time.Duration(r.Int()))
	case value.KindTime:
		t := time.Unix(r.Int(), r.Int())
		if offset, name := r.Int(), r.Text(); name == "UTC" && offset == 0 {
			t = t.UTC()
		} else {
			t = t.In(time.FixedZone(name, int(offset)))
		}
		return value.Time(t)
	case value.KindString:
		return value.String(r.Text())
	case value.KindBinary:
		return value.Binary(bytes.Clone(r.bytes(r.length())))
	case value.KindList:
		r.depth++
		n := r.length()
		elems := make([]value.Value, 0, min(n, reserved))
		for ; n > 0 && r.Err == nil; n-- {
			elems = append(elems, r.Value())
		}
		r.depth--
		return value.List(elems...)
	case value.KindMap:
		r.depth++
		before := len(r.Buf)
		n := r.length()
		mark := before - len(r.Buf) - len(binary.AppendUvarint(nil, uint64(n)))
		fields := make([]value.Field, 0, min(n, reserved))
		for ; n > 0 && r.Err == nil; n-- {
			fields = append(fields, value.Field{Name: r.Text(), Value: r.Value()})
		}
		r.depth--
		if mark > 0 && r.Err == nil && r.Marked != nil {
			return r.Marked(uint8(mark), fields)
		}
		return value.UniqueMap(fields)
	case value.KindError:
		depth := r.depth // what an error has is counted by itself
		r.depth = 0
		err := r.Error(r)
		r.depth = depth
		return value.Error(err)
	}
	r.Err = ErrDamaged
	return value.Value{}
}

// bytes returns the next n bytes, which share the memory of Buf.
func (r *Reader) bytes(n int) []byte {
	if n > len(r.Buf) {
		r.Err = ErrDamaged
	}
	if r.Err != nil {
		return nil
	}
	b := r.Buf[:n]
	r.Buf = r.Buf[n:]
	return b
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Text reads a text.
func (r *Reader) Text() string { return string(r.bytes(r.length())) }

// length reads the number of bytes, elements or fields that follow. Each takes at least
// one byte.
func (r *Reader) length() int {
	n := r.Uint()
	if n > uint64(len(r.Buf)) {
		r.Err = ErrDamaged
		return 0
	}
	return int(n)
}

// Int reads an integer.
func (r *Reader) Int() int64 {
	i, n := binary.Varint(r.Buf)
	r.skip(n)
	return i
}

// Uint reads an integer.
func (r *Reader) Uint() uint64 {
	u, n := binary.Uvarint(r.Buf)
	r.skip(n)
	return u
}

// skip skips n bytes. Package binary returns n below 1 if there is no number.
func (r *Reader) skip(n int) {
	if n < 1 || r.Err != nil {
		r.Err = ErrDamaged
		return
	}
	r.Buf = r.Buf[n:]
}

// Bool reads a boolean.
func (r *Reader) Bool() bool { return r.Byte() != 0 }
