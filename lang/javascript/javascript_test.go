package javascript

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

var language = New()

func payload() value.Value {
	return value.Map(
		value.Field{Name: "method", Value: value.String("POST")},
		value.Field{Name: "n", Value: value.Int(41)},
		value.Field{Name: "price", Value: value.Float(1.5)},
		value.Field{Name: "big", Value: value.Uint(math.MaxUint64)},
		value.Field{Name: "none", Value: value.Null()},
		value.Field{Name: "at", Value: value.Time(time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC))},
		value.Field{Name: "raw", Value: value.Binary([]byte{0, 1, 255})},
		value.Field{Name: "wait", Value: value.Duration(90 * time.Second)},
		value.Field{Name: "list", Value: value.List(value.Int(3), value.Float(2.5), value.String("x"))},
		value.Field{Name: "body", Value: value.Map(
			value.Field{Name: "z", Value: value.List(value.Null(), value.Map(), value.List())},
			value.Field{Name: "a", Value: value.Int(1)},
			value.Field{Name: "key with space", Value: value.Bool(true)},
		)},
	)
}

func compile(t testing.TB, l lang.Language, code string, opts lang.Options) lang.Program {
	t.Helper()
	p, err := l.Compile(diag.PlainText(code), opts)
	if err != nil {
		t.Fatalf("compile %s: got error %v", code, err)
	}
	return p
}

// check evaluates code on in and compares kind and text, to notice an integer that became a
// float, or another order of fields.
func check(t *testing.T, l lang.Language, code string, opts lang.Options, in, want value.Value) {
	t.Helper()
	p, err := l.Compile(diag.PlainText(code), opts)
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

func fromJSON(t testing.TB, json string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFunction(t *testing.T) {
	in := payload()
	f := func(code, want string) {
		t.Helper()
		check(t, language, code, lang.Options{}, in, fromJSON(t, want))
	}
	// Forms of exporting a function.
	f("export default function (input) { return input.n + 1 }", "42")
	f("export default input => input.n", "41")
	f("export default async (input) => input.n", "41")
	f("function f(input) { return input.n } export { f as default }", "41")
	f("const x = 1, y = 2; export const z = 3; export default () => x + y + z", "6")
	f("module.exports = (input) => input.n", "41")
	f("module.exports = async function (input) { return await input.n }", "41")
	f("exports.default = () => 1", "1")
	f("//! a legal comment\nexport default () => 1 // and another", "1")

	// Results.
	f("export default () => undefined", "null")
	f("export default () => {}", "null")
	f("export default () => null", "null")
	f("export default () => 3", "3")
	f("export default () => 1.5 * 2", "3")
	f("export default () => 0.1", "0.1")
	f("export default () => 'é😀'", `"é😀"`)
	f("export default () => 9007199254740993n", "9007199254740993")
	f("export default () => 18446744073709551615n", "18446744073709551615")
	f("export default () => ({ z: 1, a: [1, { b: undefined }], m: {} })", `{"z":1,"a":[1,{"b":null}],"m":{}}`)
	f("export default () => [, 1]", "[null,1]")
	f("export default () => new Map([['z', 1], ['a', new Map()]])", `{"z":1,"a":{}}`)
	f("export default () => new Set([3, 1])", "[3,1]")
	f("export default () => [new Number(1), new String('s'), new Boolean(false)]", `[1,"s",false]`)
	f("export default () => new Float64Array([1.5, 2])", "[1.5,2]")
	f("class P { constructor() { this.x = 1 } get y() { return 2 } }\nexport default () => new P()", `{"x":1}`)
	f("export default () => Object.create(null, { a: { value: 1, enumerable: true } })", `{"a":1}`)

	// The payload in JavaScript.
	f("export default i => [typeof i.n, typeof i.big, typeof i.none, typeof i.at, typeof i.wait, i.none === null]", `["number","bigint","object","object","number",true]`)
	f("export default i => [i.at.getTime(), i.at instanceof Date, i.wait, i.raw instanceof Uint8Array, [...i.raw]]", `[1714979289000,true,90000,true,[0,1,255]]`)
	f("export default i => i.big + 1n - 1n", "18446744073709551615")
	f("export default i => [Array.isArray(i.list), i.list instanceof Array, i.list.length, i.body instanceof Object, i.body.constructor === Object]", "[true,true,3,true,true]")
	f("export default i => Object.keys(i.body)", `["z","a","key with space"]`)
	f("export default i => JSON.stringify(i.body)", `"{\"z\":[null,{},[]],\"a\":1,\"key with space\":true}"`)
	f("export default i => JSON.stringify(i.list)", `"[3,2.5,\"x\"]"`)
	f("export default i => ({ ...i.body, a: 2 })", `{"z":[null,{},[]],"a":2,"key with space":true}`)
	f("export default i => [...i.list, ...i.list.slice(1)]", `[3,2.5,"x",2.5,"x"]`)
	f("export default ({ body: { a, ...rest }, list: [first] }) => [a, first, rest]", `[1,3,{"z":[null,{},[]],"key with space":true}]`)
	f("export default i => i.list.map(x => x + 1).concat(i.list)", `[4,3.5,"x1",3,2.5,"x"]`)
	f("export default i => { const k = []; for (const x in i.body) k.push(x); for (const x of i.list) k.push(x); return k }", `["z","a","key with space",3,2.5,"x"]`)
	f("export default i => ['a' in i.body, 'b' in i.body, i.body.hasOwnProperty('a'), Object.hasOwn(i.body, 'b'), i.body.b === undefined]", "[true,false,true,false,true]")
	f("export default i => [i.body === i.body, i.list === i.list, i.body.z[1] === i.body.z[1], i.at === i.at]", "[true,true,true,true]")
	f("export default i => Object.entries(i.body).length + Object.values(i.list).length", "6")
	f("export default i => Object.assign({}, i.body, { a: 5 }).a", "5")
	f("export default i => i.list.sort((a, b) => a < b ? -1 : 1).length + i.list.includes('x')", "4")
	f("export default i => String(i.body) + i.list", `"[object Object]3,2.5,x"`)
	f("export default i => i.body.z.flat()", "[null,{}]")
	f("export default i => JSON.parse(JSON.stringify(i.body)).a", "1")
}

func TestFunctionKeepsKinds(t *testing.T) {
	in := payload()
	for _, name := range []string{"n", "price", "big", "none", "at", "raw", "list", "body", "method"} {
		want, _ := in.Get(name)
		if name == "at" {
			want = value.Time(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)) // a Date has milliseconds
		}
		check(t, language, "export default i => i."+name, lang.Options{}, in, want)
	}
	check(t, language, "export default i => i", lang.Options{}, in, in)
	check(t, language, "export default i => [i]", lang.Options{}, in, value.List(in))
	check(t, language, "export default () => -0", lang.Options{}, in, value.Float(math.Copysign(0, -1)))
	check(t, language, "export default () => NaN", lang.Options{}, in, value.Float(math.NaN()))
	check(t, language, "export default () => 1 / 0", lang.Options{}, in, value.Float(math.Inf(1)))
	check(t, language, "export default () => new Date(5)", lang.Options{}, in, value.Time(time.UnixMilli(5).UTC()))
	check(t, language, "export default () => new Uint8Array([1, 2])", lang.Options{}, in, value.Binary([]byte{1, 2}))
	check(t, language, "export default () => new Uint8Array([1, 2, 3, 4]).subarray(1, 3)", lang.Options{}, in, value.Binary([]byte{2, 3}))
	check(t, language, "export default () => new ArrayBuffer(2)", lang.Options{}, in, value.Binary([]byte{0, 0}))
	check(t, language, "export default i => i + 1", lang.Options{}, value.Int(1<<53-2), value.Int(1<<53-1))
	check(t, language, "export default i => i + 1n", lang.Options{}, value.Int(1<<53), value.Int(1<<53+1))
	check(t, language, "export default i => i", lang.Options{}, value.Int(math.MinInt64), value.Int(math.MinInt64))
}

// A script may change its argument; the payload does not change.
func TestMutationIsPrivate(t *testing.T) {
	in := payload()
	before := in.String()
	f := func(code, want string) {
		t.Helper()
		check(t, language, "export default i => { "+code+" }", lang.Options{}, in, fromJSON(t, want))
		if got := in.String(); got != before {
			t.Fatalf("%s: got the payload changed to %s", code, got)
		}
	}
	f("i.body.a = 2; i.body.b = 3; delete i.body.z; return i.body", `{"a":2,"key with space":true,"b":3}`)
	f("i.body.z[1].deep = 1; return i.body", `{"z":[null,{"deep":1},[]],"a":1,"key with space":true}`)
	f("i.list.push(4); i.list[0] = 0; return i.list", `[0,2.5,"x",4]`)
	f("i.list.length = 1; return i.list", "[3]")
	f("i.list.splice(1, 1, 'a', 'b'); return i.list", `[3,"a","b","x"]`)
	f("i.list.reverse(); i.list.shift(); return i.list", "[2.5,3]")
	f("i.raw[0] = 9; return i.raw[0]", "9")
	f("i.at.setTime(0); return i.at.getTime()", "0")
	f("const b = i.body; b.z = b.z.concat(1); return i.body.z", "[null,{},[],1]")
	f("i.body.toString = () => 'mine'; i.body.constructor = 1; return [String(i.body), i.body.constructor]", `["mine",1]`)
	f("Object.defineProperty(i.body, 'a', { value: 7, writable: true, enumerable: true, configurable: true }); return i.body.a", "7")
	f("i.body.self = i.n; const copy = { ...i.body }; copy.a = 0; return i.body.a", "1")
}

// unread is the source of a lazy map that must not be read.
type unread struct{ t testing.TB }

func (u unread) Fields() []value.Field {
	u.t.Error("a lazy map was read that is not used")
	return nil
}

func TestLazyMapsStayUnread(t *testing.T) {
	in := value.Map(
		value.Field{Name: "header", Value: value.LazyMap(unread{t}, 64, 1)},
		value.Field{Name: "path", Value: value.String("/ping")},
	)
	for _, code := range []string{"i => i.path", "i => i", "i => ({ ...i, x: 1 })", "i => { i.path = 1; return i }", "i => Object.keys(i)", "i => [i.header]"} {
		if _, err := compile(t, language, "export default "+code, lang.Options{}).Eval(t.Context(), in); err != nil {
			t.Errorf("%s: got error %v", code, err)
		}
	}
}

func TestErrors(t *testing.T) {
	in := payload()
	f := func(code, want string) {
		t.Helper()
		p, err := language.Compile(diag.PlainText(code), lang.Options{})
		if err != nil {
			t.Errorf("compile %s: got error %v", code, err)
			return
		}
		got, err := p.Eval(t.Context(), in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want an error with %q", code, got, err, want)
		}
	}
	f("export default () => { throw new Error('no stock') }", "no stock")
	f("export default () => { throw 'text' }", "text")
	f("export default () => { throw { message: 'odd' } }", "odd")
	f("export default () => { throw null }", "null")
	f("export default () => { throw { get message() { throw new Error('inner') } } }", "cannot be read")
	f("export default async () => { await null; throw new Error('later') }", "later")
	f("export default () => Promise.reject(new Error('rejected'))", "rejected")
	f("export default i => i.missing.field", "Cannot read")
	f("export default i => missing", "missing is not defined")
	f("export default () => { const o = { a: { b: [] } }; o.a.b.push(o); return o }", "the result.a.b[0] is cyclic")
	f("export default () => ({ a: [1, () => 1] })", "the result.a[1] is a function")
	f("export default () => ({ a: Symbol('x') })", "the result.a is a symbol")
	f("export default () => ({ a: Promise.resolve(1) })", "the result.a is a promise")
	f("export default () => new Date(NaN)", "invalid date")
	f("export default () => 2n ** 64n", "integer of 65 bits")
	f("export default () => { let a = []; for (let i = 0; i < 2000; i++) a = [a]; return a }", "nests deeper")
	f("export default () => ({ get a() { throw new Error('getter') } })", "getter")
	f("export default () => new Promise(() => {})", "never settles")
	f("export default async () => { await new Promise(() => {}) }", "never settles")
	f("export default function f() { return f() + 1 }", "calls nest deeper")
	if invariant.Race {
		return // unwinding takes seconds under the race detector
	}
	f("export default () => { const f = () => [1].map(f); return f() }", "calls nest deeper")
	f("export default () => { const o = { toString() { return '' + o } }; return '' + o }", "calls nest deeper")
	f("export default () => { const o = { get x() { return o.x } }; return o }", "calls nest deeper")
}

func TestThrownFields(t *testing.T) {
	p := compile(t, language, "\nexport default () => {\n  throw Object.assign(new Error('no stock'), { status: 409, code: 'stock', public: true })\n}", lang.Options{})
	_, err := p.Eval(t.Context(), value.Null())
	var thrown *lang.Thrown
	if !errors.As(err, &thrown) {
		t.Fatalf("got %v, want a *lang.Thrown", err)
	}
	if thrown.Message != "no stock" || thrown.Status != 409 || thrown.Code != "stock" || !thrown.Public || thrown.Pos.Line != 3 {
		t.Errorf("got %+v, want no stock, 409, stock, public, line 3", *thrown)
	}
	got, err := compile(t, language, "export default () => ({ e: new TypeError('kept') })", lang.Options{}).Eval(t.Context(), value.Null())
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := got.Get("e"); !e.IsError() || e.AsError().Error() != "kept" {
		t.Errorf("got %v, want an error payload", got)
	}
}

// An error has the place in the document where it was thrown.
func TestPlaceOfErrors(t *testing.T) {
	f := func(l lang.Language, mode lang.Mode, code string, line, col int) {
		t.Helper()
		lines := []diag.Pos{}
		for i := range 1 + strings.Count(code, "\n") {
			lines = append(lines, diag.Pos{File: "f.yaml", Line: 11 + i, Col: 5})
		}
		p, err := l.Compile(diag.NewText(code, "f.yaml", diag.Pos{File: "f.yaml", Line: 10, Col: 9}, lines), lang.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Eval(t.Context(), fromJSON(t, `{"list":[1],"none":null}`))
		var thrown *lang.Thrown
		if !errors.As(err, &thrown) || thrown.Pos != (diag.Pos{File: "f.yaml", Line: line, Col: col}) {
			t.Errorf("%s: got %#v, want it at %d:%d", code, err, line, col)
		}
		if at := (&node.Error{Err: err, Node: node.Ref{Kind: "snippet"}}).Error(); !strings.Contains(at, fmt.Sprintf("(f.yaml:%d:%d)", line, col)) {
			t.Errorf("%s: got %q, want the place %d:%d in it", code, at, line, col)
		}
	}
	f(language, lang.ModeFunction, "export default i => {\n  return i.none.user\n}", 12, 21)
	f(language, lang.ModeFunction, "const f = x => {\n  throw new Error(x)\n}\nexport default i => i.list.map(f)", 12, 13)
	f(language, lang.ModeFunction, "export default i =>\n  'a'.replace(/a/, () => i.none.x)", 12, 38)
	f(language, lang.ModeFunction, "export default i =>\n  'a'.repeat(1e9)", 12, 18)
	f(language, lang.ModeFunction, "export default i =>\n  missing", 12, 7)
	f(language.TypeScript(), lang.ModeFunction, "type X = {\n  a: number }\nexport default (i: any): X =>\n  i.none.user", 14, 14)
	f(language, lang.ModeExpression, "list.length > 0 &&\n  none.user", 12, 12)
	f(language.TypeScript(), lang.ModeExpression, "(none as any).user", 11, 5)
}

func TestErrorPayload(t *testing.T) {
	in := value.Error(&lang.Thrown{Message: "no stock", Status: 409})
	check(t, language, "export default e => [e.message, e.status]", lang.Options{}, in, value.List(value.String("no stock"), value.Int(409)))
	check(t, language, "message + status", lang.Options{Mode: lang.ModeExpression}, in, value.String("no stock409"))
	check(t, language, "export default e => e", lang.Options{}, in, in)
	check(t, language, "export default e => ({ ...e, status: 1 })", lang.Options{}, in, value.Map(value.Field{Name: "message", Value: value.String("no stock")}, value.Field{Name: "status", Value: value.Int(1)}))
}

func TestPromises(t *testing.T) {
	f := func(code, want string) {
		t.Helper()
		check(t, language, code, lang.Options{}, value.Int(1), fromJSON(t, want))
	}
	f("export default async i => { const a = await i; const b = await Promise.all([a, 2, (async () => 3)()]); return b }", "[1,2,3]")
	f("export default () => new Promise(r => r(5)).then(x => x + 1)", "6")
	f("export default () => ({ then(resolve) { resolve(7) } })", "7")
	f("export default async () => { try { await Promise.reject(new Error('x')) } catch (e) { return e.message } }", `"x"`)
	f("async function* g() { yield 1; yield 2 }\nexport default async () => { const l = []; for await (const x of g()) l.push(x); return l }", "[1,2]")
	f("export default async () => { let n = 0; for (let i = 0; i < 1000; i++) n += await i; return n }", "499500")
	check(t, language, "Promise.resolve(self + 1)", lang.Options{Mode: lang.ModeExpression}, value.Int(1), value.Int(2))
}

func TestExpression(t *testing.T) {
	in := payload()
	f := func(code, want string) {
		t.Helper()
		check(t, language, code, lang.Options{Mode: lang.ModeExpression}, in, fromJSON(t, want))
	}
	f("n > 40 && method === 'POST'", "true")
	f("self.n + n", "82")
	f("{ a: n, method }", `{"a":41,"method":"POST"}`)
	f("list.map(x => x + n)", `[44,43.5,"x41"]`)
	f("list.map(n => n)", `[3,2.5,"x"]`)
	f("typeof missing === 'undefined' && typeof Math.max === 'function'", "true")
	f("body?.missing?.deep ?? 'none'", `"none"`)
	f("'use strict'", `"use strict"`)
	f("n // a comment", "41")
	f("/* ( */ (n)", "41")
	f("n,\n  price", "1.5")
	f("(function () { return this === undefined })()", "true")
	check(t, language, "self", lang.Options{Mode: lang.ModeExpression}, value.Int(3), value.Int(3))
	check(t, language, "JSON + Math", lang.Options{Mode: lang.ModeExpression}, fromJSON(t, `{"JSON":1,"Math":2}`), value.Int(3))
	check(t, language.TypeScript(), "(self as { n: number }).n satisfies number", lang.Options{Mode: lang.ModeExpression}, in, value.Int(41))

	p := compile(t, language, "missing > 1", lang.Options{Mode: lang.ModeExpression})
	if _, err := p.Eval(t.Context(), in); err == nil || !strings.Contains(err.Error(), "missing is not defined") {
		t.Errorf("got %v, want a ReferenceError", err)
	}
	if got, err := p.Eval(t.Context(), fromJSON(t, `{"missing":2}`)); err != nil || !got.Equal(value.Bool(true)) {
		t.Errorf("got %v, %v, want true", got, err)
	}
}

// Each set of keys needs its own function, and there may be many sets.
func TestExpressionVariants(t *testing.T) {
	p := compile(t, language, "[typeof a, typeof b, typeof c, typeof d, typeof e, typeof f, typeof g].filter(x => x === 'number').length", lang.Options{Mode: lang.ModeExpression})
	for set := range 128 {
		var fields []value.Field
		for i := range 7 {
			if set>>i&1 == 1 {
				fields = append(fields, value.Field{Name: string(rune('a' + i)), Value: value.Int(1)})
			}
		}
		if got, err := p.Eval(t.Context(), value.Map(fields...)); err != nil || !got.Equal(value.Int(int64(len(fields)))) {
			t.Fatalf("keys %b: got %v, %v, want %d", set, got, err, len(fields))
		}
	}
}

func TestTypeScriptAndImports(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("flows/lib/price.ts", "import rates from './rates.json'\nexport function gross(net: number, country: keyof typeof rates): number {\n  if (net < 0) throw new RangeError('negative')\n  return net * rates[country]\n}\n")
	write("flows/lib/rates.json", `{"de": 1.5}`)
	write("flows/old.js", "let calls = 0\nmodule.exports = { next: () => ++calls }\n")
	write("flows/broken.js", "export const x = ;\n")
	write("outside.js", "export default 1\n")
	if err := os.Symlink(filepath.Join(dir, "outside.js"), filepath.Join(dir, "flows", "link.js")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "flows", "shop.yaml")
	text := func(code string) diag.Text {
		return diag.NewText(code, file, diag.Pos{File: file, Line: 10, Col: 5}, nil)
	}
	ts := language.TypeScript()
	p, err := ts.Compile(text("import { gross } from './lib/price'\nimport old from './old'\ntype In = { net: number }\nexport default (i: In): number[] => [gross(i.net, 'de'), old.next()]"), lang.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // a module's variables are fresh in every run
		if got, err := p.Eval(t.Context(), fromJSON(t, `{"net":2}`)); err != nil || got.String() != "[3,1]" {
			t.Errorf("got %v, %v, want [3,1]", got, err)
		}
	}
	_, err = p.Eval(t.Context(), fromJSON(t, `{"net":-1}`))
	var thrown *lang.Thrown
	if !errors.As(err, &thrown) || thrown.Pos.Line != 3 || filepath.Base(thrown.Pos.File) != "price.ts" {
		t.Errorf("got %#v, want an error on line 3 of price.ts", err)
	}

	f := func(code string, wantCode diag.Code, want string) {
		t.Helper()
		_, err := ts.Compile(text(code), lang.Options{})
		var d *diag.Diagnostic
		if !errors.As(err, &d) || d.Code != wantCode || !strings.Contains(d.Msg, want) {
			t.Errorf("%s: got %v, want %s with %q", code, err, wantCode, want)
		}
	}
	f("import fs from 'fs'; export default () => fs", diag.CodeImport, `cannot import "fs"`)
	f("import x from '../outside'; export default () => x", diag.CodeImport, "outside of the document's folder")
	f("import x from './link'; export default () => x", diag.CodeImport, "links to a file outside")
	f("import x from './nope'; export default () => x", diag.CodeImport, "no such file")
	f("import x from '/etc/passwd'; export default () => x", diag.CodeImport, "cannot import")
	f("import x from './broken'; export default () => x", diag.CodeSyntax, "unexpected")
	f("const x = require('child_process'); module.exports = () => x", diag.CodeImport, "cannot import")
	if _, err := language.Compile(diag.PlainText("import x from './lib'; export default () => x"), lang.Options{}); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("got %v, want an error: no folder to import from", err)
	}
}

func TestCompileErrors(t *testing.T) {
	// As in a document:
	//   code: |
	//     export default …
	text := func(code string) diag.Text {
		lines := []diag.Pos{}
		for i := range 1 + strings.Count(code, "\n") {
			lines = append(lines, diag.Pos{File: "f.yaml", Line: 11 + i, Col: 5})
		}
		return diag.NewText(code, "f.yaml", diag.Pos{File: "f.yaml", Line: 10, Col: 9}, lines)
	}
	f := func(l lang.Language, mode lang.Mode, code string, line, col int, want string) {
		t.Helper()
		_, err := l.Compile(text(code), lang.Options{Mode: mode})
		var list diag.List
		var d *diag.Diagnostic
		switch {
		case errors.As(err, &list) && len(list) > 0:
			d = list[0]
		case !errors.As(err, &d):
			t.Errorf("%s: got %v, want a diagnostic", code, err)
			return
		}
		if d.Pos.Line != line || d.Pos.Col != col || !strings.Contains(d.Msg, want) {
			t.Errorf("%s: got %d:%d %q, want %d:%d %q", code, d.Pos.Line, d.Pos.Col, d.Msg, line, col, want)
		}
	}
	const function, expression = lang.ModeFunction, lang.ModeExpression
	ts := language.TypeScript()
	f(language, function, "export default () => {\n  let é = 'é', x = ;\n}", 12, 24, "unexpected")
	f(language, function, "export default (x: number) => x", 11, 22, `expected ")"`)
	f(ts, function, "export default (x: number) =>\n  x +", 12, 10, "unexpected end of file")
	f(language, function, "let x = 1; let x = 2; export default () => x", 11, 20, "already been declared")
	f(language, function, "function handler() {}", 11, 5, "exports nothing")
	f(language, function, "", 11, 5, "exports nothing")
	f(language, function, "export const x = 1", 11, 5, "no default export")
	f(language, function, "export default 42", 11, 5, "does not export a function")
	f(language, function, "module.exports = { a: 1 }", 11, 5, "does not export a function")
	f(language, function, "const x = 1\nthrow new Error('top level')\nexport default () => x", 12, 11, "top level")
	f(language, function, "const x = await 1; export default () => x", 11, 15, "top-level await")
	f(language, expression, "n +", 11, 8, "unexpected")
	f(language, expression, "a;\n  b", 11, 6, `expected ")"`)
	f(language, expression, "1); (2", 11, 5, "not one expression")
	f(language, expression, "if (x) y", 11, 5, "unexpected")
	f(language, expression, " ", 11, 5, "empty")
	f(language, function, strings.Repeat("(", 2000), 11, 1005, "nest deeper")
	f(language, function, strings.Repeat(" ", 200_000), 11, 5, "has 200000 bytes")
	f(language, expression, "\n"+strings.Repeat("[", 2000), 12, 1005, "nest deeper")
}

func TestSecretsAreNotQuoted(t *testing.T) {
	code := diag.PlainText("").Rendered("export default () => 'hunter2' hunter2")
	_, err := language.Compile(code, lang.Options{})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want a message that quotes nothing", err)
	}
}
