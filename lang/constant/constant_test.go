package constant

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func eval(t *testing.T, l lang.Language, code string) value.Value {
	t.Helper()
	p, err := l.Compile(diag.PlainText(code), lang.Options{})
	if err != nil {
		t.Fatalf("compile %q: got error %v", code, err)
	}
	v, err := p.Eval(t.Context(), value.Null())
	if err != nil {
		t.Fatalf("%q: got error %v", code, err)
	}
	if c, ok := p.(lang.Constant); !ok || !c.Constant().Equal(v) {
		t.Fatalf("%q: got a program that is not the constant %v", code, v)
	}
	return v
}

func TestText(t *testing.T) {
	for _, code := range []string{"", "pong", "a\nb\n", "{{ not a template }}"} {
		if got := eval(t, Text{}, code); !got.Equal(value.String(code)) {
			t.Errorf("got %v, want %q", got, code)
		}
	}
}

func TestJSON(t *testing.T) {
	f := func(code string, want value.Value) {
		t.Helper()
		if got := eval(t, JSON{}, code); got.Kind() != want.Kind() || !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", code, got, want)
		}
	}
	f("null", value.Null())
	f("9007199254740993", value.Int(9007199254740993))
	f("18446744073709551615", value.Uint(math.MaxUint64))
	f("1.5", value.Float(1.5))
	f(`[1, {}, [], null]`, value.List(value.Int(1), value.Map(), value.List(), value.Null()))
	if got := eval(t, JSON{}, `{"z": 1, "a": 2}`).String(); !strings.HasPrefix(got, `{"z":1`) {
		t.Errorf("got %s, want z first", got)
	}
}

func TestYAML(t *testing.T) {
	f := func(code, want string) {
		t.Helper()
		if got := eval(t, YAML{}, code).String(); got != want {
			t.Errorf("%q: got %s, want %s", code, got, want)
		}
	}
	f("", "null")
	f("~", "null")
	f("text", "text")
	f("z: 1\na: [1, 2.5, x, null, true]\nm: {}\n", `{"z":1,"a":[1,2.5,"x",null,true],"m":{}}`)
	f("big: 18446744073709551615\nhex: 0x10\nneg: -5", `{"big":18446744073709551615,"hex":16,"neg":-5}`)
	f("- |\n  a\n  b\n- 'q'", `["a\nb\n","q"]`)
	f("a: &x {k: 1}\nb: *x", `{"a":{"k":1},"b":{"k":1}}`)
	f("base: &b {x: 1, y: 2}\nd:\n  <<: *b\n  y: 3", `{"base":{"x":1,"y":2},"d":{"y":3,"x":1}}`)
	f("1: a\ntrue: b", `{"1":"a","true":"b"}`)
	f("a: !!str 1", `{"a":"1"}`)
	f("# only a comment", "null")
}

func TestCompileErrors(t *testing.T) {
	f := func(l lang.Language, code string, line, col int, want string) {
		t.Helper()
		_, err := l.Compile(diag.PlainText(code), lang.Options{})
		var d *diag.Diagnostic
		if !errors.As(err, &d) {
			t.Errorf("%q: got %v, want a diagnostic", code, err)
			return
		}
		if d.Pos.Line != line || d.Pos.Col != col || !strings.Contains(d.Msg, want) {
			t.Errorf("%q: got %d:%d %q, want %d:%d %q", code, d.Pos.Line, d.Pos.Col, d.Msg, line, col, want)
		}
	}
	f(JSON{}, "{\"a\": 1,\n  \"é\": x}", 2, 8, "JSON")
	f(JSON{}, "", 1, 1, "JSON")
	f(YAML{}, "a: 1\nb: [1, 2", 2, 4, "the bracket that is opened here is not closed")
	f(YAML{}, "a: 1\na: 2", 2, 1, "YAML")
	f(YAML{}, "a: *none", 1, 4, "an anchor that is not there")
	f(YAML{}, "a: 1\n---\nb: 2", 3, 1, "second document")
	f(YAML{}, "{[1]: 2}", 1, 2, "a key must be text")
}

// TestJSONHints has what authors write who know another language.
func TestJSONHints(t *testing.T) {
	f := func(code, want string) {
		t.Helper()
		_, err := JSON{}.Compile(diag.PlainText(code), lang.Options{})
		var d *diag.Diagnostic
		if !errors.As(err, &d) {
			t.Errorf("%q: got %v, want a diagnostic", code, err)
			return
		}
		if got := fmt.Sprintf("%d:%d %s", d.Pos.Line, d.Pos.Col, d.Hint); got != want {
			t.Errorf("%q: got %s, want %s", code, got, want)
		}
	}
	const comma, comment = "remove the comma before it: there is none after the last value", "remove the comment: JSON has none; under language: yaml one begins with #"
	f(`{"a": 1,}`, "1:9 "+comma)
	f("{\"a\": 1,\n}", "2:1 "+comma)
	f("[1, 2 , ]", "1:9 "+comma)
	f(`[{"a": 1}, ]`, "1:12 "+comma)
	f("{\"a\": 1, // so\n\"b\": 2}", "1:10 "+comment)
	f("// so\n{}", "1:1 "+comment)
	f("{/* so */}", "1:2 "+comment)
	f("{} // so", "1:4 "+comment)
	f("# so\n{}", "1:1 remove the comment: JSON has none; language: yaml takes JSON with such comments")
	f("{'a': 1}", `1:2 write "…": JSON has double quotes only`)
	f(`{"a": 'b'}`, `1:7 write "…": JSON has double quotes only`)
	f(`{"a": “b”}`, `1:7 write "…": JSON has straight quotes only`)
	f("{a: 1}", `1:2 write "a"`)
	f("{größe: 1}", `1:2 write "größe"`)
	f(`{"a": pong}`, `1:7 write "pong" if it is a text`)
	f(`[True]`, "1:2 write true")
	f(`[None]`, "1:2 write null")
	f(`{"a" = 1}`, "1:6 write : between a name and its value")
	f(`{"a": 1; "b": 2}`, "1:8 write , between values, and nothing after the last one")
	f(`{"a": 1 "b": 2}`, "1:9 write , before it")
	f(`[.5]`, "1:2 write a digit before the point, such as 0.5")
	f(`[+5]`, "1:2 write a number without +")
	f(`[05]`, "1:2 leave out the 0 in front, or write it as a text")
	f(`[0x1F]`, "1:3 write the number with the digits 0 to 9")
	f(`{"a": {{ .A }}}`, "1:8 a template is put in before the text is read: set env for the node")
	f(`{...a}`, "1:2 there is no spread: write the fields out, or use language: cel")
	f("[\"a\nb\"]", `1:4 a line break within a text is written \n, a tab \t`)
	f(`["\d"]`, `1:3 a backslash is written \\`)
	f(`["a]`, `1:5 close it with "`)
	f(`{"a": [1`, "1:9 close what was opened: { with }, [ with ]")
	f(`{} {}`, "1:4 there is one value: write several as a list, [1, 2]")
	f(`{}}`, "1:3 remove it: it closes nothing")
	f("", "1:1 write a value, such as null")
}

func TestJSONTwice(t *testing.T) {
	f := func(code, want string) {
		t.Helper()
		got := ""
		p, err := JSON{}.Compile(diag.PlainText(code), lang.Options{Warn: func(d *diag.Diagnostic) { got += d.Error() }})
		if err != nil || p.(lang.Constant).Constant().IsNull() || got != want {
			t.Errorf("%s: got %q, error %v, want %q", code, got, err, want)
		}
	}
	f(`{"a": 1, "b": {"a": 1}}`, "")
	f("{\"a\": 1,\n \"é\": 2, \"a\": 3}", `:2:10: warning: the name occurs twice in the object [F5021]`)
}

// TestAliasesThatMultiply has nine levels of nine aliases each, which would be 400 million elements.
func TestAliasesThatMultiply(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := '1'; i <= '8'; i++ {
		prev := string(i - 1)
		b.WriteString("a" + string(i) + ": &a" + string(i) + " [" + strings.TrimSuffix(strings.Repeat("*a"+prev+", ", 9), ", ") + "]\n")
	}
	if _, err := (YAML{}).Compile(diag.PlainText(b.String()), lang.Options{}); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v, want an error about the size", err)
	}
}

func TestSecretsAreNotQuoted(t *testing.T) {
	code := diag.PlainText("{").Rendered(`{"password": hunter2}`)
	_, err := JSON{}.Compile(code, lang.Options{})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "cannot be compiled") {
		t.Errorf("got %v, want a message that quotes nothing", err)
	}
}

func TestEvalOnDoneContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := Text{}.Compile(diag.PlainText("x"), lang.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Eval(ctx, value.Null()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{"a: 1", "- x\n- [1, {}]", "a: &x 1\nb: *x", "<<: {a: 1}", "!!int x", "? [a]\n: b", "|\n  x", "a: &a [*a]", "---\n---\n", "'", "{", "\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, code string) {
		p, err := (YAML{}).Compile(diag.PlainText(code), lang.Options{})
		if err != nil {
			return
		}
		if v, err := p.Eval(t.Context(), value.Null()); err != nil || v.IsError() {
			t.Errorf("%q: got %v, %v", code, v, err)
		}
	})
}
