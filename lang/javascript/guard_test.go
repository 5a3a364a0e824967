package javascript

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// Functions with a guard do what the standard says.
func TestGuardsKeepTheStandard(t *testing.T) {
	// n is more elements than are sorted without a guard.
	const prelude = `
const thrown = (f) => { try { f(); return "nothing" } catch (e) { return e.name } }
const fill = (a, n, f) => { for (let k = 0; k < n; k++) a[k] = f(k); return a }
const n = 10002
export default () => `
	for code, want := range map[string]string{
		`{ const a = fill(new Float64Array(n), n, k => k % 100 ? n - k : NaN).sort(); return String([a[0], a[9900], a[n - 1], a.findIndex(isNaN)]) }`: "1,10001,NaN,9901",
		`String(fill(new BigInt64Array(n), n, k => BigInt(-k)).sort()[0])`:                                                                            "-10001",
		`String(fill(new BigUint64Array(n), n, k => BigInt(n - k)).toSorted()[0])`:                                                                    "1",
		`Array.prototype.toSorted.call("cb" + "a".repeat(n)).slice(-2).join()`:                                                                        "b,c",
		`Array.prototype.sort.call(fill({ length: n }, n, k => k))[2]`:                                                                                "10",
		`Array.prototype.sort.call(fill(new Uint16Array(n), n, k => k))[2]`:                                                                           "10",
		`thrown(() => [Symbol()].join())`:                                                                                                             "TypeError",
		`thrown(() => "a".replace("a", () => Symbol()))`:                                                                                              "TypeError",
		`thrown(() => "a".concat(Symbol()))`:                                                                                                          "TypeError",
		`[Array(new Date(0)), Array(5n), Array(Symbol.iterator), Array(Object.create(null)), Array("7")].map(a => a.length).join()`:                   "1,1,1,1,1",
		`Array(3).length`: "3",
		`thrown(() => Uint8Array.prototype.join.call([1, 2]))`: "TypeError",
		`Uint8Array.of(1, 2).join("-")`:                        "1-2",
		`Array.prototype.join.call("abc")`:                     "a,b,c",
		`[].concat({ get length() { return 2 } }, new Proxy([1, 2], {}), new Proxy({}, {}), [3], Object("s")).length`: "6",
		`[0].concat({ length: 2, 0: 1, [Symbol.isConcatSpreadable]: true }).length`:                                   "3",
		`[].concat(...Array(200000).fill({})).length`:                                                                 "200000",
		`Array.from({ get length() { return 2 } }).length`:                                                            "2",
		`Array.from({ get length() { return 9 }, *[Symbol.iterator]() { yield 1 } }).join()`:                          "1",
		`Array.from(new Proxy([1, 2], {})).join()`:                                                                    "1,2",
		`new Uint8Array(new Proxy([1, 2], {})).join()`:                                                                "1,2",
		`new Uint8Array(Object.defineProperty(new ArrayBuffer(3), "length", { get: () => 1 })).length`:                "3",
		`new ArrayBuffer({ valueOf: () => 3 }).byteLength`:                                                            "3",
		`Math.max.apply(null, new Uint8Array([1, 7]))`:                                                                "7",
		`Math.max.apply(null, new Proxy([1, 7], {}))`:                                                                 "7",
		`Array.prototype.map.call(new Uint8Array([1, 7]), x => x * 2).join()`:                                         "2,14",
		`Array.prototype.map.call("ab", x => x + x).join()`:                                                           "aa,bb",
		"String.raw`a${1}\\n`":                                                  `a1\n`,
		`String.raw({ raw: "ab" }, 1)`:                                          "a1b",
		`"5".padStart({ valueOf: () => 3 }, 0)`:                                 "005",
		`{ let k = 0; "".padStart({ valueOf: () => ++k }); return k }`:          "1",
		`{ let k = 0; JSON.stringify({ toJSON: () => ++k }, ["a"]); return k }`: "1",
		`JSON.stringify({ a: 1, b: { a: [2], c: 3 } }, ["b", "a", 7, {}], 1)`:   "{\n \"b\": {\n  \"a\": [\n   2\n  ]\n },\n \"a\": 1\n}",
		`JSON.stringify(undefined, ["a"])`:                                      "undefined",
		`JSON.stringify(1, (k, v) => k === "" ? [v] : v)`:                       "[1]",
		`JSON.stringify({ a: 1, b: 2 }, ["b"])`:                                 `{"b":2}`,
	} {
		check(t, language, prelude+"String("+wrap(code)+")", lang.Options{Timeout: 30 * time.Second}, value.Null(), value.String(want))
	}
}

// wrap makes a body in braces an expression.
func wrap(code string) string {
	if code[0] == '{' {
		return "(() => " + code + ")()"
	}
	return code
}

// Without a garbage collector, whose goal is then the memory limit, a run may not use more
// of the heap than with one.
func TestHeapIsBoundedWithoutCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	e, err := newPool().get()
	if err != nil {
		t.Fatal(err)
	}
	e.begin(t.Context(), 0)
	e.checkLimits()
	e.watch.Lock()
	heap, _ := e.heapSizeLocked()
	ceiling := e.watch.ceiling
	e.watch.Unlock()
	e.end()
	if most := heap + 2*e.maxHeap; ceiling == 0 || ceiling > most {
		t.Errorf("got a ceiling of %d bytes, want at most %d", ceiling, most)
	}
}
