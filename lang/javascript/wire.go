package javascript

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// A process and its workers exchange frames: the length of the rest in four bytes, an op,
// and a value. JSON does not have all kinds of values.

// An op is the type of a frame.
type op byte

// The ops. A worker gets a module and then payloads. It responds to each with a result or
// a failure, after any number of records.
const (
	opModule  op = iota + 1 // moduleFrame
	opPayload               // any
	opResult                // any
	opFailure               // failureFrame
	opRecord                // recordFrame
)

// maxFrame limits the length of a frame. A result of maxResult fits: except for errors,
// no value takes more bytes in a frame than value.Value.Size counts.
const maxFrame = maxResult + 1<<20

type (
	moduleFrame struct {
		Code    string // as in the document; places are relative to it
		Root    string // folder of the document
		Script  string
		Map     []byte
		Timeout time.Duration
		Log     bool // send records
		Probe   bool // run the top level, to see what it exports
	}
	failureFrame struct {
		Message string
		After   time.Duration // of a timeout
		Thrown  bool          // by the code; the other fields are from it
		Status  int
		Code    string
		Public  bool
		File    string // the place; without a file it is in the code
		Line    int
		Col     int
	}
	recordFrame struct {
		Level   int
		Message string
		Attrs   map[string]string
	}
)

// A writer makes frames.
type writer struct {
	buf  []byte
	errs []error // the errors in the value, in order
}

// frame returns a frame, or an error if it would be too long.
func (w *writer) frame(o op, v value.Value) ([]byte, error) {
	size := v.Size()
	if size <= maxResult {
		w.buf = append(make([]byte, 4, min(size, 1<<16)+16), byte(o))
		w.value(v)
		size = len(w.buf)
	}
	if size > maxFrame {
		return nil, fmt.Errorf("an isolated script cannot be given, or return, more than %d MiB", maxResult>>20)
	}
	binary.BigEndian.PutUint32(w.buf, uint32(len(w.buf)-4))
	return w.buf, nil
}

func (w *writer) value(v value.Value) {
	k := v.Kind()
	w.buf = append(w.buf, byte(k))
	switch k {
	case value.KindBool:
		w.buf = append(w.buf, 0)
		if v.Truth() {
			w.buf[len(w.buf)-1] = 1
		}
	case value.KindInt:
		i, _ := v.AsInt()
		w.buf = binary.AppendVarint(w.buf, i)
	case value.KindUint:
		u, _ := v.AsUint()
		w.buf = binary.AppendUvarint(w.buf, u)
	case value.KindFloat:
		f, _ := v.AsFloat()
		w.buf = binary.BigEndian.AppendUint64(w.buf, math.Float64bits(f))
	case value.KindDuration:
		d, _ := v.AsDuration()
		w.buf = binary.AppendVarint(w.buf, int64(d))
	case value.KindTime:
		t, _ := v.AsTime()
		name, offset := t.Zone()
		w.buf = binary.AppendVarint(w.buf, t.Unix())
		w.buf = binary.AppendVarint(w.buf, int64(t.Nanosecond()))
		w.buf = binary.AppendVarint(w.buf, int64(offset))
		w.text(name)
	case value.KindString:
		s, _ := v.AsString()
		w.text(s)
	case value.KindBinary:
		b, _ := v.AsBinary()
		w.text(string(b))
	case value.KindList:
		w.buf = binary.AppendUvarint(w.buf, uint64(v.Len()))
		for _, elem := range v.Elems() {
			w.value(elem)
		}
	case value.KindMap:
		w.buf = binary.AppendUvarint(w.buf, uint64(v.Len()))
		for name, field := range v.Fields() {
			w.text(name)
			w.value(field)
		}
	case value.KindError:
		w.error(v)
	}
}

func (w *writer) text(s string) {
	w.buf = append(binary.AppendUvarint(w.buf, uint64(len(s))), s...)
}

// error writes an error as code sees it. An error from the other side goes back as its
// number there, so that it becomes the same error again.
func (w *writer) error(v value.Value) {
	if foreign, ok := v.AsError().(*foreign); ok {
		w.buf = binary.AppendUvarint(w.buf, uint64(foreign.number)+1)
		return
	}
	w.buf = binary.AppendUvarint(w.buf, 0)
	w.errs = append(w.errs, v.AsError())
	w.text(v.AsError().Error())
	w.value(value.ErrorMap(v))
}

// A foreign is an error of the payload in a worker.
type foreign struct {
	number  int // among the errors of the payload
	message string
	fields  []value.Field
}

func (f *foreign) Error() string { return f.message }

// ErrorFields returns the fields for code.
func (f *foreign) ErrorFields() []value.Field { return f.fields }

// A reader reads the value of a frame. The other process may have run out of memory, so an
// invalid frame is an error.
type reader struct {
	buf    []byte
	worker bool    // it has sent no errors, and keeps the numbers of the errors that it reads
	sent   []error // the errors of the payload, in order
	count  int     // of the errors read
	depth  int
	err    error
}

var errFrame = errors.New("a frame is damaged")

// readFrame reads a frame without decoding the value.
func readFrame(from io.Reader) (op, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n < 1 || n > maxFrame {
		return 0, nil, errFrame
	}
	buf := make([]byte, n-1)
	_, err := io.ReadFull(from, buf)
	return op(head[4]), buf, err
}

// whole returns the value, which must be all of the frame.
func (r *reader) whole() (value.Value, error) {
	v := r.value()
	if r.err == nil && len(r.buf) > 0 {
		r.err = errFrame
	}
	return v, r.err
}

func (r *reader) value() value.Value {
	if r.depth > value.MaxDepth {
		r.err = errFrame
	}
	switch value.Kind(r.byte()) {
	case value.KindNull:
		return value.Null()
	case value.KindBool:
		return value.Bool(r.byte() != 0)
	case value.KindInt:
		return value.Int(r.varint())
	case value.KindUint:
		return value.Uint(r.uvarint())
	case value.KindFloat:
		bits := r.bytes(8)
		if r.err != nil {
			return value.Value{}
		}
		return value.Float(math.Float64frombits(binary.BigEndian.Uint64(bits)))
	case value.KindDuration:
		return value.Duration(time.Duration(r.varint()))
	case value.KindTime:
		t := time.Unix(r.varint(), r.varint())
		if offset, name := r.varint(), r.text(); name == "UTC" && offset == 0 {
			t = t.UTC()
		} else {
			t = t.In(time.FixedZone(name, int(offset)))
		}
		return value.Time(t)
	case value.KindString:
		return value.String(r.text())
	case value.KindBinary:
		return value.Binary(bytes.Clone(r.bytes(r.length())))
	case value.KindList:
		r.depth++
		n := r.length()
		elems := make([]value.Value, 0, n)
		for ; n > 0 && r.err == nil; n-- {
			elems = append(elems, r.value())
		}
		r.depth--
		return value.List(elems...)
	case value.KindMap:
		r.depth++
		n := r.length()
		fields := make([]value.Field, 0, n)
		for ; n > 0 && r.err == nil; n-- {
			fields = append(fields, value.Field{Name: r.text(), Value: r.value()})
		}
		r.depth--
		return value.UniqueMap(fields)
	case value.KindError:
		return value.Error(r.error())
	}
	r.err = errFrame
	return value.Value{}
}

// error reads an error: one that this side has sent, one of the payload, or one that the
// code has made.
func (r *reader) error() error {
	if n := r.uvarint(); n > 0 {
		if n > uint64(len(r.sent)) {
			r.err = errFrame
			return r.err
		}
		return r.sent[n-1]
	}
	f := &foreign{number: r.count, message: r.text()}
	r.count++
	m := r.value()
	for name, v := range m.Fields() {
		f.fields = append(f.fields, value.Field{Name: name, Value: v})
	}
	if r.worker {
		return f
	}
	t := &lang.Thrown{Message: f.message}
	code, _ := m.Get("code")
	t.Code, _ = code.AsString()
	status, _ := m.Get("status")
	n, _ := status.AsInt()
	t.Status = int(n)
	public, _ := m.Get("public")
	t.Public = public.Truth()
	return t
}

// bytes returns the next n bytes, which share the memory of the frame.
func (r *reader) bytes(n int) []byte {
	if n > len(r.buf) {
		r.err = errFrame
	}
	if r.err != nil {
		return nil
	}
	b := r.buf[:n]
	r.buf = r.buf[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) text() string { return string(r.bytes(r.length())) }

// length reads the number of bytes, elements or fields that follow. Each takes at least
// one byte.
func (r *reader) length() int {
	n := r.uvarint()
	if n > uint64(len(r.buf)) {
		r.err = errFrame
		return 0
	}
	return int(n)
}

func (r *reader) varint() int64 {
	i, n := binary.Varint(r.buf)
	r.skip(n)
	return i
}

func (r *reader) uvarint() uint64 {
	u, n := binary.Uvarint(r.buf)
	r.skip(n)
	return u
}

// skip skips n bytes. Package binary returns n below 1 if there is no number.
func (r *reader) skip(n int) {
	if n < 1 || r.err != nil {
		r.err = errFrame
		return
	}
	r.buf = r.buf[n:]
}
