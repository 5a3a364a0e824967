package language

import (
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// workspace returns a workspace with documents of alternating names and texts.
func workspace(t testing.TB, documents ...string) *Workspace {
	t.Helper()
	kinds := std.Defs("cel")
	engine, err := uniflow.New(uniflow.Options{Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	w, err := New(Options{
		Kinds:     kinds,
		Check:     func(docs []spec.Document) diag.List { return engine.CheckAll(uniflow.Source{Documents: docs}) },
		Variables: func() []*spec.Variable { return []*spec.Variable{{Name: "dsn"}} },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(documents); i += 2 {
		w.Set(spec.Document{File: documents[i], Data: []byte(documents[i+1])})
	}
	return w
}

// cursor takes the cursor, which is written as ‸, out of a text.
func cursor(t testing.TB, file, text string) (string, diag.Pos) {
	t.Helper()
	before, after, ok := strings.Cut(text, "‸")
	if !ok {
		t.Fatal("no cursor")
	}
	last := before[strings.LastIndexByte(before, '\n')+1:]
	return before + after, diag.Pos{File: file, Line: strings.Count(before, "\n") + 1, Col: runes(last) + 1}
}

const shop = `- kind: router
  name: router
  routes:
    - {method: GET, path: /price}
  ports:
    out[0]: price
- kind: snippet
  name: price
  language: cel
  code: self
- kind: merge
  name: both
`

func TestComplete(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		first     string   // the label that comes first, if it matters
		want, not []string // labels
	}{
		"an empty document":         {"‸", "kind", nil, nil},
		"a kind":                    {"- kind: ‸\n", "", []string{"snippet", "router", "block"}, []string{"name"}},
		"a kind that is begun":      {"- kind: sni‸\n  name: x\n", "", []string{"snippet"}, nil},
		"a field":                   {"- kind: snippet\n  ‸\n", "code", []string{"language", "name", "ports", "env"}, []string{"kind", "links"}},
		"a field that is begun":     {"- kind: snippet\n  la‸\n  code: self\n", "language", []string{"name"}, []string{"code"}},
		"before others":             {"- kind: snippet\n  ‸\n  name: x\n", "code", nil, []string{"name"}},
		"a field of a list":         {"- kind: router\n  routes:\n    - method: GET\n      ‸\n", "path", []string{"port"}, []string{"method"}},
		"between brackets":          {"- kind: router\n  routes: [{method: GET, ‸}]\n", "path", []string{"port"}, []string{"method"}},
		"brackets that are open":    {"- kind: router\n  routes: [{method: GET, pa‸\n- kind: snippet\n", "path", nil, []string{"method"}},
		"a word":                    {"- kind: listener\n  protocol: ‸\n", "", []string{"http"}, nil},
		"a truth":                   {"- kind: log\n  payload: ‸\n", "", nil, []string{"name"}},
		"a language":                {"- kind: snippet\n  language: ‸\n", "", []string{"cel", "javascript"}, nil},
		"an out-port":               {"- kind: snippet\n  ports:\n    ‸\n", "", []string{"out", "error"}, nil},
		"an out-port of many":       {"- kind: router\n  ports:\n    out[0]: price\n    ‸\n", "", []string{"out[1]", "error"}, nil},
		"a target":                  {"- kind: snippet\n  ports:\n    out: ‸\n", "", []string{"router", "price", "both"}, []string{"out"}},
		"a target in brackets":      {"- kind: snippet\n  ports: {out: pr‸}\n", "", []string{"price"}, nil},
		"a target in a list":        {"- kind: snippet\n  ports:\n    out:\n      - ‸\n", "", []string{"price", "name"}, nil},
		"a target by its field":     {"- kind: snippet\n  ports: {out: [{name: ‸}]}\n", "", []string{"price"}, []string{"port"}},
		"a target, not closed":      {"- kind: snippet\n  ports: {out: [{name: ‸\n", "", []string{"price"}, nil},
		"the port of a target":      {"- kind: snippet\n  ports: {out: [{name: both, port: ‸}]}\n", "", []string{"in"}, []string{"price"}},
		"a variable":                {"- kind: snippet\n  env:\n    DSN: {name: ‸}\n", "dsn", nil, nil},
		"a node of a sub-graph":     {"- kind: block\n  name: b\n  specs:\n    - kind: snippet\n      name: one\n      ‸\n", "code", nil, []string{"specs"}},
		"a target in a sub-graph":   {"- kind: block\n  name: b\n  specs:\n    - {kind: log, name: one}\n    - kind: snippet\n      ports: {out: ‸}\n", "", []string{"one"}, []string{"price"}},
		"broken above":              {"- kind: [\n- kind: snippet\n  ‸\n", "code", nil, nil},
		"broken below":              {"- kind: snippet\n  ‸\n- kind: {{\n", "code", nil, nil},
		"after a document":          {"- kind: log\n---\nkind: snippet\n‸\n", "code", nil, nil},
		"JSON":                      {`[{"kind": "snippet", "‸"}]`, "code", nil, nil},
		"a value in JSON":           {`[{"kind": "‸"}]`, "", []string{"snippet"}, nil},
		"a kind that is not known":  {"- kind: snipet\n  ‸\n", "", nil, nil},
		"in a comment":              {"- kind: snippet # ki‸\n", "", nil, []string{"kind", "code"}},
		"in code":                   {"- kind: snippet\n  language: cel\n  code: |\n    self.‸\n", "", nil, []string{"kind", "code"}},
		"a template":                {"- kind: gr‸\n", "", []string{"greet"}, nil},
		"a parameter of a template": {"- kind: greet\n  ‸\n", "", []string{"who"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			text, at := cursor(t, "flows/new.yaml", c.text)
			w := workspace(t, "flows/shop.yaml", shop, "elsewhere/far.yaml", "- {kind: log, name: far}\n", "flows/new.yaml", text,
				"flows/kinds.yaml", "- kind: template\n  name: greet\n  parameters:\n    - {name: who}\n  specs:\n    - {kind: log, name: say}\n")
			var labels []string
			for _, item := range w.Complete(at) {
				labels = append(labels, item.Label)
				if item.Edit.From.Line != at.Line || !item.Edit.holds(at) {
					t.Errorf("%s replaces %v to %v, and the cursor is at %v", item.Label, item.Edit.From, item.Edit.To, at)
				}
			}
			for _, label := range append(c.want, c.first) {
				if label != "" && !slices.Contains(labels, label) {
					t.Errorf("%q is missing in %q", label, labels)
				}
			}
			if c.first != "" && len(labels) > 0 && labels[0] != c.first {
				t.Errorf("%q comes first in %q, want %q", labels[0], labels, c.first)
			}
			for _, label := range append(c.not, "far") {
				if slices.Contains(labels, label) {
					t.Errorf("%q is in %q", label, labels)
				}
			}
		})
	}
}

// TestCompleteKind writes a kind with the fields that it must have.
func TestCompleteKind(t *testing.T) {
	text, at := cursor(t, "a.yaml", "- name: x\n  kind: sni‸\n- kind: ‸")
	text = strings.ReplaceAll(text, "‸", "")
	for _, c := range []struct {
		line int
		want string
	}{{at.Line, "snippet"}, {3, "snippet\n  code: "}} {
		w := workspace(t, "a.yaml", text)
		col := 12
		if c.line == 3 {
			col = 9
		}
		items := w.Complete(diag.Pos{File: "a.yaml", Line: c.line, Col: col})
		i := slices.IndexFunc(items, func(item Item) bool { return item.Label == "snippet" })
		if i < 0 {
			t.Fatalf("no snippet among %d items at line %d", len(items), c.line)
		}
		if got := items[i].Edit.Text; got != c.want {
			t.Errorf("line %d: got %q, want %q", c.line, got, c.want)
		}
	}
}
