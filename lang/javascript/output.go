package javascript

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

var (
	typeObject      = reflect.TypeFor[*object]()
	typeArray       = reflect.TypeFor[*array]()
	typePromise     = reflect.TypeFor[*goja.Promise]()
	typeMap         = reflect.TypeFor[[][2]any]()
	typeSet         = reflect.TypeFor[[]any]()
	typeBigInt      = reflect.TypeFor[*big.Int]()
	typeBytes       = reflect.TypeFor[[]byte]()
	typeArrayBuffer = reflect.TypeFor[goja.ArrayBuffer]()
)

// An output converts the result of one run to a payload. Reading a property may run code,
// so use it before the run ends.
type output struct {
	e    *engine
	path []step
	open []*goja.Object               // the objects that path goes through
	done map[*goja.Object]value.Value // converted objects; nil while there are few
	n    int                          // objects so far
}

// A step is a part of the path to the converted value, for messages.
type step struct {
	name  string
	index int // of an element; -1 for a field
}

// rememberAfter is the number of objects after which they are remembered. So shared parts
// are not converted once for each path to them: there may be 2^1000 paths.
const rememberAfter = 32

func (out *output) value(v goja.Value) (value.Value, error) {
	if isNothing(v) {
		return value.Null(), nil
	}
	if o, ok := v.(*goja.Object); ok {
		return out.object(o)
	}
	if _, ok := v.(*goja.Symbol); ok {
		return value.Value{}, out.errorf("is a symbol, which is not a value")
	}
	switch x := v.Export().(type) {
	case bool:
		return value.Bool(x), nil
	case int64:
		return value.Int(x), nil
	case float64:
		if i, ok := integral(x); ok {
			return value.Int(i), nil
		}
		return value.Float(x), nil
	case string:
		return value.String(x), nil
	case *big.Int:
		return out.big(x)
	default:
		return value.Value{}, out.errorf("is a %T, which is not a value", x)
	}
}

func (out *output) big(x *big.Int) (value.Value, error) {
	switch {
	case x.IsInt64():
		return value.Int(x.Int64()), nil
	case x.IsUint64():
		return value.Uint(x.Uint64()), nil
	}
	return value.Value{}, out.errorf("is an integer of %d bits, 64 fit", x.BitLen())
}

func (out *output) object(o *goja.Object) (value.Value, error) {
	switch from := handler(o).(type) {
	case *object:
		if from.intact() {
			return from.whole, nil
		}
	case *array:
		if from.intact() {
			return from.from, nil
		}
	}
	if v, ok := out.done[o]; ok {
		return v, nil
	}
	if slices.Contains(out.open, o) {
		return value.Value{}, out.errorf("is cyclic: it contains itself")
	}
	if len(out.open) >= value.MaxDepth {
		return value.Value{}, fmt.Errorf("the result nests deeper than %d levels", value.MaxDepth)
	}
	out.open = append(out.open, o)
	v, err := out.make(o)
	out.open = out.open[:len(out.open)-1]
	if err != nil {
		return value.Value{}, err
	}
	if out.n++; out.n > rememberAfter {
		if out.done == nil {
			out.done = map[*goja.Object]value.Value{}
		}
		out.done[o] = v
	}
	return v, nil
}

func (out *output) make(o *goja.Object) (value.Value, error) {
	class, exported := o.ClassName(), o.ExportType()
	switch class {
	case "Array":
		return out.array(o)
	case "Function", "AsyncFunction", "GeneratorFunction":
		return value.Value{}, out.errorf("is a function, which is not a value")
	case "Error":
		return value.Error(out.e.thrown(o)), nil
	case "Date":
		t, ok := o.Export().(time.Time)
		if !ok || t.IsZero() {
			return value.Value{}, out.errorf("is an invalid date")
		}
		return value.Time(t.UTC()), nil
	case "String":
		return value.String(o.String()), nil
	case "Number", "Boolean":
		return out.value(out.e.vm.ToValue(o.Export()))
	}
	switch exported {
	case typePromise:
		return value.Value{}, out.errorf("is a promise: await it")
	case typeMap:
		return out.entries(o)
	case typeSet: // arrays have another class
		elements, err := out.e.elements(goja.Undefined(), o)
		if err != nil {
			return value.Value{}, err
		}
		return out.array(elements.ToObject(out.e.vm))
	case typeArrayBuffer:
		if b, ok := o.Export().(goja.ArrayBuffer); ok {
			return value.Binary(slices.Clone(b.Bytes())), nil
		}
	case typeBytes:
		if b, ok := o.Export().([]byte); ok {
			return value.Binary(slices.Clone(b)), nil
		}
	case typeBigInt:
		if i, ok := o.Export().(*big.Int); ok {
			return out.big(i)
		}
	}
	if exported != nil && exported.Kind() == reflect.Slice {
		return out.array(o) // any other typed array
	}
	return out.fields(o)
}

func (out *output) array(o *goja.Object) (value.Value, error) {
	n := o.Get("length").ToInteger()
	if n > maxItems {
		return value.Value{}, out.errorf("has %d elements, %d are the most", n, maxItems)
	}
	elems := make([]value.Value, n)
	out.path = append(out.path, step{})
	for i := range elems {
		out.path[len(out.path)-1] = step{index: i}
		v, err := out.value(o.Get(strconv.Itoa(i)))
		if err != nil {
			return value.Value{}, err
		}
		elems[i] = v
	}
	out.path = out.path[:len(out.path)-1]
	return bounded(value.List(elems...))
}

// bounded returns an error for a value that is too large or too deep. A constructor
// returns an error value for one that is too deep.
func bounded(v value.Value) (value.Value, error) {
	if err := v.AsError(); err != nil {
		return value.Value{}, fmt.Errorf("the result nests deeper than %d levels", value.MaxDepth)
	}
	if v.Size() > maxResult {
		return value.Value{}, fmt.Errorf("the result is larger than %d MiB, with what is shared in it counted as often as it occurs", maxResult>>20)
	}
	return v, nil
}

func (out *output) fields(o *goja.Object) (value.Value, error) {
	names := o.Keys()
	fields := make([]value.Field, len(names))
	out.path = append(out.path, step{})
	for i, name := range names {
		out.path[len(out.path)-1] = step{name: name, index: -1}
		v, err := out.value(o.Get(name))
		if err != nil {
			return value.Value{}, err
		}
		fields[i] = value.Field{Name: name, Value: v}
	}
	out.path = out.path[:len(out.path)-1]
	return bounded(value.UniqueMap(fields))
}

// entries converts a Map. Its keys become names of fields.
func (out *output) entries(o *goja.Object) (value.Value, error) {
	flat, err := out.e.entries(goja.Undefined(), o)
	if err != nil {
		return value.Value{}, err
	}
	list := flat.ToObject(out.e.vm)
	n := int(list.Get("length").ToInteger())
	var b value.MapBuilder
	out.path = append(out.path, step{})
	for i := 0; i < n; i += 2 {
		key := list.Get(strconv.Itoa(i))
		if _, ok := key.(*goja.Object); ok {
			return value.Value{}, out.errorf("is a Map with a key that is an object")
		}
		name := key.String()
		out.path[len(out.path)-1] = step{name: name, index: -1}
		v, err := out.value(list.Get(strconv.Itoa(i + 1)))
		if err != nil {
			return value.Value{}, err
		}
		b.Set(name, v)
	}
	out.path = out.path[:len(out.path)-1]
	return bounded(b.Build())
}

// errorf returns an error with the place within the result.
func (out *output) errorf(format string, args ...any) error {
	var b strings.Builder
	b.WriteString("the result")
	for _, s := range out.path {
		if s.index >= 0 {
			fmt.Fprintf(&b, "[%d]", s.index)
		} else {
			b.WriteString("." + s.name)
		}
	}
	b.WriteString(" ")
	fmt.Fprintf(&b, format, args...)
	return errors.New(b.String())
}

// thrown returns the error to report for a value that code threw, or an Error that it
// returned: the message, and status, code and public if they are set.
func (e *engine) thrown(v goja.Value) *lang.Thrown {
	o, ok := v.(*goja.Object)
	if !ok {
		return &lang.Thrown{Message: text(v)}
	}
	t := &lang.Thrown{}
	message := o.Get("message")
	if message == nil || goja.IsUndefined(message) {
		t.Message = text(v)
	} else {
		t.Message = text(message)
	}
	if t.Message == "" {
		t.Message = text(o.Get("name"))
	}
	if status := o.Get("status"); status != nil && status.ExportType() != nil && status.ExportType().Kind() == reflect.Int64 {
		t.Status = int(status.ToInteger())
	}
	if code := o.Get("code"); code != nil && code.ExportType() != nil && code.ExportType().Kind() == reflect.String {
		t.Code = code.String()
	}
	if public := o.Get("public"); public != nil {
		t.Public = public.StrictEquals(e.vm.ToValue(true))
	}
	return t
}

// text returns a value as a string; a symbol and an object without toString
// have none.
func text(v goja.Value) string {
	if v == nil {
		return "undefined"
	}
	return v.String()
}
