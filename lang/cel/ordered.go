package cel

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// An ordered is a map made by an expression. CEL's own maps are Go maps and come
// out in random order; a payload keeps the order in which it was written.
type ordered struct {
	keys, vals []ref.Val
	index      map[ref.Val]int // by canonical key; nil up to scanUpTo entries
}

// scanUpTo is the number of entries up to which looking at each key is as fast
// as hashing one.
const scanUpTo = 8

// canonical returns a key under which 1, 1u and 1.0 are the same, as they are to
// CEL.
func canonical(key ref.Val) ref.Val {
	switch k := key.(type) {
	case types.Uint:
		if i, ok := k.ConvertToType(types.IntType).(types.Int); ok {
			return i
		}
	case types.Double:
		if i := types.Int(k); types.Double(i) == k {
			return i
		}
	}
	return key
}

// validKey reports whether a key may stand in a map.
func validKey(key ref.Val) bool {
	switch key.(type) {
	case types.String, types.Int, types.Uint, types.Bool, types.Double:
		return true
	}
	return false
}

func (m *ordered) find(key ref.Val) int {
	if !validKey(key) {
		return -1
	}
	key = canonical(key)
	if m.index != nil {
		if i, ok := m.index[key]; ok {
			return i
		}
		return -1
	}
	for i, k := range m.keys {
		if canonical(k) == key {
			return i
		}
	}
	return -1
}

// put sets an entry, in its place if it is there.
func (m *ordered) put(key, val ref.Val) {
	if i := m.find(key); i >= 0 {
		m.vals[i] = val
		return
	}
	if m.index == nil && len(m.keys) == scanUpTo {
		m.index = make(map[ref.Val]int, 2*scanUpTo)
		for i, k := range m.keys {
			m.index[canonical(k)] = i
		}
	}
	if m.index != nil {
		m.index[canonical(key)] = len(m.keys)
	}
	m.keys = append(m.keys, key)
	m.vals = append(m.vals, val)
}

// Type implements ref.Val.
func (m *ordered) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m *ordered) Value() any { return m.native() }

func (m *ordered) native() map[ref.Val]ref.Val {
	entries := make(map[ref.Val]ref.Val, len(m.keys))
	for i, k := range m.keys {
		entries[k] = m.vals[i]
	}
	return entries
}

// ConvertToType implements ref.Val.
func (m *ordered) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("a map cannot be made a %s", t.TypeName())
}

// ConvertToNative implements ref.Val. Functions of the libraries use it.
func (m *ordered) ConvertToNative(t reflect.Type) (any, error) {
	return types.NewRefValMap(types.DefaultTypeAdapter, m.native()).ConvertToNative(t)
}

// Equal implements ref.Val.
func (m *ordered) Equal(other ref.Val) ref.Val { return mapsEqual(m, other) }

// Size implements traits.Sizer.
func (m *ordered) Size() ref.Val { return types.Int(len(m.keys)) }

// IsZeroValue implements traits.Zeroer.
func (m *ordered) IsZeroValue() bool { return len(m.keys) == 0 }

// Find implements traits.Mapper.
func (m *ordered) Find(key ref.Val) (ref.Val, bool) {
	if i := m.find(key); i >= 0 {
		return m.vals[i], true
	}
	return nil, false
}

// Get implements traits.Indexer.
func (m *ordered) Get(key ref.Val) ref.Val { return getOrError(m, key) }

// Contains implements traits.Container.
func (m *ordered) Contains(key ref.Val) ref.Val { return contains(m, key) }

// Iterator implements traits.Iterable.
func (m *ordered) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, m.keys).Iterator()
}

// Fold implements traits.Foldable.
func (m *ordered) Fold(f traits.Folder) {
	for i, k := range m.keys {
		if !f.FoldEntry(k, m.vals[i]) {
			return
		}
	}
}

// An accumulator is the ordered map that a comprehension fills. Only the code
// that a macro expands to can name it, so filling it in place is not seen.
type accumulator struct{ *ordered }

// Insert implements traits.MutableMapper.
func (a accumulator) Insert(key, val ref.Val) ref.Val {
	if !validKey(key) {
		return types.NewErr("a %s cannot be the key of a map", key.Type().TypeName())
	}
	if a.find(key) >= 0 {
		return types.NewErr("the key %v occurs twice", key)
	}
	a.put(key, val)
	return a
}

// ToImmutableMap implements traits.MutableMapper.
func (a accumulator) ToImmutableMap() traits.Mapper { return a.ordered }

// mapInsert is the function by which the macros that make maps fill them.
const mapInsert = "cel.@mapInsert"

// A filling is a call of mapInsert. It puts an accumulator in the place of the
// interpreter's own, which is a Go map, with the first entry.
type filling struct{ interpreter.InterpretableCall }

// Eval implements interpreter.Interpretable.
func (f filling) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, f.Exec)
}

// Exec implements interpreter.InterpretableV2.
func (f filling) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	var args [3]ref.Val
	for i, arg := range f.Args() {
		if args[i] = arg.Exec(frame); types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	meterOf(frame).charge(1, entryBytes)
	into, ok := args[0].(accumulator)
	if !ok {
		into = accumulator{&ordered{}}
	}
	if args[2] != nil {
		return into.Insert(args[1], args[2])
	}
	entries, ok := args[1].(traits.Mapper)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	meterOf(frame).charge(length(entries), length(entries)*entryBytes)
	for it := entries.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		if made := into.Insert(key, entries.Get(key)); types.IsError(made) {
			return made
		}
	}
	return into
}

// A mapLiteral makes a map in the order in which the expression lists its
// entries.
type mapLiteral struct {
	id         int64
	keys, vals []interpreter.InterpretableV2
	optional   []bool // of each entry; nil if none is
}

// ID implements interpreter.Interpretable.
func (m *mapLiteral) ID() int64 { return m.id }

// Eval implements interpreter.Interpretable.
func (m *mapLiteral) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, m.Exec)
}

// Exec implements interpreter.InterpretableV2.
func (m *mapLiteral) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	made := &ordered{keys: make([]ref.Val, 0, len(m.keys)), vals: make([]ref.Val, 0, len(m.keys))}
	for i := range m.keys {
		key := m.keys[i].Exec(frame)
		if types.IsUnknownOrError(key) {
			return key
		}
		if !validKey(key) {
			return types.NewErrWithNodeID(m.id, "a %s cannot be the key of a map", key.Type().TypeName())
		}
		val := m.vals[i].Exec(frame)
		if types.IsUnknownOrError(val) {
			return val
		}
		if m.optional != nil && m.optional[i] {
			opt, ok := val.(*types.Optional)
			if !ok {
				return types.NewErrWithNodeID(m.id, "the optional entry %v is not an optional", key)
			}
			if !opt.HasValue() {
				continue
			}
			val = opt.GetValue()
		}
		made.put(key, val)
	}
	return made
}

// constant returns the map if all of its entries are constants.
func (m *mapLiteral) constant() (*ordered, bool) {
	if m.optional != nil {
		return nil, false
	}
	made := &ordered{}
	for i := range m.keys {
		key, isConst := m.keys[i].(interpreter.InterpretableConst)
		if !isConst || !validKey(key.Value()) {
			return nil, false
		}
		val, isConst := m.vals[i].(interpreter.InterpretableConst)
		if !isConst {
			return nil, false
		}
		made.put(key.Value(), val.Value())
	}
	return made, true
}
