package javascript

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// An attack is code that an author could have written, and what a client sends so that it
// uses up time or memory.
type attack struct {
	code string
	in   string // JSON; $a is 60,000 letters, $m 4 million, $d 3 million digits, $( a million parentheses
	want string // in the error, unless the run was stopped before; "" if it must be stopped
}

const refused = "more than the limit"

// attacks ended the process, or ran for ever, before there were limits. Each must end with
// an error.
func attacks() []attack {
	huge := `{"length":9007199254740991}`
	list := []attack{
		{"i => i.text.replaceAll('a', i.with)", `{"text":"$a","with":"$'"}`, refused},
		{"i => i.text.replaceAll('a', i.with)", "{\"text\":\"$a\",\"with\":\"$`\"}", refused},
		{"i => i.text.replace(/a/g, i.with)", `{"text":"$a","with":"$'"}`, refused},
		{"i => i.text.replace(/a+/g, '$&'.repeat(i.n))", `{"text":"$m","n":10000}`, refused},
		{"i => i.text.replace(/(?=(a*))a/g, i.with)", `{"text":"$a","with":"$1"}`, ""},
		{"i => i.text.replace(/a/g, '')", `{"text":"$m"}`, "matches"},
		{"i => i.text.replace(/a/g, () => i.text)", `{"text":"$a"}`, refused},
		{"i => i.text.replaceAll('a', () => i.text)", `{"text":"$a"}`, refused},
		{"i => i.text.replace([i.find], i.with)", `{"text":"$m","find":"$a","with":"$'$'$'$'$'$'$'$'$'$'$'$'$'$'$'$'$'$'$'$'"}`, refused},
		{"i => Array(i.n).fill(0).map(() => i.text).join('')", `{"text":"$m","n":1000}`, refused},
		{"i => { let a = [i.text]; for (let k = 0; k < i.n; k++) a = [a, a]; return String(a) }", `{"text":"$a","n":26}`, refused},
		{"i => { let a = []; for (let k = 0; k < i.n; k++) a = [a]; return a + '' }", `{"n":50000}`, "nests deeper"},
		{"i => ''.concat(...Array(i.n).fill(i.text))", `{"text":"$m","n":100}`, refused},
		{"i => { let s = i.text; for (let k = 0; k < i.n; k++) s += s; return s.length }", `{"text":"$m","n":26}`, ""},
		{"i => { let s = i.text; for (let k = 0; k < i.n; k++) s = `${s}${s}`; return s.length }", `{"text":"$m","n":26}`, ""},
		{"i => { const kept = []; for (;;) kept.push({ i, kept: [kept.length] }) }", `{}`, ""},
		{"i => { const kept = {}; for (let k = 0; ; k++) kept['k' + k] = [k] }", `{}`, ""},
		{"i => ({ ...i.text })", `{"text":"$m"}`, refused},
		{"i => Object.entries(i.text)", `{"text":"$m"}`, refused},
		{"i => Object.assign({}, i.text)", `{"text":"$m"}`, refused},
		{"i => [...(i.text + i.text + i.text)]", `{"text":"$m"}`, refused},
		{"i => i.text.replaceAll('a', 'b')", `{"text":"$m"}`, "matches"},
		{"i => JSON.parse('[' + '[],'.repeat(i.n) + '0]')", `{"n":4000000}`, refused},

		{"i => new RegExp(i.q)", `{"q":"(?=a)$("}`, "regular expression"},
		{"i => RegExp(i.q)", `{"q":"(?=a)$("}`, "regular expression"},
		{"i => 'x'.match(i.q)", `{"q":"(?=a)$("}`, "regular expression"},
		{"i => 'x'.search(i.q)", `{"q":"(?=a)$("}`, "regular expression"},
		{"i => 'x'.matchAll(i.q)", `{"q":["(?=a)$("]}`, "regular expression"},
		{"i => /x/.compile(i.q)", `{"q":"(?=a)$("}`, "regular expression"},
		{"i => new RegExp(i.q.repeat(3000))", `{"q":"(?:.{1000})"}`, "too large"},
		{"i => new RegExp('(.*)'.repeat(i.n)).test(i.text + '\\n' + i.text)", `{"n":200,"text":"$m"}`, ""},
		{"i => i.text.match(/([a-z0-9]{1,30}\\.){1,20}zz/)", `{"text":"$m"}`, ""},
		{"i => i.text.replace(/a+b|a/g, '')", `{"text":"$m"}`, ""},
		{"i => i.text.split(/a+b|a/).length", `{"text":"$m"}`, ""},
		{"i => [...i.text.matchAll(/a+b|a/g)].length", `{"text":"$m"}`, ""},
		{"i => /(?=a)(a+)+c|b$/.test(i.text.slice(0, 40) + 'b')", `{"text":"$a"}`, ""},
		{"i => /(?=a)(a+)+c|b$/.exec(i.text.slice(0, 40) + 'b')", `{"text":"$a"}`, ""},
		{"i => (i.text.slice(0, 40) + 'b').search(/(?=a)(a+)+c|b$/)", `{"text":"$a"}`, ""},
		{"i => (i.text.slice(0, 40) + 'b').match(/(?=a)(a+)+c|b$/g)", `{"text":"$a"}`, ""},
		{"i => (i.text.slice(0, 40) + 'b').replace(/(?=a)(a+)+c|b$/, '')", `{"text":"$a"}`, ""},
		{"i => (i.text.slice(0, 40) + 'b').split(/(?=a)(a+)+c|b$/)", `{"text":"$a"}`, ""},
		{"i => i.text.replace(/(?=a)(a{1,18})+c|a/g, '')", `{"text":"$a"}`, ""},
		{"i => { const r = /(a+)+c/y; r.lastIndex = 1; return r.test(i.text.slice(0, 60)) }", `{"text":"$a"}`, ""},
		{"i => i.list.some(RegExp.prototype.test, /(?=a)(a+)+c/)", `{"list":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]}`, ""},

		{"i => BigInt(i.n)", `{"n":"$d"}`, "digits"},
		{"i => BigInt([i.n])", `{"n":"$d"}`, "digits"},
		{"i => 3n ** BigInt(i.n)", `{"n":100000000}`, "BigInt"},
		{"i => { let x = 3n; x **= BigInt(i.n); return x }", `{"n":100000000}`, "BigInt"},
		{"i => i.a ** i.b", `{"a":9007199254740993,"b":9007199254740993}`, "BigInt"},
		{"i => 1n << BigInt(i.n)", `{"n":100000000000}`, "BigInt"},
		{"i => { let x = 1n; x <<= BigInt(i.n); return x }", `{"n":100000000000}`, "BigInt"},
		{"i => i.a << i.b", `{"a":9007199254740993,"b":9007199254740993}`, "BigInt"},
		{"i => BigInt.asUintN(i.n, 1n)", `{"n":9007199254740991}`, "bits"},
		{"i => { let x = 3n; for (;;) x *= x }", `{}`, ""},

		{"i => { let a = 1; for (let k = 0; k < i.n; k++) a = { l: a, r: a }; return a }", `{"n":26}`, "result"},
		{"i => { let a = 1; for (let k = 0; k < i.n; k++) a = { l: a, r: a }; return JSON.stringify(a) }", `{"n":26}`, ""},
		{"i => { let a = []; for (let k = 0; k < i.n; k++) a = [a]; return JSON.stringify(a) }", `{"n":50000}`, "nests deeper"},
		{"i => Array(i.n).fill(i)", `{"n":100000,"text":"$a"}`, "result"},
		{"i => JSON.stringify(Array(i.n).fill(i))", `{"n":100000,"text":"$a"}`, ""},
		{"i => JSON.stringify(i, Object.assign([], { length: 4294967295 }))", `{}`, refused},
		{"i => { const a = []; a[i.n] = 1; return JSON.stringify(a) }", `{"n":4294967290}`, refused},
		{"i => { const a = []; a[i.n] = 1; return a }", `{"n":4294967290}`, "elements"},
		{"i => { const a = []; a[i.n] = 1; return Math.max(...a) }", `{"n":4294967290}`, refused},
		{"i => { const a = []; a[i.n] = 1; return [...a] }", `{"n":4294967290}`, refused},
		{"i => { const a = []; a[i.n] = 1; return new Set(a).size }", `{"n":4294967290}`, refused},
		{"i => { const a = []; a[i.n] = 1; const [b, ...c] = a; return c.length }", `{"n":4294967290}`, refused},
		{"i => { const a = []; a[i.n] = 1; return Promise.all(a) }", `{"n":4294967290}`, refused},
		{"i => { const a = []; a[i.n] = 1; return [a, a].flat() }", `{"n":4294967290}`, refused},
		{"i => { const a = []; a[i.n] = 1; return String(a) }", `{"n":4294967290}`, refused},
		{"i => { const a = []; a.length = i.n; return a.map(x => x) }", `{"n":4294967295}`, refused},
		{"i => [].sort.call(i)", `{"length":4294967295}`, refused},
		{"i => Array.from(i)", huge, refused},
		{"i => Uint8Array.from(i)", huge, refused},
		{"i => new Float64Array(i)", huge, refused},
		{"i => String.raw({ raw: i })", huge, refused},
		{"i => [].concat({ ...i, [Symbol.isConcatSpreadable]: true })", huge, refused},
		{"i => [...Array.prototype.values.call(i)]", huge, refused},
		{"i => Math.max.apply(null, i)", huge, refused},
		{"i => { let k = 0; return [].indexOf.call({ get length() { return k++ ? i.n : 1 } }, 1) }", `{"n":1099511627776}`, "computed"},
		{"i => { let k = 0; return [].indexOf.call({ length: { valueOf() { return k++ ? i.n : 1 } } }, 1) }", `{"n":1099511627776}`, "computed"},
		{"i => { let k = 0; return [].indexOf.call(new Proxy({}, { get() { return k++ ? i.n : 1 } }), 1) }", `{"n":1099511627776}`, "computed"},
		{"i => new Uint8Array(new Proxy({}, { get: (_, key) => key === 'length' ? i.n : undefined }))", `{"n":1099511627776}`, refused},
		{"i => { const a = new Uint8Array(i.n); Object.defineProperty(a, 'length', { value: 1 }); return new Float64Array(a) }", `{"n":60000000}`, refused},
		{"i => new ArrayBuffer({ valueOf: () => i.n })", `{"n":1099511627776}`, refused},
		{"i => { let k = 0; return ''.padStart({ valueOf() { return k++ ? 1 : i.n } }) }", `{"n":300000000}`, refused},
		{"i => { let k = 0, a = ''; for (;;) a += ''.padStart({ valueOf() { return k++ % 2 ? i.n : 1 } }).length }", `{"n":300000000}`, refused},
		{"i => [].join.call('b'.repeat(8000000), i.text)", `{"text":"$m"}`, refused},
		{"i => { let d = []; for (let k = 0; k < i.n; k++) d = [d]; return JSON.stringify(1, (k, v) => k === '' ? d : v) }", `{"n":50000}`, "nests deeper"},
		{"i => { let d = [], c = 0; for (let k = 0; k < i.n; k++) d = { d }; return JSON.stringify({ toJSON: () => c++ ? d : [] }, ['d']).length.no.no }", `{"n":50000}`, "undefined"},
		{"i => JSON.stringify(1, Object.assign([], { length: 4294967295 }))", `{}`, refused},
		{"i => JSON.stringify(1, new Proxy([], { get: () => 4294967295 }))", `{}`, refused},
		{"i => { const a = new Float64Array(i.n); for (;;) a.sort() }", `{"n":2000000}`, ""},
		{"i => { const a = new Uint8Array(i.n); Object.defineProperty(a, 'length', { value: 1 }); return a.sort() }", `{"n":60000000}`, "compares"},
		{"i => { const a = Array(i.n).fill(0); for (let k = 0; k < i.n; k++) a[k] = i.n - k; return a.sort() }", `{"n":3000000}`, ""},
	}
	for _, method := range strings.Fields("copyWithin every fill filter find findIndex findLast findLastIndex flat flatMap forEach includes indexOf join " +
		"lastIndexOf map reduce reduceRight reverse shift slice some splice toLocaleString toReversed toSorted toSpliced unshift with") {
		list = append(list, attack{"i => [][" + fmt.Sprintf("%q", method) + "].call(i, () => 0, 1)", huge, refused})
	}
	return list
}

// attacked is the environment variable of the attacked process. Its memory is limited, so
// that a successful attack ends it, and not the machine.
const attacked = "UNIFLOW_TEST_ATTACKED"

// Each attack ends soon after the timeout, without much memory.
func TestAttacks(t *testing.T) {
	if os.Getenv(attacked) == "" {
		binary, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, "-test.run=^TestAttacks$", "-test.v")
		cmd.Env = append(os.Environ(), attacked+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("got %v, want the process to survive:\n%s", err, tail(string(out), 6000))
		}
		return
	}
	if err := limitMemory(3 << 30); err != nil {
		t.Fatal(err)
	}
	l := New()
	for n, a := range attacks() {
		p := compile(t, l, "export default "+a.code, lang.Options{Timeout: 500 * time.Millisecond})
		in := fromJSON(t, strings.NewReplacer("$a", strings.Repeat("a", 60_000), "$m", strings.Repeat("a", 4<<20),
			"$d", strings.Repeat("9", 3_000_000), "$(", strings.Repeat("(", 1_000_000)).Replace(a.in))
		began := time.Now()
		got, err := p.Eval(t.Context(), in)
		took := time.Since(began)
		t.Logf("%3d %8s %s", n, took.Round(time.Millisecond), a.code)
		if err == nil {
			t.Errorf("%s: got a %v, want an error", a.code, got.Kind())
			continue
		}
		stopped := strings.Contains(err.Error(), "timed out") || strings.Contains(err.Error(), "memory grew") || strings.Contains(err.Error(), "too slow")
		if !stopped && (a.want == "" || !strings.Contains(err.Error(), a.want)) {
			t.Errorf("%s: got %v, want a timeout or an error with %q", a.code, err, a.want)
		}
		if took > 30*time.Second { // 60 times the timeout
			t.Errorf("%s: got an answer after %v, want one soon after the timeout", a.code, took)
		}
	}
	p := compile(t, l, "export default i => i.text.replaceAll('a', 'b').length", lang.Options{Timeout: 20 * time.Second})
	if got, err := p.Eval(t.Context(), fromJSON(t, `{"text":"aaa"}`)); err != nil || !got.Equal(value.Int(3)) {
		t.Errorf("after the attacks: got %v, %v, want 3", got, err)
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
