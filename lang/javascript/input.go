package javascript

import (
	"math"
	"math/big"
	"slices"

	"github.com/dop251/goja"

	"github.com/uniflow-labs/uniflow/value"
)

// maxSafe is 2^53 - 1, the largest integer that JavaScript numbers represent exactly with
// its neighbours. Larger integers are BigInts.
const maxSafe = 1<<53 - 1

// A payload becomes objects and arrays that read it in place. Fields are converted when
// they are used, so a lazy map that is not used stays unread. The first change of an
// object copies that object, and the payload never changes. An unchanged part of the
// payload in the result is that part, without a conversion.

// An input converts the payload of one run.
type input struct{ e *engine }

func (in input) value(v value.Value) goja.Value {
	vm := in.e.vm
	switch v.Kind() {
	case value.KindBool:
		b, _ := v.AsBool()
		return vm.ToValue(b)
	case value.KindInt:
		i, _ := v.AsInt()
		if i > maxSafe || i < -maxSafe {
			return vm.ToValue(big.NewInt(i))
		}
		return vm.ToValue(i)
	case value.KindUint:
		u, _ := v.AsUint()
		return vm.ToValue(new(big.Int).SetUint64(u))
	case value.KindFloat:
		f, _ := v.AsFloat()
		return vm.ToValue(f)
	case value.KindString:
		s, _ := v.AsString()
		return vm.ToValue(s)
	case value.KindDuration:
		d, _ := v.AsDuration()
		return vm.ToValue(float64(d) / 1e6) // milliseconds
	case value.KindTime:
		t, _ := v.AsTime()
		return in.helper(in.e.date, vm.ToValue(float64(t.UnixMilli())))
	case value.KindBinary:
		b, _ := v.AsBinary()
		return in.helper(in.e.bytes, vm.ToValue(vm.NewArrayBuffer(slices.Clone(b))))
	case value.KindList:
		return vm.NewDynamicArray(&array{in: in, from: v})
	case value.KindMap:
		return vm.NewDynamicObject(&object{in: in, from: v, whole: v})
	case value.KindError:
		made := vm.NewDynamicObject(&object{in: in, from: value.ErrorMap(v), whole: v})
		if err := made.SetPrototype(in.helper(in.e.failure, goja.Undefined()).ToObject(vm)); err != nil {
			panic(vm.NewGoError(err))
		}
		return made
	}
	return goja.Null()
}

// helper calls a function of the bootstrap. It fails only if the run must stop, and then
// ends the run.
func (in input) helper(f goja.Callable, arg goja.Value) goja.Value {
	v, err := f(goja.Undefined(), arg)
	if err != nil {
		panic(in.e.vm.NewGoError(err))
	}
	return v
}

// keeps reports whether the converted v has an identity or can be changed, so that two
// reads must return the same object.
func keeps(v value.Value) bool {
	switch v.Kind() {
	case value.KindList, value.KindMap, value.KindError, value.KindBinary, value.KindTime:
		return true
	}
	return false
}

// An object is a map of the payload in JavaScript. It implements goja.DynamicObject.
type object struct {
	in    input
	from  value.Value           // the map
	whole value.Value           // from, or the error that from describes
	made  map[string]goja.Value // converted fields that keep their identity; nil if none
	own   *fields               // the fields after the first change; nil before it
}

// fields are the fields of a changed object, in order.
type fields struct {
	names  []string
	byName map[string]goja.Value
}

func (o *object) Get(name string) goja.Value {
	if o.own != nil {
		return o.own.byName[name]
	}
	if v, ok := o.made[name]; ok {
		return v
	}
	field, ok := o.from.Get(name)
	if !ok {
		return nil
	}
	v := o.in.value(field)
	if keeps(field) {
		if o.made == nil {
			o.made = make(map[string]goja.Value, 4)
		}
		o.made[name] = v
	}
	return v
}

func (o *object) Has(name string) bool {
	if o.own != nil {
		_, ok := o.own.byName[name]
		return ok
	}
	_, ok := o.from.Get(name)
	return ok
}

func (o *object) Keys() []string {
	if o.own != nil {
		return slices.Clone(o.own.names)
	}
	names := make([]string, 0, o.from.Len())
	for name := range o.from.Fields() {
		names = append(names, name)
	}
	return names
}

func (o *object) Set(name string, v goja.Value) bool {
	own := o.change()
	if _, ok := own.byName[name]; !ok {
		own.names = append(own.names, name)
	}
	own.byName[name] = v
	return true
}

func (o *object) Delete(name string) bool {
	if !o.Has(name) {
		return true
	}
	own := o.change()
	delete(own.byName, name)
	own.names = slices.DeleteFunc(own.names, func(n string) bool { return n == name })
	return true
}

func (o *object) change() *fields {
	if o.own == nil {
		own := &fields{names: o.Keys(), byName: make(map[string]goja.Value, o.from.Len()+1)}
		for _, name := range own.names {
			own.byName[name] = o.Get(name)
		}
		o.own, o.made = own, nil
	}
	return o.own
}

// intact reports whether the object and all its converted fields are unchanged.
func (o *object) intact() bool {
	if o.own != nil {
		return false
	}
	for _, v := range o.made {
		if !intact(v) {
			return false
		}
	}
	return true
}

// An array is a list of the payload in JavaScript. It implements goja.DynamicArray.
type array struct {
	in   input
	from value.Value
	made []goja.Value // converted elements that keep their identity, or nil; nil before the first
	own  []goja.Value // the elements after the first change
	mine bool         // own holds the elements
}

func (a *array) Len() int {
	if a.mine {
		return len(a.own)
	}
	return a.from.Len()
}

func (a *array) Get(i int) goja.Value {
	if i < 0 || i >= a.Len() {
		return nil
	}
	if a.mine {
		return a.own[i]
	}
	if a.made != nil && a.made[i] != nil {
		return a.made[i]
	}
	elem := a.from.At(i)
	v := a.in.value(elem)
	if keeps(elem) {
		if a.made == nil {
			a.made = make([]goja.Value, a.from.Len())
		}
		a.made[i] = v
	}
	return v
}

// Set implements goja.DynamicArray. An index past the end grows the array up to a limit,
// because these arrays have no holes.
func (a *array) Set(i int, v goja.Value) bool {
	if i < 0 || !a.grow(i+1) {
		return false
	}
	a.own[i] = v
	return true
}

func (a *array) SetLen(n int) bool {
	if n < 0 || !a.grow(n) {
		return false
	}
	clear(a.own[n:])
	a.own = a.own[:n]
	return true
}

// grow copies the elements and makes at least n of them.
func (a *array) grow(n int) bool {
	if n > maxItems && n > a.Len() {
		return false
	}
	if !a.mine {
		own := make([]goja.Value, a.Len(), max(n, a.Len()))
		for i := range own {
			own[i] = a.Get(i)
		}
		a.own, a.made, a.mine = own, nil, true
	}
	for len(a.own) < n {
		a.own = append(a.own, goja.Undefined())
	}
	return true
}

func (a *array) intact() bool {
	if a.mine {
		return false
	}
	for _, v := range a.made {
		if v != nil && !intact(v) {
			return false
		}
	}
	return true
}

// intact reports whether a converted part of the payload is unchanged. Dates and buffers
// count as changed.
func intact(v goja.Value) bool {
	switch from := handler(v).(type) {
	case *object:
		return from.intact()
	case *array:
		return from.intact()
	}
	return false
}

// handler returns the *object or *array of v, or nil.
func handler(v goja.Value) any {
	o, ok := v.(*goja.Object)
	if !ok {
		return nil
	}
	switch o.ExportType() {
	case typeObject, typeArray:
		return o.Export()
	}
	return nil
}

// integral returns f as an integer if it is integral: JavaScript has no integer type.
func integral(f float64) (int64, bool) {
	if f == math.Trunc(f) && math.Abs(f) <= maxSafe && !(f == 0 && math.Signbit(f)) {
		return int64(f), true
	}
	return 0, false
}
