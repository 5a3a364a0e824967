package javascript
import ("testing";"github.com/dop251/goja";"github.com/evanw/esbuild/pkg/api";"fmt";"time";"os")
func TestExp(t *testing.T) {
	for _, c := range []struct{code string; l api.Loader}{{"export default function (input) { return input.a }", api.LoaderJS},{"module.exports = (x) => x", api.LoaderJS},{"const k = 1; export default async (x: number) => x + k; export const y = 1", api.LoaderTS},{"exports.default = 1", api.LoaderJS},{"export const z = 1", api.LoaderJS},{"1+1",api.LoaderJS},{"async function* f() { yield 1 }\nexport default async function(){ for await (const x of f()) return x }",api.LoaderJS},{"function handler(){}",api.LoaderJS},{"export default class {}; export {}",api.LoaderJS}, {"export { f as default }; function f() {}",api.LoaderJS}, {"export default function(){\n  throw new Error('x')\n}",api.LoaderJS}, {"export default 5 +",api.LoaderJS}, {"import fs from 'fs'; export default fs",api.LoaderJS},{"const x = await 1; export default x",api.LoaderJS}, {"export * from './nope'; export default 1",api.LoaderJS}, {"let x = 1; let x = 2;\nexport default const y",api.LoaderJS}} {
		t0 := time.Now()
		r := api.Build(api.BuildOptions{Stdin: &api.StdinOptions{Contents: c.code, Sourcefile: "snippet", Loader: c.l, ResolveDir: "/tmp/exp"}, Bundle: true, Write: false, Format: api.FormatESModule, Platform: api.PlatformNeutral, Target: api.ES2022, LogLevel: api.LogLevelSilent, TsconfigRaw: "{}", Sourcemap: api.SourceMapInline, SourcesContent: api.SourcesContentExclude, Supported: map[string]bool{"async-generator":false,"for-await":false,"top-level-await":false},
		Banner: map[string]string{"js":"(function(){\"use strict\";"}, TreeShaking: api.TreeShakingFalse})
		d := time.Since(t0)
		fmt.Println("-----", c.code, d)
		for _, m := range append(r.Errors, r.Warnings...) { fmt.Printf("  %+v %+v\n", m.Text, m.Location) }
		for _, f := range r.OutputFiles { fmt.Println(string(f.Contents)) }
	}
}
func TestBomb(t *testing.T) {
	vm := goja.New()
	vm.SetMaxCallStackSize(1000)
	b := map[string]string{
	"re": `/^(?=a)(a+)+$/.test('a'.repeat(28)+'b')`,
	"map": `function f(){ return [1].map(f) } f()`,
	"getter": `var o = {get x(){ return this.x }}; o.x`,
	"tostr": `var o = {toString(){ return '' + this }}; '' + o`,
	"json": `JSON.parse('['.repeat(10000000))`,
	"jsons": `var a=[]; for (var i=0;i<3000000;i++) a=[a]; JSON.stringify(a)`,
	"join": `var a=[]; for (var i=0;i<3000000;i++) a=[a]; a.join()`,
	"flat": `var a=[]; for (var i=0;i<3000000;i++) a=[a]; a.flat(Infinity).length`,
	"eval": `eval('('.repeat(60000))`,
	"eval2": `eval('!'.repeat(60000)+'1')`,
	"evalbig": `eval('('.repeat(5000000))`,
	"regex": `new RegExp('('.repeat(500000)+')'.repeat(500000))`,
	"regex2": `new RegExp('(?=('.repeat(500000)+'))'.repeat(500000))`,
	"proxy": `var p = {}; for (var i=0;i<1000000;i++) p = new Proxy(p, {}); p.x`,
	"bind": `var f = ()=>1; for (var i=0;i<3000000;i++) f = f.bind(null); f()`,
	"proto": `var o = {}; for (var i=0;i<3000000;i++) o = Object.create(o); o.x`,
	"arr": `new Array(1e9).fill(0).length`,
	"ab": `new ArrayBuffer(1e12).byteLength`,
	"ab2": `new Uint8Array(8e9).length`,
	"repeat": `'x'.repeat(2**31-1).length`,
	"cat": `var s='x'; for (var i=0;i<34;i++) s+=s; s.length`,
	"promise": `var r; var p = new Promise(x=>r=x); r(p)`,
	"spread": `Math.max(...new Array(1e8))`,
	"apply": `Math.max.apply(null, {length: 4294967295})`,
	"from": `Array.from({length: 1e9}).length`,
	"concat": `var a = new Array(2**31); a.concat(a).length`,
	"rope": `var s = ''; for (var i=0;i<3000000;i++) s = s + 'ab'; s.length`,
	"sym": `Symbol('x'.repeat(1e6)).toString().length`,
	"pad": `'x'.padStart(2**30).length`,
	"instanceof": `var F = function(){}; for (var i=0;i<3000000;i++) F = F.bind(); ({}) instanceof F`,
	"cause": `Object.prototype.toString.call([])`,
	}
	t0 := time.Now()
	tm := time.AfterFunc(20*time.Second, func(){ vm.Interrupt("timeout") })
	v, err := vm.RunString(b[os.Getenv("BOMB")])
	tm.Stop()
	s := fmt.Sprint(err); if len(s) > 200 { s = s[:200] }
	vs := fmt.Sprint(v); if len(vs) > 100 { vs = vs[:100] }
	fmt.Println(os.Getenv("BOMB"), time.Since(t0), vs, s)
}
