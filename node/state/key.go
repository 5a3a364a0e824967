package state

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/value"
)

// A Key stands for a value in a map: equal values have equal keys, and others have
// not. It is a hash that a client cannot find a second value for, so that its size does
// not depend on the value's.
type Key [sha256.Size]byte

// KeyOf returns the key of a value.
func KeyOf(v value.Value) Key {
	w := keyWriters.Get().(*keyWriter)
	w.value(v)
	k := w.sum()
	keyWriters.Put(w)
	return k
}

// A keyWriter writes values so that equal ones give equal bytes: numbers by value,
// times by instant, maps in the order of their names. Every part has a kind and a
// length, so that others give other bytes.
type keyWriter struct {
	buf    []byte
	fields []value.Field // of the maps that are being written
	digest hash.Hash
	long   bool // digest has the beginning
}

var keyWriters = sync.Pool{New: func() any { return &keyWriter{digest: sha256.New()} }}

// keyBuffer is how many bytes are collected before they are hashed.
const keyBuffer = 4096

func (w *keyWriter) sum() Key {
	if w.long {
		return w.longSum()
	}
	k := sha256.Sum256(w.buf)
	w.buf = w.buf[:0]
	return k
}

// longSum is not a part of sum because its key is on the heap.
func (w *keyWriter) longSum() (k Key) {
	w.flush()
	w.digest.Sum(k[:0])
	w.digest.Reset()
	w.long = false
	return k
}

func (w *keyWriter) flush() {
	w.digest.Write(w.buf)
	w.buf, w.long = w.buf[:0], true
}

func (w *keyWriter) value(v value.Value) {
	if len(w.buf) >= keyBuffer {
		w.flush()
	}
	k := v.Kind()
	switch k {
	case value.KindBool:
		n := uint64(0)
		if v.Truth() {
			n = 1
		}
		w.word(k, n)
	case value.KindInt, value.KindUint, value.KindFloat:
		w.number(v)
	case value.KindDuration:
		d, _ := v.AsDuration()
		w.word(k, uint64(d))
	case value.KindTime:
		t, _ := v.AsTime()
		w.word(k, uint64(t.Unix()))
		w.word(k, uint64(t.Nanosecond()))
	case value.KindBinary:
		b, _ := v.AsBinary()
		w.word(k, uint64(len(b)))
		for len(b) > keyBuffer {
			w.buf = append(w.buf, b[:keyBuffer]...)
			b = b[keyBuffer:]
			w.flush()
		}
		w.buf = append(w.buf, b...)
	case value.KindList:
		w.word(k, uint64(v.Len()))
		for _, e := range v.Elems() {
			w.value(e)
		}
	case value.KindMap:
		w.mapping(v)
	case value.KindString, value.KindError:
		w.text(k, v.String())
	default:
		w.word(k, 0)
	}
}

// number writes an integral float as the integer that it equals.
func (w *keyWriter) number(v value.Value) {
	if i, ok := v.AsInt(); ok {
		w.word(value.KindInt, uint64(i))
	} else if u, ok := v.AsUint(); ok {
		w.word(value.KindUint, u)
	} else {
		f, _ := v.AsFloat()
		if f != f {
			f = math.NaN() // there are many
		}
		w.word(value.KindFloat, math.Float64bits(f))
	}
}

func (w *keyWriter) mapping(v value.Value) {
	start := len(w.fields)
	for name, e := range v.Fields() {
		w.fields = append(w.fields, value.Field{Name: name, Value: e})
	}
	slices.SortFunc(w.fields[start:], func(a, b value.Field) int { return strings.Compare(a.Name, b.Name) })
	end := len(w.fields)
	w.word(value.KindMap, uint64(end-start))
	for i := start; i < end; i++ {
		w.text(value.KindString, w.fields[i].Name)
		w.value(w.fields[i].Value)
	}
	clear(w.fields[start:])
	w.fields = w.fields[:start]
}

func (w *keyWriter) text(k value.Kind, s string) {
	w.word(k, uint64(len(s)))
	for len(s) > keyBuffer {
		w.buf = append(w.buf, s[:keyBuffer]...)
		s = s[keyBuffer:]
		w.flush()
	}
	w.buf = append(w.buf, s...)
}

func (w *keyWriter) word(k value.Kind, n uint64) {
	w.buf = binary.LittleEndian.AppendUint64(append(w.buf, byte(k)), n)
}
