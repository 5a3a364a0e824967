package javascript

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/dop251/goja"
)

// The interpreter has no memory limit and cannot interrupt a function that it implements
// in Go (a "native"), such as [1].indexOf on {length: 2**53 - 1}, or a replaceAll that
// makes gigabytes. So each native whose work can be larger than its arguments gets a
// guard. It checks whether the run must stop, and whether the call would make or visit
// more than the limits allow.
//
// The guards are inside of the function objects of a runtime. So code sees the same
// functions as before, and the fast paths of the interpreter, which compare functions by
// identity, still work. The fields are not exported: patch checks their types, and fails
// if a version of the interpreter has others.

// A call is one call of a native function. An inspection may replace its arguments.
type call = goja.FunctionCall

// An inspection checks a call before it is made. It throws a RangeError with engine.refuse
// if the call must not be made.
type inspection func(e *engine, name string, c *call)

// A native is how the interpreter implements a function.
type native = func(call) goja.Value

var (
	typeNative    = reflect.TypeFor[native]()
	typeProxy     = reflect.TypeFor[goja.Proxy]()
	typeConstruct = reflect.TypeFor[func([]goja.Value, *goja.Object) *goja.Object]()
)

// patch adds a call of check before fn, for calls and for construction. If instead is not
// nil, its result replaces fn.
func (e *engine) patch(fn *goja.Object, name string, before inspection, instead func(native) native) error {
	f, construct, err := implementation(fn)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if made := *f; made != nil {
		if instead != nil {
			made = instead(made)
		}
		*f = func(c call) goja.Value {
			e.poll()
			if before != nil {
				c = e.inspect(before, name, c)
			}
			return made(c)
		}
	}
	if made := *construct; made != nil {
		*construct = func(args []goja.Value, target *goja.Object) *goja.Object {
			e.poll()
			if before != nil {
				args = e.inspect(before, name, call{This: goja.Undefined(), Arguments: args}).Arguments
			}
			return made(args, target)
		}
	}
	return nil
}

// inspect returns the call after the inspection. Its memory is reused, so that an
// inspection does not allocate.
func (e *engine) inspect(before inspection, name string, c call) call {
	if len(e.spare) == 0 {
		e.spare = append(e.spare, new(call))
	}
	mine := e.spare[len(e.spare)-1]
	e.spare = e.spare[:len(e.spare)-1]
	*mine = c
	before(e, name, mine)
	c, *mine = *mine, call{}
	e.spare = append(e.spare, mine)
	return c
}

var errInterpreter = errors.New("the interpreter is of a version that this package does not know")

// inner returns the implementation of an object.
func inner(o *goja.Object) (reflect.Value, error) {
	self := reflect.ValueOf(o).Elem().FieldByName("self")
	if self.Kind() != reflect.Interface || self.Elem().Kind() != reflect.Pointer || self.Elem().Elem().Kind() != reflect.Struct {
		return reflect.Value{}, errInterpreter
	}
	return self.Elem().Elem(), nil
}

// implementation returns the fields of a native function object with its Go functions.
func implementation(fn *goja.Object) (*native, *func([]goja.Value, *goja.Object) *goja.Object, error) {
	object, err := inner(fn)
	if err != nil {
		return nil, nil, err
	}
	f, construct := object.FieldByName("f"), object.FieldByName("construct")
	if !f.IsValid() || f.Type() != typeNative || !construct.IsValid() || construct.Type() != typeConstruct {
		return nil, nil, errInterpreter
	}
	return (*native)(f.Addr().UnsafePointer()), (*func([]goja.Value, *goja.Object) *goja.Object)(construct.Addr().UnsafePointer()), nil
}

func (e *engine) guardNatives() error {
	lookup, err := e.vm.RunString(`(path) => {
	const hidden = {
		__proto__: null,
		TypedArray: Object.getPrototypeOf(Uint8Array),
		ArrayIterator: Object.getPrototypeOf([][Symbol.iterator]()),
		StringIterator: Object.getPrototypeOf(""[Symbol.iterator]()),
		MapIterator: Object.getPrototypeOf(new Map().entries()),
		SetIterator: Object.getPrototypeOf(new Set().values()),
		RegExpStringIterator: Object.getPrototypeOf("".matchAll(/a/g)),
	}
	let at = globalThis
	for (const key of path.split("."))
		at = key in hidden ? hidden[key] : key.startsWith("@@") ? at[Symbol[key.slice(2)]] : at[key]
	return at
}`)
	if err != nil {
		return err
	}
	find, ok := goja.AssertFunction(lookup)
	if !ok {
		return errInterpreter
	}
	function := func(path string) (*goja.Object, error) {
		v, err := find(goja.Undefined(), e.vm.ToValue(path))
		if err != nil {
			return nil, err
		}
		fn, ok := v.(*goja.Object)
		if !ok {
			return nil, fmt.Errorf("no function %s", path)
		}
		return fn, nil
	}
	constant, err := e.vm.RunString(`(() => {
	const { getOwnPropertyDescriptor, getPrototypeOf, hasOwn } = Object
	const { get } = getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), "length")
	return (o) => {
		const d = getOwnPropertyDescriptor(o, "length")
		return d && (hasOwn(d, "get") ? d.get === get : Object(d.value) !== d.value)
	}
})()`)
	if err != nil {
		return err
	}
	if e.constantLength, ok = goja.AssertFunction(constant); !ok {
		return errInterpreter
	}
	for _, g := range guards() {
		for name := range strings.FieldsSeq(g.names) {
			fn, err := function(g.of + name)
			if err != nil {
				return err
			}
			var instead func(native) native
			if g.replace != nil {
				instead = func(inner native) native { return g.replace(e, name, inner) }
			}
			if err := e.patch(fn, name, g.check, instead); err != nil {
				return err
			}
		}
	}
	return nil
}

// A guard is the check for the functions of one kind.
type guard struct {
	of      string // the object of the properties, with a dot at the end
	names   string
	check   inspection                                        // nil: check only whether the run must stop
	replace func(e *engine, name string, inner native) native // nil: the function itself
}

// guards returns the table. Functions that are not in it take time and memory in proportion
// to existing data.
func guards() []guard {
	const array, text, pattern, typed = "Array.prototype.", "String.prototype.", "RegExp.prototype.", "TypedArray.prototype."
	return []guard{
		// Loops up to the length, whether the elements exist or not.
		{of: array, names: "copyWithin every fill filter find findIndex findLast findLastIndex flatMap forEach includes indexOf " +
			"lastIndexOf map reduce reduceRight reverse shift slice some splice unshift toReversed toSpliced with toLocaleString", check: receiver},
		{of: array, names: "keys entries values", check: iterated},
		{of: array, names: "concat", check: concat},
		{of: array, names: "flat", check: flat},
		{of: array, names: "join", replace: join},
		{of: array, names: "sort toSorted", check: sortNatively},
		{of: typed, names: "sort toSorted", check: sortTyped},
		{of: typed, names: "join", replace: joinTyped},
		{of: typed, names: "values keys entries", check: iterated},
		{of: typed, names: "toLocaleString"},
		{of: "TypedArray.", names: "from", check: from},
		{of: "", names: "Array", check: newArray},
		{of: "Array.", names: "from", check: from},
		{of: "", names: "ArrayBuffer", check: newArrayBuffer},
		{of: "", names: "Int8Array Uint8Array Uint8ClampedArray", check: newBuffer(1)},
		{of: "", names: "Int16Array Uint16Array", check: newBuffer(2)},
		{of: "", names: "Int32Array Uint32Array Float32Array", check: newBuffer(4)},
		{of: "", names: "Float64Array BigInt64Array BigUint64Array", check: newBuffer(8)},
		{of: "ArrayIterator.", names: "next"},
		{of: "StringIterator.", names: "next"},
		{of: "MapIterator.", names: "next"},
		{of: "SetIterator.", names: "next"},
		{of: "RegExpStringIterator.", names: "next"},

		{of: "Function.prototype.", names: "apply", check: argument(1, maxArgs)},
		{of: "Reflect.", names: "apply", check: argument(2, maxArgs)},
		{of: "Reflect.", names: "construct", check: argument(1, maxArgs)},

		// One property for each character or element.
		{of: "Object.", names: "assign entries values keys getOwnPropertyNames getOwnPropertyDescriptors", check: properties},
		{of: "Reflect.", names: "ownKeys", check: properties},

		// The result can be larger than the arguments.
		{of: text, names: "repeat", check: repeat},
		{of: text, names: "padStart padEnd", check: pad},
		{of: text, names: "concat", check: concatText},
		{of: text, names: "normalize", check: grows(8)},
		{of: "", names: "encodeURIComponent encodeURI escape", check: growsArgument(3)},
		{of: text, names: "@@iterator", check: receiver},
		{of: "String.", names: "raw", check: raw},
		{of: text, names: "indexOf lastIndexOf includes", check: search},
		{of: text, names: "split", check: splitText},
		{of: text, names: "replace replaceAll", check: replaceText},
		{of: "JSON.", names: "parse", check: parseJSON},
		{of: "JSON.", names: "stringify", replace: stringify},

		// Patterns, and matching them.
		{of: "", names: "RegExp", check: newPattern},
		{of: pattern, names: "compile", check: newPattern},
		{of: text, names: "match matchAll search", check: newPattern},
		{of: pattern, names: "exec test", check: matchOnce},
		{of: pattern, names: "@@search", check: matching(true)},
		{of: pattern, names: "@@match", check: matchFlagged},
		{of: pattern, names: "@@split", check: matching(false)},
		{of: pattern, names: "@@replace", check: replaceMatches},

		// Conversions of digits, which take quadratic time.
		{of: "", names: "BigInt", check: digits(0)},
		{of: "BigInt.", names: "asIntN asUintN", check: bits},

		// A registry for each run.
		{of: "Symbol.", names: "for", replace: symbolFor},
		{of: "Symbol.", names: "keyFor", replace: symbolKeyFor},
	}
}

// poll ends the run if it must stop. The interpreter itself checks only between the
// instructions of code.
func (e *engine) poll() {
	if e.stopping.Load() {
		e.halt()
	}
}

func (e *engine) halt() {
	if _, err := e.nothing(goja.Undefined()); err != nil {
		var interrupted *goja.InterruptedError
		if errors.As(err, &interrupted) {
			panic(interrupted)
		}
	}
}

func (e *engine) refuse(format string, args ...any) {
	v, err := e.rangeError(goja.Undefined(), e.vm.ToValue(fmt.Sprintf(format, args...)))
	if err != nil {
		panic(err) // the run must stop
	}
	panic(v)
}

func (e *engine) tooLarge(name string) {
	e.refuse("%s would make more than the limit allows", strings.TrimPrefix(name, "@@"))
}

// length returns the length of a text, an array or an array-like; 0 for others.
func length(v goja.Value) int64 {
	switch v := v.(type) {
	case goja.String:
		return int64(v.Length())
	case *goja.Object:
		if n := v.Get("length"); n != nil {
			return n.ToInteger()
		}
	}
	return 0
}

// settled reports whether the length of v cannot change between two reads. It can with an
// accessor, a Proxy, or a length that is an object.
func (e *engine) settled(v goja.Value) bool {
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() == "Array" || o.ExportType() == typeArray {
		return true
	}
	for ; o != nil; o = o.Prototype() {
		if o.ExportType() == typeProxy {
			return false
		}
		constant, err := e.constantLength(goja.Undefined(), o)
		if err != nil {
			panic(err) // the run must stop
		}
		if !goja.IsUndefined(constant) {
			return constant.ToBoolean()
		}
	}
	return true
}

// pinned returns an object like o with a fixed length.
func (e *engine) pinned(name string, o *goja.Object, limit int64) *goja.Object {
	n := length(o)
	if n > limit {
		e.tooLarge(name)
	}
	same := e.vm.CreateObject(o)
	must(same.DefineDataProperty("length", e.vm.ToValue(n), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
	return same
}

func define(o *goja.Object, symbol *goja.Symbol, v goja.Value) {
	must(o.DefineDataPropertySymbol(symbol, v, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
}

// must ends the call with an error of the interpreter.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func isNothing(v goja.Value) bool { return v == nil || goja.IsUndefined(v) || goja.IsNull(v) }

// stringOf converts v to text like a native. It throws for a symbol.
func (e *engine) stringOf(v goja.Value) goja.String {
	if s, ok := v.(goja.String); ok {
		return s
	}
	if _, ok := v.(*goja.Symbol); ok {
		panic(e.vm.NewTypeError("Cannot convert a Symbol value to a string"))
	}
	s, ok := v.ToString().(goja.String)
	if !ok { // a BigInt, whose ToString is itself
		var b goja.StringBuilder
		b.WriteUTF8String(v.String())
		return b.String()
	}
	return s
}

// textThis converts the receiver to text, once. It is nil if the native will throw.
func (e *engine) textThis(c *call) goja.String {
	if isNothing(c.This) {
		return nil
	}
	s := e.stringOf(c.This)
	c.This = s
	return s
}

func (e *engine) textArgument(c *call, i int) goja.String {
	if s, ok := c.Argument(i).(goja.String); ok {
		return s
	}
	s := e.stringOf(c.Argument(i))
	setArgument(c, i, s)
	return s
}

// setArgument replaces an argument. It copies the slice, which may be the stack of the
// interpreter.
func setArgument(c *call, i int, v goja.Value) {
	args := make([]goja.Value, max(len(c.Arguments), i+1))
	for j := copy(args, c.Arguments); j < i; j++ {
		args[j] = goja.Undefined()
	}
	args[i] = v
	c.Arguments = args
}
