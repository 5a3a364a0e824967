package language

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/spec"
)

const orders = `- kind: router
  name: web
  routes: [{method: GET, path: /}]
  ports:
    out[0]: "price"
    error: {name: both, port: in}
- {kind: snippet, name: price, language: cel, code: self, ports: {out: [both]}}
- kind: block
  name: inner
  specs:
    - {kind: snippet, name: price, language: cel, code: self, ports: {out: done}}
    - {kind: log, name: done}
  inbounds: {in: price}
  outbounds: {out: done}
`

const pricing = `- kind: merge
  name: 'both'
- kind: test
  name: prices
  ports: {out: price}
`

// written writes ranges as FILE:LINE:COLUMN-COLUMN.
func written(ranges []Range) string {
	var b strings.Builder
	for _, r := range ranges {
		fmt.Fprintf(&b, "%s:%d:%d-%d ", r.From.File, r.From.Line, r.From.Col, r.To.Col)
	}
	return strings.TrimSpace(b.String())
}

func TestNames(t *testing.T) {
	w := workspace(t, "a.yaml", orders, "b.yaml", pricing)
	for _, c := range []struct{ at, definition, references string }{
		{"a.yaml:5:15", "a.yaml:7:25-30", "a.yaml:5:14-19 b.yaml:5:16-21"}, // in quotes
		{"a.yaml:7:25", "a.yaml:7:25-30", "a.yaml:5:14-19 b.yaml:5:16-21"}, // the name itself
		{"a.yaml:6:20", "b.yaml:2:10-14", "a.yaml:6:19-23 a.yaml:7:73-77"}, // in another file
		{"a.yaml:13:19", "a.yaml:11:29-34", "a.yaml:13:18-23"},             // of a sub-graph
		{"a.yaml:14:22", "a.yaml:12:25-29", "a.yaml:11:76-80 a.yaml:14:20-24"},
		{"a.yaml:3:12", "", ""},
		{"a.yaml:99:1", "", ""},
	} {
		var at diag.Pos
		file, place, _ := strings.Cut(c.at, ":")
		if _, err := fmt.Sscanf(place, "%d:%d", &at.Line, &at.Col); err != nil {
			t.Fatal(err)
		}
		at.File = file
		r, ok := w.Definition(at)
		if got := written([]Range{r}); ok && got != c.definition || ok != (c.definition != "") {
			t.Errorf("%s: the definition is at %q (%v), want %q", c.at, got, ok, c.definition)
		}
		if got := written(w.References(at, false)); got != c.references {
			t.Errorf("%s: the references are %q, want %q", c.at, got, c.references)
		}
		if all := w.References(at, true); c.references != "" && (len(all) == 0 || written(all[:1]) != c.definition) {
			t.Errorf("%s: the first of %q is not where the name is given", c.at, written(all))
		}
	}
}

func TestRename(t *testing.T) {
	w := workspace(t, "a.yaml", orders, "b.yaml", pricing)
	at := diag.Pos{File: "a.yaml", Line: 7, Col: 25}
	if r, name, ok := w.Renamable(at); !ok || name != "price" || written([]Range{r}) != "a.yaml:7:25-30" {
		t.Errorf("renamable: %v %q %v", r, name, ok)
	}
	for name, plain := range map[string]string{"cost": "cost", `a "b": c`: `"a \"b\": c"`, "true": `"true"`} {
		quoted := `"` + strings.Trim(plain, `"`) + `"`
		wantA := strings.Replace(orders, "\n- {kind: snippet, name: price", "\n- {kind: snippet, name: "+plain, 1) // the inner one stays
		wantA = strings.Replace(wantA, `"price"`, quoted, 1)
		wantB := strings.Replace(pricing, "price}", plain+"}", 1)
		edits, err := w.Rename(at, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := apply(t, w, "a.yaml", edits); got != wantA {
			t.Errorf("%s: a.yaml became\n%s\nwant\n%s", name, got, wantA)
		}
		if got := apply(t, w, "b.yaml", edits); got != wantB {
			t.Errorf("%s: b.yaml became\n%s\nwant\n%s", name, got, wantB)
		}
	}
	for name, why := range map[string]string{"both": "has a node", "": "a name has", " x": "a name has", "web": "has a node"} {
		if _, err := w.Rename(at, name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("rename to %q: got %v, want an error with %q", name, err, why)
		}
	}
	w.Set(spec.Document{File: "b.yaml", Data: []byte(pricing + "- [\n")})
	if _, err := w.Rename(at, "cost"); err == nil || !strings.Contains(err.Error(), "b.yaml cannot be read") {
		t.Errorf("rename while a document is broken: got %v", err)
	}
}

// apply returns a document with the edits made that are about it.
func apply(t *testing.T, w *Workspace, file string, edits []Edit) string {
	t.Helper()
	for _, doc := range w.Apply(edits) {
		if doc.File == file {
			return string(doc.Data)
		}
	}
	return w.texts[file].src().Text
}

// TestRenameMocked renames a node in the mocks of a test, too.
func TestRenameMocked(t *testing.T) {
	const test = "- {kind: test, name: t, ports: {out: price}, mocks: [{node: other, language: json, code: '1'}, {node: 'price', language: json, code: '\"price\"'}]}\n"
	w := workspace(t, "a.yaml", orders, "t.yaml", test)
	edits, err := w.Rename(diag.Pos{File: "a.yaml", Line: 7, Col: 25}, "cost")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(strings.Replace(test, "out: price", "out: cost", 1), "node: 'price'", "node: 'cost'", 1)
	if got := apply(t, w, "t.yaml", edits); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r, ok := w.Definition(diag.Pos{File: "t.yaml", Line: 1, Col: strings.Index(test, "'price'") + 3}); !ok || r.From.File != "a.yaml" {
		t.Errorf("the definition is at %v, %v", r, ok)
	}
}

// TestRenameHere leaves another workflow in the same folder alone, whose nodes have the same names.
func TestRenameHere(t *testing.T) {
	w := workspace(t, "a.yaml", shop, "b.yaml", shop)
	for _, file := range []string{"a.yaml", "b.yaml"} {
		edits, err := w.Rename(diag.Pos{File: file, Line: 8, Col: 10}, "cost")
		if err != nil || len(edits) != 2 || edits[0].From.File != file || edits[1].From.File != file {
			t.Errorf("a rename in %s: %+v, %v", file, edits, err)
		}
	}
}

func TestHover(t *testing.T) {
	w := workspace(t, "a.yaml", orders, "b.yaml", pricing)
	for at, want := range map[diag.Pos]string{
		{File: "a.yaml", Line: 1, Col: 10}: "**router**",
		{File: "a.yaml", Line: 3, Col: 5}:  "**routes**",
		{File: "a.yaml", Line: 3, Col: 14}: "**method**",
		{File: "a.yaml", Line: 5, Col: 6}:  "**out[0]**",
		{File: "a.yaml", Line: 6, Col: 20}: "**both** merge, b.yaml:",
		{File: "a.yaml", Line: 6, Col: 31}: "**in**",
		{File: "a.yaml", Line: 6, Col: 6}:  "**error**",
	} {
		if _, doc, ok := w.Hover(at); !ok || !strings.Contains(doc, want) {
			t.Errorf("%v: got %q, want %q in it", at, doc, want)
		}
	}
	if _, doc, ok := w.Hover(diag.Pos{File: "a.yaml", Line: 99, Col: 1}); ok {
		t.Errorf("outside of the document: %q", doc)
	}
}

func TestCheck(t *testing.T) {
	text := "- {kind: snippet, name: one, languag: cel, code: self, ports: {out: twoo}}\n"
	w := workspace(t, "a.yaml", text,
		"b.yaml", "- {kind: log, name: two}\n- {kind: log, ports: {out: one}}\n", "c.yaml", "- kind: [\n")
	found := w.Check("a.yaml")
	if _, ok := found["b.yaml"]; !ok || len(found) != 2 {
		t.Errorf("the workflow has %d documents", len(found))
	}
	for _, f := range found["a.yaml"] {
		if f.From.Line != 1 || f.To.Col <= f.From.Col {
			t.Errorf("%v is at %v to %v", f.Diagnostic, f.From, f.To)
		}
	}
	var edits []Edit
	for _, a := range w.Actions("a.yaml", found["a.yaml"]) {
		edits = append(edits, a.Edits...)
	}
	if got, want := apply(t, w, "a.yaml", edits), strings.NewReplacer("languag:", "language:", "twoo", "two").Replace(text); got != want {
		t.Errorf("with %d fixes it became\n%s\nwant\n%s", len(edits), got, want)
	}
	if found := w.Check("c.yaml")["c.yaml"]; len(found) != 1 || found[0].Code != diag.CodeYAML {
		t.Errorf("c.yaml: %v", found)
	}
	if found := w.Check("none.yaml"); len(found) != 0 {
		t.Errorf("a file that is not there: %v", found)
	}
}

func TestOlderForm(t *testing.T) {
	w := workspace(t, "a.yaml", "- kind: snippet\n  name: one\n  language: cel\n  code: self\n  links:\n    out: [{name: two}]\n- {kind: log, name: two}\n")
	actions := w.Actions("a.yaml", w.Check("a.yaml")["a.yaml"])
	if len(actions) != 1 || !strings.Contains(actions[0].Edits[0].Text, "ports:") {
		t.Errorf("got %+v", actions)
	}
}

func TestSymbols(t *testing.T) {
	w := workspace(t, "a.yaml", orders, "b.yaml", pricing)
	var walk func(all []Symbol, indent string) string
	walk = func(all []Symbol, indent string) (text string) {
		for _, s := range all {
			text += fmt.Sprintf("%s%s %s %d-%d\n", indent, s.Kind, s.Name, s.From.Line, s.To.Line)
			if before(s.At.From, s.From) || before(s.To, s.At.To) {
				t.Errorf("the name of %s is outside of it", s.Name)
			}
			text += walk(s.Inner, indent+"  ")
		}
		return text
	}
	want := "router web 1-6\nsnippet price 7-7\nblock inner 8-15\n  snippet price 11-11\n  log done 12-15\n"
	if got := walk(w.Symbols("a.yaml"), ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if tests := w.Tests("b.yaml"); len(tests) != 1 || tests[0].Name != "default/prices" || tests[0].From.Line != 3 {
		t.Errorf("the tests are %v", tests)
	}
}

// FuzzWorkspace asks everything at any place of any text: nothing panics, and what is said is inside of the
// document.
func FuzzWorkspace(f *testing.F) {
	for _, pattern := range []string{"../../test/corpus/*.yaml", "../../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for i, file := range files {
			if i%7 != 0 {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data), len(data)/2)
			f.Add(string(data[:len(data)/2]), len(data)/2)
		}
	}
	f.Add(orders, 100)
	f.Add("- kind: \"\u2028\"\n  na", 5)
	w := workspace(f)
	f.Fuzz(func(t *testing.T, text string, offset int) {
		ask(t, w, text[:min(len(text), 10_000)], offset)
	})
}

// ask asks everything at a place.
func ask(t testing.TB, w *Workspace, text string, offset int) {
	w.Set(spec.Document{File: "a.yaml", Data: []byte(text)})
	defer w.Remove("a.yaml")
	src := w.texts["a.yaml"].src()
	p := src.At(max(0, min(offset, len(src.Text))))
	at := diag.Pos{File: "a.yaml", Line: p.Line, Col: p.Column}
	inside := func(r Range) {
		t.Helper()
		if r.From.File == "a.yaml" && (r.From.Line < 1 || r.To.Line > len(src.Lines) || before(r.To, r.From)) {
			t.Errorf("%v to %v of %d lines", r.From, r.To, len(src.Lines))
		}
	}
	for _, item := range w.Complete(at) {
		inside(item.Edit.Range)
	}
	if r, _, ok := w.Hover(at); ok {
		inside(r)
	}
	if r, ok := w.Definition(at); ok {
		inside(r)
	}
	for _, r := range w.References(at, true) {
		inside(r)
	}
	if edits, err := w.Rename(at, "another"); err == nil {
		for _, e := range edits {
			inside(e.Range)
		}
	}
	for _, s := range w.Symbols("a.yaml") {
		inside(s.Range)
	}
	w.Tests("a.yaml")
}

// TestCut asks at every place of a document that ends there, as while it is written.
func TestCut(t *testing.T) {
	w := workspace(t)
	for _, text := range []string{shop, orders, pricing} {
		for i := range len(text) + 1 {
			ask(t, w, text[:i], i)
		}
	}
}

// BenchmarkLarge asks in a document of 10,000 nodes.
func BenchmarkLarge(b *testing.B) {
	for _, nodes := range []int{500, 10_000} {
		var text strings.Builder
		for i := range nodes {
			fmt.Fprintf(&text, "- kind: snippet\n  name: node%d\n  language: cel\n  code: self.price * %d\n  ports:\n    out: node%d\n", i, i, min(i+1, nodes-1))
		}
		w := workspace(b, "a.yaml", text.String())
		at := diag.Pos{File: "a.yaml", Line: nodes/2*6 + 6, Col: 10}
		w.Complete(at)
		b.Run(fmt.Sprintf("complete/%d", nodes), func(b *testing.B) {
			for b.Loop() {
				w.Set(spec.Document{File: "a.yaml", Data: []byte(text.String())}) // as after a key
				if len(w.Complete(at)) < nodes/2 {
					b.Fatal("nodes are missing")
				}
			}
		})
		b.Run(fmt.Sprintf("check/%d", nodes), func(b *testing.B) {
			for b.Loop() {
				if len(w.Check("a.yaml")) != 1 {
					b.Fatal("no findings")
				}
			}
		})
	}
}
