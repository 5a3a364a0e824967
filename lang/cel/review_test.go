package cel

import (
	"fmt"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// warnings returns the findings about code that compiles, in one line.
func warnings(t *testing.T, code diag.Text, payload *schema.Shape) (got string) {
	t.Helper()
	_, err := New().Compile(code, lang.Options{Shape: payload, Warn: func(d *diag.Diagnostic) {
		got += fmt.Sprintf("%d:%d %s %s; ", d.Pos.Line, d.Pos.Col, d.Code, d.Hint)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestKeys(t *testing.T) {
	const twice, text = "F5021 remove one of the two, or rename it; ", "F5022 write "
	f := func(code, want string) {
		t.Helper()
		if got := warnings(t, diag.PlainText(code), nil); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", code, got, want)
		}
	}
	f(`{"a": 1, "b": 2}`, "")
	f(`{"a": 1, "A": 2, a: 3}`, "")
	f(`{"a": 1, "a": 2, "a": 3}`, "1:10 "+twice+"1:18 "+twice)
	f(`[{"a": {"b": 1,`+"\n"+`"b": 2}}]`, "2:1 "+twice)
	f(`{1: 1, 1.0: 2}[self.a]`, "1:8 "+twice)
	f(`{1: 1, "1": 2}[self.a]`, "")
	f(`{"1": 1, 1u: 2}`, "1:10 "+twice)
	f(`{"a": 1, ?"a": self.?a}`, "")
	f(`{?"a": self.?a, "a": 1}`, "1:17 "+twice)
	f(`{7: 1, 2.5: 2, true: 3, b"x": 4}`, `1:2 `+text+`"7"; 1:8 `+text+`"2.5"; 1:16 `+text+`"true"; `)
	f(`self.a ? {1: 1} : {"b": {size(self): 2}}`, `1:11 `+text+`"1"; 1:30 `+text+`string(…) around it; `)
	f(`{1: "x"}[self.a] + {1: "x"}[self.b]`, "")
	f(`self.list.map(x, {1: x})`, "") // where it goes is not followed
	f(`{self.a: 1, self.a: 2}`, "")
	if got := warnings(t, diag.PlainText("").Rendered(`{7: "secret"}`), nil); got != "1:0 F5022 ; " {
		t.Errorf("got %s, want no hint of what a template has made", got)
	}
}

func TestResultKind(t *testing.T) {
	f := func(code string, want value.Kind, known bool) {
		t.Helper()
		p, err := New().Compile(diag.PlainText(code), lang.Options{})
		if err != nil {
			t.Fatal(err)
		}
		kind, ok := p.(*program).ResultKind()
		if ok != known || ok && kind != want {
			t.Errorf("%s: got %v, %v, want %v, %v", code, kind, ok, want, known)
		}
	}
	f("self", 0, false)
	f("a + 1", 0, false)
	f("self.a ? true : 1", 0, false)
	f("self.?a", 0, false)
	f("self.a > 1", value.KindBool, true)
	f("self.list.all(x, x > 1)", value.KindBool, true)
	f("has(self.a) && !b", value.KindBool, true)
	f("size(self)", value.KindInt, true)
	f("[self]", value.KindList, true)
	f("{'a': self}", value.KindMap, true)
	f("string(self)", value.KindString, true)
	f("1 + 1", value.KindInt, true)
	f("self.list.map(x, x)", value.KindList, true)
	f("timestamp(self.t)", value.KindTime, true)
	f("type(self)", 0, false)
}

func TestNames(t *testing.T) {
	line := &schema.Shape{Closed: true, Fields: map[string]*schema.Shape{"item": nil}}
	body := &schema.Shape{Closed: true, Fields: map[string]*schema.Shape{"name": nil, "lines": {Items: line}, "any": {}}}
	payload := &schema.Shape{Closed: true, Fields: map[string]*schema.Shape{"body": body, "int": nil}}
	f := func(code, want string) {
		t.Helper()
		if got := warnings(t, diag.PlainText(code), payload); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
	const name, item = `F5025 did you mean "name"?; `, `F5025 it has item; `
	f("self.body.name + body.name + self['body']['name']", "")
	f("self.body.nmae", "1:10 "+name)
	f("body.nmae == 'a' || body.name == 'b'", "1:5 "+name)
	f("self['body']['nmae']", "1:14 "+name)
	f("bdoy.name", `1:1 F5025 did you mean "body"?; `)
	f("body.any.thing + body.name.thing", "")
	f("body.lines[0].price", "1:14 "+item)
	f("body.lines[int].price", "")            // an index that is not known
	f("body.lines.size() + body.lines.x", "") // of a list no fields are known

	// Names that the expression binds.
	f("body.lines.map(l, l.item + l.price)", "1:29 "+item)
	f("body.lines.filter(body, body.item != '').map(n, n.x)", "")
	f("body.lines.all(i, l, l.price > i)", "")
	f("cel.bind(x, body, x.nmae)", "")
	f("body.map(key, body[key])", "")
	f("self.all(self, self.nmae)", "")

	// Names that are asked for, and types.
	f("has(body.nmae) ? body.nmae : 'none'", "")
	f("body.?nmae.orValue('') + body[?'nmae'].orValue('')", "")
	f("'nmae' in body && body.nmae", "")
	f("type(body) == string && type(int) == map", "")

	// What is made on the way.
	f("{'a': body}.b", "1:12 F5025 it has a; ")
	f("{'a': body}.a.nmae", "1:14 "+name)
	f("(body.name == '' ? {'a': 1} : {'b': 1}).c", "1:40 F5025 it has a, b; ")
	f("(body.name == '' ? {'a': 1} : body.any).c", "")
	f("{body.name: 1}.c", "")

	hidden := diag.PlainText("").Rendered("self.secret")
	if got := warnings(t, hidden, payload); got != "1:0 F5025 ; " {
		t.Errorf("got %q, want nothing of what a template has made", got)
	}
}
