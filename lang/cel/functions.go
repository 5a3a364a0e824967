package cel

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/uniflow-labs/uniflow/value"
)

// A work is the cost of calling a function. The zero work is for functions with constant
// time, which are charged with the pass. Otherwise exactly one of price, run and compile
// is set.
type work struct {
	// price charges for a call before the library's function runs.
	price func(m *meter, args []ref.Val)

	// linear says that the time and the result are proportional to the sum of the
	// arguments.
	linear bool

	// run replaces a function of the library that cannot be interrupted or takes too
	// long. It returns nil if the arguments have wrong types.
	run func(m *meter, args []ref.Val) ref.Val

	// quick is run for values that are not charged. It returns nil for others.
	quick func(l, r ref.Val) ref.Val

	// compile makes run for constant arguments.
	compile func(args []interpreter.InterpretableV2) (func(m *meter, args []ref.Val) ref.Val, error)
}

func (w *work) free() bool { return w.price == nil && w.run == nil && w.compile == nil }

// works returns the cost of every function in the environment.
func works() map[string]work {
	all := map[string]work{}
	put := func(w work, names ...string) {
		for _, name := range names {
			all[name] = w
		}
	}
	put(work{},
		operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
		operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional,
		operators.NotStrictlyFalse, "__not_strictly_false__", // the old name
		operators.Index, operators.OptIndex, operators.OptSelect,
		overloads.TypeConvertType, overloads.TypeConvertDyn,
		"optional.of", "optional.ofNonZeroValue", "optional.none", "value", "or", "orValue", "first", "last",
		"math.abs", "math.bitAnd", "math.bitNot", "math.bitOr", "math.bitShiftLeft", "math.bitShiftRight", "math.bitXor",
		"math.ceil", "math.floor", "math.isFinite", "math.isInf", "math.isNaN", "math.round", "math.sign", "math.sqrt", "math.trunc",
		"cel.@block", // used by optimizers only
		mapInsert,    // charged by filling
	)
	put(work{price: readAll, linear: true},
		operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		overloads.Size, overloads.Contains, overloads.StartsWith, overloads.EndsWith,
		overloads.TypeConvertBool, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble,
		overloads.TypeConvertDuration, overloads.TypeConvertTimestamp,
		"math.@max", "math.@min",
	)
	put(work{price: copyAll, linear: true},
		overloads.TypeConvertString, overloads.TypeConvertBytes,
		"trim", "base64.encode", "base64.decode", "base64.encodeUrl", "base64.decodeUrl",
		"slice", "optional.unwrap", "unwrapOpt",
	)
	put(work{price: copyAll}, "reverse", "strings.quote") // linear, but slow
	put(work{price: added, linear: true}, operators.Add)
	put(work{price: zone, linear: true},
		overloads.TimeGetDate, overloads.TimeGetDayOfMonth, overloads.TimeGetDayOfWeek, overloads.TimeGetDayOfYear,
		overloads.TimeGetFullYear, overloads.TimeGetHours, overloads.TimeGetMilliseconds, overloads.TimeGetMinutes,
		overloads.TimeGetMonth, overloads.TimeGetSeconds,
	)
	put(work{price: replacedText}, "replace")
	put(work{price: splitText}, "split")
	put(work{price: joinedText}, "join")
	put(work{price: formattedText}, "format")
	put(work{price: counted}, "lists.range")
	put(work{price: flattened}, "flatten")

	put(work{run: equals(true), quick: equalScalars(true)}, operators.Equals)
	put(work{run: equals(false), quick: equalScalars(false)}, operators.NotEquals)
	put(work{run: isIn}, operators.In, operators.OldIn, overloads.DeprecatedIn)
	put(work{run: hasValue}, "hasValue")
	put(work{run: indexOf}, "indexOf")
	put(work{run: lastIndexOf}, "lastIndexOf")
	put(work{run: charAt}, "charAt")
	put(work{run: substring}, "substring")
	put(work{run: inCase('A', 'Z')}, "lowerAscii")
	put(work{run: inCase('a', 'z')}, "upperAscii")
	put(work{run: distinct}, "distinct")
	put(work{run: sortBy}, "sort", "@sortByAssociatedKeys")
	put(work{run: lists(containsAll)}, "sets.contains", "hasAll")
	put(work{run: lists(func(m *meter, a, b traits.Lister) bool { return containsAll(m, b, a) })}, "hasOnly")
	put(work{run: lists(containsAny)}, "sets.intersects", "hasAny")
	put(work{run: lists(func(m *meter, a, b traits.Lister) bool { return containsAll(m, a, b) && containsAll(m, b, a) })},
		"sets.equivalent", "hasExactly")
	put(work{run: encodeJSON}, "json.encode")
	put(work{run: parseJSON}, "json.parse")

	put(work{compile: expression(matches)}, overloads.Matches)
	put(work{compile: expression(extract)}, "regex.extract")
	put(work{compile: expression(extractAll)}, "regex.extractAll")
	put(work{compile: expression(replaceMatches)}, "regex.replace")
	return all
}

// encoders declares functions that the library has too, together with functions that we
// exclude: its json.parse loses the order of fields, and a few kilobytes of YAML can
// stand for gigabytes.
func encoders() []cel.EnvOption {
	replaced := cel.UnaryBinding(func(ref.Val) ref.Val { return types.NoSuchOverloadErr() }) // by work.run
	return []cel.EnvOption{
		cel.Function("json.parse", cel.Overload("json_parse_string",
			[]*cel.Type{cel.StringType}, cel.OptionalType(cel.DynType), replaced)),
		cel.Function("base64.encodeUrl", cel.Overload("base64_encode_url_bytes",
			[]*cel.Type{cel.BytesType}, cel.StringType, cel.UnaryBinding(func(v ref.Val) ref.Val {
				b, _ := v.(types.Bytes)
				return types.String(base64.URLEncoding.EncodeToString(b))
			}))),
		cel.Function("base64.decodeUrl", cel.Overload("base64_decode_url_string",
			[]*cel.Type{cel.StringType}, cel.BytesType, cel.UnaryBinding(func(v ref.Val) ref.Val {
				s, _ := v.(types.String)
				b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(string(s), "="))
				if err != nil {
					return types.WrapErr(err)
				}
				return types.Bytes(b)
			}))),
	}
}

// readAll charges for reading every argument once.
func readAll(m *meter, args []ref.Val) {
	for _, arg := range args {
		switch arg.(type) {
		case types.String, types.Bytes:
			m.read(length(arg))
		case traits.Lister:
			m.charge(1+length(arg), 0)
		}
	}
}

// copyAll charges for a result that is at most twice as large as the arguments.
func copyAll(m *meter, args []ref.Val) {
	added(m, args)
	added(m, args)
}

// added charges for a result that is as large as the arguments together.
func added(m *meter, args []ref.Val) {
	for _, arg := range args {
		switch arg := arg.(type) {
		case types.String, types.Bytes:
			m.write(length(arg))
		case traits.Lister:
			m.charge(1+length(arg), length(arg)*elementBytes)
		}
	}
}

// zone charges for a time zone, which is read from a file.
func zone(m *meter, args []ref.Val) {
	if len(args) > 1 {
		m.charge(1000, 0)
	}
}

func replacedText(m *meter, args []ref.Val) {
	s, old, with := text(args, 0), text(args, 1), text(args, 2)
	m.read(len(s) + len(old))
	size := len(s)
	if len(with) > len(old) {
		size += strings.Count(s, old) * (len(with) - len(old))
	}
	m.write(size)
}

func splitText(m *meter, args []ref.Val) {
	s, separator := text(args, 0), text(args, 1)
	m.read(len(s) + len(separator))
	parts := strings.Count(s, separator) + 1
	m.charge(parts, parts*2*elementBytes)
}

func joinedText(m *meter, args []ref.Val) {
	l, ok := args[0].(traits.Lister)
	if !ok {
		return
	}
	n := length(l)
	m.charge(n, 2*n*elementBytes)
	size := n * len(text(args, 1))
	for e := range elems(l) {
		size += length(e)
	}
	m.write(size)
}

func formattedText(m *meter, args []ref.Val) {
	const clause = 512 // the longest number, %.100f of 1e308, takes 410 bytes
	s := text(args, 0)
	m.read(len(s))
	m.write(len(s) + clause*strings.Count(s, "%") + m.weigh(args[1]))
}

func counted(m *meter, args []ref.Val) {
	if n, ok := args[0].(types.Int); ok {
		n = max(0, min(n, MemoryLimit))
		m.charge(int(n), int(n)*elementBytes)
	}
}

// flattened visits the lists like the function itself.
func flattened(m *meter, args []ref.Val) {
	depth := types.Int(1)
	if len(args) > 1 {
		depth, _ = args[1].(types.Int)
	}
	var walk func(v ref.Val, depth types.Int)
	walk = func(v ref.Val, depth types.Int) {
		m.charge(1, elementBytes)
		l, ok := v.(traits.Lister)
		if !ok || depth < 0 {
			return
		}
		for e := range elems(l) {
			walk(e, depth-1)
		}
	}
	walk(args[0], depth)
}

func text(args []ref.Val, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := args[i].(types.String)
	return string(s)
}

func equals(want bool) func(m *meter, args []ref.Val) ref.Val {
	return func(m *meter, args []ref.Val) ref.Val { return types.Bool(m.equal(args[0], args[1]) == want) }
}

// equalScalars returns == or != for a scalar and any value, which takes constant time.
func equalScalars(want bool) func(l, r ref.Val) ref.Val {
	const short = 256
	small := func(v ref.Val) bool {
		switch v := v.(type) {
		case types.Int, types.Uint, types.Double, types.Bool, types.Null:
			return true
		case types.String:
			return len(v) <= short
		}
		return false
	}
	return func(l, r ref.Val) ref.Val {
		if small(l) || small(r) {
			return types.Bool((types.Equal(l, r) == types.True) == want)
		}
		return nil
	}
}

func isIn(m *meter, args []ref.Val) ref.Val {
	switch in := args[1].(type) {
	case traits.Lister:
		for e := range elems(in) {
			if m.equal(args[0], e) {
				return types.True
			}
		}
		return types.False
	case traits.Container:
		m.read(length(args[0]))
		return in.Contains(args[0])
	}
	return nil
}

func hasValue(m *meter, args []ref.Val) ref.Val {
	o, ok := args[0].(*types.Optional)
	if !ok {
		return nil
	}
	return types.Bool(o.HasValue() && (len(args) < 2 || m.equal(o.GetValue(), args[1])))
}

// indexOf counts characters, like all functions of texts. The library compares at each
// character, which is quadratic; [strings.Index] is linear.
func indexOf(m *meter, args []ref.Val) ref.Val {
	s, sub, ok := twoTexts(args)
	if !ok {
		return nil
	}
	m.read(len(s) + len(sub))
	begin := 0
	if len(args) > 2 {
		var bad ref.Val
		if begin, bad = indexArg(s, args[2]); begin < 0 {
			return bad
		}
		if begin > len(s) && sub != "" {
			return types.IntNegOne
		}
		begin = min(begin, len(s))
	}
	at := strings.Index(s[begin:], sub)
	if at < 0 {
		return types.IntNegOne
	}
	return types.Int(utf8.RuneCountInString(s[:begin+at]))
}

func lastIndexOf(m *meter, args []ref.Val) ref.Val {
	s, sub, ok := twoTexts(args)
	if !ok {
		return nil
	}
	m.read(len(s) + len(sub))
	if len(args) > 2 {
		end, bad := indexArg(s, args[2])
		if end < 0 {
			return bad
		}
		if end >= len(s) && sub != "" {
			return types.IntNegOne
		}
		s = s[:min(len(s), end+len(sub))] // a match may begin at the index at the latest
	}
	at := lastIndex(m, s, sub)
	if at < 0 {
		return types.IntNegOne
	}
	return types.Int(utf8.RuneCountInString(s[:at]))
}

// indexArg returns where the character with the index v begins, or a number above
// len(s) if s is shorter. It returns a negative number and the result of the call if v
// is not an index.
func indexArg(s string, v ref.Val) (at int, bad ref.Val) {
	n, ok := v.(types.Int)
	if !ok {
		return -1, nil
	}
	if n < 0 {
		return -1, types.NewErr("index out of range: %d", n)
	}
	if at, ok = offset(s, n); !ok {
		return len(s) + 1, nil
	}
	return at, nil
}

// lastIndex is [strings.LastIndex], whose worst case is quadratic, charged in parts.
func lastIndex(m *meter, s, sub string) int {
	const block = 64 << 10
	// Search in blocks from the end; each overlaps the one before by sub.
	for end := len(s); end >= len(sub); end -= block {
		begin := max(0, end-len(sub)-block)
		m.read(end - begin)
		if at := strings.LastIndex(s[begin:end], sub); at >= 0 {
			return begin + at
		}
		if begin == 0 {
			break
		}
	}
	return -1
}

// offset returns where character n of s begins, or len(s) for its end. The library
// makes a slice of all characters to get one.
func offset(s string, n types.Int) (int, bool) {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at, n == 0
}

// textAt returns the text of a call and where the character with the index begins. It
// returns a negative number and the result of the call if there is none.
func textAt(m *meter, args []ref.Val) (s types.String, at int, bad ref.Val) {
	s, ok1 := args[0].(types.String)
	n, ok2 := args[1].(types.Int)
	if !ok1 || !ok2 {
		return "", -1, nil
	}
	m.read(len(s))
	at, ok := offset(string(s), n)
	if !ok {
		return "", -1, types.NewErr("index out of range: %d", n)
	}
	return s, at, nil
}

func charAt(m *meter, args []ref.Val) ref.Val {
	s, at, bad := textAt(m, args)
	if at < 0 {
		return bad
	}
	_, size := utf8.DecodeRuneInString(string(s[at:]))
	return s[at : at+size]
}

func substring(m *meter, args []ref.Val) ref.Val {
	s, begin, bad := textAt(m, args)
	if begin < 0 {
		return bad
	}
	if len(args) < 3 {
		return s[begin:]
	}
	to, ok := args[2].(types.Int)
	if !ok {
		return nil
	}
	from, _ := args[1].(types.Int) // checked by textAt
	if from > to {
		return types.NewErr("invalid substring range. start: %d, end: %d", from, to)
	}
	size, ok := offset(string(s[begin:]), to-from)
	if !ok {
		return types.NewErr("index out of range: %d", to)
	}
	return s[begin : begin+size]
}

func inCase(first, last byte) func(m *meter, args []ref.Val) ref.Val {
	const change = 'a' - 'A'
	return func(m *meter, args []ref.Val) ref.Val {
		s, ok := args[0].(types.String)
		if !ok {
			return nil
		}
		m.read(len(s))
		for i := range len(s) {
			if first <= s[i] && s[i] <= last {
				m.write(len(s))
				changed := []byte(s)
				for ; i < len(changed); i++ {
					if first <= changed[i] && changed[i] <= last {
						changed[i] ^= change
					}
				}
				return types.String(changed)
			}
		}
		return s
	}
}

func twoTexts(args []ref.Val) (a, b string, ok bool) {
	x, ok1 := args[0].(types.String)
	y, ok2 := args[1].(types.String)
	return string(x), string(y), ok1 && ok2
}

func distinct(m *meter, args []ref.Val) ref.Val {
	l, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	seen := newSet(m, nil)
	kept := []ref.Val{}
	for e := range elems(l) {
		if seen.add(e) {
			kept = append(kept, e)
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, kept)
}

// lists makes a function of a predicate on two lists.
func lists(ask func(m *meter, a, b traits.Lister) bool) func(m *meter, args []ref.Val) ref.Val {
	return func(m *meter, args []ref.Val) ref.Val {
		a, ok1 := args[0].(traits.Lister)
		b, ok2 := args[1].(traits.Lister)
		if !ok1 || !ok2 {
			return nil
		}
		return types.Bool(ask(m, a, b))
	}
}

func containsAll(m *meter, whole, part traits.Lister) bool {
	s := newSet(m, whole)
	for e := range elems(part) {
		if !s.has(e) {
			return false
		}
	}
	return true
}

func containsAny(m *meter, a, b traits.Lister) bool {
	s := newSet(m, b)
	for e := range elems(a) {
		if s.has(e) {
			return true
		}
	}
	return false
}

func sortBy(m *meter, args []ref.Val) ref.Val {
	l, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	keys := l
	if len(args) > 1 {
		if keys, ok = args[1].(traits.Lister); !ok {
			return nil
		}
	}
	n := length(l)
	if n != length(keys) {
		return types.NewErr("a list of %d elements cannot be sorted by %d keys", n, length(keys))
	}
	m.charge(1+n, 3*n*elementBytes)
	type pair struct {
		key traits.Comparer
		val ref.Val
	}
	pairs := make([]pair, n)
	for i := range pairs {
		v := keys.Get(types.Int(i))
		key, ok := v.(traits.Comparer)
		if !ok {
			return types.NewErr("values of type %s have no order", v.Type().TypeName())
		}
		if v.Type() != keys.Get(types.IntZero).Type() {
			return types.NewErr("list elements must have the same type")
		}
		pairs[i] = pair{key, l.Get(types.Int(i))}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		m.read(min(length(a.key), length(b.key)))
		c, _ := a.key.Compare(b.key.(ref.Val)).(types.Int)
		return int(c)
	})
	sorted := make([]ref.Val, n)
	for i, p := range pairs {
		sorted[i] = p.val
	}
	return types.NewRefValList(types.DefaultTypeAdapter, sorted)
}

func encodeJSON(m *meter, args []ref.Val) ref.Val {
	r := result{m}
	v, err := r.value(args[0], 0)
	if err != nil {
		return types.WrapErr(err)
	}
	m.write(6 * v.Size()) // a control character becomes \u0001
	text, err := v.AppendJSON(nil)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.String(text)
}

// parseJSON returns an optional without a value if the text is not JSON.
func parseJSON(m *meter, args []ref.Val) ref.Val {
	s, ok := args[0].(types.String)
	if !ok {
		return nil
	}
	elems := strings.Count(string(s), ",") + strings.Count(string(s), "[") + strings.Count(string(s), "{")
	m.charge(1+elems+len(s)/bytesPerStep, len(s)+2*elementBytes*elems)
	v, err := value.ParseJSON([]byte(s))
	if err != nil {
		return types.OptionalNone
	}
	return types.OptionalOf(toCEL(v))
}
