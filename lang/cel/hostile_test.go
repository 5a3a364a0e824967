package cel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

func texts(pairs ...string) value.Value {
	var fields []value.Field
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, value.Field{Name: pairs[i], Value: value.String(pairs[i+1])})
	}
	return value.Map(fields...)
}

func field(name string, v value.Value) value.Value {
	return value.Map(value.Field{Name: name, Value: v})
}

// bound nests cel.bind: n times, each name is made of the one before. The last is
// called x in result.
func bound(first, expr string, n int, result string) string {
	code := strings.ReplaceAll(result, "x", fmt.Sprintf("x%d", n))
	for i := n; i > 0; i-- {
		code = fmt.Sprintf("cel.bind(x%d, %s, %s)", i, strings.ReplaceAll(expr, "x", fmt.Sprintf("x%d", i-1)), code)
	}
	return fmt.Sprintf("cel.bind(x0, %s, %s)", first, code)
}

// An attack is code of an author without bad intentions, and what a client sends to it.
type attack struct {
	name string
	code string
	in   value.Value
	want string // the result, or part of the error
}

const (
	costs = "costs more than 10000000 steps"
	makes = "makes more than 128 MiB"
)

func attacks() []attack {
	a := func(n int) string { return strings.Repeat("a", n) }
	long := numbers(200_000)
	deep := value.List(value.Int(1))
	for range 40 {
		deep = value.List(deep, deep)
	}
	return []attack{
		{"indexOf", "text.indexOf(find)", texts("text", a(4<<20), "find", a(1<<20)+"b"), "-1"},
		{"lastIndexOf", "text.lastIndexOf(find)", texts("text", a(4<<20), "find", "b"+a(1<<20)), "-1"},
		{"indexOf in a loop", "lists.range(1000).all(i, text.indexOf(find) < 0)", texts("text", a(4<<20), "find", a(1<<20)+"b"), costs},
		{"matches, pattern of the client", "text.matches(pattern)", texts("text", a(4<<20), "pattern", strings.Repeat("(.*)", 200)+"b"), costs},
		{"matches, pattern of the author", `text.matches("([a-z0-9]{1,30}\\.){1,20}zz")`, texts("text", a(8<<20)), costs},
		{"matches, huge pattern", "text.matches(pattern)", texts("text", "a", "pattern", strings.Repeat("(a{1000})", 800)), "repeats too much"},
		{"matches, long pattern", "text.matches(pattern)", texts("text", "a", "pattern", a(1<<20)), "longer than 8192 bytes"},
		{"extract", "regex.extract(text, pattern).hasValue()", texts("text", a(4<<20), "pattern", strings.Repeat("(?:.*)", 200)+"b"), costs},
		{"extractAll, quadratic", "regex.extractAll(text, pattern).size()", texts("text", a(1<<20), "pattern", "(?:a.*b)|a"), costs},
		{"regex.replace", "regex.replace(text, 'a', with).size()", texts("text", a(1<<20), "with", a(10_000)), makes},
		{"replace", "text.replace('a', with).size()", texts("text", a(5<<20), "with", a(5<<20)), makes},
		{"replace of nothing", "text.replace('', text).size()", texts("text", a(1<<20)), makes},
		{"split", "text.split('').size()", texts("text", a(8<<20)), makes},
		{"split in a loop", "lists.range(1000).map(i, text.split('')).size()", texts("text", a(100_000)), makes},
		{"join", "lists.range(1000).map(i, text).join().size()", texts("text", a(1<<20)), makes},
		{"join, separator", "lists.range(100000).map(i, '').join(text).size()", texts("text", a(1<<20)), makes},
		{"format", "'%s%s%s'.format([l, l, l]).size()", field("l", value.List(numbers(200_000), numbers(200_000), numbers(200_000))), makes},
		{"format, precision", "text.format([1.5]).size()", texts("text", "%.2000000000f"), "precision"},
		{"format, shared", bound("[text]", "[x, x]", 40, "'%s'.format([x])"), texts("text", a(10)), costs},
		{"distinct", "l.distinct().size()", field("l", long), "200000"},
		{"sets.contains", "sets.contains(l, l)", field("l", long), "true"},
		{"sets.intersects", "sets.intersects(l, l.map(x, -x - 1))", field("l", long), "false"},
		{"sets.equivalent of lists", "sets.equivalent(l.map(x, [x]), l.map(x, [x]))", field("l", numbers(50_000)), "true"},
		{"hasAll", "l.hasAll(l) && l.hasOnly(l) && l.hasExactly(l) && l.hasAny(l)", field("l", numbers(50_000)), "true"},
		{"in, in a loop", "l.all(x, x in l)", field("l", long), costs},
		{"sort", "l.sort().size()", field("l", numbers(2_000_000)), makes},
		{"sortBy", "l.sortBy(x, -x).size()", field("l", numbers(1_000_000)), costs},
		{"sort of texts", "lists.range(1000).map(i, string(i * 7 % 1000 + 1000) + text).sort().size()", texts("text", a(50_000)), "1000"},
		{"flatten", "l.flatten(100).size()", field("l", deep), makes},
		{"range", "lists.range(1000000).map(i, lists.range(1000000)).size()", value.Null(), makes},
		{"+ of texts", bound("text", "x + x", 20, "x"), texts("text", a(1<<20)), makes},
		{"+ of bytes", bound("b", "x + x", 20, "x"), field("b", value.Binary(make([]byte, 1<<20))), makes},
		{"+ of lists", bound("l", "x + x", 20, "x"), field("l", long), makes},
		{"+ in a loop", "lists.range(1000).map(i, text + text).size()", texts("text", a(1<<20)), makes},
		{"==, shared", fmt.Sprintf("cel.bind(a, %[1]s, cel.bind(b, %[1]s, a == b))", bound("[1]", "[x, x]", 40, "x")), value.Null(), costs},
		{"== of payloads", "a == b", value.Map(value.Field{Name: "a", Value: deep}, value.Field{Name: "b", Value: value.List(deep)}), "false"},
		{"== in a loop", "l.all(x, l == self.l)", field("l", value.List(numbers(3000), numbers(3000))), "true"},
		{"==, maps in a loop", "lists.range(100000).all(i, a == b)", value.Map(value.Field{Name: "a", Value: numbers(100_000)}, value.Field{Name: "b", Value: numbers(100_000)}), costs},
		{"< in a loop", "lists.range(100000).all(i, text < text + 'b')", texts("text", a(1<<20)), costs},
		{"<= in a loop", "lists.range(1000000).all(i, text <= find)", texts("text", a(1<<20), "find", a(1<<20)), costs},
		{"base64", "lists.range(1000).map(i, base64.decode(base64.encode(b))).size()", field("b", value.Binary(make([]byte, 1<<20))), makes},
		{"reverse in a loop", "lists.range(1000).map(i, text.reverse()).size()", texts("text", a(1<<20)), makes},
		{"charAt in a loop", "lists.range(1000).all(i, text.charAt(i) == 'a')", texts("text", a(1<<20)), costs},
		{"upperAscii in a loop", "lists.range(1000).all(i, text.upperAscii() != '')", texts("text", a(1<<20)), makes},
		{"quote, without a loop", "text" + strings.Repeat(".reverse()", 100), texts("text", a(8<<20)), makes},
		{"size in a loop", "lists.range(1000000).all(i, text.size() > i)", texts("text", a(4<<20)), costs},
		{"quote", "lists.range(1000).map(i, strings.quote(text)).size()", texts("text", a(1<<20)), makes},
		{"time zones", "lists.range(100000).all(i, timestamp(i).getHours('Europe/Berlin') >= 0)", value.Null(), costs},
		{"json.encode, shared", "json.encode(" + bound("[1]", "[x, x]", 40, "x") + ")", value.Null(), "more than"},
		{"json.parse", "lists.range(1000).map(i, json.parse(text).value()).size()", texts("text", "["+strings.Repeat("1,", 100_000)+"1]"), makes},
		{"result, shared", bound("[1]", "[x, x]", 40, "x"), value.Null(), "more than"},
		{"transformMap", "l.transformMap(i, x, l).transformMap(i, x, l.transformMap(j, y, y)).size()", field("l", numbers(3000)), makes},
		{"nested replace", "text" + strings.Repeat(".replace('a', 'b')", 40), texts("text", "a"), "b"},
		{"loop", "l.all(x, l.all(y, l.all(z, x + y + z >= 0)))", field("l", numbers(3000)), costs},
		{"wide loop", "l.all(x, l.all(y, [" + strings.Repeat("x, ", 1000) + "y].size() > 0))", field("l", numbers(3000)), "more than"},
		{"or absorbs no limit", "l.all(x, l.all(y, l.all(z, true))) || true", field("l", numbers(3000)), costs},
	}
}

// TestAttacks shows that each attack ends with little memory. Most took minutes, or ended
// the process.
func TestAttacks(t *testing.T) {
	if invariant.Race {
		return // nothing is concurrent here, and it would take minutes
	}
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) { a.run(t, 100*time.Millisecond) })
	}
}

// TestAttacksWithoutTimeout shows that the limits alone end an attack. Most take the
// second of ten million steps, so it tests a few.
func TestAttacksWithoutTimeout(t *testing.T) {
	if invariant.Race {
		return // as above
	}
	few := map[string]bool{
		"matches, pattern of the author": true, "extractAll, quadratic": true, "==, shared": true, "json.encode, shared": true, "time zones": true,
		"regex.replace": true, "replace": true, "+ of texts": true, "+ of lists": true, "wide loop": true,
	}
	for _, a := range attacks() {
		if few[a.name] {
			t.Run(a.name, func(t *testing.T) { a.run(t, 0) })
		}
	}
}

func (a attack) run(t *testing.T, limit time.Duration) {
	p := compile(t, a.code, lang.Options{Timeout: limit})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := p.Eval(t.Context(), a.in)
	runtime.ReadMemStats(&after)
	if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 1024 {
		t.Errorf("made %d MiB, want at most 1024", made)
	}
	text := got.String()
	if err != nil {
		text = err.Error()
	}
	if !strings.Contains(text, a.want) && (limit == 0 || text != "timed out after "+limit.String()) {
		t.Errorf("got %.200s, want %s", text, a.want)
	}
}

var errLeft = errors.New("the client has left")

// A leaver is a context that ends when the evaluation checks it.
type leaver struct {
	context.Context
	leave func(error)
	looks int
}

func (l *leaver) Err() error {
	l.looks++
	l.leave(errLeft)
	return l.Context.Err()
}

// TestNothingGoesOn ends the context while each attack runs.
func TestNothingGoesOn(t *testing.T) {
	for _, a := range attacks() {
		p := compile(t, a.code, lang.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		l := &leaver{Context: ctx, leave: cancel}
		_, err := p.Eval(l, a.in)
		cancel(nil)
		switch {
		case errors.Is(err, errLeft):
		case l.looks == 0 && (a.want == makes || !strings.Contains(a.want, "more than")):
			// It was refused before it began, or ended early.
		default:
			t.Errorf("%s: got %v after %d looks, want an end because the client has left", a.name, err, l.looks)
		}
	}
}

// TestEveryFunctionHasACost fails when an update of the library adds a function without
// a cost here.
func TestEveryFunctionHasACost(t *testing.T) {
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	for name := range l.env.Functions() {
		if _, ok := l.works[name]; !ok {
			t.Errorf("%s has no cost in works", name)
		}
	}
	for name, w := range l.works {
		if _, ok := l.env.Functions()[name]; !ok {
			t.Errorf("%s has a cost, but is not a function", name)
		}
		set := 0
		for _, is := range []bool{w.price != nil, w.run != nil, w.compile != nil} {
			if is {
				set++
			}
		}
		if set > 1 || w.linear && w.price == nil {
			t.Errorf("%s is charged in %d ways", name, set)
		}
	}
}

// TestSharedArguments calls every function with values that are small in memory and have
// 2^40 elements. A function that formats or compares them would not return.
func TestSharedArguments(t *testing.T) {
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	list := func(vals ...ref.Val) ref.Val { return types.NewRefValList(types.DefaultTypeAdapter, vals) }
	shared := list(types.IntZero)
	payload := value.List(value.Int(0))
	for range 40 {
		shared = list(shared, shared)
		payload = value.List(payload, payload)
	}
	m := &ordered{}
	m.put(types.String("a"), shared)
	vals := []ref.Val{
		shared, toCEL(payload), list(shared), m, types.OptionalOf(shared),
		types.String("%s"), types.Int(7), types.NullValue, types.TypeType,
	}
	try := func(name string, args ...ref.Val) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(interpreter.EvalCancelledError); !ok {
					t.Errorf("%s: got a panic: %v", name, r)
				}
			}
		}()
		w := l.works[name]
		meter := &meter{}
		meter.start(t.Context(), 0)
		meter.steps = 100_000
		run := w.run
		if w.compile != nil {
			steps := make([]interpreter.InterpretableV2, len(args))
			for i := range args {
				steps[i] = interpreter.NewConstValue(1, args[i])
			}
			var err error
			if run, err = w.compile(steps); err != nil {
				return
			}
		}
		if run != nil {
			run(meter, args)
			return
		}
		if w.price != nil {
			w.price(meter, args)
		}
		steps := make([]interpreter.InterpretableV2, len(args))
		if out := l.native(interpreter.NewCall(1, name, "", steps, nil))(args...); types.IsError(out) && len(fmt.Sprint(out)) > 10_000 {
			t.Errorf("%s: got an error of %d bytes", name, len(fmt.Sprint(out)))
		}
	}
	for name, f := range l.env.Functions() {
		if name == mapInsert {
			continue // a step of its own
		}
		arities := map[int]bool{}
		for _, o := range f.OverloadDecls() {
			arities[len(o.ArgTypes())] = true
		}
		for _, a := range vals {
			if arities[1] {
				try(name, a)
			}
			for _, b := range vals {
				if arities[2] {
					try(name, a, b)
				}
				if arities[3] {
					try(name, a, b, types.String("x"))
				}
			}
		}
	}
}

// TestLikeTheLibrary compares the replacements of this package with the functions of the
// library.
func TestLikeTheLibrary(t *testing.T) {
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	str := func(list ...string) (vals []ref.Val) {
		for _, s := range list {
			vals = append(vals, types.String(s))
		}
		return vals
	}
	list := func(vals ...ref.Val) ref.Val { return types.NewRefValList(types.DefaultTypeAdapter, vals) }
	words := str("", "a", "aa", "ab", "ba", "aba", "äöä", "öa", "xäxöx", "aaab")
	offsets := []ref.Val{types.Int(-1), types.Int(0), types.Int(1), types.Int(2), types.Int(3), types.Int(9)}
	sets := []ref.Val{
		list(), list(types.Int(1)), list(types.Int(1), types.Double(1), types.Uint(1)), list(types.Int(2), types.Int(1)),
		list(types.Double(2), types.Double(1.5)), list(str("b", "a", "a")...), list(list(types.Int(1)), list(types.Double(1))),
		list(types.NullValue, types.True, types.NullValue), list(types.Bytes("b"), types.Bytes("a")),
		list(types.Duration{Duration: 5}, types.Duration{Duration: 3}),
	}
	var cases []struct {
		function string
		args     []ref.Val
	}
	add := func(function string, args ...ref.Val) {
		cases = append(cases, struct {
			function string
			args     []ref.Val
		}{function, args})
	}
	for _, s := range words {
		for _, sub := range words {
			for _, f := range []string{"indexOf", "lastIndexOf"} {
				add(f, s, sub)
				for _, at := range offsets {
					add(f, s, sub, at)
				}
			}
		}
		for _, re := range str("a", "a*", "", "^a", "a$", `\b`, "(a)b", "(?:a|b)+", "x?", "[äö]", "(b)?a", "a{2}", `^`, `(?m)^`, `\Qa`) {
			add("matches", s, re)
			add("regex.extract", s, re)
			add("regex.extractAll", s, re)
			for _, with := range str("", "-", `<\0>`, `\\`) {
				add("regex.replace", s, re, with)
				add("regex.replace", s, re, with, types.Int(1))
				add("regex.replace", s, re, with, types.Int(0))
			}
		}
	}
	for _, s := range str("", "aZ", "ÄaöZ", "xyz", "ABC") {
		add("lowerAscii", s)
		add("upperAscii", s)
		for _, from := range offsets {
			add("charAt", s, from)
			add("substring", s, from)
			for _, to := range offsets {
				add("substring", s, from, to)
			}
		}
	}
	for _, a := range sets {
		add("distinct", a)
		add("sort", a)
		for _, b := range sets {
			for _, f := range []string{"sets.contains", "sets.intersects", "sets.equivalent", "hasAll", "hasAny", "hasOnly", "hasExactly"} {
				add(f, a, b)
			}
		}
	}
	show := func(v ref.Val) string {
		if types.IsError(v) {
			return "an error"
		}
		if o, ok := v.(*types.Optional); ok && o.HasValue() {
			return fmt.Sprintf("optional %q", o.GetValue().Value())
		}
		if l, ok := v.(traits.Lister); ok {
			var all []any
			for e := range elems(l) {
				all = append(all, e.Value())
			}
			return fmt.Sprintf("%v", all)
		}
		return fmt.Sprintf("%v", v)
	}
	m := &meter{}
	for _, c := range cases {
		m.start(t.Context(), 0)
		m.steps = 1 << 60
		want := l.bindings[c.function].Function
		impl := l.bindings[c.function]
		var expected ref.Val
		switch {
		case impl.Unary != nil && len(c.args) == 1:
			expected = impl.Unary(c.args[0])
		case impl.Binary != nil && len(c.args) == 2:
			expected = impl.Binary(c.args[0], c.args[1])
		default:
			expected = want(c.args...)
		}
		run := l.works[c.function].run
		if run == nil {
			for _, size := range []int{1, 1 << 30} { // the second is never quick
				p, err := newPattern(string(c.args[1].(types.String)))
				if err != nil {
					t.Fatal(err)
				}
				p.size *= size
				do := map[string]func(*meter, *pattern, string, []ref.Val) ref.Val{
					"matches": matches, "regex.extract": extract, "regex.extractAll": extractAll, "regex.replace": replaceMatches,
				}[c.function]
				if got := do(m, p, string(c.args[0].(types.String)), c.args); show(got) != show(expected) {
					t.Errorf("%s%q, size %d: got %v, want %v", c.function, c.args, size, show(got), show(expected))
				}
			}
			continue
		}
		if got := run(m, c.args); show(got) != show(expected) {
			t.Errorf("%s(%v): got %v, want %v", c.function, c.args, show(got), show(expected))
		}
	}
	if len(cases) < 3000 {
		t.Errorf("compared %d calls, want more", len(cases))
	}
}

// TestSmallExpressionsAskNoClock shows that a timeout costs a short evaluation nothing.
func TestSmallExpressionsAskNoClock(t *testing.T) {
	if invariant.Race {
		return // allocations under the race detector mean nothing
	}
	in := payload()
	for code, want := range map[string]float64{
		"list.filter(x, x == 1)":             11,
		"method.indexOf('S') == 2":           1,
		"cel.bind(x, n + 1, x * x)":          2,
		"n + 1 > 0 && body == self.body":     3,
		"method.matches('^P.*T$')":           1,
		"[3, 1, 2].sort() == [1, 2, 3]":      8,
		"'a,b'.split(',').join('-') != n":    12,
		"sets.contains(self.list, [1, 'x'])": 20,
	} {
		p := compile(t, code, lang.Options{Timeout: time.Second})
		got := testing.AllocsPerRun(100, func() {
			if _, err := p.Eval(context.Background(), in); err != nil {
				t.Fatal(err)
			}
		})
		if got > want {
			t.Errorf("%s: got %v allocations, want at most %v", code, got, want)
		}
	}
}

func TestBadPattern(t *testing.T) {
	_, err := New().Compile(diag.PlainText("true &&\n  a.matches('x[')"), lang.Options{})
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Pos.Line != 2 || d.Msg != "not a regular expression: missing closing ]: [" {
		t.Errorf("got %v, want a diagnostic on line 2", err)
	}
	got, err := compile(t, "a.matches(b)", lang.Options{}).Eval(t.Context(), texts("a", "x", "b", "("))
	if err == nil || err.Error() != "not a regular expression: missing closing ): (" {
		t.Errorf("got %v, %v", got, err)
	}
}
