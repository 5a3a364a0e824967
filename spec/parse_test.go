package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func parsed(t *testing.T, text string) []*Node {
	t.Helper()
	nodes, list := Parse(Document{File: "x.yaml", Data: []byte(text)}, ParseOptions{})
	if len(list) > 0 {
		t.Fatalf("got %v, want no findings for\n%s", list, text)
	}
	return nodes
}

// findings renders what Parse reports.
func findings(t *testing.T, text string) string {
	t.Helper()
	_, list := Parse(Document{File: "x.yaml", Data: []byte(text)}, ParseOptions{})
	return rendered(t, list, text)
}

func rendered(t *testing.T, list diag.List, text string) string {
	t.Helper()
	var b strings.Builder
	if err := diag.Render(&b, list, func(string) []byte { return []byte(text) }, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestParsePing(t *testing.T) {
	for _, text := range []string{ping, pingLegacy} {
		nodes := parsed(t, text)
		var got []string
		for _, n := range nodes {
			got = append(got, fmt.Sprintf("%s %s/%s %v %s", n.Kind, n.Namespace, n.Name, n.Config.ToValue(), n.Pos))
			for _, p := range n.Ports {
				for _, l := range p.Links {
					got = append(got, fmt.Sprintf("%s -> %s.%s %s %s %s", p.Name, l.Name, l.Port, l.Pos, l.NamePos, l.PortPos))
				}
			}
		}
		want := `listener default/listener {"protocol":"http","port":8000} x.yaml:1:3
out -> router.in x.yaml:7:9 x.yaml:7:15 x.yaml:8:15
router default/router {"routes":[{"method":"GET","path":"/ping","port":"out[0]"}]} x.yaml:10:3
out[0] -> pong.in x.yaml:18:9 x.yaml:18:15 x.yaml:19:15
snippet default/pong {"language":"text","code":"pong"} x.yaml:21:3`
		if text == pingLegacy {
			want = `listener default/server {"protocol":"http","port":8000} x.yaml:1:3
out -> route.in x.yaml:6:9 x.yaml:6:15 x.yaml:7:15
router default/route {"routes":[{"method":"GET","path":"/ping","port":"out[0]"}]} x.yaml:9:3
out[0] -> pong.in x.yaml:17:9 x.yaml:17:15 x.yaml:18:15
snippet default/pong {"code":"pong"} x.yaml:20:3`
			if len(nodes[0].Older) != 3 || len(nodes[1].Older) != 3 || len(nodes[2].Older) != 0 {
				t.Errorf("got %v, %v, %v, want what was older", nodes[0].Older, nodes[1].Older, nodes[2].Older)
			}
			if got, want := nodes[0].Config.Field("port").Pos.String(), "x.yaml:3:12"; got != want {
				t.Errorf("port made of the address: got %s, want %s", got, want)
			}
		}
		if s := strings.Join(got, "\n"); s != want {
			t.Errorf("got\n%s\nwant\n%s", s, want)
		}
	}
}

func TestParseForms(t *testing.T) {
	f := func(text string, want int) {
		t.Helper()
		if got := len(parsed(t, text)); got != want {
			t.Errorf("got %d nodes, want %d, for %q", got, want, text)
		}
	}
	f("", 0)
	f("---\n# nothing\n", 0)
	f("[]", 0)
	f("kind: nop", 1)
	f("\ufeffkind: nop", 1)
	f("kind: nop\n---\n- kind: nop\n- kind: nop\n---\n", 3)
	f(`{"kind":"nop","name":"a","ports":{"out":{"name":"b"}}}`, 1)
	f(`[{"kind":"nop"},{"kind":"nop"}]`, 2)
	f("- &a\n  kind: nop\n- *a\n- <<: *a\n  name: b\n- <<: [*a, {x: 1}]\n", 4)
}

func TestParseFindings(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := findings(t, text); got != strings.TrimPrefix(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	f("kind: [a\nname: b\n", `
x.yaml:1:7: the bracket that is opened here is not closed [F1001]
    1 | kind: [a
      |       ^
      hint: close it with ] or }; put text that begins with a bracket in quotes
`)
	f("kind: x\n\tname: y\n", `
x.yaml:2:1: a tab character stands in the indentation [F1001]
    2 |     name: y
      | ^
      hint: indent with spaces, not tabs
`)
	f("kind: x\nname: a\x00b\n", `
x.yaml:2:8: the control character U+0000 is not allowed [F1001]
    2 | name: a�b
      |        ^
      hint: write it as an escape in a quoted string
`)
	f("kind: \xff\n", `
x.yaml:1:7: the byte 0xff is not UTF-8 [F1001]
    1 | kind: �
      |       ^
      hint: documents are UTF-8
`)
	f("- pong\n- null\n- [x]\n", `
x.yaml:1:3: a spec is a map, not a string [F1002]
    1 | - pong
      |   ^
      hint: write fields such as kind: snippet
x.yaml:2:3: a spec is a map, not null [F1002]
    2 | - null
      |   ^
      hint: write fields such as kind: snippet
x.yaml:3:3: a spec is a map, not a list [F1002]
    3 | - [x]
      |   ^
      hint: write fields such as kind: snippet
`)
	f("kund: nop\nname: a\n", `
x.yaml:1:1: node "a": kind: missing [F1005]
    1 | kund: nop
      | ^
      hint: did you mean kind in place of "kund"?
`)
	f("type: nop\nname: a\n", `
x.yaml:1:1: node "a": kind: missing [F1005]
    1 | type: nop
      | ^
      hint: did you mean kind in place of "type"?
`)
	f("name: pong\nname: x\nid: abc\nnamespace: 1\n", `
x.yaml:1:1: node "pong": kind: missing [F1005]
    1 | name: pong
      | ^
      hint: say which kind of node it is, such as kind: snippet
x.yaml:2:1: the key "name" is already at x.yaml:1:1 [F1003]
    2 | name: x
      | ^
      hint: keep one of the two
x.yaml:3:5: node "pong": id: "abc" is not a UUID [F1009]
    3 | id: abc
      |     ^
      hint: leave id out, or write one such as 01890a5d-ac96-774b-bcce-b302099a8057
x.yaml:4:12: node "pong": namespace: want a string, got an integer [F1004]
    4 | namespace: 1
      |            ^
      hint: put quotes around it: "1"
`)
	f("kind: a\nports:\n  out: b\n  error:\n    - {port: in}\n    - {nmae: x}\n    - {name: x, id: 01890a5d-ac96-774b-bcce-b302099a8057}\n    - x\nlinks: {}\n", `
x.yaml:9:1: node "a": links: links is the older name of ports, and the spec has both [F1014]
    9 | links: {}
      | ^
      hint: move its entries to ports
`)
	f("kind: a\nports:\n  out: 5\n  error:\n    - {port: in}\n    - {nmae: x}\n    - {name: x, id: 01890a5d-ac96-774b-bcce-b302099a8057}\n    - [x]\n  more: ''\n", `
x.yaml:3:8: node "a": ports.out: want the name of a node or a link, got an integer [F1004]
    3 |   out: 5
      |        ^
      hint: put quotes around it if it is the name of a node: "5"
x.yaml:5:7: node "a": ports.error[0]: the link has neither name nor id [F3007]
    5 |     - {port: in}
      |       ^
      hint: name the node that it leads to
x.yaml:6:8: node "a": ports.error[1].nmae: unknown field [F1015]
    6 |     - {nmae: x}
      |        ^
      hint: did you mean "name"?
x.yaml:7:7: node "a": ports.error[2]: the link has both name and id [F3007]
    7 |     - {name: x, id: 01890a5d-ac96-774b-bcce-b302099a8057}
      |       ^
      hint: keep one of the two
x.yaml:8:7: node "a": ports.error[3]: want the name of a node or a link, got a list [F1004]
    8 |     - [x]
      |       ^
      hint: write NODE, or {name: NODE, port: in}
x.yaml:9:9: node "a": ports.more: is empty [F1018]
    9 |   more: ''
      |         ^
      hint: give it a value, or leave it out
`)
	f("kind: a\nports: b\n", `
x.yaml:2:8: node "a": ports: want a map of ports, got a string [F1004]
    2 | ports: b
      |        ^
      hint: write ports: {PORT: NODE}
`)
	f("a: &x [*x]\nkind: b\nc: 99999999999999999999\nd: !!int e\nf: !foo g\n? [h]\n: i\n", `
x.yaml:1:8: the alias *x is part of what it stands for [F1007]
    1 | a: &x [*x]
      |        ^
x.yaml:3:4: the integer does not fit 64 bits [F1013]
    3 | c: 99999999999999999999
      |    ^
      hint: put quotes around it, or write it as 1e30
x.yaml:4:4: the tag !!int does not fit the value [F1013]
    4 | d: !!int e
      |    ^
      hint: leave the tag out
x.yaml:5:4: unknown tag !foo [F1013]
    5 | f: !foo g
      |    ^
      hint: leave the tag out
x.yaml:6:3: a key must be text [F1008]
    6 | ? [h]
      |   ^
      hint: put quotes around it
`)
	f("kind: http\naddress: nonsense\n---\nkind: http\naddress: :80\nport: 1\n", `
x.yaml:2:10: node "listener": address: want an address such as :8000, got "nonsense" [F2003]
    2 | address: nonsense
      |          ^
x.yaml:5:10: node "listener": address: address is the older form of host and port, and the spec also has port [F1014]
    5 | address: :80
      |          ^
      hint: leave address out
`)
}

func TestParseLimits(t *testing.T) {
	f := func(text string, want diag.Code) {
		t.Helper()
		began := time.Now()
		_, list := Parse(Document{File: "x", Data: []byte(text)}, ParseOptions{})
		if !slices.ContainsFunc(list, func(d *diag.Diagnostic) bool { return d.Code == want }) {
			t.Errorf("%.30q: got %v, want %s", text, list, want)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%.30q: took %s", text, took)
		}
	}
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	f(bomb.String(), diag.CodeLimit)
	f("a: &a "+strings.Repeat("x", 1<<20)+"\nb: ["+strings.Repeat("*a, ", 20)+"]\n", diag.CodeLimit)
	f(strings.Repeat("[", 10_000), diag.CodeLimit)
	f(strings.Repeat("- ", 10_000), diag.CodeLimit)
	f(strings.Repeat("a: ", 10_000), diag.CodeYAML)
	f(strings.Repeat("x", MaxSize+1), diag.CodeLimit)
}

// A document that is one long line must not take quadratic time.
func TestParseLongLine(t *testing.T) {
	var b strings.Builder
	b.WriteString("[")
	for i := range 40_000 {
		fmt.Fprintf(&b, `{"kind":"nop","name":"nöde%d"},`, i)
	}
	b.WriteString("]")
	began := time.Now()
	nodes := parsed(t, b.String())
	if took := time.Since(began); len(nodes) != 40_000 || took > 2*time.Minute {
		t.Errorf("got %d nodes in %s, want 40000 in seconds: quadratic time would be hours", len(nodes), took)
	}
	last := nodes[len(nodes)-1]
	want := len([]rune(b.String()[:strings.LastIndex(b.String(), `"nö`)])) + 1
	if got := last.NamePos.Col; got != want {
		t.Errorf("got column %d, want %d", got, want)
	}
}

func TestScalars(t *testing.T) {
	f := func(text string, want value.Value) {
		t.Helper()
		n := parsed(t, "kind: a\nv: "+text+"\n")[0]
		if got := n.Config.Field("v").ToValue(); !same(got, want) {
			t.Errorf("%s: got %s %v, want %s %v", text, got.Kind(), got, want.Kind(), want)
		}
	}
	f("", value.Null())
	f("~", value.Null())
	f("null", value.Null())
	f("'null'", value.String("null"))
	f("true", value.Bool(true))
	f("yes", value.String("yes"))
	f("NO", value.String("NO"))
	f("12", value.Int(12))
	f("-9223372036854775808", value.Int(-9223372036854775808))
	f("18446744073709551615", value.Uint(18446744073709551615))
	f("0x1F", value.Int(31))
	f("0o17", value.Int(15))
	f("017", value.Int(17))
	f("1_000", value.String("1_000"))
	f("1.0", value.Float(1))
	f("1e3", value.Float(1000))
	f(".5", value.Float(.5))
	f("1.2.3", value.String("1.2.3"))
	f("2024-01-02", value.String("2024-01-02"))
	f("12:30:45", value.String("12:30:45"))
	f("!!str 12", value.String("12"))
	f("!!float 12", value.Float(12))
	f("! 12", value.String("12"))
	f("!!binary aGk=", value.Binary([]byte("hi")))
	f("{b: 1, a: [], c: {}}", value.Map(
		value.Field{Name: "b", Value: value.Int(1)}, value.Field{Name: "a", Value: value.List()}, value.Field{Name: "c", Value: value.Map()}))
	f("{1: a, true: b}", value.Map(value.Field{Name: "1", Value: value.String("a")}, value.Field{Name: "true", Value: value.String("b")}))
}

// Every character of a code that stands in the document must be found there.
func TestTextPositions(t *testing.T) {
	f := func(text string) {
		t.Helper()
		n := parsed(t, text)[0]
		code := n.Config.Field("code").Text
		lines := strings.Split(text, "\n")
		for i, c := range code.Code {
			if c == '\n' || c == ' ' {
				continue
			}
			p := code.At(i)
			line := []rune(strings.TrimSuffix(lines[p.Line-1], "\r"))
			if p.Col < 1 || p.Col > len(line) || line[p.Col-1] != c {
				t.Errorf("%q: character %d, %q: got %s", text, i, c, p)
			}
		}
	}
	f("kind: a\ncode: pong\n")
	f("kind: a\ncode: 'pong é x'\n")
	f("kind: a\ncode:   \"pong é x\"\n")
	f("é: \"ü\"\nkind: a\n? code\n: !!str &x pong\n")
	f("{kind: a, é: ü, code: pong}")
	f("- kind: a\n  code: |\n    aé b\n      c\n\n    d\n")
	f("- kind: a\n  code: |2-\n\n      x\n    aé b\n      c\n\n    d\n")
	f("- kind: a\n  code: |+ # comment\n\n\n    aé b\n\n\n  b: 1\n")
	f("- kind: a\r\n  code: |\r\n    aé b\r\n      c\r\n")
	f("- kind: a\n  code: >\n    aé &&\n    b\n\n      c\n      d\n    e\n")
	f("- kind: a\n  code: aé &&\n    b\n    c\n")
	f("- kind: a\n  code: \"aé &&\n    b\n\n    c\"\n")
	f("- kind: a\n  code: 'aé &&\n    b'\n")
}

func TestIDs(t *testing.T) {
	text := "- {kind: a, name: x}\n- {kind: a}\n- {kind: a}\n- {kind: a, name: x}\n- {kind: a, id: 01890A5D-ac96-774b-bcce-b302099a8057}\n"
	first, again := parsed(t, text), parsed(t, text)
	seen := make(map[string]bool)
	for i := range first {
		if first[i].ID != again[i].ID || seen[first[i].ID] {
			t.Errorf("node %d: got id %s and %s, want the same one, and no other node's", i, first[i].ID, again[i].ID)
		}
		seen[first[i].ID] = true
	}
	if got, want := first[4].ID, "01890a5d-ac96-774b-bcce-b302099a8057"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if first[0].IDPos.IsValid() || !first[4].IDPos.IsValid() {
		t.Error("got IDPos for a derived id, or none for a given one")
	}
	moved := parsed(t, "# down\n- {kind: b}\n- {kind: a, name: x}\n")
	if moved[1].ID != first[0].ID {
		t.Error("a named node that moved: got another id, want the same")
	}
}

func TestParseInner(t *testing.T) {
	outer := parsed(t, "kind: step\nname: s\nnamespace: inner\nspecs:\n  - kind: route\n    links: {out: [{name: a, port: io}]}\n  - {name: a}\n  - {kind: x, namespace: other}\n")[0]
	nodes, list := ParseInner(outer.Config.Field("specs"), outer)
	if len(nodes) != 3 || nodes[0].Kind != "router" || nodes[0].Namespace != "inner" || nodes[0].Ports[0].Links[0].Port != "in" || nodes[0].Path() != "s/$0" {
		t.Errorf("got %+v, want the inner specs", nodes)
	}
	if got, want := list.Error(), `x.yaml:7:5: node "s/a": kind: missing [F1005]
x.yaml:8:26: node "s/$2": namespace: a node of a sub-graph is in the namespace of the sub-graph, "inner" [F1004]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if nodes, list := ParseInner(nil, outer); len(nodes)+len(list) > 0 {
		t.Errorf("got %v, %v, want nothing", nodes, list)
	}
}

func TestDifference(t *testing.T) {
	f := func(before, after, want string) {
		t.Helper()
		if got := difference(parsed(t, before)[0], parsed(t, after)[0]); got != want {
			t.Errorf("%s, %s: got %q, want %q", before, after, got, want)
		}
	}
	f("{kind: a, name: x, v: 1}", "# moved\n- {kind: a, name: x, v: 1}", "")
	f("{kind: a, name: x, v: 1}", "{kind: a, name: x, v: 1.0}", "v")
	f("{kind: a, name: x, v: 1}", "{kind: a, name: x}", "v")
	f("{kind: a, name: x}", "{kind: a, name: x, v: 1}", "v")
	f("{kind: a, name: x}", "{kind: b, name: x}", "kind")
	f("{kind: a, name: x}", "{kind: a, name: y}", "name")
	f("{kind: a, name: z, ports: {out: [{name: x}]}}", "{kind: a, name: z, ports: {out: [{name: y}]}}", "ports")
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a/c.yml", "a/b.JSON", ".hidden.yaml", ".git/x.yaml", "readme.md", "z.txt"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	docs, err := Read([]string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "b.yaml"), filepath.Join(dir, "z.txt"), "-"}, strings.NewReader("in"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range docs {
		got = append(got, strings.TrimPrefix(strings.ReplaceAll(d.File, `\`, "/"), dir+"/")+"="+string(d.Data))
	}
	if s, want := strings.Join(got, " "), "a/b.JSON=a/b.JSON a/c.yml=a/c.yml b.yaml=b.yaml z.txt=z.txt <stdin>=in"; s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	empty := t.TempDir()
	docs, err = Read([]string{filepath.Join(dir, "none.yaml"), empty, "-", filepath.Join(dir, "b.yaml")}, nil)
	list, ok := err.(diag.List)
	if !ok || len(list) != 3 || len(docs) != 1 {
		t.Errorf("got %v, %v, want three findings and one document", docs, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range append(seeds(), ping, pingLegacy) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		nodes, list := Parse(Document{File: "x.yaml", Data: []byte(text)}, ParseOptions{})
		for _, d := range list {
			if d.Code == "" && len(list) <= diag.MaxFindings || d.Pos.File != "x.yaml" && d.Code != "" {
				t.Errorf("got %v without code or file", d)
			}
		}
		for _, n := range nodes {
			if n.ID == "" || n.Config == nil || n.Pos.Line < 1 {
				t.Errorf("got %+v, want id, config and place", n)
			}
			walk(n.Config, func(r *schema.Raw) {
				for _, offset := range []int{0, len(r.Text.Code) / 2, len(r.Text.Code)} {
					if p := r.Text.At(offset); r.Text.Code != "" && p.Line < 1 {
						t.Errorf("got %v for offset %d of %q", p, offset, r.Text.Code)
					}
				}
			})
		}
		if list := resolveAll(nodes, nil, map[string]string{"A": "b"}); list.HasErrors() {
			return
		}
		_, _ = ParseVariables(Document{File: "x.yaml", Data: []byte(text)}) // must not panic
	})
}

// FuzzShortLinks checks that a document means the same with the names of nodes in ports
// written out as links, with each place and finding.
func FuzzShortLinks(f *testing.F) {
	for _, text := range append(seeds(), ping) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := func(change func(*schema.Raw)) ([]*Node, diag.List) {
			roots, list := yamltree.Read("x.yaml", []byte(text))
			p := &parser{seen: make(map[string]int), file: "x.yaml", list: list}
			for i, raw := range roots {
				change(raw)
				p.specs(raw, i)
			}
			p.list.Sort()
			return p.nodes, p.list
		}
		short, found := read(func(*schema.Raw) {})
		long, want := read(writeOut)
		same := func(a, b *diag.Diagnostic) bool { return a.Code == b.Code && a.Pos == b.Pos }
		if !slices.EqualFunc(found, want, same) {
			t.Fatalf("got %v, in the long form %v, for\n%s", found, want, text)
		}
		for i, n := range short {
			places := func(a, b Port) bool { return slices.Equal(a.Links, b.Links) }
			if field := difference(n, long[i]); field != "" || !slices.EqualFunc(n.Ports, long[i].Ports, places) {
				t.Fatalf("%s of node %q differs in the long form: got %+v, want %+v, for\n%s", field, n.title(), n.Ports, long[i].Ports, text)
			}
		}
	})
}

// writeOut writes the links of specs, and of the specs in them, in the long form.
func writeOut(raw *schema.Raw) {
	specs := append(slices.Clone(raw.Items), raw)
	for _, s := range specs {
		for _, f := range s.Fields {
			switch f.Name {
			case "specs":
				writeOut(f.Value)
			case "ports", "links":
				for _, port := range f.Value.Fields {
					link(port.Value)
					for _, item := range port.Value.Items {
						link(item)
					}
				}
			}
		}
	}
}

// link makes {name: NODE} of NODE, in its place.
func link(raw *schema.Raw) {
	if _, ok := raw.Value.AsString(); ok && raw.Kind == schema.RawScalar {
		name := *raw
		*raw = schema.Raw{Kind: schema.RawMap, Pos: raw.Pos, Pointer: raw.Pointer, Fields: []schema.RawField{{Name: "name", Pos: raw.Pos, Value: &name}}}
	}
}

func walk(r *schema.Raw, visit func(*schema.Raw)) {
	visit(r)
	for _, item := range r.Items {
		walk(item, visit)
	}
	for _, f := range r.Fields {
		walk(f.Value, visit)
	}
}

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "- kind: snippet\n  name: n%d\n  language: text\n  code: |\n    hello\n    world\n  ports:\n    out:\n      - name: n%d\n        port: in\n\n", i, i+1)
	}
	doc := Document{File: "x.yaml", Data: []byte(text.String())}
	b.ReportAllocs()
	for b.Loop() {
		if _, list := Parse(doc, ParseOptions{}); len(list) > 0 {
			b.Fatal(list)
		}
	}
}

// TestLifecycle reads the timeout of lifecycle workflows.
func TestLifecycle(t *testing.T) {
	f := func(text string, want time.Duration, finding string) {
		t.Helper()
		nodes, list := Parse(Document{File: "x.yaml", Data: []byte("kind: nop\nlifecycle: " + text)}, ParseOptions{})
		if got := nodes[0].LifecycleTimeout; got != want || !strings.Contains(list.Error(), finding) || (finding == "") != (len(list) == 0) {
			t.Errorf("%s: got %v, %v, want %v, %s", text, got, list, want, finding)
		}
	}
	f("", 0, "")
	f("{}", 0, "")
	f("{timeout: 2m}", 2*time.Minute, "")
	f("{timeout: 500}", 500*time.Millisecond, "F5040")
	f("{timeout: 0}", 0, "from 1ms to 24h0m0s")
	f("{timeout: 25h}", 0, "from 1ms to 24h0m0s")
	f("[]", 0, "want a map")
}

// TestIDOf compares the id that follows from a name with that of the node.
func TestIDOf(t *testing.T) {
	nodes, list := Parse(Document{File: "flow.yaml", Data: []byte("- {kind: snippet, name: a b}\n- {kind: snippet, namespace: other, name: a b}")}, ParseOptions{Namespace: "shop"})
	if len(nodes) != 2 || list.HasErrors() {
		t.Fatal(nodes, list)
	}
	for _, n := range nodes {
		if got := IDOf(n.Namespace, n.Name); got != n.ID {
			t.Errorf("%s: got %s, want %s", n.Namespace, got, n.ID)
		}
	}
}
