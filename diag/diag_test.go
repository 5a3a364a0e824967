package diag

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestError(t *testing.T) {
	f := func(d *Diagnostic, want string) {
		t.Helper()
		if got := d.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(&Diagnostic{Msg: "m"}, "m")
	f(&Diagnostic{Msg: "m", Pos: Pos{File: "a.yaml"}}, "a.yaml: m")
	f(&Diagnostic{Msg: "m", Pos: Pos{File: "a.yaml", Line: 3}}, "a.yaml:3: m")
	f(&Diagnostic{Code: "F2003", Msg: `want a duration such as "5s", got boolean`, Pos: Pos{"orders.yaml", 12, 7}, Node: "charge", Path: "timeout"},
		`orders.yaml:12:7: node "charge": timeout: want a duration such as "5s", got boolean [F2003]`)
	f(&Diagnostic{Severity: SeverityWarning, Code: "F5001", Msg: "m", Pos: Pos{"a", 1, 1}}, "a:1:1: warning: m [F5001]")
}

func TestErrorfKeepsCause(t *testing.T) {
	one := Errorf(CodeRead, "open: %w", fs.ErrNotExist)
	if !errors.Is(one, fs.ErrNotExist) || one.Msg != "open: file does not exist" {
		t.Errorf("got %v, want the cause kept", one)
	}
	two := Errorf(CodeRead, "%w and %w", fs.ErrExist, fs.ErrClosed)
	if !errors.Is(two, fs.ErrExist) || !errors.Is(two, fs.ErrClosed) {
		t.Errorf("got %v, want both causes kept", two)
	}
	if none := Errorf(CodeRead, "%v", fs.ErrExist); none.Err != nil {
		t.Errorf("got cause %v, want none", none.Err)
	}
	var d *Diagnostic
	if err := fmt.Errorf("load: %w", List{one}); !errors.As(err, &d) || d != one {
		t.Errorf("got %v, want the finding of the list", d)
	}
}

func TestListSort(t *testing.T) {
	var l List
	for i := range 250 {
		l.Add(&Diagnostic{Code: CodeYAML, Msg: "m", Pos: Pos{"a.yaml", 1 + (i*7)%250, 1}, Severity: SeverityWarning})
	}
	l.Add(&Diagnostic{Code: CodeYAML, Msg: "last", Pos: Pos{"b.yaml", 1, 1}})
	l.Add(&Diagnostic{Code: CodeYAML, Msg: "m", Pos: Pos{"a.yaml", 1, 1}, Severity: SeverityWarning}) // twice
	l.Sort()
	l.Add(&Diagnostic{Code: CodeYAML, Msg: "first"})
	l.Sort()
	if len(l) != MaxFindings+1 {
		t.Fatalf("got %d findings, want %d", len(l), MaxFindings+1)
	}
	if l[0].Msg != "first" || l[1].Pos.Line != 1 || l[2].Pos.Line != 2 {
		t.Errorf("got %v first, want them in order", l[:3])
	}
	if got, want := l[MaxFindings].Error(), "… and 152 more findings"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !l.HasErrors() || l.Err() == nil {
		t.Error("got no errors, want the error that was cut to count")
	}
}

func TestListIsBounded(t *testing.T) {
	var l List
	for i := range 100_000 {
		l.Add(&Diagnostic{Msg: "m", Pos: Pos{"a", i + 1, 1}})
	}
	if len(l) > 20*MaxFindings {
		t.Errorf("got %d findings held, want at most %d", len(l), 20*MaxFindings)
	}
	l.Sort()
	if got, want := l[MaxFindings].Error(), "… and 99900 more findings"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRender(t *testing.T) {
	source := "- kind: snippet\n\tname: pong\n  timeout: true\n" + strings.Repeat("x", 200) + "\n\n  evil: \x1b[31m\n"
	l := List{
		(&Diagnostic{Code: "F2003", Msg: "want a duration\nor none", Pos: Pos{"f.yaml", 3, 12}, Node: "pong", Path: "timeout"}).WithHint("write %s", "5s"),
		{Msg: "no place"},
		{Msg: "tab", Pos: Pos{"f.yaml", 2, 2}, Severity: SeverityWarning},
		{Msg: "long", Pos: Pos{"f.yaml", 4, 150}},
		{Msg: "empty line", Pos: Pos{"f.yaml", 5, 1}},
		{Msg: "escape \x1b[2J", Pos: Pos{"f.yaml", 6, 9}},
		{Msg: "private", Pos: Pos{"f.yaml", 3, 1}, Private: true},
		{Msg: "past the end", Pos: Pos{"f.yaml", 99, 1}},
		{Msg: "other file", Pos: Pos{"g.yaml", 1, 1}},
	}
	var b strings.Builder
	sources := func(file string) []byte {
		if file == "f.yaml" {
			return []byte(source)
		}
		return nil
	}
	if err := Render(&b, l, sources, false); err != nil {
		t.Fatal(err)
	}
	want := `f.yaml:3:12: node "pong": timeout: want a duration
      or none [F2003]
    3 |   timeout: true
      |            ^
      hint: write 5s
no place
f.yaml:2:2: warning: tab
    2 |     name: pong
      |     ^
f.yaml:4:150: long
    4 | …` + strings.Repeat("x", 119) + `
      | ` + strings.Repeat(" ", 69) + `^
f.yaml:5:1: empty line
f.yaml:6:9: escape �[2J
    6 |   evil: �[31m
      |         ^
f.yaml:3:1: private
f.yaml:99:1: past the end
g.yaml:1:1: other file
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := Render(&b, l[:1], sources, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), red+"^"+plain) || !strings.Contains(b.String(), cyan+"hint:"+plain) {
		t.Errorf("got %q, want it coloured", b.String())
	}
}

func TestJSON(t *testing.T) {
	d := &Diagnostic{Code: "F2003", Msg: "m", Pos: Pos{"f.yaml", 3, 12}, Node: "pong", Path: "timeout", Pointer: "/0/timeout", Hint: "h"}
	got, err := json.Marshal(List{d, {Msg: "x", Severity: SeverityWarning}})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"code":"F2003","severity":"error","file":"f.yaml","line":3,"col":12,"node":"pong","path":"timeout","pointer":"/0/timeout","message":"m","hint":"h"},{"code":"","severity":"warning","message":"x"}]`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestText(t *testing.T) {
	f := func(text Text, line, col int, want string) {
		t.Helper()
		if got := text.Pos(line, col).String(); got != want {
			t.Errorf("%d:%d: got %s, want %s", line, col, got, want)
		}
	}
	block := NewText("a\néb\n\nc", "f", Pos{"f", 4, 9}, []Pos{{"f", 5, 3}, {"f", 6, 3}, {"f", 7, 3}, {"f", 8, 3}})
	f(block, 1, 1, "f:5:3")
	f(block, 2, 2, "f:6:4")
	f(block, 2, 9, "f:6:11")
	f(block, 4, 1, "f:8:3")
	f(block, 9, 1, "f:8:3")
	f(block, 0, 0, "f:5:3")
	if got, want := block.At(len("a\né")).String(), "f:6:4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	folded := NewFoldedText("aa bb cc", "f", Pos{"f", 4, 9}, []Part{{0, Pos{"f", 5, 3}}, {3, Pos{"f", 6, 5}}})
	f(folded, 1, 2, "f:5:4")
	f(folded, 1, 4, "f:6:5")
	f(folded, 1, 8, "f:6:9")
	f(NewText("a\nb", "f", Pos{"f", 4, 9}, nil), 2, 5, "f:4:9")
	f(Text{}, 3, 4, "")
	f(PlainText("a\nb"), 2, 1, ":2:1")
	f(block.Rendered("x\ny\nz\nw"), 3, 7, "f:7")
	f(block.Rendered("x"), 1, 7, "f:5:3")
}

func TestCatalogue(t *testing.T) {
	form := regexp.MustCompile(`^F[1-79][0-9]{3}$`)
	seen := make(map[Code]bool)
	last := Code("")
	for _, e := range Catalogue() {
		if !form.MatchString(string(e.Code)) || seen[e.Code] || e.Code < last {
			t.Errorf("got code %q, want it well-formed, once and in order", e.Code)
		}
		seen[e.Code], last = true, e.Code
		if e.Title == "" || strings.HasSuffix(e.Title, ".") || len(e.Explanation) < 20 {
			t.Errorf("%s: got title %q and %d bytes of explanation, want both", e.Code, e.Title, len(e.Explanation))
		}
		if (e.Bad == "") != (e.Good == "") || e.Bad == e.Good && e.Bad != "" {
			t.Errorf("%s: got examples %q and %q, want both or none", e.Code, e.Bad, e.Good)
		}
	}
	source, err := os.ReadFile("codes.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`Code = "(F[0-9]+)"`).FindAllSubmatch(source, -1) {
		if !seen[Code(m[1])] {
			t.Errorf("%s: got no entry in codes.md", m[1])
		}
		delete(seen, Code(m[1]))
	}
	if len(seen) > 0 {
		t.Errorf("got entries of %v, which are not among the codes", seen)
	}
	if _, ok := Lookup("f2001"); !ok {
		t.Error("Lookup(f2001): got nothing, want the entry of F2001")
	}
	if _, ok := Lookup("F8000"); ok {
		t.Error("Lookup(F8000): got an entry, want none")
	}
}

func FuzzRender(f *testing.F) {
	f.Add("a: b\n\tc", 2, 1, "m")
	f.Add("\x1b\xff", 1, 9, "\x00")
	f.Fuzz(func(t *testing.T, source string, line, col int, msg string) {
		var b strings.Builder
		err := Render(&b, List{{Msg: msg, Pos: Pos{"f", line, col}, Hint: msg}}, func(string) []byte { return []byte(source) }, false)
		if err != nil || strings.ContainsAny(b.String(), "\x1b\x00\r") {
			t.Errorf("got %q, %v, want nothing that moves the cursor", b.String(), err)
		}
	})
}
