package cel

import (
	"math"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// standard omits the operators that this package declares itself. Arithmetic must work
// on mixed numbers: a payload's 2 is an integer and its 1.5 is not, but price * 2 must
// work for both. The other operators of the library need the same static type on both
// sides, which is right for typed data, but refuses cond ? 1 : "none" on payloads.
func standard() *env.LibrarySubset {
	subset := &env.LibrarySubset{}
	for _, name := range []string{
		operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo,
		operators.Conditional, operators.Equals, operators.NotEquals, operators.In, operators.Index,
	} {
		subset.ExcludeFunctions = append(subset.ExcludeFunctions, env.NewFunction(name))
	}
	return subset
}

// operatorFunctions declares the operators that standard omits. They have the standard
// identifiers of overloads, which the cost model and the optimizer use.
func operatorFunctions() []cel.EnvOption {
	a, b := cel.TypeParamType("A"), cel.TypeParamType("B")
	list, listOfA, mapping := cel.ListType(cel.DynType), cel.ListType(a), cel.MapType(a, b)
	unused := cel.SingletonFunctionBinding(func(...ref.Val) ref.Val { return types.NoSuchOverloadErr() })
	return []cel.EnvOption{
		cel.Function(operators.Add, append(numeric("add", overloads.AddInt64, overloads.AddUint64, overloads.AddDouble),
			cel.Overload(overloads.AddBytes, []*cel.Type{cel.BytesType, cel.BytesType}, cel.BytesType),
			cel.Overload(overloads.AddString, []*cel.Type{cel.StringType, cel.StringType}, cel.StringType),
			cel.Overload(overloads.AddList, []*cel.Type{list, list}, list),
			cel.Overload(overloads.AddDurationDuration, []*cel.Type{cel.DurationType, cel.DurationType}, cel.DurationType),
			cel.Overload(overloads.AddDurationTimestamp, []*cel.Type{cel.DurationType, cel.TimestampType}, cel.TimestampType),
			cel.Overload(overloads.AddTimestampDuration, []*cel.Type{cel.TimestampType, cel.DurationType}, cel.TimestampType),
			cel.SingletonBinaryBinding(add))...),
		cel.Function(operators.Subtract, append(numeric("subtract", overloads.SubtractInt64, overloads.SubtractUint64, overloads.SubtractDouble),
			cel.Overload(overloads.SubtractDurationDuration, []*cel.Type{cel.DurationType, cel.DurationType}, cel.DurationType),
			cel.Overload(overloads.SubtractTimestampDuration, []*cel.Type{cel.TimestampType, cel.DurationType}, cel.TimestampType),
			cel.Overload(overloads.SubtractTimestampTimestamp, []*cel.Type{cel.TimestampType, cel.TimestampType}, cel.DurationType),
			cel.SingletonBinaryBinding(subtract))...),
		cel.Function(operators.Multiply, append(numeric("multiply", overloads.MultiplyInt64, overloads.MultiplyUint64, overloads.MultiplyDouble),
			cel.SingletonBinaryBinding(multiply))...),
		cel.Function(operators.Divide, append(numeric("divide", overloads.DivideInt64, overloads.DivideUint64, overloads.DivideDouble),
			cel.SingletonBinaryBinding(divide))...),
		cel.Function(operators.Modulo, append(numeric("modulo", overloads.ModuloInt64, overloads.ModuloUint64, "modulo_double"),
			cel.SingletonBinaryBinding(modulo))...),

		// The planner implements these and never calls the bindings.
		cel.Function(operators.Conditional, cel.Overload(overloads.Conditional, []*cel.Type{cel.BoolType, a, b}, cel.DynType,
			cel.OverloadIsNonStrict()), unused),
		cel.Function(operators.Equals, cel.Overload(overloads.Equals, []*cel.Type{a, b}, cel.BoolType), unused),
		cel.Function(operators.NotEquals, cel.Overload(overloads.NotEquals, []*cel.Type{a, b}, cel.BoolType), unused),
		cel.Function(operators.Index,
			cel.Overload(overloads.IndexList, []*cel.Type{listOfA, cel.IntType}, a),
			cel.Overload("index_list_uint", []*cel.Type{listOfA, cel.UintType}, a),
			cel.Overload("index_list_double", []*cel.Type{listOfA, cel.DoubleType}, a),
			cel.Overload(overloads.IndexMap, []*cel.Type{mapping, cel.DynType}, b), unused),
		cel.Function(operators.In,
			cel.Overload(overloads.InList, []*cel.Type{cel.DynType, list}, cel.BoolType),
			cel.Overload(overloads.InMap, []*cel.Type{cel.DynType, mapping}, cel.BoolType),
			cel.SingletonBinaryBinding(in)),
	}
}

// numeric returns the overloads of an arithmetic operator for all pairs of number types.
func numeric(name, intID, uintID, doubleID string) []cel.FunctionOpt {
	pair := func(id string, l, r, result *cel.Type) cel.FunctionOpt {
		return cel.Overload(id, []*cel.Type{l, r}, result)
	}
	return []cel.FunctionOpt{
		pair(intID, cel.IntType, cel.IntType, cel.IntType),
		pair(uintID, cel.UintType, cel.UintType, cel.UintType),
		pair(doubleID, cel.DoubleType, cel.DoubleType, cel.DoubleType),
		pair(name+"_int64_double", cel.IntType, cel.DoubleType, cel.DoubleType),
		pair(name+"_double_int64", cel.DoubleType, cel.IntType, cel.DoubleType),
		pair(name+"_uint64_double", cel.UintType, cel.DoubleType, cel.DoubleType),
		pair(name+"_double_uint64", cel.DoubleType, cel.UintType, cel.DoubleType),
		pair(name+"_int64_uint64", cel.IntType, cel.UintType, cel.DynType),
		pair(name+"_uint64_int64", cel.UintType, cel.IntType, cel.DynType),
	}
}

// align converts two numbers of different types to one type: to double if either is a
// double, else to int if both fit, else to uint if both fit. It does not change other
// values; the methods of their types refuse them.
func align(l, r ref.Val) (ref.Val, ref.Val) {
	switch a := l.(type) {
	case types.Int:
		switch b := r.(type) {
		case types.Double:
			return types.Double(a), b
		case types.Uint:
			if b <= math.MaxInt64 {
				return a, types.Int(b)
			}
			if a >= 0 {
				return types.Uint(a), b
			}
			return types.Double(a), types.Double(b)
		}
	case types.Uint:
		switch b := r.(type) {
		case types.Double:
			return types.Double(a), b
		case types.Int:
			r, l = align(r, l)
			return l, r
		}
	case types.Double:
		switch b := r.(type) {
		case types.Int:
			return a, types.Double(b)
		case types.Uint:
			return a, types.Double(b)
		}
	}
	return l, r
}

// aligned does an operation of numbers of one type, or of other values.
func aligned[T any](l, r ref.Val, do func(l T, r ref.Val) ref.Val) ref.Val {
	l, r = align(l, r)
	if op, ok := l.(T); ok {
		return do(op, r)
	}
	return types.MaybeNoSuchOverloadErr(l)
}

func add(l, r ref.Val) ref.Val {
	if u, negative, ok := uintAndNegative(l, r); ok {
		return u.Subtract(negative)
	}
	if u, negative, ok := uintAndNegative(r, l); ok {
		return u.Subtract(negative)
	}
	return aligned(l, r, traits.Adder.Add)
}

func subtract(l, r ref.Val) ref.Val {
	if u, negative, ok := uintAndNegative(l, r); ok {
		return u.Add(negative)
	}
	return aligned(l, r, traits.Subtractor.Subtract)
}

// uintAndNegative matches an integer beyond int64 and a negative one, which have no
// common type. It returns the second without its sign.
func uintAndNegative(l, r ref.Val) (u, without types.Uint, ok bool) {
	u, isUint := l.(types.Uint)
	i, isInt := r.(types.Int)
	if !isUint || !isInt || i >= 0 || u <= math.MaxInt64 {
		return 0, 0, false
	}
	return u, types.Uint(-uint64(i)), true
}

func multiply(l, r ref.Val) ref.Val { return aligned(l, r, traits.Multiplier.Multiply) }

func divide(l, r ref.Val) ref.Val { return aligned(l, r, traits.Divider.Divide) }

func modulo(l, r ref.Val) ref.Val {
	l, r = align(l, r)
	a, ok := l.(types.Double)
	if b, both := r.(types.Double); ok && both {
		return types.Double(math.Mod(float64(a), float64(b)))
	}
	return aligned(l, r, traits.Modder.Modulo)
}

func in(l, r ref.Val) ref.Val {
	if container, ok := r.(traits.Container); ok {
		return container.Contains(l)
	}
	return types.MaybeNoSuchOverloadErr(r)
}
