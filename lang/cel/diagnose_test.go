package cel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
)

// TestMistakes has mistakes of authors who know another language.
func TestMistakes(t *testing.T) {
	language := New()
	f := func(code, want string) {
		t.Helper()
		_, err := language.Compile(diag.PlainText(code), lang.Options{})
		var d *diag.Diagnostic
		if !errors.As(err, &d) {
			t.Errorf("%s: got %v, want one diagnostic", code, err)
			return
		}
		got := fmt.Sprintf("%d:%d %s", d.Pos.Line, d.Pos.Col, d.Msg)
		if d.Hint != "" {
			got += "; " + d.Hint
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", code, got, want)
		}
	}

	// Operators of other languages.
	f("a = 1", `1:3 there is no "=" in expressions; use == to compare; an expression assigns nothing`)
	f("a &&\n  b = 1", `2:5 there is no "=" in expressions; use == to compare; an expression assigns nothing`)
	f("{'a' = 1}", `1:6 there is no "=" in expressions; a map is written {"name": value}`)
	f("a === 1", `1:3 there is no "===" in expressions; use ==`)
	f("a !== 1", `1:3 there is no "!==" in expressions; use !=`)
	f("a <> 1", `1:3 there is no "<>" in expressions; use !=`)
	f("a == 1 and b", `1:8 there is no "and" in expressions; use &&`)
	f("a OR b", `1:3 there is no "OR" in expressions; use ||`)
	f("not a", `1:1 there is no "not" in expressions; use !`)
	f("a is null", `1:3 there is no "is" in expressions; use ==`)
	f("a !b", `1:3 an operator is missing before "!"; not equal is !=`)
	f("a & b", `1:3 there is no "&" in expressions; use && for and; for bits there is math.bitAnd(a, b)`)
	f("a | b", `1:3 there is no "|" in expressions; use || for or; for bits there is math.bitOr(a, b)`)
	f("a?.b", `1:2 there is no "?." in expressions; an optional field is written with the dot in front: a.?b`)
	f("a?.[0]", `1:2 there is no "?.[" in expressions; an optional element is written a[?0]`)
	f("a ?? b", `1:3 there is no "??" in expressions; use a.?b.orValue(c), or has(a.b) ? a.b : c`)
	f("a =~ '^b'", `1:3 there is no "=~" in expressions; use text.matches('pattern')`)
	f("a ** 2", `1:3 there is no "**" in expressions; there are no powers: multiply, or use language: javascript`)
	f("a++", `1:2 there is no "++" in expressions; use x + 1; an expression changes nothing`)
	f("a.map(x => x)", `1:9 there is no "=>" in expressions; there are no arrow functions: write list.map(x, x + 1), list.filter(x, x > 1)`)
	f("$a", `1:1 there is no "$" in expressions; a name stands without $ and braces: self.name`)
	f("{{ .A }}", `1:1 there is no "{{" in expressions; a template is put in before the expression is read: set env for the node, or write the name alone`)
	f("a == ‘x’", `1:6 there is no "‘" in expressions; use straight quotes: "text" or 'text'`)

	// Statements.
	f("if a then b else c", `1:1 there is no "if" in expressions; write condition ? a : b`)
	f("let x = 1", `1:1 there is no "let" in expressions; use cel.bind(name, value, expression)`)
	f("return a", `1:1 there is no "return" in expressions; write the expression alone; its value is the result`)
	f("a;", `1:2 there is no ";" in expressions; there is one expression and no statements: leave the ; out`)
	f("a # b", `1:3 "#" does not begin a comment; a comment begins with //`)
	f("while", `1:1 "while" is a reserved word; use list.map(x, …), filter, all or exists`)
	f("package == 'a'", `1:1 "package" is a reserved word; a field of this name is written self.package`)

	// Unfinished code.
	f("1 +", `1:4 the expression ends too early: a value is missing after "+"`)
	f("a.b.", `1:5 the expression ends too early: a name is missing after the dot`)
	f("(a", `1:3 the expression ends too early: "(" is not closed; close it with ")"`)
	f("f(a, [1, 2", `1:11 the expression ends too early: "[" is not closed; close it with "]"`)
	f("a)", `1:2 ")" closes nothing; leave it out, or open it before`)
	f("{'a': [1, 2}", `1:12 "}" does not close "["; close it with "]" first`)
	f("a ? b", `1:3 this ? has no :; write condition ? a : b`)
	f("'abc", `1:1 the text that begins here has no closing quote; a quote within the text is written \', a line break \n`)
	f("// nothing", `1:1 the expression is empty`)

	// Values.
	f("a b", `1:3 an operator is missing between "a" and "b"`)
	f("[1 2]", `1:4 an operator or a comma is missing between "1" and "2"`)
	f("'a' 'b'", `1:5 an operator is missing between 'a' and 'b'; join texts with +`)
	f("'it's'", `1:5 an operator is missing between 'it' and "s"; a quote within a text is written \', or the text is put in the other quotes: "it's"`)
	f("a == == b", `1:6 a value is missing between "==" and "=="`)
	f("a.1", `1:3 a name must follow the dot, not a number; write [1] instead of .1`)
	f("a.'b'", `1:3 a name must follow the dot, not a text; write ['b'] instead of .'b'`)
	f("wait > 100ms", `1:8 "100ms" is not a number; a duration is written duration('100ms')`)
	f("1_000", `1:1 "1_000" is not a number; write the digits without _: 1000`)
	f(`a.matches('\d+')`, `1:11 the text has a backslash that begins no escape; write \\ for a backslash, or r'…' for a text without escapes, such as a pattern: r'\d+'`)
	f("größe > 1", `1:3 names have the letters a to z only, not "ö"; a field with such a name is written self["…"]`)
	f("99999999999999999999", `1:1 the number is beyond the range of integers; write it with u behind it, up to 18446744073709551615u, or with .0`)

	// Functions.
	f("now()", `1:1 unknown function "now"; expressions have no clock: take a time from the payload, or use language: javascript`)
	f("uuid()", `1:1 unknown function "uuid"; expressions make nothing random: use language: javascript`)
	f("a.toUpperCase()", `1:3 unknown function "toUpperCase"; use text.upperAscii()`)
	f("len(a)", `1:1 unknown function "len"; use size(x)`)
	f("a.startswith('b')", `1:3 unknown function "startswith"; write startsWith: case counts`)
	f("Math.floor(a)", `1:6 unknown function "floor"; write math.floor(…)`)
	f("math.flor(a)", `1:6 unknown function "flor"; did you mean "math.floor"?`)
	f("JSON.parse(a)", `1:6 unknown function "parse"; write json.parse(…)`)
	f("a.reduce(x, y)", `1:3 unknown function "reduce"; there is no fold: use language: javascript`)
	f("a.filter(x)", `1:3 filter is not called like this; write list.filter(x, condition)`)
	f("has(a)", `1:5 has takes a field; write has(self.field)`)
	f("1 < 2 < 3", `1:7 < does not work on bool and int; convert what is of another type: string(x), int(x), double(x)`)
	f("a.toUpper()", `1:3 unknown function "toUpper"; use text.upperAscii()`)
	f("strings.ToLower(a)", `1:9 unknown function "ToLower"; use text.lowerAscii()`)
	f("a.upperascii()", `1:3 unknown function "upperascii"; write upperAscii: case counts`)
	f("a.Contains('b')", `1:3 unknown function "Contains"; write contains: case counts`)
	f("Size(a)", `1:1 unknown function "Size"; write size: case counts`)
	f("a.capitalize()", `1:3 unknown function "capitalize"; there are upperAscii and lowerAscii only: use language: javascript`)
	f("[1].length > 0", `1:4 a list(int) has no fields; an element is list[0], the number of elements size(list)`)

	// Statements of SQL.
	const sql = "a statement of SQL is not an expression; write a list of its text and its arguments: [\"SELECT … WHERE id = :id\", {\"id\": self.id}]; one without arguments is language: text"
	f("SELECT * FROM t", "1:1 "+sql)
	f("\n  select id, name from t where id = 3", "2:3 "+sql)
	f("SELECT 1", "1:1 "+sql)
	f("INSERT INTO t VALUES (1)", "1:1 "+sql)
	f("Update t Set a = 1", "1:1 "+sql)
	f("delete from t", "1:1 "+sql)
	f("CREATE TABLE t (a)", "1:1 "+sql)
	f("WITH x AS (SELECT 1) SELECT * FROM x", "1:1 "+sql)
	f("select == 1 from", `1:13 an operator is missing between "1" and "from"`)
	f("update b", `1:8 an operator is missing between "update" and "b"`)
}

// notations are terms of the grammar, which do not help a user.
var notations = []string{
	"mismatched input", "extraneous input", "token recognition", "<EOF>", "no viable alternative", "Syntax error", "expecting",
	"IDENTIFIER", "NUM_", "undeclared reference", "matching overload", "_+_", "@in", "error recovery",
}

// TestNoGrammar breaks expressions in every place and checks the messages.
func TestNoGrammar(t *testing.T) {
	language := New()
	good := []string{
		"a.b[0] == 'x' && !c || d in [1, 2.5, 3u]", "{'a': 1, ?'b': c.?d}.a > 1 ? b'x' : r'\\d'", "list.map(x, x * 2).filter(i, i % 2 == 0)",
		"cel.bind(x, n + 1, x * -x)", "has(a.b) ? a.`odd name` : \"it's\"", "math.greatest(1, n, 2.5) >= size(list) // so",
		"'''a\nb'''.split('\\n')[?0].orValue(null)", "timestamp(0).getHours('UTC') != 1e3",
	}
	junk := []string{
		"", " ", "=", "===", "and", "or ", "not ", "(", ")", "[", "]", "{", "}", "&", "|", "?", ":", ",", ".", "..", "'", "\"", "`", "\\", "#", "$", "@", ";",
		"1", "0x", "1e", "x", "if ", "in ", "ö", "\xff", "\n", "=>", "?.", "--", "!", "-", "/", "//", "'''", "b'", "null", "{{", "Foo{", "💥", "\x00", "٣",
	}
	broken := 0
	for _, code := range good {
		for at := 0; at <= len(code); at++ {
			for i, j := range junk {
				if (at+i)%8 != 0 {
					continue // each at every eighth place
				}
				for _, cut := range []int{0, 1, len(code) - at} {
					bad := code[:at] + j + code[min(len(code), at+cut):]
					_, err := language.Compile(diag.PlainText(bad), lang.Options{})
					if err == nil {
						continue
					}
					broken++
					checkWords(t, bad, err)
				}
			}
		}
	}
	if broken < 3000 {
		t.Errorf("broke %d expressions, want more", broken)
	}
}

func checkWords(t *testing.T, code string, err error) {
	t.Helper()
	var list diag.List
	if !errors.As(err, &list) {
		var d *diag.Diagnostic
		if !errors.As(err, &d) {
			t.Errorf("%q: got %v, want diagnostics", code, err)
			return
		}
		list = diag.List{d}
	}
	for _, d := range list {
		for _, word := range notations {
			if strings.Contains(d.Msg, word) && !strings.Contains(code, word) {
				t.Errorf("%q: got %q, which has %q", code, d.Msg, word)
			}
		}
		if d.Msg == "" || !d.Pos.IsValid() {
			t.Errorf("%q: got %q at %v", code, d.Msg, d.Pos)
		}
	}
}

// The code comes from a template, so a message must not show it.
func TestHiddenMistakes(t *testing.T) {
	code := diag.PlainText("secret = 1")
	code.Hidden = true
	_, err := New().Compile(code, lang.Options{})
	if err == nil || strings.Contains(err.Error(), "=") {
		t.Errorf("got %v, want an error that quotes nothing", err)
	}
}
