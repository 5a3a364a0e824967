package value_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/uniflow-labs/uniflow/value"
)

// This file is what the compiled codec is compared with: the conversion by plain
// reflection, which walks types and reads tags at each call. It handles what the
// benchmarks and the comparing tests need: structs with the options of their tags except
// inline and alias, maps with keys of strings, slices, arrays, pointers, interfaces,
// time, and scalars.

var (
	valueType    = reflect.TypeFor[value.Value]()
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
)

// reflectEncode is [value.Encode] by reflection.
func reflectEncode(v any) (value.Value, error) {
	if v == nil {
		return value.Null(), nil
	}
	return encodeReflect(reflect.ValueOf(v))
}

func encodeReflect(v reflect.Value) (value.Value, error) {
	switch v.Type() {
	case valueType:
		return v.Interface().(value.Value), nil
	case timeType:
		return value.Time(v.Interface().(time.Time)), nil
	case durationType:
		return value.Duration(time.Duration(v.Int())), nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return value.Null(), nil
		}
		return encodeReflect(v.Elem())
	case reflect.Bool:
		return value.Bool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return value.Int(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return value.Uint(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return value.Float(v.Float()), nil
	case reflect.String:
		return value.String(v.String()), nil
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			return value.Binary(slices.Clone(v.Bytes())), nil
		}
		elems := make([]value.Value, v.Len())
		for i := range elems {
			var err error
			if elems[i], err = encodeReflect(v.Index(i)); err != nil {
				return value.Value{}, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return value.List(elems...), nil
	case reflect.Map:
		fields := make([]value.Field, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			e, err := encodeReflect(it.Value())
			if err != nil {
				return value.Value{}, fmt.Errorf("%s: %w", it.Key(), err)
			}
			fields = append(fields, value.Field{Name: it.Key().String(), Value: e})
		}
		slices.SortFunc(fields, func(f, g value.Field) int { return strings.Compare(f.Name, g.Name) })
		return value.UniqueMap(fields), nil
	case reflect.Struct:
		var b value.MapBuilder
		b.Grow(v.NumField())
		if err := encodeReflectStruct(&b, v); err != nil {
			return value.Value{}, err
		}
		return b.Build(), nil
	}
	return value.Value{}, fmt.Errorf("%s is not supported", v.Type())
}

func encodeReflectStruct(b *value.MapBuilder, v reflect.Value) error {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, omitEmpty, skip := parseTag(f)
		if skip {
			continue
		}
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if err := encodeReflectStruct(b, v.Field(i)); err != nil {
				return err
			}
			continue
		}
		if omitEmpty && isEmpty(v.Field(i)) {
			continue
		}
		e, err := encodeReflect(v.Field(i))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.Set(name, e)
	}
	return nil
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func parseTag(f reflect.StructField) (name string, omitEmpty, skip bool) {
	tag, ok := f.Tag.Lookup("value")
	if !ok {
		tag = f.Tag.Get("json")
	}
	if tag == "-" || !f.IsExported() {
		return "", false, true
	}
	parts := strings.Split(tag, ",")
	name = parts[0]
	if name == "" {
		name = snakeCase(f.Name)
	}
	return name, slices.Contains(parts[1:], "omitempty"), false
}

func snakeCase(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && runes[i-1] != '_' &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// reflectDecode is [value.Decode] by reflection, without its conversions from
// text.
func reflectDecode(v value.Value, into any) error {
	p := reflect.ValueOf(into)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("%T is not a pointer", into)
	}
	return decodeReflect(v, p.Elem())
}

func decodeReflect(v value.Value, into reflect.Value) error {
	switch into.Type() {
	case valueType:
		into.Set(reflect.ValueOf(v))
		return nil
	case timeType:
		t, ok := v.AsTime()
		into.Set(reflect.ValueOf(t))
		return checkReflect(ok, v, into)
	case durationType:
		d, ok := v.AsDuration()
		into.SetInt(int64(d))
		return checkReflect(ok, v, into)
	}
	switch into.Kind() {
	case reflect.Pointer:
		if v.IsNull() {
			into.SetZero()
			return nil
		}
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		return decodeReflect(v, into.Elem())
	case reflect.Interface:
		if v.IsNull() {
			into.SetZero()
		} else {
			into.Set(reflect.ValueOf(v.Go()))
		}
		return nil
	case reflect.Slice:
		return decodeReflectSlice(v, into)
	case reflect.Map:
		return decodeReflectMap(v, into)
	case reflect.Struct:
		if v.IsNull() {
			return nil
		}
		return decodeReflectStruct(v, into)
	}
	if v.IsNull() {
		return nil
	}
	return decodeReflectScalar(v, into)
}

func decodeReflectScalar(v value.Value, into reflect.Value) error {
	switch into.Kind() {
	case reflect.Bool:
		b, ok := v.AsBool()
		into.SetBool(b)
		return checkReflect(ok, v, into)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, ok := v.AsInt()
		ok = ok && !into.OverflowInt(i)
		into.SetInt(i)
		return checkReflect(ok, v, into)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		u, ok := v.AsUint()
		ok = ok && !into.OverflowUint(u)
		into.SetUint(u)
		return checkReflect(ok, v, into)
	case reflect.Float32, reflect.Float64:
		f, ok := v.AsFloat()
		into.SetFloat(f)
		return checkReflect(ok, v, into)
	case reflect.String:
		s, ok := v.AsString()
		into.SetString(s)
		return checkReflect(ok, v, into)
	}
	return fmt.Errorf("%s is not supported", into.Type())
}

func checkReflect(ok bool, v value.Value, into reflect.Value) error {
	if ok {
		return nil
	}
	return fmt.Errorf("cannot turn a %s into %s", v.Kind(), into.Type())
}

func decodeReflectSlice(v value.Value, into reflect.Value) error {
	if v.IsNull() {
		into.SetZero()
		return nil
	}
	if into.Type().Elem().Kind() == reflect.Uint8 {
		b, ok := v.AsBinary()
		into.SetBytes(slices.Clone(b))
		return checkReflect(ok, v, into)
	}
	if v.Kind() != value.KindList {
		return checkReflect(false, v, into)
	}
	into.Set(reflect.MakeSlice(into.Type(), v.Len(), v.Len()))
	for i, e := range v.Elems() {
		if err := decodeReflect(e, into.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func decodeReflectMap(v value.Value, into reflect.Value) error {
	if v.IsNull() {
		into.SetZero()
		return nil
	}
	if v.Kind() != value.KindMap {
		return checkReflect(false, v, into)
	}
	if into.IsNil() {
		into.Set(reflect.MakeMapWithSize(into.Type(), v.Len()))
	}
	for name, e := range v.Fields() {
		entry := reflect.New(into.Type().Elem()).Elem()
		if err := decodeReflect(e, entry); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		into.SetMapIndex(reflect.ValueOf(name).Convert(into.Type().Key()), entry)
	}
	return nil
}

func decodeReflectStruct(v value.Value, into reflect.Value) error {
	if v.Kind() != value.KindMap {
		return checkReflect(false, v, into)
	}
	t := into.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, skip := parseTag(f)
		if skip {
			continue
		}
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if err := decodeReflectStruct(v, into.Field(i)); err != nil {
				return err
			}
			continue
		}
		if e, ok := v.Get(name); ok {
			if err := decodeReflect(e, into.Field(i)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
