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
	key    string // of the next value
	fields []value.Field
	items  []value.Value
}

func (w *valueWriter) put(v value.Value) {
	if len(w.open) == 0 {
		w.root = v
		return
	}
	c := &w.open[len(w.open)-1]
	if c.key == "" {
		c.items = append(c.items, v)
		return
	}
	c.fields = append(c.fields, value.Field{Name: c.key, Value: v})
}

func (w *valueWriter) Open(byte) { w.open = append(w.open, container{}) }

func (w *valueWriter) Close(bracket byte) {
	c := w.open[len(w.open)-1]
	w.open = w.open[:len(w.open)-1]
	if bracket == ']' {
		w.put(value.List(c.items...))
	} else {
		w.put(value.Map(c.fields...))
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
