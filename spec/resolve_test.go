package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

const values = `- name: db
  data: {host: db.local, password: hunter2, port: 5432}
- name: token
  namespace: default
  data: s3cr3t
- name: other
  namespace: elsewhere
  data: x
- id: 01890a5d-ac96-774b-bcce-b302099a8057
  data: [a, b]
`

func resolveAll(nodes []*Node, vars []*Variable, environment map[string]string) diag.List {
	r := NewResolver(vars, environment)
	for _, n := range nodes {
		r.Resolve(n)
	}
	return r.Findings()
}

// resolved parses, resolves, and returns the config of the first node and the
// findings as people see them.
func resolved(t *testing.T, text string) (*Node, string) {
	t.Helper()
	nodes := parsed(t, text)
	vars, list := ParseVariables(Document{File: "values.yaml", Data: []byte(values)})
	if len(list) > 0 {
		t.Fatal(list)
	}
	list = resolveAll(nodes, vars, map[string]string{"REGION": "eu", "ADDR": "localhost:81"})
	return nodes[0], rendered(t, list, text)
}

func TestResolve(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		n, list := resolved(t, text)
		if got := n.Config.ToValue().String(); got != want || list != "" {
			t.Errorf("got %s and %q, want %s", got, list, want)
		}
	}
	f("kind: a\nv: '{{ .X }}'\n", `{"v":"{{ .X }}"}`) // no env, no templates
	f("kind: a\nenv: {DB: {name: db}}\nv: '{{ .DB.host }}:{{ .DB.port }}'\nw: plain\n", `{"v":"db.local:5432","w":"plain"}`)
	f("kind: a\nenv: {P: {name: db, data: '{{ .port }}'}}\nv: [{w: '{{ .P }}'}, 1]\n", `{"v":[{"w":"5432"},1]}`)
	f("kind: a\nenv: {P: {name: db, data: {u: 'x-{{ .host }}', n: [1]}}}\nv: '{{ .P.u }}{{ index .P.n 0 }}'\n", `{"v":"x-db.local1"}`)
	f("kind: a\nenv: {REGION: , R: {data: '{{ .REGION }}!'}, C: {data: 7}}\nv: '{{ .REGION }} {{ .R }} {{ .C }}'\n", `{"v":"eu eu! 7"}`)
	f("kind: a\nenv: {L: {id: 01890a5d-ac96-774b-bcce-b302099a8057}}\nv: '{{ range .L }}<{{ . }}>{{ end }}{{ json .L }}'\n", `{"v":"<a><b>[\"a\",\"b\"]"}`)
	f("kind: a\nenv: {T: {name: token}}\nv: '{{ upper .T }}{{ default `x` `` }}'\n", `{"v":"S3CR3Tx"}`)
	f("kind: http\nenv: {ADDR: }\naddress: '{{ .ADDR }}'\n", `{"protocol":"http","host":"localhost","port":81}`)
}

// The nodes of a sub-graph see its env, and their own in addition.
func TestResolveInner(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		outer := parsed(t, text)[0]
		inner, list := ParseInner(outer.Config.Field("specs"), outer)
		outer.Config.Fields = nil
		list.Append(resolveAll(append([]*Node{outer}, inner...), nil, nil))
		var got []string
		for _, n := range inner {
			got = append(got, n.Config.ToValue().String())
		}
		if !slices.Equal(got, want) || len(list) > 0 {
			t.Errorf("%s: got %s and %v, want %s", text, got, list, want)
		}
	}
	f("kind: step\nenv: {A: {data: 1}}\nspecs:\n- {kind: b, name: '{{ .A }}', v: '{{ .A }}{{ .B }}', env: {B: {data: 2}}}\n- {kind: c, v: '{{ .A }}'}\n",
		`{"v":"12"}`, `{"v":"1"}`)
	f("kind: step\nspecs: [{kind: b, v: '{{ .B }}', env: {B: {data: 2}}}, {kind: c, v: '{{ x'}]\n", `{"v":"2"}`, `{"v":"{{ x"}`)
	f("kind: step\nenv: {A: {data: {k: [1]}}, B: {data: [x]}}\nspecs: [{kind: b, v: '{{ .A }}', w: ['{{.B}}', ' {{ .B }}']}]\n",
		`{"v":{"k":[1]},"w":[["x"]," [x]"]}`)
}

func TestResolveMarks(t *testing.T) {
	n, _ := resolved(t, "kind: a\nenv: {T: {name: token}}\nv: |\n  a\n  {{ .T }}\nw: x\n")
	v, w := n.Config.Field("v"), n.Config.Field("w")
	if !v.Templated || w.Templated || !v.Text.Hidden || v.Text.Code != "a\ns3cr3t\n" {
		t.Errorf("got %+v and %+v, want the first marked as templated", v, w)
	}
	if got, want := v.Text.Pos(2, 3).String(), "x.yaml:5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestResolveFindings(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, got := resolved(t, text)
		if got != strings.TrimPrefix(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		for _, secret := range []string{"hunter2", "s3cr3t", "db.local"} {
			if strings.Contains(got, secret) {
				t.Errorf("got a finding that shows the secret %q:\n%s", secret, got)
			}
		}
	}
	f("kind: a\nname: n\nenv:\n  DB: {name: bd}\n  R: {}\n  REGOIN:\nv: '{{ .X }}'\n", `
x.yaml:4:14: node "n": env.DB: no variable "bd" in namespace "default" [F1012]
    4 |   DB: {name: bd}
      |              ^
      hint: did you mean "db"?
x.yaml:5:3: node "n": env.R: "R" is not in the environment [F1012]
    5 |   R: {}
      |   ^
      hint: start with --environment R=…, or name a variable
x.yaml:6:3: node "n": env.REGOIN: "REGOIN" is not in the environment [F1012]
    6 |   REGOIN:
      |   ^
      hint: did you mean "REGION"?
`)
	f("kind: a\nenv: {O: {name: other}}\n", `
x.yaml:2:17: node "a": env.O: no variable "other" in namespace "default" [F1012]
    2 | env: {O: {name: other}}
      |                 ^
      hint: put it into a values file, and load that with --from-values
`)
	f("kind: a\nenv: {DB: {name: db}, T: {name: token}}\nv:\n  - x {{ .DB.pasword }}\n  - '{{ .BD }}'\n  - '{{ .T.x }}'\n  - '{{ .T'\n  - '{{ index .T 99 }}'\n  - '{{ slice .DB.password 1 99 }}'\n  - '{{ nofunc .T }}'\n", `
x.yaml:4:13: node "a": v[0]: the template uses .DB.pasword, which is not bound [F1011]
    4 |   - x {{ .DB.pasword }}
      |             ^
      hint: did you mean "password"?
x.yaml:5:9: node "a": v[1]: the template uses .BD, which is not bound [F1011]
    5 |   - '{{ .BD }}'
      |         ^
      hint: did you mean "DB"?
x.yaml:6:11: node "a": v[2]: the template uses .T.x, which is not bound [F1011]
    6 |   - '{{ .T.x }}'
      |           ^
      hint: what stands before it has no fields
x.yaml:7:6: node "a": v[3]: the template does not parse: unclosed action [F1010]
    7 |   - '{{ .T'
      |      ^
      hint: a key stands between its braces, as in {{ .KEY }}: close them with }}
x.yaml:8:9: node "a": v[4]: the template cannot be rendered: index .T 99 does not fit the data [F1010]
    8 |   - '{{ index .T 99 }}'
      |         ^
      hint: check the value of the variable; it is not shown here
x.yaml:9:9: node "a": v[5]: the template cannot be rendered: slice .DB.password 1 99 does not fit the data [F1010]
    9 |   - '{{ slice .DB.password 1 99 }}'
      |         ^
      hint: check the value of the variable; it is not shown here
x.yaml:10:6: node "a": v[6]: the template does not parse: function "nofunc" not defined [F1010]
   10 |   - '{{ nofunc .T }}'
      |      ^
      hint: a key begins with a dot, as in {{ .nofunc }}; other words are functions
`)
	f("kind: a\nenv: {T: {data: 1}}\nv: '{{ define `x` }}{{ end }}'\nw: '{{ range 1000000000 }}{{ end }}'\nx: '{{ template `v` }}'\n", `
x.yaml:3:5: node "a": v: the template does not parse: a template cannot define others [F1010]
    3 | v: '{{ define `+"`x`"+` }}{{ end }}'
      |     ^
x.yaml:4:5: node "a": w: the template does not parse: range needs a list or a map [F1010]
    4 | w: '{{ range 1000000000 }}{{ end }}'
      |     ^
x.yaml:5:5: node "a": x: the template does not parse: a template cannot call others [F1010]
    5 | x: '{{ template `+"`v`"+` }}'
      |     ^
`)
	f("kind: http\nenv: {T: {name: token}}\naddress: '{{ .T }}'\n", `
x.yaml:3:10: node "listener": address: want an address such as :8000, got text from a template [F2003]
    3 | address: '{{ .T }}'
      |          ^
`)
}

func TestParseVariables(t *testing.T) {
	vars, list := ParseVariables(Document{File: "v.yaml", Data: []byte(values)})
	if len(list) > 0 || len(vars) != 4 {
		t.Fatalf("got %d variables and %v, want 4", len(vars), list)
	}
	if host, _ := vars[0].Data.Get("host"); !host.Equal(value.String("db.local")) || vars[0].Namespace != "" || vars[2].Namespace != "elsewhere" {
		t.Errorf("got %+v, want what is written", vars[0])
	}
	text := "- secret\n- {data: hunter2}\n- {name: a}\n- {name: b, data: 1, dta: hunter2}\n- {name: 7, data: hunter2}\n"
	_, list = ParseVariables(Document{File: "v.yaml", Data: []byte(text)})
	got := rendered(t, list, text)
	want := `v.yaml:1:3: a variable is a map, not a string [F1017]
      hint: write {name: NAME, data: …}
v.yaml:2:3: the variable has neither name nor id [F1017]
      hint: name it, so that env can refer to it
v.yaml:3:3: the variable has no data [F1017]
      hint: give it data
v.yaml:4:22: variable.dta: unknown field [F1015]
      hint: did you mean "data"?
v.yaml:5:10: name: want a string, got an integer [F1004]
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	one, _ := ParseVariables(Document{File: "a.yaml", Data: []byte("- {name: a, data: 1}\n- {name: a, data: 2}\n")})
	list = resolveAll(nil, one, nil)
	if got, want := list.Error(), `a.yaml:2:3: the name "a" is already used at a.yaml:1:3 [F1017]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
