package javascript

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// Code that would overflow the stack of the parsers, or take them minutes, is refused
// before, also in imported files.
func TestDeepCodeIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	for _, c := range []struct{ first, again, last string }{
		{"", "[", ""}, {"", "(", ""}, {"", "{", ""}, {"", "`${", ""}, {"", "a=>", "1"}, {"", "a=>\n", "1"}, {"", "1+", "1"}, {"", "1\n+", "1"}, {"", "!", "1"}, {"", "- ", "1"},
		{"", "typeof ", "1"}, {"let a;", "a=", "1"}, {"", "1?1:", "1"}, {"", "1**", "1"}, {"let a=1", ".a", ""}, {"let a=1", "?.a", ""},
		{"let a=x", "()", ""}, {"let a=x", "[0]", ""}, {"let a=x", "``", ""}, {"", "new ", "x"}, {"", "a:", "1"}, {"", "do ", "1"}, {"", "if(1)", "1"}, {"", "if(1)\n", "1"},
		{"", "for(;;)", "1"}, {"", "if(0);else ", "1"}, {"", "if(0);\nelse\n", "1"}, {"", "if(0){}else ", "1"}, {"async function f(){", "await ", "1}"},
		{"switch(1){", "case 1:", "}"}, {"let a=", "/x/*/x/+", "1"}, {"let a=", "(!", "1"}, {"let a=`", "${1}", "`"},
	} {
		code := c.first + strings.Repeat(c.again, 120_000/len(c.again)) + c.last
		refused := func(code string, opts lang.Options, at string) {
			t.Helper()
			_, err := language.Compile(diag.NewText(code, file, diag.Pos{File: file, Line: 1, Col: 1}, nil), opts)
			var d *diag.Diagnostic
			if !errors.As(err, &d) || !strings.Contains(d.Msg, "nest") && !strings.Contains(d.Msg, "cases") || filepath.Base(d.Pos.File) != at || d.Pos.Line == 0 {
				t.Errorf("%q…: got %.200v, want that it nests too deep, in %s", c.again, err, at)
			}
		}
		refused(code, lang.Options{}, "a.yaml")
		refused(code, lang.Options{Mode: lang.ModeExpression}, "a.yaml")
		if err := os.WriteFile(filepath.Join(dir, "b.js"), []byte(strings.Repeat(" ", 500_000)+code), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("import './b.js'; export default () => 1", lang.Options{}, "b.js")
	}
}

// TestLongCodeIsNotRefused has long code that does not nest.
func TestLongCodeIsNotRefused(t *testing.T) {
	for name, code := range map[string]string{
		"no semicolons": strings.Repeat("globalThis.a\n  ?.b(1 + 2)\n{\n  function f1() { return [1, 2].map(x => x * 2) }\n}\n{ let f1 = /[/{(]/.test('(') ? `a${1}b` : {}\n}\n", 900),
		"semicolons":    strings.Repeat("{ let a = 1 + 2 * 3, b = `${1}{`; for (let i = 0; i < 2; i++) { if (a) a = b; else if (b) b = a; else { a++; } } }", 900),
		"else if":       "let a = 1;" + strings.Repeat("if (a === 2) { a = 3 } else ", 400) + "{}",
		"a long list":   "const a = [" + strings.Repeat("{ a: 1, b: ['x', -1.5] },\n", 4000) + "]",
		"a long text":   "const a = " + strings.Repeat("'x' +\n", 1000) + "''",
		"a chain":       "const a = Promise.resolve(1)" + strings.Repeat("\n  .then(x => x + 1)", 300),
	} {
		if _, err := language.Compile(diag.PlainText(code+"\nexport default () => 1"), lang.Options{}); err != nil {
			t.Errorf("%s: got %.300v, want that it is compiled", name, err)
		}
	}
}

// A source map that a comment names is not read.
func TestSourceMapsAreNotRead(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "flows")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "a.yaml")
	for _, comment := range []string{"//# sourceMappingURL=" + secret, "//@ sourceMappingURL=../secret", "/*# sourceMappingURL=file://" + secret + " */", "//# sourceMappingURL=/dev/zero"} {
		if err := os.WriteFile(filepath.Join(folder, "b.js"), []byte("export default 1\n"+comment), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{comment + "\nexport default () => 1", "export default () => 1\n" + comment, "import b from './b'; export default () => b"} {
			p, err := language.Compile(diag.NewText(code, file, diag.Pos{}, nil), lang.Options{})
			if err != nil {
				t.Errorf("%s: got %v, want that it is ignored", code, err)
				continue
			}
			if got, err := p.Eval(t.Context(), value.Null()); err != nil || !got.Equal(value.Int(1)) {
				t.Errorf("%s: got %v, %v, want 1", code, got, err)
			}
		}
	}
}

// The bundler reads imported files only, and these must be files of the folder.
func TestOtherFilesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	for _, name := range []string{"package.json", "tsconfig.json", "pipe.js"} { // to open one waits for ever
		makePipe(t, filepath.Join(dir, name))
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero.js")); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"b.js": 0, "big.js": maxFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("export default 1"+strings.Repeat("\n", size)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for code, want := range map[string]string{
		"import b from './b'; export default () => b":      "",
		"import b from './pipe'; export default () => b":   "no such file",
		"import b from './zero'; export default () => b":   "no such file",
		"import b from './a.yaml'; export default () => b": "no such file",
		"import b from './big'; export default () => b":    "more than 1048576 bytes",
	} {
		_, err := language.Compile(diag.NewText(code, file, diag.Pos{}, nil), lang.Options{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", code, err, want)
		}
	}
}

// Code that ends too early is reported at the bracket that is not closed.
func TestUnclosedBrackets(t *testing.T) {
	for _, c := range []struct {
		mode      lang.Mode
		code      string
		line, col int
		want      string
	}{
		{lang.ModeFunction, "export default i => {\n  if (i) {\n    return 1\n}\n", 1, 21, `this "{" is never closed`},
		{lang.ModeFunction, "export default i => {\n  return [1, '}', /[}]/, `}`\n\n", 2, 10, `this "[" is never closed`},
		{lang.ModeFunction, "export default i => `a${i\n", 1, 23, `this "${" is never closed`},
		{lang.ModeFunction, "export default i => i +\n", 1, 24, "unexpected end of file"},
		{lang.ModeExpression, "{ a: [1, 2 }", 1, 12, `expected "]"`},
		{lang.ModeExpression, "{ a: (1", 1, 6, `this "(" is never closed`},
	} {
		var lines []diag.Pos
		for i := range 1 + strings.Count(c.code, "\n") {
			lines = append(lines, diag.Pos{File: "a.yaml", Line: 1 + i, Col: 1})
		}
		_, err := language.Compile(diag.NewText(c.code, "a.yaml", lines[0], lines), lang.Options{Mode: c.mode})
		var d *diag.Diagnostic
		if !errors.As(err, &d) || d.Pos.Line != c.line || d.Pos.Col != c.col || !strings.Contains(d.Msg, c.want) {
			t.Errorf("%q: got %v, want %d:%d %s", c.code, err, c.line, c.col, c.want)
		}
	}
}
