package durable

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// form precedes each payload in a journal, so that another form can follow.
const form = 1

// encode returns a value as bytes, without a loss. Errors keep what nodes and triggers ask of them.
func encode(v value.Value) []byte {
	return appendValue(make([]byte, 0, 256), v)
}

func appendValue(data []byte, v value.Value) []byte {
	w := wire.Writer{Buf: data, Error: writeError, Mark: content.Mark}
	w.Byte(form)
	w.Value(v)
	return w.Buf
}

// buffers are used again by hash.
var buffers = sync.Pool{New: func() any { return new(wire.Writer) }}

// hash returns the hash of a value as encode has it, except for the marks of headers: journals have hashes from before
// there were any.
func hash(v value.Value) uint64 {
	w := buffers.Get().(*wire.Writer)
	w.Buf, w.Error = w.Buf[:0], writeError
	w.Byte(form)
	w.Value(v)
	sum := xxhash.Sum64(w.Buf)
	if cap(w.Buf) <= 64<<10 {
		buffers.Put(w)
	}
	return sum
}

// decode is the reverse of encode. The value shares no memory with the bytes.
func decode(data []byte) (value.Value, error) {
	r := reader{Reader: wire.Reader{Buf: data, Marked: content.Marked}}
	r.Error = r.error
	if r.Byte() != form {
		return value.Value{}, wire.ErrDamaged
	}
	return r.Whole()
}

// encodeInput returns what a run begins with, and the fields that are not stored: both are needed to
// compare packets after a crash.
func encodeInput(payload value.Value, strip []string) []byte {
	return encode(value.List(without(payload, paths(strip)), texts(strip)))
}

// encodeStart is encodeInput for a run that begins from a node of another one.
func encodeStart(payload value.Value, strip []string, o origin) []byte {
	return encode(value.List(without(payload, paths(strip)), texts(strip), o.value()))
}

func texts(strip []string) value.Value {
	texts := make([]value.Value, len(strip))
	for i, path := range strip {
		texts[i] = value.String(path)
	}
	return value.List(texts...)
}

func decodeInput(data []byte) (payload value.Value, strip []string, err error) {
	payload, strip, _, err = decodeStart(data)
	return payload, strip, err
}

// decodeStart is decodeInput, with where in another run it begins.
func decodeStart(data []byte) (payload value.Value, strip []string, o origin, err error) {
	v, err := decode(data)
	if err == nil && v.Len() != 2 && v.Len() != 3 {
		err = wire.ErrDamaged
	}
	if err != nil {
		return payload, nil, o, err
	}
	for _, path := range v.At(1).Elems() {
		text, _ := path.AsString()
		strip = append(strip, text)
	}
	if v.Len() == 3 {
		o, err = originOf(v.At(2))
	}
	return v.At(0), strip, o, err
}

// An encoded response is a value behind a byte that says whether there is one.
func encodeResponse(resp node.Response) []byte {
	if resp.None {
		return []byte{0}
	}
	return appendValue(append(make([]byte, 0, 256), 1), resp.Payload)
}

func decodeResponse(data []byte) (node.Response, error) {
	if len(data) == 0 {
		return node.Response{}, wire.ErrDamaged
	}
	if data[0] == 0 {
		return node.Response{None: true}, nil
	}
	v, err := decode(data[1:])
	return node.Response{Payload: v}, err
}

// The parts of which an error is made.
const (
	plainError byte = iota // a message, and whether it is permanent
	nodeError              // a *node.Error
	joined                 // several
	sentinel               // one of sentinels
	wrapping               // a message, whether it is permanent, and the error that it wraps
)

// sentinels are the errors that errors.Is is asked for. Their order must not change.
var sentinels = []error{context.Canceled, context.DeadlineExceeded, node.ErrTimeLimit, node.ErrStopped, node.ErrWaitTimeout}

func writeError(w *wire.Writer, err error) {
	if i := slices.Index(sentinels, err); i >= 0 {
		w.Byte(sentinel)
		w.Uint(uint64(i))
		return
	}
	switch e := err.(type) {
	case *node.Error:
		w.Byte(nodeError)
		writeNodeError(w, e)
		return
	case interface{ Unwrap() []error }:
		w.Byte(joined)
		w.Text(err.Error())
		all := e.Unwrap()
		w.Uint(uint64(len(all)))
		for _, one := range all {
			writeError(w, one)
		}
		return
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			w.Byte(wrapping)
			w.Text(err.Error())
			w.Bool(isPermanent(err))
			writeError(w, inner)
			return
		}
	}
	w.Byte(plainError)
	w.Text(err.Error())
	w.Bool(isPermanent(err))
}

func isPermanent(err error) bool {
	p, ok := err.(interface{ IsPermanent() bool })
	return ok && p.IsPermanent()
}

func writeNodeError(w *wire.Writer, e *node.Error) {
	writeError(w, e.Err)
	w.Int(int64(e.Status))
	w.Text(e.Code)
	w.Bool(e.Public)
	w.Int(int64(e.RetryAfter))
	w.Bool(e.Outage)
	w.Bool(e.Permanent)
	w.Uint(uint64(len(e.Challenges)))
	for _, c := range e.Challenges {
		w.Text(c)
	}
	w.Value(e.Data)
	w.Value(e.Letter)
	for _, s := range []string{e.Node.ID, e.Node.Kind, e.Node.Namespace, e.Node.Name, e.Node.Pos.File} {
		w.Text(s)
	}
	w.Int(int64(e.Node.Pos.Line))
	w.Int(int64(e.Node.Pos.Col))
}

// A reader reads a value with its errors.
type reader struct {
	wire.Reader
	depth int // of errors within errors
}

// maxErrorDepth limits what is read, as bytes on a disk may be damaged. What a program makes is far from it.
const maxErrorDepth = 1_000

func (r *reader) error(*wire.Reader) (err error) {
	r.depth++
	defer func() { r.depth-- }()
	if r.depth > maxErrorDepth {
		r.Err = wire.ErrDamaged
	}
	if r.Err != nil {
		return r.Err
	}
	switch r.Byte() {
	case sentinel:
		if i := r.Uint(); i < uint64(len(sentinels)) {
			return sentinels[i]
		}
	case nodeError:
		return r.nodeError()
	case joined:
		e := &storedJoined{message: r.Text()}
		for n := r.Uint(); n > 0 && r.Err == nil; n-- {
			e.within = append(e.within, r.error(nil))
		}
		return e
	case plainError:
		return stored(r.Text(), r.Bool(), nil)
	case wrapping:
		return stored(r.Text(), r.Bool(), r.error(nil))
	}
	r.Err = wire.ErrDamaged
	return r.Err
}

func (r *reader) nodeError() error {
	e := &node.Error{Err: r.error(nil), Status: int(r.Int()), Code: r.Text(), Public: r.Bool(), RetryAfter: time.Duration(r.Int()), Outage: r.Bool(), Permanent: r.Bool()}
	for n := r.Uint(); n > 0 && r.Err == nil; n-- {
		e.Challenges = append(e.Challenges, r.Text())
	}
	e.Data, e.Letter = r.Value(), r.Value()
	e.Node = node.Ref{ID: r.Text(), Kind: r.Text(), Namespace: r.Text(), Name: r.Text(), Pos: diag.Pos{File: r.Text(), Line: int(r.Int()), Col: int(r.Int())}}
	return e
}

// A storedError has the message of an error that was recorded, and wraps what that did.
type storedError struct {
	message string
	inner   error // nil for none
}

func (e *storedError) Error() string { return e.message }
func (e *storedError) Unwrap() error { return e.inner }

// A storedPermanent is a storedError that says that another attempt fails, too.
type storedPermanent struct{ storedError }

func (e *storedPermanent) IsPermanent() bool { return true }

func stored(message string, permanent bool, inner error) error {
	e := storedError{message, inner}
	if permanent {
		return &storedPermanent{e}
	}
	return &e
}

// A storedJoined has the message of several errors that were joined.
type storedJoined struct {
	message string
	within  []error
}

func (e *storedJoined) Error() string   { return e.message }
func (e *storedJoined) Unwrap() []error { return e.within }
