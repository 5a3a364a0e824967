package events

import (
	"math"

	"github.com/uniflow-labs/uniflow/value"
)

// A valueWriter makes a value of an answer: the value of its JSON text.
type valueWriter struct {
	root value.Value
	open []container
}

// A container is an object or array that has not ended.
type container struct {
	object bool
	key    string // of the next value of an object; may be ""
	fields []value.Field
	items  []value.Value
}

func (w *valueWriter) put(v value.Value) {
	if len(w.open) == 0 {
		w.root = v
		return
	}
	c := &w.open[len(w.open)-1]
	if c.object {
		c.fields = append(c.fields, value.Field{Name: c.key, Value: v})
	} else {
		c.items = append(c.items, v)
	}
}

func (w *valueWriter) Open(bracket byte) { w.open = append(w.open, container{object: bracket == '{'}) }

func (w *valueWriter) Close(byte) {
	c := w.open[len(w.open)-1]
	w.open = w.open[:len(w.open)-1]
	if c.object {
		w.put(value.Map(c.fields...))
	} else {
		w.put(value.List(c.items...))
	}
}

func (w *valueWriter) Key(name string) { w.open[len(w.open)-1].key = name }

func (w *valueWriter) Text(s string) { w.put(value.String(s)) }

func (w *valueWriter) Int(i int64) { w.put(value.Int(i)) }

func (w *valueWriter) Float(f float64) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		w.Null()
	case f == math.Trunc(f) && math.Abs(f) < 1<<63:
		w.put(value.Int(int64(f)))
	default:
		w.put(value.Float(f))
	}
}

func (w *valueWriter) Bool(b bool) { w.put(value.Bool(b)) }

func (w *valueWriter) Null() { w.put(value.Null()) }
