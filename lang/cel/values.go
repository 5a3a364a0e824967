package cel

import (
	"errors"
	"fmt"
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/uniflow-labs/uniflow/value"
)

// An adapter converts payloads to CEL values. Lists and maps are wrapped, not copied:
// their elements are converted when they are used.
type adapter struct {
	types.Adapter // for values that are not payloads
}

func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case ref.Val:
		return v
	case value.Value:
		return toCEL(v)
	}
	return a.Adapter.NativeToValue(v)
}

func toCEL(v value.Value) ref.Val {
	switch v.Kind() {
	case value.KindBool:
		b, _ := v.AsBool()
		return types.Bool(b)
	case value.KindInt:
		i, _ := v.AsInt()
		return types.Int(i)
	case value.KindUint:
		u, _ := v.AsUint()
		return types.Uint(u)
	case value.KindFloat:
		f, _ := v.AsFloat()
		return types.Double(f)
	case value.KindDuration:
		d, _ := v.AsDuration()
		return types.Duration{Duration: d}
	case value.KindTime:
		t, _ := v.AsTime()
		return types.Timestamp{Time: t}
	case value.KindString:
		s, _ := v.AsString()
		return types.String(s)
	case value.KindBinary:
		b, _ := v.AsBinary()
		return types.Bytes(b)
	case value.KindList:
		return &list{v: v}
	case value.KindMap:
		return &dict{v: v, whole: v}
	case value.KindError:
		return &dict{v: value.ErrorMap(v), whole: v}
	}
	return types.NullValue
}

// A result converts a CEL value to a payload. It counts shared parts each time they
// occur: an expression of one line can make a list of 2^40 elements from shared parts.
type result struct {
	meter *meter
}

// value returns the payload for v, which is at the given depth of the result.
func (r *result) value(v ref.Val, depth int) (value.Value, error) {
	if err := r.meter.spend(1, 0); err != nil {
		return value.Value{}, err
	}
	switch v := v.(type) {
	case types.Null:
		return value.Null(), nil
	case types.Bool:
		return value.Bool(bool(v)), nil
	case types.Int:
		return value.Int(int64(v)), nil
	case types.Uint:
		return value.Uint(uint64(v)), nil
	case types.Double:
		return value.Float(float64(v)), nil
	case types.String:
		return value.String(string(v)), nil
	case types.Bytes:
		return value.Binary(v), nil
	case types.Timestamp:
		return value.Time(v.Time), nil
	case types.Duration:
		return value.Duration(v.Duration), nil
	case *list:
		return v.v, nil
	case *dict:
		return v.whole, nil
	case *types.Optional:
		if !v.HasValue() {
			return value.Null(), nil
		}
		return r.value(v.GetValue(), depth)
	case *types.Err:
		return value.Value{}, v
	case ref.Type:
		return value.String(v.TypeName()), nil
	}
	if depth >= value.MaxDepth {
		return value.Value{}, fmt.Errorf("the result nests deeper than %d levels", value.MaxDepth)
	}
	switch v := v.(type) {
	case *ordered:
		return r.ordered(v, depth)
	case accumulator:
		return r.ordered(v.ordered, depth)
	case traits.Mapper:
		return r.mapping(v, depth)
	case traits.Lister:
		return r.sequence(v, depth)
	case nil:
		return value.Value{}, errors.New("the expression has no result")
	}
	return value.Value{}, fmt.Errorf("the result is a %s, which is not a value", v.Type().TypeName())
}

func (r *result) sequence(v traits.Lister, depth int) (value.Value, error) {
	n, ok := v.Size().(types.Int)
	if !ok {
		return value.Value{}, fmt.Errorf("the result is a %s without a size", v.Type().TypeName())
	}
	if err := r.meter.spend(0, int(n)*elementBytes); err != nil {
		return value.Value{}, err
	}
	elems := make([]value.Value, 0, int(n))
	for it := v.Iterator(); it.HasNext() == types.True; {
		e, err := r.value(it.Next(), depth+1)
		if err != nil {
			return value.Value{}, err
		}
		elems = append(elems, e)
	}
	return value.List(elems...), nil
}

func (r *result) ordered(v *ordered, depth int) (value.Value, error) {
	if err := r.meter.spend(0, len(v.keys)*entryBytes); err != nil {
		return value.Value{}, err
	}
	fields := make([]value.Field, len(v.keys))
	texts := true
	for i, key := range v.keys {
		name, err := keyName(key)
		if err != nil {
			return value.Value{}, err
		}
		field, err := r.value(v.vals[i], depth+1)
		if err != nil {
			return value.Value{}, err
		}
		if _, ok := key.(types.String); !ok {
			texts = false
		}
		fields[i] = value.Field{Name: name, Value: field}
	}
	if texts { // they are unique already
		return value.UniqueMap(fields), nil
	}
	var b value.MapBuilder
	for _, f := range fields {
		if b.Set(f.Name, f.Value) {
			return value.Value{}, fmt.Errorf("the result has two keys %q", f.Name)
		}
	}
	return b.Build(), nil
}

func (r *result) mapping(v traits.Mapper, depth int) (value.Value, error) {
	m := &ordered{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		m.keys, m.vals = append(m.keys, key), append(m.vals, v.Get(key))
	}
	return r.ordered(m, depth)
}

// keyName returns a key as it is in a payload, where all keys are text.
func keyName(key ref.Val) (string, error) {
	switch k := key.(type) {
	case types.String:
		return string(k), nil
	case types.Int, types.Uint, types.Bool, types.Double:
		if s, ok := k.ConvertToType(types.StringType).(types.String); ok {
			return string(s), nil
		}
	}
	return "", fmt.Errorf("the result has a key that is a %s", key.Type().TypeName())
}

// A list is a list of a payload as a CEL value.
type list struct{ v value.Value }

func (l *list) Type() ref.Type { return types.ListType }

func (l *list) Value() any { return l.v }

func (l *list) ConvertToType(t ref.Type) ref.Val {
	return converted(l, t, types.ListType, "list")
}

// converted returns v, whose type is own, as a t.
func converted(v ref.Val, t ref.Type, own *types.Type, name string) ref.Val {
	switch t {
	case own:
		return v
	case types.TypeType:
		return own
	}
	return types.NewErr("a %s cannot be made a %s", name, t.TypeName())
}

// ConvertToNative implements ref.Val. Functions of the libraries use it.
func (l *list) ConvertToNative(t reflect.Type) (any, error) {
	return types.NewRefValList(types.DefaultTypeAdapter, l.elems()).ConvertToNative(t)
}

func (l *list) elems() []ref.Val {
	elems := make([]ref.Val, 0, l.v.Len())
	for _, e := range l.v.Elems() {
		elems = append(elems, toCEL(e))
	}
	return elems
}

func (l *list) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*list); ok {
		return types.Bool(l.v.Equal(o.v))
	}
	o, ok := other.(traits.Lister)
	if !ok || types.Equal(o.Size(), l.Size()) != types.True {
		return types.False
	}
	it := o.Iterator()
	for _, e := range l.v.Elems() {
		if types.Equal(toCEL(e), it.Next()) != types.True {
			return types.False
		}
	}
	return types.True
}

func (l *list) Size() ref.Val { return types.Int(l.v.Len()) }

func (l *list) IsZeroValue() bool { return l.v.Len() == 0 }

func (l *list) Get(index ref.Val) ref.Val {
	i, err := types.GetOrError(index)
	if err != nil {
		return types.WrapErr(err)
	}
	if i < 0 || i >= l.v.Len() {
		return types.NewErr("index %d out of range in a list of %d", i, l.v.Len())
	}
	return toCEL(l.v.At(i))
}

func (l *list) Contains(elem ref.Val) ref.Val {
	if types.IsUnknownOrError(elem) {
		return elem
	}
	for _, e := range l.v.Elems() {
		if types.Equal(elem, toCEL(e)) == types.True {
			return types.True
		}
	}
	return types.False
}

func (l *list) Add(other ref.Val) ref.Val {
	if o, ok := other.(*list); ok {
		elems := make([]value.Value, 0, l.v.Len()+o.v.Len())
		for _, e := range l.v.Elems() {
			elems = append(elems, e)
		}
		for _, e := range o.v.Elems() {
			elems = append(elems, e)
		}
		return toCEL(value.List(elems...))
	}
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, l.elems()).Add(o)
}

func (l *list) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, l.elems()).Iterator()
}

// Fold implements traits.Foldable. Comprehensions use it to iterate.
func (l *list) Fold(f traits.Folder) {
	for i, e := range l.v.Elems() {
		if !f.FoldEntry(types.Int(i), toCEL(e)) {
			return
		}
	}
}

// A dict is a map of a payload as a CEL value, or an error in the form of a map.
type dict struct {
	v     value.Value
	whole value.Value // v, or the error that v describes
}

func (d *dict) Type() ref.Type { return types.MapType }

func (d *dict) Value() any { return d.whole }

// ConvertToType implements ref.Val. As a string, an error is its message.
func (d *dict) ConvertToType(t ref.Type) ref.Val {
	if t == types.StringType && d.whole.IsError() {
		if message, ok := d.v.Get("message"); ok {
			return toCEL(message)
		}
	}
	return converted(d, t, types.MapType, "map")
}

// ConvertToNative implements ref.Val. Functions of the libraries use it.
func (d *dict) ConvertToNative(t reflect.Type) (any, error) {
	entries := make(map[ref.Val]ref.Val, d.v.Len())
	for name, field := range d.v.Fields() {
		entries[types.String(name)] = toCEL(field)
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, entries).ConvertToNative(t)
}

func (d *dict) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*dict); ok {
		return types.Bool(d.v.Equal(o.v))
	}
	return mapsEqual(d, other)
}

func (d *dict) Size() ref.Val { return types.Int(d.v.Len()) }

func (d *dict) IsZeroValue() bool { return d.v.Len() == 0 }

func (d *dict) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	field, ok := d.v.Get(string(name))
	if !ok {
		return nil, false
	}
	return toCEL(field), true
}

func (d *dict) Get(key ref.Val) ref.Val { return getOrError(d, key) }

func (d *dict) Contains(key ref.Val) ref.Val { return contains(d, key) }

func (d *dict) Iterator() traits.Iterator {
	names := make([]ref.Val, 0, d.v.Len())
	for name := range d.v.Fields() {
		names = append(names, types.String(name))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, names).Iterator()
}

func (d *dict) Fold(f traits.Folder) {
	for name, field := range d.v.Fields() {
		if !f.FoldEntry(types.String(name), toCEL(field)) {
			return
		}
	}
}

func getOrError(m traits.Mapper, key ref.Val) ref.Val {
	if v, ok := m.Find(key); ok || v != nil {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

func contains(m traits.Mapper, key ref.Val) ref.Val {
	if types.IsUnknownOrError(key) {
		return key
	}
	_, ok := m.Find(key)
	return types.Bool(ok)
}

func mapsEqual(m traits.Mapper, other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	if !ok || types.Equal(o.Size(), m.Size()) != types.True {
		return types.False
	}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		theirs, ok := o.Find(key)
		if !ok || types.Equal(m.Get(key), theirs) != types.True {
			return types.False
		}
	}
	return types.True
}
