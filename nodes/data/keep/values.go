package keep

import (
	"errors"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// valueForm precedes each value, so that another form can follow.
const valueForm = 1

// Encode writes a value without a loss, also the header of a request or an answer, except that an error in it has its
// text only: then it is not whole.
func Encode(v value.Value) (blob []byte, whole bool) {
	whole = true
	w := wire.Writer{Mark: content.Mark, Error: func(w *wire.Writer, err error) {
		whole = false
		w.Text(err.Error())
	}}
	w.Byte(valueForm)
	w.Value(v)
	return w.Buf, whole
}

// Decode reads what Encode has written. The bytes may come from anywhere.
func Decode(blob []byte) (value.Value, error) {
	r := wire.Reader{Buf: blob, Marked: content.Marked, Error: func(r *wire.Reader) error { return errors.New(r.Text()) }}
	if r.Byte() != valueForm {
		return value.Value{}, wire.ErrDamaged
	}
	return r.Whole()
}
