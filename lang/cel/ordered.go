package cel

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// An ordered is a map made by an expression. CEL's own maps are Go maps with a random
// order; a payload keeps the order of its fields.
type ordered struct {
	keys, vals []ref.Val
	index      map[ref.Val]int // by canonical key; nil up to scanUpTo entries
}

// scanUpTo is the number of entries up to which a linear search is as fast as hashing.
const scanUpTo = 8

// canonical returns the same key for 1, 1u and 1.0, which are equal in CEL.
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

// put sets an entry. An existing one keeps its position.
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

func (m *ordered) Type() ref.Type { return types.MapType }

func (m *ordered) Value() any { return m.native() }

func (m *ordered) native() map[ref.Val]ref.Val {
	entries := make(map[ref.Val]ref.Val, len(m.keys))
	for i, k := range m.keys {
		entries[k] = m.vals[i]
	}
	return entries
}

func (m *ordered) ConvertToType(t ref.Type) ref.Val {
	return converted(m, t, types.MapType, "map")
}

// ConvertToNative implements ref.Val. Functions of the libraries use it.
func (m *ordered) ConvertToNative(t reflect.Type) (any, error) {
	return types.NewRefValMap(types.DefaultTypeAdapter, m.native()).ConvertToNative(t)
}

func (m *ordered) Equal(other ref.Val) ref.Val { return mapsEqual(m, other) }

func (m *ordered) Size() ref.Val { return types.Int(len(m.keys)) }

func (m *ordered) IsZeroValue() bool { return len(m.keys) == 0 }

func (m *ordered) Find(key ref.Val) (ref.Val, bool) {
	if i := m.find(key); i >= 0 {
		return m.vals[i], true
	}
	return nil, false
}

func (m *ordered) Get(key ref.Val) ref.Val { return getOrError(m, key) }

func (m *ordered) Contains(key ref.Val) ref.Val { return contains(m, key) }

func (m *ordered) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, m.keys).Iterator()
}

func (m *ordered) Fold(f traits.Folder) {
	for i, k := range m.keys {
		if !f.FoldEntry(k, m.vals[i]) {
			return
		}
	}
}

// An accumulator is the ordered map that a comprehension fills. Only the expansion of a
// macro can name it, so no expression notices that it is filled in place.
type accumulator struct{ *ordered }

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

func (a accumulator) ToImmutableMap() traits.Mapper { return a.ordered }

// mapInsert is the function with which macros fill maps.
const mapInsert = "cel.@mapInsert"

// A filling is a call of mapInsert. At the first entry it replaces the interpreter's Go
// map with an accumulator.
type filling struct{ interpreter.InterpretableCall }

func (f filling) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, f.Exec)
}

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

// A mapLiteral makes a map with the entries in the order of the expression.
type mapLiteral struct {
	id         int64
	keys, vals []interpreter.InterpretableV2
	optional   []bool // for each entry; nil if none is optional
}

func (m *mapLiteral) ID() int64 { return m.id }

func (m *mapLiteral) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, m.Exec)
}

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
