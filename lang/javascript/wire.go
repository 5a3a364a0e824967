package javascript

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
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
	wire.Writer
	errs []error // the errors in the value, in order
}

// frame returns a frame, or an error if it would be too long.
func (w *writer) frame(o op, v value.Value) ([]byte, error) {
	size := v.Size()
	if size <= maxResult {
		w.Buf, w.Error = append(make([]byte, 4, min(size, 1<<16)+16), byte(o)), w.error
		w.Value(v)
		size = len(w.Buf)
	}
	if size > maxFrame {
		return nil, fmt.Errorf("an isolated script cannot be given, or return, more than %d MiB", maxResult>>20)
	}
	binary.BigEndian.PutUint32(w.Buf, uint32(len(w.Buf)-4))
	return w.Buf, nil
}

// error writes an error as code sees it. An error from the other side goes back as its
// number there, so that it becomes the same error again.
func (w *writer) error(_ *wire.Writer, err error) {
	if foreign, ok := err.(*foreign); ok {
		w.Uint(uint64(foreign.number) + 1)
		return
	}
	w.Uint(0)
	w.errs = append(w.errs, err)
	w.Text(err.Error())
	w.Value(value.ErrorMap(value.Error(err)))
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
	wire.Reader
	worker bool    // it has sent no errors, and keeps the numbers of the errors that it reads
	sent   []error // the errors of the payload, in order
	count  int     // of the errors read
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
	r.Error = r.error
	v, err := r.Whole()
	if err != nil {
		err = errFrame
	}
	return v, err
}

// error reads an error: one that this side has sent, one of the payload, or one that the
// code has made.
func (r *reader) error(*wire.Reader) error {
	if n := r.Uint(); n > 0 {
		if n > uint64(len(r.sent)) {
			r.Err = errFrame
			return r.Err
		}
		return r.sent[n-1]
	}
	f := &foreign{number: r.count, message: r.Text()}
	r.count++
	m := r.Value()
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
