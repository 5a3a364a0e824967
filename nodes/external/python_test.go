package external_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// python is a node with a function.
func python(code, more string) string {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	return "- kind: python\n  name: n\n  python: /usr/bin/python3\n" + more + "  code: |\n    " + strings.Join(lines, "\n    ") + "\n"
}

func TestPython(t *testing.T) {
	f := newFlow(t)
	f.Load(python(`
import sys, os, datetime, uniflow
def helper(x):
    return 10 // x
def handle(p):
    print("for the log")
    os.write(1, b"not for the answers\n")
    if p == "error":
        raise uniflow.Error("no stock", code="stock", status=409, data={"left": 2})
    if p == "exit":
        sys.exit(3)
    if p == "date":
        return datetime.date(2030, 1, 2)
    if p == "set":
        return {1}
    if p == "object":
        return object()
    if p == "nan":
        return float("nan")
    if p == "deep":
        return helper(0)
    if p == "library":
        import json
        return json.loads("{")
    if p == "big":
        return 2 ** 64 - 1
    if p == "stdin":
        return sys.stdin.read()
    return {"got": p}
`, ""))
	for _, c := range []struct{ send, want string }{
		{`{"a": [1, 2.5, null, "é"]}`, `{"got":{"a":[1,2.5,null,"é"]}}`},
		{`"date"`, `"2030-01-02"`},
		{`"set"`, `[1]`},
		{`"big"`, `18446744073709551615`},
		{`"stdin"`, `""`},
	} {
		if got := f.SendJSON("n", c.send); got != c.want {
			t.Errorf("%s: got %s, want %s", c.send, got, c.want)
		}
	}
	for _, c := range []struct {
		send, code, want, at string
		status               int
	}{
		{"error", "stock", "no stock", "test.yaml:12:", 409},
		{"exit", "python", "SystemExit: 3", "test.yaml:14:", 500},
		{"object", "python", "cannot be", "", 500},
		{"deep", "python", "ZeroDivisionError: integer division", "test.yaml:7:", 500},
		{"library", "python", "JSONDecodeError: ", "test.yaml:27:", 500},
	} {
		e := failure(t, f.Send("n", text(c.send)))
		if e.Code != c.code || e.Status != c.status || !strings.Contains(node.Message(e), c.want) || !strings.Contains(e.Error(), c.at) {
			t.Errorf("%s: got %v, code %s, status %d", c.send, e, e.Code, e.Status)
		}
	}
	if !strings.Contains(f.Log(), "for the log") || !strings.Contains(f.Log(), "not for the answers") {
		t.Errorf("what is printed is not in the log:\n%s", f.Log())
	}
}

// TestPythonNumbers expects that numbers that JSON does not have are errors, also with orjson, which writes them as null.
func TestPythonNumbers(t *testing.T) {
	dir := t.TempDir()
	orjson := "import json, re\nOPT_NON_STR_KEYS = 4\nloads = json.loads\n" +
		"def dumps(v, default=None, option=0):\n    return re.sub('NaN|-?Infinity', 'null', json.dumps(v, default=default)).encode()\n"
	if err := os.WriteFile(filepath.Join(dir, "orjson.py"), []byte(orjson), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"", fmt.Sprintf("  environment: {PYTHONPATH: %q}\n", dir)} {
		f := newFlow(t)
		f.Load(python(`
def handle(p):
    return {"none": None, "found": [1.5, float(p)]}
`, more))
		for _, number := range []string{"nan", "inf", "-inf"} {
			if e := failure(t, f.Send("n", text(number))); e.Code != "python" || !strings.Contains(node.Message(e), "ValueError: ") {
				t.Errorf("%s: got %v", number, e)
			}
		}
		if got, want := f.SendJSON("n", `"2.5"`), `{"none":null,"found":[1.5,2.5]}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestPythonMistakes expects that code that cannot be loaded does not start, with its place.
func TestPythonMistakes(t *testing.T) {
	for _, c := range []struct{ code, more, want string }{
		{"def handle(p):\n  return (", "", "test.yaml:6:"},
		{"import no_such_module\ndef handle(p): pass", "", "ModuleNotFoundError: No module named 'no_such_module'"},
		{"x = 1\ny = x / 0", "", "test.yaml:6:"},
		{"def other(p): pass", "", "the code has no function handle"},
		{"def handle(p): pass", "  file: other.py\n", "the code is either here or in a file"},
	} {
		f := newFlow(t)
		list, err := f.Apply(python(c.code, c.more))
		if text := fmt.Sprint(list, err); !strings.Contains(text, c.want) {
			t.Errorf("%s: got %s, want %s", c.code, text, c.want)
		}
	}
}

func TestPythonFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("code", 0o700); err != nil {
		t.Fatal(err)
	}
	write("code/more.py", "def double(x):\n    return 2 * x\n")
	write("code/h.py", "from more import double\ndef go(p):\n    return double(p['n'])\n")
	for _, more := range []string{"", ", sandbox: {network: false}"} {
		f := newFlow(t)
		document := "- {kind: python, name: n, python: /usr/bin/python3, file: code/h.py, function: go" + more + "}"
		f.Load(document)
		if got := f.SendJSON("n", `{"n": 21}`); got != "42" {
			t.Errorf("got %s", got)
		}
		e := failure(t, f.Send("n", value.Map()))
		if want := filepath.Join("code", "h.py") + ":3:1"; !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), "KeyError: 'n'") {
			t.Errorf("got %v, want %s", e, want)
		}
		write("code/h.py", "def go(p):\n    return 'changed'\n")
		f.Load(document)
		if got := f.SendJSON("n", `{"n": 21}`); got != `"changed"` {
			t.Errorf("got %s", got)
		}
		write("code/h.py", "from more import double\ndef go(p):\n    return double(p['n'])\n")
		f.Close()
	}
	f := newFlow(t)
	if list := f.Check("- {kind: python, name: n, file: none.py}"); !strings.Contains(list.Error(), "test.yaml:1:33") || !strings.Contains(list.Error(), "none.py") {
		t.Errorf("got %v", list)
	}
}

func BenchmarkPython(b *testing.B) {
	f := newFlow(b)
	f.Load("- {kind: source, name: src, ports: {out: [{name: n}]}}\n" + python("def handle(p):\n  return p", "  in_flight: 256\n  processes: 1\n"))
	lines(b, f)
}
