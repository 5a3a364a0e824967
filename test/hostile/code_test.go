//go:build linux && !race

package hostile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A code is code of a workflow that runs on a client's data.
type code struct {
	isolate bool
	name    string
	code    string
	body    map[string]any
	want    func(status int, answer string) bool // nil accepts any answer
}

// served is a workflow with a route for each code.
func served(language string, codes []code) string {
	var routes, ports, nodes strings.Builder
	for i, c := range codes {
		fmt.Fprintf(&routes, "    - {method: POST, path: /%d, port: 'out[%d]'}\n", i, i+1)
		fmt.Fprintf(&ports, "    out[%d]: [{name: code-%d, port: in}]\n", i+1, i)
		isolated := ""
		if c.isolate {
			isolated = "  isolate: true\n"
		}
		fmt.Fprintf(&nodes, "- kind: snippet\n  name: code-%d\n  language: %s\n  timeout: 500ms\n%s  code: |\n    %s\n", i, language, isolated, strings.ReplaceAll(c.code, "\n", "\n    "))
	}
	return strings.NewReplacer("ROUTES\n", routes.String(), "PORTS\n", ports.String(), "NODES\n", nodes.String()).Replace(`
- kind: listener
  name: listener
  protocol: http
  host: 127.0.0.1
  port: PORT
  ports:
    out: [{name: router, port: in}]
- kind: router
  name: router
  routes:
    - {method: GET, path: /small, port: 'out[0]'}
ROUTES
  ports:
    out[0]: [{name: small, port: in}]
PORTS
- {kind: snippet, name: small, language: text, code: ok}
NODES
`)
}

// reach sends each code the body that makes it expensive, also compressed. It expects
// an answer soon, an answer for other clients meanwhile, and an idle program after it.
func reach(t *testing.T, language string, codes []code) {
	s := serve(t, 2048*mib, served(language, codes))
	for i, c := range codes {
		body, err := json.Marshal(c.body)
		if err != nil {
			t.Fatal(err)
		}
		sent := packed(t, body)
		began := time.Now()
		status, answer, err := s.ask(30*time.Second, http.MethodPost, fmt.Sprintf("/%d", i), map[string]string{
			"Content-Type": "application/json", "Content-Encoding": "gzip",
		}, sent)
		took := time.Since(began)
		if err != nil || took > 10*time.Second {
			t.Errorf("%s: error %v after %v with a timeout of 500ms", c.name, err, took)
		}
		if c.want != nil && !c.want(status, string(answer)) {
			t.Errorf("%s: got %d %.200s", c.name, status, answer)
		}
		s.alive()
		s.idle()
		t.Logf("%-28s %7d bytes sent: %d after %v, peak so far %d MiB", c.name, len(sent), status, took.Round(time.Millisecond), s.status("VmHWM")/mib)
	}
	s.peak(1536 * mib)
}

func scripts(t *testing.T) {
	export := func(expression string) string {
		return "export default function ({ body }) { return " + expression + " }"
	}
	a := strings.Repeat("a", 60000)
	failed := func(status int, _ string) bool { return status == http.StatusInternalServerError }
	reach(t, "javascript", []code{
		{false, "replaceAll", export("body.text.replaceAll(body.find, body.with)"), map[string]any{"text": a, "find": "a", "with": "$'"}, failed},
		{false, "join", export(`body.ids.map(() => body.s).join("")`), map[string]any{"ids": make([]int, 100000), "s": a + a}, failed},
		{false, "replace, long replacement", export(`body.text.replace(/a+/g, "$&".repeat(10000))`), map[string]any{"text": strings.Repeat("a", 4_000_000)}, failed},
		{false, "deep regular expression", export(`new RegExp(body.q).test("x")`), map[string]any{"q": "(?=a)" + strings.Repeat("(", 1_000_000)}, failed},
		{false, "slow regular expression", export(`/(?=a)(a+)+c|b$/.test(body.t)`), map[string]any{"t": strings.Repeat("a", 40) + "b"},
			func(status int, answer string) bool {
				return status == http.StatusInternalServerError || strings.TrimSpace(answer) == "true"
			}},
		{false, "indexOf of a length", export("Array.prototype.indexOf.call(body.a, 1)"), map[string]any{"a": map[string]any{"length": int64(9007199254740991)}}, failed},
		{false, "reverse of a length", export("Array.prototype.reverse.call(body.a)"), map[string]any{"a": map[string]any{"length": int64(9007199254740991)}}, failed},
		{false, "sort of a length", export("[].sort.call({length: body.n})"), map[string]any{"n": 4294967295}, failed},
		{false, "map of a length", export("(() => { const a = []; a.length = body.n; return a.map(x => x).length })()"), map[string]any{"n": 4294967295}, nil},
		{false, "deep JSON", export("(() => { let a = 1; for (let i = 0; i < body.n; i++) a = [a]; return JSON.stringify(a).length })()"), map[string]any{"n": 500000}, failed},
		{false, "long integer", export("String(BigInt(body.n) % 7n)"), map[string]any{"n": strings.Repeat("9", 3_000_000)}, failed},
		{false, "power", export("String((3n ** BigInt(body.n)) % 7n)"), map[string]any{"n": 100_000_000}, failed},
		{false, "shared parts", export("(() => { let a = 1; for (let i = 0; i < body.n; i++) a = {l: a, r: a}; return a })()"), map[string]any{"n": 26}, failed},
		{false, "shared parts as text", export("(() => { let a = 1; for (let i = 0; i < body.n; i++) a = {l: a, r: a}; return JSON.stringify(a).length })()"), map[string]any{"n": 26}, failed},
		{name: "compared with a long integer, isolated", isolate: true, code: export("3n == body.n"), body: map[string]any{"n": strings.Repeat("9", 4_000_000)}, want: failed},
		{false, "concatenation", export("(() => { let s = body.s; for (let i = 0; i < 40; i++) s += s; return s.length })()"), map[string]any{"s": a}, failed},
	})
}

func expressions(t *testing.T) {
	numbers := make([]int, 100_000)
	for i := range numbers {
		numbers[i] = i
	}
	a := func(n int) string { return strings.Repeat("a", n) }
	reach(t, "cel", []code{
		{false, "indexOf", "body.text.indexOf(body.find)", map[string]any{"text": a(400_000), "find": a(199_999) + "b"}, nil},
		{false, "lastIndexOf", "body.text.lastIndexOf(body.find)", map[string]any{"text": a(400_000), "find": "b" + a(199_999)}, nil},
		{false, "matches, client's pattern", "body.text.matches(body.pattern)", map[string]any{"text": a(4_000_000), "pattern": strings.Repeat("(.*)", 200)}, nil},
		{false, "matches, author's pattern", `body.mail.matches("([a-z0-9]{1,30}\\.){1,20}zz")`, map[string]any{"mail": a(8_000_000)}, nil},
		{false, "distinct", "size(body.a.distinct())", map[string]any{"a": numbers}, nil},
		{false, "sets.contains", "sets.contains(body.a, body.a)", map[string]any{"a": numbers}, nil},
		{false, "regex.replace", `size(regex.replace(body.text, "a", body.with))`, map[string]any{"text": a(1_000_000), "with": a(10_000)}, nil},
		{false, "concatenation", "size(" + doubled(30) + ")", map[string]any{"s": a(1_000)}, nil},
	})
}

// doubled returns an expression that adds a text to itself that many times.
func doubled(levels int) string {
	expression := "x0"
	for i := levels; i > 0; i-- {
		expression = fmt.Sprintf("cel.bind(x%d, x%d + x%d, %s)", i, i-1, i-1, strings.Replace(expression, "x0", fmt.Sprintf("x%d", levels), 1))
	}
	return "cel.bind(x0, body.s, " + expression + ")"
}
