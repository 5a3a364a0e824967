package javascript

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// alone returns a language with a single runtime, which all runs share.
func alone() *Language {
	l := New()
	l.pool.free = make(chan *engine, 1)
	return l
}

// Each attempt tries to leave something behind, and returns whether it finds something. An
// attempt that is not allowed throws, or has no effect.
func TestNothingIsLeftBehind(t *testing.T) {
	l := alone()
	f := func(attempt, seen string) {
		t.Helper()
		p := compile(t, l, "let runs = 0\nexport default () => { runs++; const seen = ("+seen+"); try { "+attempt+" } catch (e) {} return [seen === undefined || seen === false, runs] }", lang.Options{})
		for range 3 {
			got, err := p.Eval(t.Context(), value.Null())
			if err != nil || got.String() != "[true,1]" {
				t.Errorf("%s: got %v, %v, want [true,1]: nothing seen, a fresh module", attempt, got, err)
				return
			}
		}
	}
	f("globalThis.leak = 1", "globalThis.leak")
	f("Object.prototype.leak = 1", "({}).leak")
	f("Object.defineProperty(Object.prototype, 'leak', { value: 1 })", "({}).leak")
	f("({}).__proto__.leak = 1", "({}).leak")
	f("({}).constructor.prototype.leak = 1", "({}).leak")
	f("Object.setPrototypeOf(Object.prototype, { leak: 1 })", "({}).leak")
	f("Array.prototype.leak = 1", "[].leak")
	f("Array.prototype.map = () => 'leak'", "[].map(x => x) === 'leak'")
	f("Array.prototype[Symbol.iterator] = function* () { yield 'leak' }", "[...[1]][0] === 'leak'")
	f("Object.defineProperty([].map, 'name', { value: 'leak' })", "[].map.name === 'leak'")
	f("Math.leak = 1; Math.max = () => 'leak'", "Math.leak || Math.max(1) === 'leak'")
	f("JSON.parse = () => 'leak'", "JSON.parse('1') === 'leak'")
	f("Function.prototype.leak = 1", "(() => 1).leak")
	f("(function* () {}).constructor.prototype.leak = 1", "(function* () {}).leak")
	f("Object.getPrototypeOf(function* () {}).prototype.leak = 1", "(function* () {})().leak")
	f("Object.getPrototypeOf(async () => 1).leak = 1", "(async () => 1).leak")
	f("Promise.prototype.then = () => 'leak'; Promise.leak = 1", "Promise.leak")
	f("Object.getPrototypeOf([][Symbol.iterator]()).next = 1", "Object.getPrototypeOf([][Symbol.iterator]()).next === 1")
	f("Object.getPrototypeOf(new Map().entries()).leak = 1", "new Map().entries().leak")
	f("Object.getPrototypeOf('a'.matchAll(/a/g)).leak = 1", "'a'.matchAll(/a/g).leak")
	f("Object.getPrototypeOf(Uint8Array).leak = 1", "Uint8Array.leak")
	f("new Uint8Array(1).constructor.leak = 1; Uint8Array.prototype.leak = 1", "Uint8Array.leak || new Uint8Array(1).leak")
	f("RegExp.prototype.test = () => 'leak'; /x(y)/.exec('xy')", "RegExp.$1 || /x/.test('') === 'leak'")
	f("Error.prototype.leak = 1; Error.stackTraceLimit = 'leak'", "new Error().leak || Error.stackTraceLimit === 'leak'")
	f("(0, eval)('var leak = 1')", "globalThis.leak")
	f("(0, eval)('let leak2 = 1')", "(() => { try { return (0, eval)('leak2') } catch (e) {} })()")
	f("eval('globalThis.leak = 1')", "globalThis.leak")
	f("new Function('this.leak = 1')()", "globalThis.leak")
	f("Function('return this')().leak = 1", "globalThis.leak")
	f("(async () => 1).constructor('globalThis.leak = 1')()", "globalThis.leak")
	f("(function () {}).constructor('Object.prototype.leak = 1')()", "({}).leak")
	f("Symbol.leak = 1; Symbol.for('x').description = 1", "Symbol.leak")
	f("Reflect.ownKeys.leak = 1", "Reflect.ownKeys.leak")
	f("(function () { return Object.getOwnPropertyDescriptor(arguments, 'callee').get })().leak = 1", "(function () { return Object.getOwnPropertyDescriptor(arguments, 'callee').get })().leak")
	f("Object.getOwnPropertyDescriptor(Object.prototype, 'toString').get.leak = 1", "Object.getOwnPropertyDescriptor(Object.prototype, 'toString').get.leak")
	f("String.raw`x`.leak = 1; ((s) => { s.leak = 1 })`x`", "((s) => s.leak)`x`")
	f("Promise.resolve().then(() => Promise.resolve()).then(() => { Object.prototype.leak = 1 })", "({}).leak")
	f("Object.prototype.toString = () => 'leak'", "String({}) === 'leak'")
	f("Date.now = () => 'leak'; Date.prototype.getTime = () => 'leak'", "Date.now() === 'leak' || new Date().getTime() === 'leak'")
}

// What the interpreter keeps outside of objects does not grow with the number of runs.
func TestNothingIsKept(t *testing.T) {
	l := alone()
	for _, code := range []string{
		"i => Symbol.for(i + 'x'.repeat(200_000)).description.length",
		"i => { class S extends function (o) { return o } { #kept = new Array(20_000).fill(i) }; new S(Object); return 1 }",
		"i => { class S extends (class { constructor(o) { return o } }) { #kept = i.repeat(3000) }; new S(Array.prototype.map); return 1 }",
	} {
		p := compile(t, l, "export default "+code, lang.Options{})
		kept := func(runs int) uint64 {
			for i := range runs {
				if _, err := p.Eval(t.Context(), value.String(strings.Repeat("k", 100)+strconv.Itoa(i))); err != nil {
					t.Fatal(err)
				}
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := kept(3)
		if after := kept(60); after > before+4<<20 { // each run would keep some 200 KB
			t.Errorf("%s: got %d KiB more after 60 runs, want about none", code, (after-before)>>10)
		}
	}
	check(t, l, "export default () => [Symbol.for('a') === Symbol.for('a'), Symbol.keyFor(Symbol.for('a')), Symbol.keyFor(Symbol('a')), Symbol.keyFor(Symbol.iterator)]",
		lang.Options{}, value.Null(), fromJSON(t, `[true,"a",null,null]`))
}

func TestNoHostObjects(t *testing.T) {
	for _, name := range []string{
		"require", "process", "module", "exports", "fetch", "setTimeout", "setInterval", "setImmediate",
		"queueMicrotask", "XMLHttpRequest", "WebAssembly", "Deno", "Bun", "global", "window", "self", "importScripts",
	} {
		check(t, language, "export default () => typeof globalThis."+name, lang.Options{}, value.Null(), value.String("undefined"))
	}
}

// A source map that code names at run time is not read from disk.
func TestEvalReadsNoFiles(t *testing.T) {
	check(t, language, "export default () => eval('1 //# sourceMappingURL=/etc/passwd\\n//# sourceMappingURL=/etc/passwd')", lang.Options{}, value.Null(), value.Int(1))
}

// TestOrdinaryCodeWorks with frozen prototypes.
func TestOrdinaryCodeWorks(t *testing.T) {
	f := func(code, want string) {
		t.Helper()
		check(t, language, "export default () => { "+code+" }", lang.Options{}, value.Null(), fromJSON(t, want))
	}
	f("const o = {}; o.toString = () => 'x'; o.constructor = 1; o.valueOf = () => 2; return [String(o), o.constructor, o + 1]", `["x",1,3]`)
	f("const o = {}; o.hasOwnProperty = 1; return Object.keys(o)", `["hasOwnProperty"]`)
	f("function A() {} A.prototype.toString = function () { return 'A' }; A.prototype.constructor = A; return String(new A())", `"A"`)
	f("function A() {} A.prototype = Object.create({}); A.prototype.constructor = A; return new A().constructor === A", "true")
	f("function E(m) { this.message = m } E.prototype = Object.create(Error.prototype); E.prototype.name = 'E'; E.prototype.constructor = E; return String(new E('x'))", `"E: x"`)
	f("const e = new TypeError('a'); e.message = 'b'; e.name = 'N'; return [String(e), e instanceof Error]", `["N: b",true]`)
	f("class E extends Error { constructor(m) { super(m); this.name = 'E' } toString() { return 'mine' } } return [String(new E('x')), new E('y').message, new E('z').name]", `["mine","y","E"]`)
	f("class L extends Array { sum() { return this.reduce((a, b) => a + b, 0) } } const l = L.from([1, 2]); l.push(3); return [l.sum(), l.map(x => x * 2) instanceof L, l.length]", "[6,true,3]")
	f("class M extends Map { get(k) { return super.get(k) ?? 0 } } return new M([['a', 1]]).get('b')", "0")
	f("const f = () => 1; f.toString = () => 'f'; return String(f)", `"f"`)
	f("const a = [3, 1, 2]; a.sort(); a.reverse(); a.extra = 1; return a", "[3,2,1]")
	f("return [[1].constructor === Array, [1, 2].map(x => x).constructor === Array, Array.isArray(Array(2)), new Array(1, 2), Array(3).length, new Array('3'), [1] instanceof Array]", `[true,true,true,[1,2],3,["3"],true]`)
	f("return [[1, [2, [3]]].flat(), [1, [2, [3]]].flat(Infinity), Array.prototype === Object.getPrototypeOf([])]", "[[1,2,[3]],[1,2,3],true]")
	f("const a = [1]; a.toString = () => 'a'; return a + ''", `"a"`)
	f("const o = Object.assign(Object.create({ a: 1 }), { b: 2 }); const { ...c } = o; return [o.a, c]", `[1,{"b":2}]`)
	f("return ['x'.repeat(3), 'x'.padStart(3, 'ab'), 'x'.padEnd(2), 'aXa'.replaceAll('a', 'b'), 'a1b2'.replace(/\\d/g, d => d * 2), [1, 2].join(), [1, [2]].join('-')]", `["xxx","abx","x ","bXb","a2b4","1,2","1-2"]`)
	f("return [Array.from({ length: 2 }, (_, i) => i), new Array(3).fill(0), Array.of(1), Math.max.apply(null, [1, 3]), Reflect.apply(Math.min, null, [1, 3])]", "[[0,1],[0,0,0],[1],3,1]")
	f("return [JSON.parse('{\"a\":[1]}', (k, v) => k === 'a' ? 2 : v), JSON.parse('\"[[[[\"'), JSON.stringify({ a: 1 }, null, 1)]", `[{"a":2},"[[[[","{\n \"a\": 1\n}"]`)
	f("return [eval('1 + 1'), new Function('a', 'b', 'return a + b')(1, 2), (() => 1) instanceof Function, (() => 1).constructor === Function]", "[2,3,true,true]")
	f("return [new Uint8Array([1, 2]).map(x => x * 2).length, new Uint8Array(2) instanceof Uint8Array, Uint8Array.from([1]).constructor === Uint8Array, new Uint8Array(new ArrayBuffer(4), 1, 2).length, Uint16Array.BYTES_PER_ELEMENT]", "[2,true,true,2,2]")
	f("class B extends Uint8Array { first() { return this[0] } } return new B([7]).first()", "7")
	f("const w = new WeakMap(), k = {}; w.set(k, 1); const s = Symbol('x'); return [w.get(k), s.toString(), [...'añ'].length]", `[1,"Symbol(x)",2]`)
	f("let a = null; a ??= 1; a ||= 2; a &&= 3; const o = { get x() { return this.y?.z }, y: { z: 1n } }; return [a, typeof o.x, 2 ** 3]", `[3,"bigint",8]`)
	f("const log = []; try { try { throw 1 } finally { log.push('f') } } catch { log.push('c') } label: for (const i of [1, 2]) { for (;;) continue label } return log", `["f","c"]`)
	f("function* g() { const x = yield 1; return x * 2 } const it = g(); it.next(); return it.next(4).value", "8")
	f("return [[1, 2, 3].at(-1), Object.fromEntries([['a', 1]]), 'a-b'.split('-'), /(?<y>\\d+)/.exec('in 2024').groups.y, [...'a1b2'.matchAll(/\\d/g)].length].length", "5")
}

func TestBounds(t *testing.T) {
	f := func(code, want string) {
		t.Helper()
		p := compile(t, language, "export default i => "+code, lang.Options{Timeout: 20 * time.Second})
		got, err := p.Eval(t.Context(), value.Map(
			value.Field{Name: "n", Value: value.Int(1e9)},
			value.Field{Name: "text", Value: value.String(strings.Repeat("a", 1<<20))},
			value.Field{Name: "nested", Value: value.String(strings.Repeat("[", 100_000))},
		))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got a %v, %v, want an error with %q", code, got.Kind(), err, want)
		}
	}
	f("'x'.repeat(i.n).length", "more than the limit")
	f("'xx'.repeat(2 ** 30).length", "more than the limit")
	f("'x'.padStart(i.n)", "more than the limit")
	f("'x'.padEnd(Infinity)", "more than the limit")
	f("i.text.replaceAll('a', i.text)", "more than the limit")
	f("i.text.replace(/a/g, i.text)", "more than the limit")
	f("new Array(i.n).join('xxxxxxxx')", "more than the limit")
	f("new Array(i.n).fill(0)", "more than the limit")
	f("Array.from({ length: i.n })", "more than the limit")
	f("Math.max.apply(null, { length: 4294967295 })", "more than the limit")
	f("Reflect.construct(Date, { length: 4294967295 })", "more than the limit")
	f("new ArrayBuffer(1e12)", "more than the limit")
	f("new Float64Array(i.n)", "more than the limit")
	f("JSON.parse(i.nested)", "JSON nests deeper")
	f("eval(i.nested)", "code made at run time")
	f("new Function(i.nested)", "code made at run time")
	f("(async () => 1).constructor(i.nested)", "code made at run time")
	f("[...Array(i.n).keys()]", "more than the limit")
	f("new i.constructor.constructor('n', 'return new Array(n)')(i.n)", "more than the limit")
	f("new [].constructor(i.n)", "more than the limit")
	f("{ const a = []; a.length = i.n; return a }", "elements")
}

// A regular expression that backtracks 2^40 times ends after a second.
func TestRegexpIsBounded(t *testing.T) {
	p := compile(t, language, "export default s => /^(?=a)(a+)+$/.test(s)", lang.Options{Timeout: 100 * time.Millisecond})
	began := time.Now()
	_, err := p.Eval(t.Context(), value.String(strings.Repeat("a", 40)+"b"))
	var timeout *lang.Timeout
	if !errors.As(err, &timeout) {
		t.Errorf("got %v, want a timeout", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("got an answer after %v, want one in about a second", took)
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	l := alone()
	for _, loop := range []string{
		"export default () => { for (;;) {} }",
		"export default async () => { for (;;) await null }",
		"export default () => { try { for (;;) {} } catch (e) { return 1 } finally { return 2 } }",
		"export default () => ({ get a() { for (;;) {} } })",
		"export default () => ({ then(resolve) { for (;;) {} } })",
		"export default () => { throw { get message() { for (;;) {} } } }",
	} {
		p := compile(t, l, loop, lang.Options{Timeout: 10 * time.Millisecond})
		_, err := p.Eval(context.Background(), value.Null())
		var timeout *lang.Timeout
		if !errors.As(err, &timeout) || !errors.Is(err, context.DeadlineExceeded) || err.Error() != "timed out after 10ms" {
			t.Errorf("%s: got %v, want a timeout after 10ms", loop, err)
		}
		cause := errors.New("the client has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
		if _, err := compile(t, l, loop, lang.Options{}).Eval(ctx, value.Null()); !errors.Is(err, cause) {
			t.Errorf("%s: got %v, want %v", loop, err, cause)
		}
		cancel(nil)
	}
}

// An interrupt at the end of a run must not end the next one.
func TestInterruptStaysWithItsRun(t *testing.T) {
	l := alone()
	spin := compile(t, l, "export default n => { let x = 0; for (let i = 0; i < n; i++) x += i; return x }", lang.Options{Timeout: 200 * time.Microsecond})
	after := compile(t, l, "export default n => { let x = 0; for (let i = 0; i < 100; i++) x += 1; return x + n }", lang.Options{})
	timeouts, runs := 0, 1000
	if invariant.Race {
		runs = 100 // each timeout costs a new runtime
	}
	for i := range runs {
		// About as long as the timeout takes.
		if _, err := spin.Eval(context.Background(), value.Int(int64(i%500*8))); err != nil {
			var timeout *lang.Timeout
			if !errors.As(err, &timeout) {
				t.Fatalf("run %d: got %v, want a timeout", i, err)
			}
			timeouts++
		}
		if got, err := after.Eval(context.Background(), value.Int(int64(i))); err != nil || !got.Equal(value.Int(int64(100+i))) {
			t.Fatalf("the run after run %d: got %v, %v, want %d", i, got, err, 100+i)
		}
	}
	t.Logf("%d of %d runs timed out", timeouts, runs)
}

// TestConcurrent uses one program in many goroutines, and cancels some of the runs.
func TestConcurrent(t *testing.T) {
	l := New()
	p := compile(t, l, "let calls = 0\nexport default async i => { calls++; if (i.spin) for (;;) {} const copy = { ...i.body, seen: await i.id }; copy.list.push(i.id); return [calls, copy] }", lang.Options{Timeout: time.Minute})
	x := compile(t, l, "body.list.map(x => x + id).length + id", lang.Options{Mode: lang.ModeExpression})
	body := fromJSON(t, `{"list":[1,2],"deep":{"a":[{}]}}`)
	before := body.String()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				id := int64(g*1000 + i)
				in := value.Map(value.Field{Name: "id", Value: value.Int(id)}, value.Field{Name: "body", Value: body},
					value.Field{Name: "spin", Value: value.Bool(i%10 == 9)})
				ctx, cancel := context.WithCancel(t.Context())
				if i%10 == 9 {
					time.AfterFunc(time.Millisecond, cancel)
				}
				got, err := p.Eval(ctx, in)
				cancel()
				if i%10 == 9 {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("got %v, %v, want a cancellation", got, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("got error %v", err)
					return
				}
				seen, _ := got.At(1).Get("seen")
				if calls := got.At(0); !calls.Equal(value.Int(1)) || !seen.Equal(value.Int(id)) {
					t.Errorf("got %v, want 1 call and id %d", got, id)
					return
				}
				if got, err := x.Eval(t.Context(), in); err != nil || !got.Equal(value.Int(2+id)) {
					t.Errorf("got %v, %v, want %d", got, err, 2+id)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := body.String(); got != before {
		t.Errorf("got the payload changed to %s", got)
	}
}

// FuzzJavaScriptValue passes values through JavaScript: unchanged, copied field by field in
// a script, and through an expression.
func FuzzJavaScriptValue(f *testing.F) {
	for _, s := range []string{
		"null", "1", "-0.0", "1e300", "9007199254740993", "18446744073709551615", "-9223372036854775808", `"é😀"`,
		`{"z":{"a":[{}]},"constructor":1,"__proto__":2,"toString":null,"length":3}`, `[[],{},null,[[1.5]]]`, `{"0":1,"b":2,"":3}`,
	} {
		f.Add(s)
	}
	copied := compile(f, language, `
		const copy = v => Array.isArray(v) ? v.map(copy)
			: v !== null && typeof v === 'object' ? Object.keys(v).reduce((o, k) => o.set(k, copy(v[k])), new Map())
			: v
		export default copy`, lang.Options{})
	same := compile(f, language, "export default v => v", lang.Options{})
	expression := compile(f, language, "[self]", lang.Options{Mode: lang.ModeExpression})
	f.Fuzz(func(t *testing.T, json string) {
		in, err := value.ParseJSON([]byte(json))
		if err != nil {
			return
		}
		for _, p := range []lang.Program{copied, same, expression} {
			want := in
			if p == expression {
				want = value.List(in)
			}
			got, err := p.Eval(t.Context(), in)
			if err != nil {
				if p == copied && strings.Contains(err.Error(), "nest deeper") {
					continue // the script recurses
				}
				t.Fatalf("%s: got error %v", json, err)
			}
			if !got.Equal(want) {
				t.Fatalf("%s: got %v, want %v", json, got, want)
			}
		}
	})
}
