package yamltree

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/schema"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestTrees reads what YAML and JSON have in common with places.
func TestTrees(t *testing.T) {
	src := New("f.yaml", []byte("a: [1, x]\n---\n{\"b\": null}\n"))
	docs, list := src.Load()
	roots, found := src.Trees(docs)
	if len(list)+len(found) > 0 || len(roots) != 2 {
		t.Fatalf("got %d trees, findings %v %v", len(roots), list, found)
	}
	if got, want := roots[0].ToValue().String()+roots[1].ToValue().String(), `{"a":[1,"x"]}{"b":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if x := roots[0].Field("a").Items[1]; x.Kind != schema.RawScalar || x.Pos.String() != "f.yaml:1:8" {
		t.Errorf("got kind %v at %s, want a scalar at f.yaml:1:8", x.Kind, x.Pos)
	}
}

// TestJSON reads JSON as json.dumps and others write it, with the places of the
// document.
func TestJSON(t *testing.T) {
	f := func(text, want, place string) {
		t.Helper()
		roots, list := New("f.json", []byte(text)).Read()
		if len(list) > 0 || len(roots) != 1 || len(roots[0].Items) != 2 {
			t.Fatalf("%s: got %d trees, findings %v, want a list of two", text, len(roots), list)
		}
		got, _ := roots[0].Items[0].Value.AsString()
		if pos := roots[0].Items[1].Pos.String(); got != want || pos != place {
			t.Errorf("%s: got %q and then %s, want %q and %s", text, got, pos, want, place)
		}
	}
	f(`["\ud83d\ude00", 1]`, "😀", "f.json:1:18")
	f(`["a\uD83D\uDE00b\uD83D\uDE00", 1]`, "a😀b😀", "f.json:1:32")
	f("[\"\u007f\", 1]", "\u007f", "f.json:1:7")
	f("[\"\uffff\ufffe\u0085\u2028\", 1]", "\uffff\ufffe\u0085\u2028", "f.json:1:10")
	f(`["\\ud83d\\ude00", 1]`, `\ud83d\ude00`, "f.json:1:20")
	f("[\"\\ud83d\\ude00\",\n 1]", "😀", "f.json:2:2")
	roots, _ := New("f.json", []byte(`["a\ud83d\ude00b", 1]`)).Read()
	if got := roots[0].Items[0].Text.At(5).String(); got != "f.json:1:16" {
		t.Errorf("got %s behind a surrogate pair, want f.json:1:16", got)
	}
	if _, list := New("f.json", []byte(`["\ud83d", 1]`)).Read(); len(list) != 1 || list[0].Pos.String() != "f.json:1:5" {
		t.Errorf("half of a surrogate pair: got %v, want a finding at f.json:1:5", list)
	}
}

// TestDirectives takes any version 1 of YAML, and ignores what YAML reserves.
func TestDirectives(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		roots, list := New("f", []byte(text)).Read()
		got := list.Error()
		for _, r := range roots {
			got += r.ToValue().String()
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	f("%YAML 1.2\n---\na: 1\n", `{"a":1}`)
	f("# first\n%YAML 1.3 # of today\n%FOO bar\n--- [1]\n...\n%YAML 1.2\n---\n[2]\n", `[1][2]`)
	f("%TAG ! tag:yaml.org,2002:\n---\na: !int 1\n", `{"a":1}`)
	f("a: |\n  x\n%YAML 1.2\n", "f:3:1: a directive stands within a document [F1001]")
	f("%YAML 2.0\n---\na: 1\n", "f:1:1: this version of YAML is not known [F1001]")
}

// TestMistakes has a place, a cause and a hint for what the parser says in its own
// terms, and shows nothing of the text.
func TestMistakes(t *testing.T) {
	f := func(text, place, msg, hint string) {
		t.Helper()
		_, list := New("f", []byte(text)).Read()
		if len(list) != 1 {
			t.Fatalf("%q: got %d findings, want 1", text, len(list))
		}
		d := list[0]
		if d.Pos.String() != "f:"+place || !strings.Contains(d.Msg, msg) || !strings.Contains(d.Hint, hint) {
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
		_, list := New("f", []byte(text)).Read()
		if got := list.Error(); !strings.Contains(got, want) {
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
		if got := New("f", []byte(text)).marks(); got > maxMarks {
			t.Errorf("%.40q: got %d marks, want at most %d", text, got, maxMarks)
		}
	}
}

// FuzzTrees reads any bytes without a panic and in bounded time.
func FuzzTrees(f *testing.F) {
	for _, seed := range []string{"", "a: &x [1]\nb: *x", "{", "- |\n  x", "a: |\n  [x, y]\nb: {c, d}", "a: \"\\\" : |\n  \", [a,a,a]", "- - |\n    x\n- a: >\n   y\n  b: [c]", "{a,b,c}", "? a\n? b", "*x", "[\"\\ud83d\\ude00\"]", "%A\n---\na", "<<: {a: 1}", "\xff", "a: !!int x", "? [a]\n: b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src := New("f", data)
		docs, list := src.Load()
		nodes := 0
		for _, doc := range docs {
			nodes += count(doc)
		}
		if marks := src.marks(); nodes > marks+2*len(docs) {
			t.Errorf("got %d nodes of %d marks", nodes, marks)
		}
		roots, found := src.Trees(docs)
		for _, d := range append(list, found...) {
			if d.Code == "" || d.Msg == "" {
				t.Errorf("finding without code or message: %v", d)
			}
		}
		read, _ := New("f", data).Read()
		for i, root := range roots {
			if i >= len(read) || root.ToValue().String() != read[i].ToValue().String() {
				t.Errorf("got another tree %d of Read than of Trees", i)
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
