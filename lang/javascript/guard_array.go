package javascript

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

func receiver(e *engine, name string, c *call) {
	if o, ok := c.This.(*goja.Object); ok && o.ExportType() == typeArray {
		return // an array of the payload, or one at its limit; a length would allocate
	}
	if !e.settled(c.This) {
		e.refuse("%s of an object whose length is computed, by an accessor or a Proxy: copy it with Array.from first", strings.TrimPrefix(name, "@@"))
	}
	iterated(e, name, c)
}

// iterated is for functions that can be stopped at each element.
func iterated(e *engine, name string, c *call) {
	if length(c.This) > maxItems {
		e.tooLarge(name)
	}
}

func argument(i int, limit int64) inspection {
	return func(e *engine, name string, c *call) {
		o, ok := c.Argument(i).(*goja.Object)
		switch {
		case !ok:
		case !e.settled(o):
			setArgument(c, i, e.pinned(name, o, limit))
		case length(o) > limit:
			e.tooLarge(name)
		}
	}
}

// from is for functions that iterate over argument 0, or use its length.
func from(e *engine, name string, c *call) {
	o, ok := c.Argument(0).(*goja.Object)
	if !ok || e.settled(o) {
		argument(0, maxItems)(e, name, c)
		return
	}
	var same *goja.Object
	iterator := o.GetSymbol(goja.SymIterator)
	if iterate, ok := goja.AssertFunction(iterator); ok {
		same = e.vm.NewObject()
		iterator = e.vm.ToValue(func(call) goja.Value {
			v, err := iterate(o)
			if err != nil {
				rethrow(err)
			}
			return v
		})
	} else {
		same = e.pinned(name, o, maxItems)
	}
	if iterator == nil {
		iterator = goja.Undefined()
	}
	define(same, goja.SymIterator, iterator)
	setArgument(c, 0, same)
}

func newArray(e *engine, name string, c *call) {
	if len(c.Arguments) != 1 {
		return
	}
	if n := c.Arguments[0]; goja.IsNumber(n) && n.ToFloat() > maxItems {
		e.tooLarge(name)
	}
}

// newBuffer is for buffers and typed arrays with elements of the given size in bytes.
func newBuffer(size float64) inspection {
	return func(e *engine, name string, c *call) {
		var n float64
		switch v := c.Argument(0).(type) {
		case *goja.Object:
			if l, ok := typedLength(v); ok {
				n = float64(l)
			} else if v.ExportType() != typeArrayBuffer {
				from(e, name, c)
				n = float64(length(c.Argument(0)))
			}
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

// newArrayBuffer is for ArrayBuffer, which converts an object to a number.
func newArrayBuffer(e *engine, name string, c *call) {
	if o, ok := c.Argument(0).(*goja.Object); ok {
		setArgument(c, 0, o.ToNumber())
	}
	newBuffer(1)(e, name, c)
}

// concat determines which arguments are spread, and their lengths, before it counts.
func concat(e *engine, name string, c *call) {
	var n int64
	count := func(v goja.Value) goja.Value {
		if o, ok := v.(*goja.Object); ok {
			v = e.spread(name, o)
			n += length(v)
		}
		if n > maxItems {
			e.tooLarge(name)
		}
		return v
	}
	c.This = count(c.This)
	args := make([]goja.Value, len(c.Arguments)) // once: there may be very many
	for i, arg := range c.Arguments {
		args[i] = count(arg)
	}
	c.Arguments = args
}

// spread returns the argument of concat for o: an array as it is, others in a list of one,
// or with a fixed length.
func (e *engine) spread(name string, o *goja.Object) *goja.Object {
	spreads := o.GetSymbol(goja.SymIsConcatSpreadable)
	own := spreads == nil || goja.IsUndefined(spreads)
	if own && (o.ClassName() == "Array" || o.ExportType() == typeArray) {
		return o
	}
	if own && !proxiesArray(o) || !own && !spreads.ToBoolean() {
		return e.vm.NewArray(o)
	}
	same := e.pinned(name, o, maxItems)
	define(same, goja.SymIsConcatSpreadable, e.vm.ToValue(true))
	return same
}

// proxiesArray reports whether o is a Proxy of an array, perhaps through other proxies.
func proxiesArray(o *goja.Object) bool {
	for o != nil && o.ExportType() == typeProxy {
		proxy, ok := o.Export().(goja.Proxy)
		if !ok {
			return false
		}
		o = proxy.Target()
	}
	return o != nil && (o.ClassName() == "Array" || o.ExportType() == typeArray)
}

// flat limits the depth, and counts the elements of the result: a list of lists may have
// one list many times.
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
		n++ // an empty array costs something too
	}
	count(c.This, depth)
}

// sortNatively adds a comparison function to a sort without one, so that it can be stopped
// between two comparisons.
func sortNatively(e *engine, name string, c *call) {
	receiver(e, name, c)
	if length(c.This) <= 10_000 || !goja.IsUndefined(c.Argument(0)) {
		return
	}
	setArgument(c, 0, e.vm.ToValue(func(c call) goja.Value {
		e.poll()
		x, y := c.Argument(0), c.Argument(1)
		return e.vm.ToValue(e.stringOf(x).CompareTo(e.stringOf(y)))
	}))
}

// maxSorted is how many elements of a typed array are sorted without a stop: some 2 s.
const maxSorted = 2 << 20

// sortTyped leaves the comparison to the native, which handles NaN and BigInt.
func sortTyped(e *engine, name string, c *call) {
	if n, ok := typedLength(c.This); ok && goja.IsUndefined(c.Argument(0)) && n > maxSorted {
		e.refuse("%s of a typed array of more than %d elements needs a function that compares", name, maxSorted)
	}
}

// typedLength returns the true length of a typed array, not its property, and whether v is
// a typed array.
func typedLength(v goja.Value) (int64, bool) {
	o, ok := v.(*goja.Object)
	if !ok {
		return 0, false
	}
	object, err := inner(o)
	if err != nil || object.Type().Name() != "typedArrayObject" {
		return 0, false
	}
	return object.FieldByName("length").Int(), true
}

// joinTyped is join for typed arrays only.
func joinTyped(e *engine, name string, inner native) native {
	joined := join(e, name, inner)
	return func(c call) goja.Value {
		if _, ok := typedLength(c.This); !ok {
			return inner(c)
		}
		return joined(c)
	}
}

// join replaces the native, because the length of the result is known only when the texts
// of the elements are made, and because it recurses into nested arrays.
func join(e *engine, name string, inner native) native {
	return func(c call) goja.Value {
		if isNothing(c.This) {
			return inner(c)
		}
		o := c.This.ToObject(e.vm)
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
			separator = e.stringOf(s)
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
				s := e.stringOf(v)
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
			n = int64(e.textArgument(c, i).Length())
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
		key := e.stringOf(c.Argument(0)).String()
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
