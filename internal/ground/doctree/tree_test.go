package doctree

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var limits = Limits{Size: 16 << 20, Values: 525_000}

func open(text string) *Source { return New("f", []byte(text), limits) }

// show writes a tree as one line.
func show(n *Node) string {
	switch n.Kind {
	case List:
		parts := make([]string, len(n.Items))
		for i := range n.Items {
			parts[i] = show(&n.Items[i])
		}
		return "[" + strings.Join(parts, ",") + "]"
	case Map:
		parts := make([]string, len(n.Fields))
		for i := range n.Fields {
			parts[i] = fmt.Sprintf("%q:%s", n.Fields[i].Name, show(&n.Fields[i].Value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case Null:
		return "null"
	case String:
		return strconv.Quote(n.Text)
	case Bool:
		return strconv.FormatBool(n.Bool())
	case Int:
		return strconv.FormatInt(n.Int(), 10)
	case Uint:
		return strconv.FormatUint(n.Uint(), 10)
	case Binary:
		return fmt.Sprintf("binary %q", n.Binary())
	}
	return fmt.Sprintf("number %v", n.Float())
}

func messages(errs []*Error) string {
	var b strings.Builder
	for _, e := range errs {
		fmt.Fprintf(&b, "%d:%d: %s: %s", e.Pos.Line, e.Pos.Column, e.Pointer, e.Msg)
	}
	return b.String()
}

// TestTrees reads what YAML and JSON have in common with places.
func TestTrees(t *testing.T) {
	src := open("a: [1, x]\n---\n{\"b\": null}\n")
	roots, errs := src.Read()
	if len(errs) > 0 || len(roots) != 2 {
		t.Fatalf("got %d trees, errors %s", len(roots), messages(errs))
	}
	if got, want := show(roots[0])+show(roots[1]), `{"a":[1,"x"]}{"b":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if at := roots[0].Fields[0].Value.Items[1].Pos; at != (Pos{1, 8}) {
		t.Errorf("got a place %v, want 1:8", at)
	}
}

// TestScalars reads scalars by the core schema of YAML 1.2.
func TestScalars(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		roots, errs := open("- " + text).Read()
		if got := show(&roots[0].Items[0]) + messages(errs); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	f("0x1f", "31")
	f("0o17", "15")
	f("0o9", `"0o9"`)
	f("18446744073709551615", "18446744073709551615")
	f("18446744073709551616", "number 1.8446744073709552e+19")
	f("0xffffffffffffffffff", "number +Inf")
	f("1e999", "number +Inf")
	f("-.inf", "number -Inf")
	f("1.5", "number 1.5")
	f("!!float 1", "number 1")
	f("!!binary aGk=", `binary "hi"`)
	f("!!str 1", `"1"`)
	f("True", "true")
	f("~", "null")
	f("!!int x", "null1:3: /0: the tag !!int does not fit the value")
	f("!!set x", "null1:3: /0: unknown tag !!set")
	f("{a: 1, a: 2}", `{"a":1}1:10: /0/a: the key "a" is already at f:1:4`)
	f("{a: &a {x: 1, y: 2}, <<: [*a, {y: 3, z: 4}], x: 5}", `{"a":{"x":1,"y":2},"x":5,"y":2,"z":4}`)
	f("{<<: 1}", "{}1:8: /0: << needs a map or a list of maps")
	f("&a {<<: *a}", "{}1:11: /0: the alias *a is part of what it stands for")
	f("{[a]: 1}", "{}1:4: /0: a key must be text")
}

// TestJSON reads JSON as json.dumps and others write it, with the places of the
// document.
func TestJSON(t *testing.T) {
	f := func(text, want string, place Pos) {
		t.Helper()
		roots, errs := open(text).Read()
		if len(errs) > 0 || len(roots) != 1 || len(roots[0].Items) != 2 {
			t.Fatalf("%s: got %d trees, errors %s, want a list of two", text, len(roots), messages(errs))
		}
		if got, at := roots[0].Items[0].Text, roots[0].Items[1].Pos; got != want || at != place {
			t.Errorf("%s: got %q and then %v, want %q and %v", text, got, at, want, place)
		}
	}
	f(`["\ud83d\ude00", 1]`, "😀", Pos{1, 18})
	f(`["a\uD83D\uDE00b\uD83D\uDE00", 1]`, "a😀b😀", Pos{1, 32})
	f("[\"\u007f\", 1]", "\u007f", Pos{1, 7})
	f("[\"\uffff\ufffe\u0085\u2028\", 1]", "\uffff\ufffe\u0085\u2028", Pos{1, 10})
	f(`["\\ud83d\\ude00", 1]`, `\ud83d\ude00`, Pos{1, 20})
	f("[\"\\ud83d\\ude00\",\n 1]", "😀", Pos{2, 2})
	if _, errs := open(`["\ud83d", 1]`).Read(); len(errs) != 1 || errs[0].Pos != (Pos{1, 5}) {
		t.Errorf("half of a surrogate pair: got %s, want an error at 1:5", messages(errs))
	}
}

// TestDirectives takes any version 1 of YAML, and ignores what YAML reserves.
func TestDirectives(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		roots, errs := open(text).Read()
		got := messages(errs)
		for _, r := range roots {
			got += show(r)
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	f("%YAML 1.2\n---\na: 1\n", `{"a":1}`)
	f("# first\n%YAML 1.3 # of today\n%FOO bar\n--- [1]\n...\n%YAML 1.2\n---\n[2]\n", `[1][2]`)
	f("%TAG ! tag:yaml.org,2002:\n---\na: !int 1\n", `{"a":1}`)
	f("a: |\n  x\n%YAML 1.2\n", "3:1: : a directive stands within a document")
	f("%YAML 2.0\n---\na: 1\n", "1:1: : this version of YAML is not known")
}

// TestMistakes has a place, a cause and a hint for what the parser says in its own
// terms, and shows nothing of the text.
func TestMistakes(t *testing.T) {
	f := func(text, place, msg, hint string) {
		t.Helper()
		_, errs := open(text).Read()
		if len(errs) != 1 {
			t.Fatalf("%q: got %d errors, want 1", text, len(errs))
		}
		d := errs[0]
		if fmt.Sprintf("%d:%d", d.Pos.Line, d.Pos.Column) != place || !strings.Contains(d.Msg, msg) || !strings.Contains(d.Hint, hint) {
			t.Errorf("%q: got %v, hint %q, want %s at %s, hint %s", text, d, d.Hint, msg, place, hint)
		}
	}
	f("- kind: a\n  code: \"hello\n  port: 1\n", "2:9", "the quote that begins here is not closed", "closing quote")
	f("- kind: a\n  code: 'hello\n  port: 1\n", "2:9", "the quote that begins here is not closed", "closing quote")
	f("- kind: a\n  code: \"a\" + b\n", "2:13", "text after the end of a quoted value", "put the whole value in quotes")
	f("- kind: a\n  code: [1,2].size()\n", "2:14", "text after the end", "put the whole value in quotes")
	f("- kind: a\n  code: 'it's'\n", "2:13", "text after the end", "within them, ' is written ''")
	f("- kind: a\n  code: [1,2\n  name: b\n", "2:9", "the bracket that is opened here is not closed", "close it")
	f("{\"a\" 1}", "1:6", "a comma or the closing bracket is missing", "commas")
	f("- kind: a\n   code: x\n", "2:8", "a key is not allowed here", "indent it exactly as the key above")
	f("- kind: a\n  code: x ? y : z\n", "2:15", `a second ": " in one value`, "needs quotes")
	f("- kind a\n  name: b\n", "2:7", "a key is not allowed here", "a blank after each key")
	f("- kind: a\n name: x\n", "2:2", "indented less than the list entry", "begin a new entry")
	f("kind: a\n- kind: b\n", "2:1", "a list entry stands where a key is expected", "either a map or a list")
	f("a:\n  b:\n    c: 1\n   d: 1\n", "4:4", "not aligned with the keys above", "indent it exactly")
	f("- kind: a\n  code:x\n  name: b\n", "2:3", "not a key with a value", "a blank after the colon")
	f("- kind: a\n  name: @x\n", "2:9", "cannot begin with this character", "quote text")
	f("- kind: a\n\tname: x\n", "2:1", "a tab character stands in the indentation", "spaces")
	f("- kind: a\n  name: *secret\n", "2:9", "the alias refers to an anchor that is not there", "needs quotes")
	f("- kind: a\n  name: |x\n", "2:10", "text stands on the line of its | or >", "on the lines below")
	f("- kind: a\n  code: \"\\d+\"\n", "2:10", "the escape is unknown", "single quotes")
	f("- kind: a\n  code: - x\n", "2:9", "cannot begin on the line of its key", "on the next line")
	f("- kind: a\n  code: ]\n", "2:9", "a value is missing", "quote text")
	f("{'a': 1}}", "1:9", "text after the end of the document", "bracket that is too many")
}

// TestBounds refuses what would take hundreds of megabytes before it is parsed, says
// what is too large, and takes what people write.
func TestBounds(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, errs := open(text).Read()
		if got := messages(errs); !strings.Contains(got, want) {
			t.Errorf("%.40q: got %.200s, want %q", text, got, want)
		}
	}
	const many, aliases = "the document has too many keys and values", "the document is too large once its aliases are expanded"
	f(strings.Repeat("---\n", 1_100_000), many)
	f("["+strings.Repeat("a,", 8_000_000)+"]", many)
	f(strings.Repeat("- kind: nop\n  a: 1\n  b: 2\n  c: 3\n  d: 4\n  e: 5\n  f: 6\n  g: 7\n  h: 8\n  i: 9\n", 100_000), many)
	f("? "+strings.Repeat("k", 1_000_000)+"\n: ["+strings.Repeat("a,", 1000)+"]\n", many)
	f("- &a {c: ["+strings.Repeat("x,", 1000)+"]}\n"+strings.Repeat("- *a\n", 600), aliases)
	for _, text := range []string{
		"a: |\n" + strings.Repeat("  {x: [1, 2, 3], y: [4]}\n", 500_000),
		"routes:\n" + strings.Repeat("- {method: GET, path: /a/b/c, port: \"out[0]\"}\n", 100_000),
	} {
		if got := open(text).marks(); got > 2*limits.Values {
			t.Errorf("%.40q: got %d marks, want at most %d", text, got, 2*limits.Values)
		}
	}
}

// FuzzTrees reads any bytes without a panic and in bounded time.
func FuzzTrees(f *testing.F) {
	for _, seed := range []string{"", "a: &x [1]\nb: *x", "{", "- |\n  x", "a: |\n  [x, y]\nb: {c, d}", "a: \"\\\" : |\n  \", [a,a,a]", "- - |\n    x\n- a: >\n   y\n  b: [c]", "{a,b,c}", "? a\n? b", "*x", "[\"\\ud83d\\ude00\"]", "%A\n---\na", "<<: {a: 1}", "\xff", "a: !!int x", "? [a]\n: b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := New("f", data, limits)
		docs, errs := src.Load()
		nodes := 0
		for _, doc := range docs {
			nodes += count(doc)
		}
		if marks := src.marks(); nodes > marks+2*len(docs) {
			t.Errorf("got %d nodes of %d marks", nodes, marks)
		}
		walked := new(tree)
		for _, e := range append(errs, src.Walk(docs, walked)...) {
			if e.Msg == "" {
				t.Errorf("an error without a message: %v", e)
			}
		}
		read, _ := New("f", data, limits).Read()
		for i, root := range walked.roots {
			src.parts(t, root)
			if i >= len(read) || show(root) != show(read[i]) {
				t.Errorf("got another tree %d of Read than of Walk", i)
			}
		}
	})
}

func count(n *yaml.Node) int {
	total := 1
	for _, c := range n.Content {
		total += count(c)
	}
	return total
}

// parts checks the places of all scalars of a tree.
func (s *Source) parts(t *testing.T, n *Node) {
	last := -1
	s.Parts(n, func(offset int, at Pos) {
		if offset <= last && offset > 0 || offset > len(n.Text) || at.Line < 1 || at.Column < 1 {
			t.Errorf("got a part at %d of %q after %d, place %v", offset, n.Text, last, at)
		}
		last = offset
	})
	for i := range n.Items {
		s.parts(t, &n.Items[i])
	}
	for i := range n.Fields {
		s.parts(t, &n.Fields[i].Value)
	}
}

// TestMergeLimit reads maps that are merged so often that reading would take hours.
// None of their keys is new, so no value is read.
func TestMergeLimit(t *testing.T) {
	f := func(text string) {
		t.Helper()
		_, errs := New("f", []byte(text), Limits{Size: 1 << 20, Values: 1000}).Read()
		if len(errs) != 1 || errs[0].Kind != TooLarge {
			t.Errorf("got errors %s, want one of kind TooLarge", messages(errs))
		}
	}
	many := func(alias string) string { return "[" + strings.Repeat(alias+",", 800) + "]" }
	f("a: &a {x: 1}\nb: &b {<<: " + many("*a") + "}\nc: {<<: " + many("*b") + "}\n")
	f("a: &a {" + strings.Join(numbered(800), ": 1, ") + ": 1}\nb: {<<: " + many("*a") + "}\n")
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "x" + strconv.Itoa(i)
	}
	return names
}
