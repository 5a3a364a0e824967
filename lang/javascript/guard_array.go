package javascript

import (
	"reflect"
	"strconv"

	"github.com/dop251/goja"
)

func receiver(e *engine, name string, c *call) {
	if o, ok := c.This.(*goja.Object); ok && o.ExportType() == typeArray {
		return // of the payload, or it has grown as far as it may; to ask would allocate
	}
	if length(c.This) > maxItems {
		e.tooLarge(name)
	}
}

func argument(i int, limit int64) inspection {
	return func(e *engine, name string, c *call) {
		if o, ok := c.Argument(i).(*goja.Object); ok && length(o) > limit {
			e.tooLarge(name)
		}
	}
}

func newArray(e *engine, name string, c *call) {
	if len(c.Arguments) != 1 {
		return
	}
	if n := c.Arguments[0]; n.ExportType() != nil && n.ExportType().Kind() != reflect.String && n.ToFloat() > maxItems {
		e.tooLarge(name)
	}
}

// newBuffer is of a buffer or typed array whose elements have so many bytes.
func newBuffer(size float64) inspection {
	return func(e *engine, name string, c *call) {
		var n float64
		switch v := c.Argument(0).(type) {
		case *goja.Object:
			n = float64(length(v))
		case goja.String:
			n = v.ToFloat()
		default:
			if t := v.ExportType(); t != nil && (t.Kind() == reflect.Int64 || t.Kind() == reflect.Float64) {
				n = v.ToFloat()
			}
		}
		if n*size > maxText {
			e.tooLarge(name)
		}
	}
}

func concat(e *engine, name string, c *call) {
	n := length(c.This)
	for _, arg := range c.Arguments {
		if _, ok := arg.(*goja.Object); ok {
			n += length(arg)
		}
		if n > maxItems {
			e.tooLarge(name)
		}
	}
}

// flat bounds the depth, and counts the elements that there would be: a list of
// lists may hold one list many times.
func flat(e *engine, name string, c *call) {
	receiver(e, name, c)
	depth := int64(1)
	if d := c.Argument(0); !goja.IsUndefined(d) {
		depth = min(d.ToInteger(), maxDepth)
		setArgument(c, 0, e.vm.ToValue(depth))
	}
	var n int64
	var count func(v goja.Value, depth int64)
	count = func(v goja.Value, depth int64) {
		o, ok := v.(*goja.Object)
		if !ok || depth < 0 || o.ClassName() != "Array" {
			n++
			return
		}
		e.poll()
		l := length(o)
		if n+l > maxItems {
			e.tooLarge(name)
		}
		for i := range l {
			count(o.Get(strconv.Itoa(int(i))), depth-1)
		}
		n++ // an array that is empty costs something, too
	}
	count(c.This, depth)
}

// sortNatively gives a sort that compares by itself a function to do it with, so
// that it can be stopped between two comparisons.
func sortNatively(e *engine, name string, c *call) {
	receiver(e, name, c)
	if length(c.This) <= 10_000 || !goja.IsUndefined(c.Argument(0)) {
		return
	}
	numbers := c.This.(*goja.Object).ClassName() != "Array"
	setArgument(c, 0, e.vm.ToValue(func(c call) goja.Value {
		e.poll()
		x, y := c.Argument(0), c.Argument(1)
		if numbers {
			switch a, b := x.ToFloat(), y.ToFloat(); {
			case a < b:
				return e.vm.ToValue(-1)
			case a > b:
				return e.vm.ToValue(1)
			}
			return e.vm.ToValue(0)
		}
		return e.vm.ToValue(stringOf(x).CompareTo(stringOf(y)))
	}))
}

// join is written anew, because the texts of the elements are known only when
// they are made, and because it calls itself for what is nested.
func join(e *engine, name string, inner native) native {
	return func(c call) goja.Value {
		o, ok := c.This.(*goja.Object)
		if !ok {
			return inner(c)
		}
		for _, open := range e.joining {
			if open == o {
				return e.vm.ToValue("")
			}
		}
		if len(e.joining) >= maxDepth {
			e.refuse("%s nests deeper than %d levels", name, maxDepth)
		}
		e.joining = append(e.joining, o)
		defer func() { e.joining = e.joining[:len(e.joining)-1] }()
		n := length(o)
		if n > maxItems {
			e.tooLarge(name)
		}
		separator, _ := e.vm.ToValue(",").(goja.String)
		if s := c.Argument(0); !goja.IsUndefined(s) {
			separator = stringOf(s)
		}
		if n*int64(separator.Length()) > maxText {
			e.tooLarge(name)
		}
		var b goja.StringBuilder
		size := 0
		for i := range n {
			if i > 0 {
				b.WriteString(separator)
				size += separator.Length()
			}
			if v := o.Get(strconv.Itoa(int(i))); !isNothing(v) {
				s := stringOf(v)
				if size += s.Length(); size > maxText {
					e.tooLarge(name)
				}
				b.WriteString(s)
			}
			e.poll()
		}
		return b.String()
	}
}

func properties(e *engine, name string, c *call) {
	for i, arg := range c.Arguments {
		indexed := false
		switch v := arg.(type) {
		case goja.String:
			indexed = true
		case *goja.Object:
			indexed = v.ClassName() != "Object" && v.ClassName() != "Function"
		}
		if indexed && (i > 0 || name != "assign") && length(arg) > maxKeys {
			e.tooLarge(name)
		}
	}
}

func digits(i int) inspection {
	return func(e *engine, name string, c *call) {
		n := length(c.Argument(i))
		if o, ok := c.Argument(i).(*goja.Object); ok && o.ClassName() == "Array" {
			n = int64(textArgument(c, i).Length())
		}
		if n > maxDigits {
			e.refuse("%s of more than %d digits", name, maxDigits)
		}
	}
}

func bits(e *engine, name string, c *call) {
	if c.Argument(0).ToFloat() > maxBits {
		e.refuse("%s of more than %d bits", name, maxBits)
	}
	digits(1)(e, name, c)
}

func symbolFor(e *engine, _ string, _ native) native {
	return func(c call) goja.Value {
		key := stringOf(c.Argument(0)).String()
		if s, ok := e.symbols[key]; ok {
			return s
		}
		if e.symbols == nil {
			e.symbols = make(map[string]*goja.Symbol)
		}
		s := goja.NewSymbol(key)
		e.symbols[key] = s
		return s
	}
}

func symbolKeyFor(e *engine, _ string, inner native) native {
	return func(c call) goja.Value {
		if s, ok := c.Argument(0).(*goja.Symbol); ok {
			for key, known := range e.symbols {
				if known == s {
					return e.vm.ToValue(key)
				}
			}
		}
		return inner(c)
	}
}
