package spec

import (
	"strings"
	"testing"
)

const ping = `- kind: listener
  name: listener
  protocol: http
  port: 8000
  ports:
    out:
      - name: router
        port: in

- kind: router
  name: router
  routes:
    - method: GET
      path: /ping
      port: out[0]
  ports:
    out[0]:
      - name: pong
        port: in

- kind: snippet
  name: pong
  language: text
  code: pong
`

const pingLegacy = `- kind: http
  name: server
  address: :8000
  links:
    out:
      - name: route
        port: in

- kind: route
  name: route
  routes:
    - method: GET
      path: /ping
      port: out[0]
  links:
    out[0]:
      - name: pong
        port: io

- kind: snippet
  name: pong
  code: pong
`

const pingToday = `- kind: listener
  name: server
  protocol: http
  port: 8000
  ports:
    out:
      - name: route
        port: in

- kind: router
  name: route
  routes:
    - method: GET
      path: /ping
      port: out[0]
  ports:
    out[0]:
      - name: pong
        port: in

- kind: snippet
  name: pong
  language: text
  code: pong
`

// format formats a document twice and checks what must hold of every document.
func format(t *testing.T, text string) string {
	t.Helper()
	once, list := Format(Document{File: "x.yaml", Data: []byte(text)})
	if len(list) > 0 {
		t.Fatalf("Format(%q): got %v, want no findings", text, list)
	}
	twice, list := Format(Document{File: "x.yaml", Data: once})
	if len(list) > 0 {
		t.Fatalf("Format of the formatted\n%s\ngot %v, want no findings", once, list)
	}
	if string(once) != string(twice) {
		t.Fatalf("formatting twice: got\n%s\nwant\n%s\nfor\n%s", twice, once, text)
	}
	return string(once)
}

func TestFormat(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := format(t, in); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	f(ping, ping)
	f(pingLegacy, pingToday)
	f("", "")
	f("# only a comment\n", "# only a comment\n")
	f("ports: {out: [{name: a, port: in}]}\nname: b\ncode: x\nkind: snippet\n",
		"kind: snippet\nname: b\nlanguage: text\ncode: x\nports: {out: [{name: a, port: in}]}\n")
	f("-   kind:   snippet\n    code:   |-\n            a\n              b\n\n            c\n",
		"- kind: snippet\n  language: text\n  code: |-\n    a\n      b\n\n    c\n")
	f("- kind: if\n  when: >\n      a &&\n      b\n\n  name: x # the name\n",
		"- kind: if\n  name: x # the name\n  when: >\n    a &&\n    b\n")
	f("- kind: a\n- kind: b\n", "- kind: a\n\n- kind: b\n")
	f("# head\n\n# above a\n- kind: a # eol\n  # inside a\n  code: '#no'\n  # end of a\n\n# above b\n- kind: b\n  # tail of b\n# tail\n",
		"# head\n\n# above a\n- kind: a # eol\n  # inside a\n  code: '#no'\n  # end of a\n\n# above b\n- kind: b\n  # tail of b\n# tail\n")
	f("- # odd\n  kind: a\n  ports: # here\n    out: [ # first\n      {name: b, port: in}, # second\n    ]\n",
		"# odd\n- kind: a\n  ports: # here\n    out: # first\n      - {name: b, port: in} # second\n")
	f("kind: a\n---\n# second\nkind: b\n", "kind: a\n---\n# second\nkind: b\n")
	f("- name: x # why x\n  # about kind\n  kind: a\n", "# about kind\n- kind: a\n  name: x # why x\n")
	f("- &base\n  name: a\n  kind: nop\n- <<: *base\n  name: b\n", "- &base\n  name: a\n  kind: nop\n\n- <<: *base\n  name: b\n")
	f("- kind: step\n  specs:\n  - {kind: snippet, code: a}\n  - code: b\n    kind: route\n",
		"- kind: step\n  specs:\n    - {kind: snippet, language: text, code: a}\n    - kind: router\n      code: b\n")
	f("kind: snippet\nenv:\n  KEY: [{name: v}]\ncode: \"a\\\n  b\"\n", "kind: snippet\nenv:\n  KEY: {name: v}\nlanguage: text\ncode: \"ab\"\n")
	f("- &a\n  kind: snippet\n  name: x\n  # above the code\n  code: a # eol\n- {<<: *a, name: y}\n",
		"- &a\n  kind: snippet\n  name: x\n  # above the code\n  language: text\n  code: a # eol\n\n- {<<: *a, name: y}\n")
	f("ports: {out: b, \"out[1]\": [c, {name: d}]} # short\nkind: a\n", "kind: a\nports: {out: b, \"out[1]\": [c, {name: d}]} # short\n")
	f("- kind: a\n  links:\n     out: b c # first\n     # above the second\n     'out[1]': \"5\"\n     error: [ # third\n       d, e ]\n",
		"- kind: a\n  ports:\n    out: b c # first\n    # above the second\n    'out[1]': \"5\"\n    error: [d, e] # third\n")
	f("kind: snippet\nlanguage: cel\ncode: a\n", "kind: snippet\nlanguage: cel\ncode: a\n")
	f("kind: a\r\ncode: |\r\n  x\r\n  y\r\n", "kind: a\ncode: |\n  x\n  y\n")
	f("kind: http\naddress: '{{ .ADDR }}'\nenv: {ADDR: }\n", "kind: http\nenv: {ADDR: null}\naddress: '{{ .ADDR }}'\n")
}

func TestFormatJSON(t *testing.T) {
	got, list := Format(Document{File: "x.json", Data: []byte(`[{"name":"a","kind":"snippet","code":"<\n>","n":[1,2.50,null,true],"e":{},"links":{"out":[{"name":"b","port":"io"}]}}]`)})
	want := `[
  {
    "kind": "snippet",
    "name": "a",
    "language": "text",
    "code": "<\n>",
    "n": [
      1,
      2.50,
      null,
      true
    ],
    "e": {},
    "ports": {
      "out": [
        {
          "name": "b",
          "port": "in"
        }
      ]
    }
  }
]
`
	if len(list) > 0 || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, list, want)
	}
}

func FuzzFormat(f *testing.F) {
	for _, text := range append(seeds(), ping, pingLegacy) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return // larger documents show nothing that smaller ones do not
		}
		once, list := Format(Document{File: "x.yaml", Data: []byte(text)})
		for _, d := range list {
			if d.Code == "F9001" {
				t.Fatalf("%s\nfor\n%s", d, text)
			}
		}
		if list.HasErrors() {
			return
		}
		format(t, text)
		if got, want := strings.Count(string(once), "#"), strings.Count(text, "#"); got < want && !strings.ContainsAny(text, `"'%`) {
			t.Fatalf("comments were lost: got\n%s\nfor\n%s", once, text)
		}
	})
}

func seeds() []string {
	return []string{
		"", "---\n---\n", "a: [1, {b: c}]\n", "- kind: x\n  code: |+\n    a\n\n\n- kind: y\n",
		"&a [*a]", "a: &a [x]\nb: *a\n", "<<: {a: b}\n", "? [a]\n: b\n", "kind: !!binary aGk=\n",
		"code: >-\n  a\n  b\n\n   c\n  d\n# c\n", "'a b': \"x\\ty\" # c\n", "- - - a\n  # b\n  - c\n",
		"kind: http\naddress: 1.2.3.4:80\nlinks:\n  out: {name: a, port: io}\n",
		"env:\n  A: {data: '{{ .B }}'}\ncode: '{{ .A }}'\n", "\tx: 1\n", "%YAML 1.2\n---\na: 1\n...\n# e\n",
		"id: 1\nname: [\nkind", "a: 12345678901234567890123\n", "a: 0x1F\nb: 0o17\nc: 1e3\nd: .inf\n",
		"kind: a\nports: {out: b, 'out[1]': [c, {name: d, port: e}], error: \"f g\"}\n",
		"- kind: block\n  specs:\n    - {kind: x, links: {out: y}}\n  inbounds: {in: $0}\n  outbounds:\n    out: # c\n      - $0 # d\n      - 5\n  ports: {out: ~, 'out[0]': '', error: [[a]]}\n",
		"a:\n\n\n  b: |2\n     x\n   y\n", "k: \"é\n  y\" # z\n", "a: # x\n  # y\n  - b # z\n# w\n",
	}
}
