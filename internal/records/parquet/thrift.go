package parquet

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// Types of the compact protocol of Thrift.
const (
	thriftTrue = iota + 1
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
	thriftUUID
)

var (
	errThrift      = errors.New("a header is damaged")
	errThriftShort = errors.New("a header ends too early")
)

// unmarshal decodes the Thrift struct at the start of b and returns its length. It
// checks the bytes before the decoder reads them, because the decoder allocates a list
// of two thousand million structs if five bytes claim that there is one.
func unmarshal(b []byte, into any) (used int, err error) {
	defer recoverPanic(&err)
	w := walker{b: b}
	if _, err := w.fields(0); err != nil {
		return 0, err
	}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), b[:w.i], into); err != nil {
		return 0, err
	}
	return w.i, nil
}

// recoverPanic turns a panic of a library into an error.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file is damaged: %v", p)
	}
}

// maxStructs bounds what becomes of a footer: a struct of three bytes may take hundreds
// decoded. Files have some five structs for each column of each row group.
const maxStructs = 1 << 21

// A walker checks that a Thrift struct is complete.
type walker struct {
	b       []byte
	i       int
	structs int
}

// fields goes over the fields of a struct and counts them.
func (w *walker) fields(depth int) (n int, err error) {
	if w.structs++; depth > 32 || w.structs > maxStructs {
		return 0, errThrift
	}
	for {
		head, err := w.take(1)
		if err != nil {
			return 0, err
		}
		if head[0] == 0 {
			return n, nil
		}
		n++
		if head[0]>>4 == 0 {
			if _, err := w.varint(); err != nil {
				return 0, err
			}
		}
		if t := head[0] & 15; t != thriftTrue && t != thriftFalse {
			if err := w.value(t, depth); err != nil {
				return 0, err
			}
		}
	}
}

func (w *walker) value(t byte, depth int) error {
	var err error
	switch t {
	case thriftTrue, thriftFalse, thriftByte: // booleans here are elements of lists
		_, err = w.take(1)
	case thriftI16, thriftI32, thriftI64:
		_, err = w.varint()
	case thriftDouble:
		_, err = w.take(8)
	case thriftUUID:
		_, err = w.take(16)
	case thriftBinary:
		var n uint64
		if n, err = w.varint(); err == nil {
			_, err = w.take(n)
		}
	case thriftList, thriftSet:
		err = w.list(depth)
	case thriftMap:
		err = w.pairs(depth)
	case thriftStruct:
		_, err = w.fields(depth + 1)
	default:
		err = errThrift
	}
	return err
}

func (w *walker) list(depth int) error {
	head, err := w.take(1)
	if err != nil {
		return err
	}
	n, t := uint64(head[0]>>4), head[0]&15
	if n == 15 {
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	for range n {
		if t != thriftStruct {
			if err := w.value(t, depth+1); err != nil {
				return err
			}
			continue
		}
		// An empty struct takes a byte here and hundreds decoded, and Parquet has no
		// lists of structs that can be empty.
		if fields, err := w.fields(depth + 1); err != nil || fields == 0 {
			return cmp.Or(err, errThrift)
		}
	}
	return nil
}

func (w *walker) pairs(depth int) error {
	n, err := w.varint()
	if err != nil || n == 0 {
		return err
	}
	types, err := w.take(1)
	if err != nil {
		return err
	}
	for range n {
		if err := w.value(types[0]>>4, depth+1); err != nil {
			return err
		}
		if err := w.value(types[0]&15, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) take(n uint64) ([]byte, error) {
	if n > uint64(len(w.b)-w.i) {
		return nil, errThriftShort
	}
	w.i += int(n)
	return w.b[w.i-int(n) : w.i], nil
}

func (w *walker) varint() (uint64, error) {
	v, n := binary.Uvarint(w.b[w.i:])
	if n < 0 {
		return 0, errThrift
	}
	if n == 0 {
		return 0, errThriftShort
	}
	w.i += n
	return v, nil
}
