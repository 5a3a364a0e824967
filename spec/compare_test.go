package spec

import (
	"fmt"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	const base = `- kind: snippet
  name: a
  code: self
  ports: {out: b}
- kind: log
  name: b
  deep: {list: [{x: 1}, {y: 2}], other: 3}
- {kind: log, message: one}
- {kind: log, message: two}
`
	for name, c := range map[string]struct{ after, want string }{
		"nothing":           {base, ""},
		"comments":          {"# x\n" + strings.ReplaceAll(base, "  code: self", "  # y\n  code:   'self'"), ""},
		"a field":           {strings.Replace(base, "self", "self.x", 1), `a: code self -> self.x`},
		"deep":              {strings.Replace(base, "y: 2", "y: 3", 1), `b: deep.list[1].y 2 -> 3`},
		"a list grows":      {strings.Replace(base, "{y: 2}", "{y: 2}, {z: 1}", 1), `b: deep.list [{"x":1},{"y":2}] -> [{"x":1},{"y":2},{"z":1}]`},
		"a link":            {strings.Replace(base, "{out: b}", "{out: [b, a], error: b}", 1), `a: ports.out ["b:in"] -> ["b:in","a:in"], ports.error null -> ["b:in"]`},
		"added":             {base + "- {kind: log, name: c}\n", "+ c"},
		"removed":           {strings.Replace(base, "- {kind: log, message: one}\n", "", 1), "- log"},
		"before the others": {"- {kind: log, message: zero}\n" + base, "+ log"},
		"renamed":           {strings.Replace(base, "name: b", "name: c", 1), "- b; + c"},
		"an unnamed one":    {strings.Replace(base, "two", "three", 1), `log: message two -> three`},
		"kind":              {strings.Replace(base, "kind: log\n  name: b", "kind: nop\n  name: b", 1), `b: kind log -> nop`},
		"env":               {strings.Replace(base, "name: b\n", "name: b\n  env: {K: {name: v}}\n  annotations: {n: 1}\n  lifecycle: {timeout: 2s}\n", 1), `b: lifecycle.timeout 0s -> 2s, annotations.n null -> 1, env.K null -> {"id":null,"name":"v","data":null}`},
	} {
		before, _ := Parse(Document{File: "a.yaml", Data: []byte(base)}, ParseOptions{})
		after, list := Parse(Document{File: "a.yaml", Data: []byte(c.after)}, ParseOptions{})
		if list.HasErrors() {
			t.Fatal(list)
		}
		var all []string
		for _, change := range Compare(before, after) {
			called := func(n *Node) string {
				if n.Name != "" {
					return n.Name
				}
				return n.Kind
			}
			switch {
			case change.Before == nil:
				all = append(all, "+ "+called(change.After))
			case change.After == nil:
				all = append(all, "- "+called(change.Before))
			default:
				var fields []string
				for _, f := range change.Fields {
					fields = append(fields, fmt.Sprintf("%s %v -> %v", f.Path, f.Before, f.After))
				}
				all = append(all, called(change.Before)+": "+strings.Join(fields, ", "))
			}
		}
		if got := strings.Join(all, "; "); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
