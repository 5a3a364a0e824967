package cel

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// payload is the payload of most expressions below.
func payload() value.Value {
	return value.Map(
		value.Field{Name: "method", Value: value.String("POST")},
		value.Field{Name: "n", Value: value.Int(41)},
		value.Field{Name: "price", Value: value.Float(1.5)},
		value.Field{Name: "big", Value: value.Uint(math.MaxUint64)},
		value.Field{Name: "none", Value: value.Null()},
		value.Field{Name: "type", Value: value.String("order")},
		value.Field{Name: "at", Value: value.Time(time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC))},
		value.Field{Name: "raw", Value: value.Binary([]byte{0, 1, 255})},
		value.Field{Name: "wait", Value: value.Duration(90 * time.Second)},
		value.Field{Name: "list", Value: value.List(value.Int(1), value.Float(2.5), value.String("x"))},
		value.Field{Name: "body", Value: value.Map(
			value.Field{Name: "z", Value: value.List(value.Null(), value.Map(), value.List())},
			value.Field{Name: "a", Value: value.Int(1)},
			value.Field{Name: "key with space", Value: value.Bool(true)},
		)},
	)
}

func compile(t testing.TB, code string, opts lang.Options) lang.Program {
	t.Helper()
	p, err := New().Compile(diag.PlainText(code), opts)
	if err != nil {
		t.Fatalf("compile %s: got error %v", code, err)
	}
	return p
}

func TestEval(t *testing.T) {
	language := New()
	in := payload()
	body, _ := in.Get("body")
	f := func(code string, want value.Value) {
		t.Helper()
		p, err := language.Compile(diag.PlainText(code), lang.Options{})
		if err != nil {
			t.Errorf("compile %s: got error %v", code, err)
			return
		}
		got, err := p.Eval(t.Context(), in)
		if err != nil {
			t.Errorf("%s: got error %v, want %v", code, err, want)
			return
		}
		if got.Kind() != want.Kind() || got.String() != want.String() {
			t.Errorf("%s: got %v %v, want %v %v", code, got.Kind(), got, want.Kind(), want)
		}
	}

	// Scalars, as constants and in a payload.
	f("null", value.Null())
	f("self.none", value.Null())
	f("true && !false", value.Bool(true))
	f("n", value.Int(41))
	f("5u", value.Int(5))
	f("big", value.Uint(math.MaxUint64))
	f("price", value.Float(1.5))
	f("2.0", value.Float(2))
	f("at", value.Time(time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC)))
	f("wait", value.Duration(90*time.Second))
	f("raw", value.Binary([]byte{0, 1, 255}))
	f("b'abc'", value.Binary([]byte("abc")))
	f("duration('1m') + wait", value.Duration(150*time.Second))
	f("at + duration('1s')", value.Time(time.Date(2024, 5, 6, 7, 8, 10, 10, time.UTC)))
	f("at - at", value.Duration(0))
	f("at.getFullYear()", value.Int(2024))
	f("type(n)", value.String("int"))

	// Arithmetic over mixed numbers.
	f("n + 1", value.Int(42))
	f("price * 2", value.Float(3))
	f("2 * price", value.Float(3))
	f("1 + 1.5", value.Float(2.5))
	f("n / 2", value.Int(20))
	f("n / 2.0", value.Float(20.5))
	f("7.5 % 2", value.Float(1.5))
	f("n % 2", value.Int(1))
	f("2u + 1", value.Int(3))
	f("1 - 2u", value.Int(-1))
	f("big - 1", value.Uint(math.MaxUint64-1))
	f("big + -1", value.Uint(math.MaxUint64-1))
	f("-1 + big", value.Uint(math.MaxUint64-1))
	f("big - 18446744073709551610u", value.Int(5))
	f("big * 1.0", value.Float(math.MaxUint64))
	f("-n", value.Int(-41))
	f("list[0] + list[1]", value.Float(3.5))

	// Comparison across types.
	f("n > 1.5 && price < 2 && 1 == 1.0 && 1u == 1", value.Bool(true))
	f("method == 1", value.Bool(false))
	f("none == null && n != null", value.Bool(true))
	f("2.5 in list && 1.0 in list && !('y' in list)", value.Bool(true))
	f("'a' in body && !('b' in body)", value.Bool(true))
	f("n in [41.0]", value.Bool(true))
	f("[1, 2.5, 'x'] == list && list == [1, 2.5, 'x']", value.Bool(true))
	f("body == {'a': 1, 'key with space': true, 'z': [null, {}, []]} && body == self.body", value.Bool(true))
	f("{'a': 1, 'key with space': true, 'z': [null, {}, []]} == body", value.Bool(true))
	f("{} == {}.transformMap(k, v, v) && {}.transformMap(k, v, v) == {}", value.Bool(true))

	// Lists and maps, of variables and of literals.
	f("self", in)
	f("body", body)
	f("{'body': body}", value.Map(value.Field{Name: "body", Value: body}))
	f("[self.body, [1, {'x': null}], []]", value.List(body,
		value.List(value.Int(1), value.Map(value.Field{Name: "x", Value: value.Null()})), value.List()))
	f("{}", value.Map())
	f("[]", value.List())
	f("{'z': 1, 'a': 2, 'm': {'y': 3, 'b': 4}}.m", value.Map(value.Field{Name: "y", Value: value.Int(3)}, value.Field{Name: "b", Value: value.Int(4)}))
	f("{1: 'a', true: 'b'}", value.Map(value.Field{Name: "1", Value: value.String("a")}, value.Field{Name: "true", Value: value.String("b")}))
	f("{1: 'a'}[1.0] + {1: 'a'}[1u]", value.String("aa"))
	f("{'a': 1, 'a': 2}", value.Map(value.Field{Name: "a", Value: value.Int(2)}))
	f("list + [4] + list", value.List(value.Int(1), value.Float(2.5), value.String("x"), value.Int(4), value.Int(1), value.Float(2.5), value.String("x")))
	f("size(list) + size(body) + list.size()", value.Int(9))
	f("body['key with space']", value.Bool(true))
	f("body.`key with space`", value.Bool(true))
	f("has(body.a) && !has(body.b)", value.Bool(true))
	f("n > 40 ? {'ok': true} : 'none'", value.Map(value.Field{Name: "ok", Value: value.Bool(true)}))
	f("(n > 50 ? 1 : 'none') == 'none'", value.Bool(true))
	f("[1] + ['a']", value.List(value.Int(1), value.String("a")))

	// A key hides the type of the same name.
	f("type == 'order'", value.Bool(true))
	f("type(n) == int && type(price) == double && type(self.list) == list", value.Bool(false))
	f("type(n) == int && type(price) == double && type(self.body) == map", value.Bool(true))

	// Comprehensions and the libraries.
	f("[3, 1, 2].filter(i, i > 1).map(i, i * 2)", value.List(value.Int(6), value.Int(4)))
	f("list.map(x, type(x) == string ? x : string(x))", value.List(value.String("1"), value.String("2.5"), value.String("x")))
	f("body.map(k, k)", value.List(value.String("z"), value.String("a"), value.String("key with space")))
	f("list.exists(x, x == 'x') && body.all(k, k != 'q')", value.Bool(true))
	f("{'z': 1, 'a': 2}.transformMap(k, v, v + 1)", value.Map(value.Field{Name: "z", Value: value.Int(2)}, value.Field{Name: "a", Value: value.Int(3)}))
	f("['q', 'b'].transformMapEntry(i, v, {v: i})", value.Map(value.Field{Name: "q", Value: value.Int(0)}, value.Field{Name: "b", Value: value.Int(1)}))
	f("body.transformList(k, v, k)", value.List(value.String("z"), value.String("a"), value.String("key with space")))
	f("cel.bind(x, n + 1, x * x)", value.Int(42*42))
	f("'%s has %d'.format([method, n])", value.String("POST has 41"))
	f("' a,b '.trim().split(',').join('-')", value.String("a-b"))
	f("'aXbX'.replace('X', '--')", value.String("a--b--"))
	f("math.greatest(1, n, 2.5)", value.Int(41))
	f("[3, 1, 2].sort()", value.List(value.Int(1), value.Int(2), value.Int(3)))
	f("sets.contains([1, 2], [2])", value.Bool(true))
	f("base64.encode(raw)", value.String("AAH/"))
	f("method.matches('^P.*T$')", value.Bool(true))
	f("regex.extract(method, 'O(S)')", value.String("S"))
	f("body.?missing.orValue(7)", value.Int(7))
	f("body.?missing", value.Null())
	f("[?body.?missing, ?body.?a]", value.List(value.Int(1)))
	f("{?'x': body.?missing, ?'y': body.?a}", value.Map(value.Field{Name: "y", Value: value.Int(1)}))
	f("optional.of(1)", value.Int(1))
	f("type(optional.none()) == optional_type && type(body.?a) == optional_type", value.Bool(true))

	// Empty values are zero values.
	f("optional.ofNonZeroValue(body.z[1]).hasValue() || optional.ofNonZeroValue(body.z[2]).hasValue()", value.Bool(false))
	f("optional.ofNonZeroValue({}).hasValue() || optional.ofNonZeroValue([]).hasValue() || optional.ofNonZeroValue(self.none).hasValue()", value.Bool(false))
	f("optional.ofNonZeroValue({}.transformMap(k, v, v)).orValue({'d': 1}).d", value.Int(1))
	f("optional.ofNonZeroValue(body).hasValue() && optional.ofNonZeroValue(list).hasValue() && optional.ofNonZeroValue({'a': 0}).hasValue()", value.Bool(true))

	f("[0, 0u, 0.0, '', b'', false, null, [], {}, duration('0s')].filter(x, optional.ofNonZeroValue(x).hasValue())", value.List())

	// From docs/expressions.md.
	f("body.exists(k, k == 'z') && {'a': 1}.exists(k, v, v > 0)", value.Bool(true))
	f("regex.replace('ann@home', r'(\\w+)@(\\w+)', r'\\2 at \\1', 1)", value.String("home at ann"))
	f("'%s has %d, %.2f %%'.format(['x', 1, 1.5])", value.String("x has 1, 1.50 %"))
	f("json.parse('{\"z\": 1, \"a\": [2]}').orValue(null)", value.Map(value.Field{Name: "z", Value: value.Int(1)}, value.Field{Name: "a", Value: value.List(value.Int(2))}))
	f("json.parse('{').hasValue()", value.Bool(false))
	f("json.encode({'z': 1, 'a': [body.a]})", value.String(`{"z":1,"a":[1]}`))
	f("base64.decodeUrl(base64.encodeUrl(b'\\xff\\xfe')) == b'\\xff\\xfe' && base64.decodeUrl('__4') == b'\\xff\\xfe'", value.Bool(true))
	f("self.list.hasAll([2.5]) && 'aXbX'.lastIndexOf('X') == 3 && 'äö'.indexOf('ö') == 1", value.Bool(true))

	// A key of a wrong type is an error of the evaluation, not of the code.
	f("dyn({0: 1}[dyn(b'')]) || true", value.Bool(true))
	f("{0: 1}[b''] == 1 || {0: 1}[timestamp(0)] == 1 || body[[1]] == 1 || true", value.Bool(true))
	f("list[dyn(1)] + {1: 2}[int('1')]", value.Float(4.5))
	f("body[string('a')] + [1, 2][{'i': 1}.i]", value.Int(3))
	f("body[?b''].hasValue() || true", value.Bool(true))
}

func TestEvalScalarPayload(t *testing.T) {
	f := func(code string, in, want value.Value) {
		t.Helper()
		got, err := compile(t, code, lang.Options{}).Eval(t.Context(), in)
		if err != nil || !got.Equal(want) {
			t.Errorf("%s on %v: got %v, %v, want %v", code, in, got, err, want)
		}
	}
	f("self + 1", value.Int(1), value.Int(2))
	f("self", value.Null(), value.Null())
	f("self[1]", value.List(value.Int(1), value.Int(2)), value.Int(2))
	f("self == null ? 'none' : self", value.Null(), value.String("none"))
}

// An integral number in JSON is an integer, also if the next request has a fraction.
func TestNumbersOfJSON(t *testing.T) {
	p := compile(t, "body.n + 1", lang.Options{})
	for in, want := range map[string]string{`{"body":{"n":1}}`: "2", `{"body":{"n":1.5}}`: "2.5", `{"body":{"n":-7}}`: "-6"} {
		v, err := value.ParseJSON([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Eval(t.Context(), v); err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v, want %s", in, got, err, want)
		}
	}
}

func TestErrorPayload(t *testing.T) {
	in := value.Error(&lang.Thrown{Message: "no stock", Status: 409, Code: "stock"})
	f := func(code string, want value.Value) {
		t.Helper()
		got, err := compile(t, code, lang.Options{}).Eval(t.Context(), in)
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v, want %v", code, got, err, want)
		}
	}
	f("message", value.String("no stock"))
	f("self.status == 409 && code == 'stock'", value.Bool(true))
	f("string(self)", value.String("no stock"))
	f("self", in)
	f("[self][0]", in)
}

func TestEvalErrors(t *testing.T) {
	in := payload()
	f := func(code, want string) {
		t.Helper()
		got, err := compile(t, code, lang.Options{}).Eval(t.Context(), in)
		var thrown *lang.Thrown
		if !errors.As(err, &thrown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want an error with %q", code, got, err, want)
		}
	}
	f("methd == 'GET'", `unknown name "methd", did you mean "method"?`)
	f("self.bdy", "no such key: bdy")
	f("list[9]", "out of")
	f("n + method", "no such overload")
	f("1 / 0", "division by zero")
	f("9223372036854775807 + n", "overflow")
	f("{0: 1}[b'']", "a value of this type cannot be a key or an index")
	f("int(method)", "type conversion error")
	f("[1, 1].transformMapEntry(i, v, {v: i})", "the key 1 occurs twice")
	f("{[1]: 2}", "cannot be the key")
	f("{1: 2, '1': 3}", `two keys "1"`)
	f("lists.range(2000000)", "exceeds")
	f("lists.range(100000000)", "makes more than 128 MiB")
	f("string(body)", "cannot be made a string")
	f("'a'.replace('', lists.range(10000).map(i, '0123456789').join()).replace('', lists.range(10000).map(i, '0123456789').join())", "makes more than 128 MiB")
	f("cel.bind(a, [1,1,1,1,1,1,1,1,1,1], cel.bind(b, [a,a,a,a,a,a,a,a,a,a], cel.bind(c, [b,b,b,b,b,b,b,b,b,b], cel.bind(d, [c,c,c,c,c,c,c,c,c,c], cel.bind(e, [d,d,d,d,d,d,d,d,d,d], cel.bind(g, [e,e,e,e,e,e,e,e,e,e], [g,g,g,g,g,g,g,g,g,g,g]))))))", "more than")
}

func TestLongMessage(t *testing.T) {
	in := texts("key", strings.Repeat("ä", 1<<20))
	_, err := compile(t, "self[key]", lang.Options{}).Eval(t.Context(), in)
	if err == nil || len(err.Error()) > 1010 || !strings.HasSuffix(err.Error(), "ä…") {
		t.Errorf("got %.100v with %d bytes, want at most 1010", err, len(err.Error()))
	}
}

func TestUnknownNameOnScalar(t *testing.T) {
	_, err := compile(t, "body.n", lang.Options{}).Eval(t.Context(), value.Int(1))
	if err == nil || !strings.Contains(err.Error(), "use self") {
		t.Errorf("got %v, want a hint at self", err)
	}
}

func TestRuntimePosition(t *testing.T) {
	_, err := compile(t, "true &&\n  1 / 0 > 1", lang.Options{}).Eval(t.Context(), value.Null())
	var thrown *lang.Thrown
	if !errors.As(err, &thrown) || thrown.Pos.Line != 2 {
		t.Errorf("got %#v, want an error on line 2", err)
	}
}

func TestCompileErrors(t *testing.T) {
	f := func(code string, line, col int, want, hint string) {
		t.Helper()
		_, err := New().Compile(diag.PlainText(code), lang.Options{})
		var d *diag.Diagnostic
		var l diag.List
		switch {
		case errors.As(err, &l) && len(l) > 0:
			d = l[0]
		case !errors.As(err, &d):
			t.Errorf("%s: got %v, want a diagnostic", code, err)
			return
		}
		if d.Pos.Line != line || d.Pos.Col != col || !strings.Contains(d.Msg, want) || !strings.Contains(d.Hint, hint) {
			t.Errorf("%s: got %d:%d %q (%q), want %d:%d %q (%q)", code, d.Pos.Line, d.Pos.Col, d.Msg, d.Hint, line, col, want, hint)
		}
	}
	f("1 +", 1, 4, "the expression ends too early", "")
	f("", 1, 1, "empty", "")
	f("self.a ==\n  siez(self)", 2, 3, `unknown function "siez"`, `"size"`)
	f("'a' + 1", 1, 5, "+ does not work on string and int", "")
	f("Foo{a: 1}", 1, 4, "Foo{…} makes a message", `{"name": value}`)
	f("self.x.map(1, 2)", 1, 12, "the first argument must be a name", "list.map(x, x + 1)")
	f("int('x')", 1, 1, "type conversion error", "")
	f("self.name.startsWith(1)", 1, 21, "startsWith does not take (int)", "")
	f("1.size()", 1, 7, "size on int does not take ()", "")
}
