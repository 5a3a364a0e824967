package corpus

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// seen are the codes of findings that a schema can have; the others are about links,
// templates and code.
var seen = []diag.Code{
	diag.CodeNotSpec, diag.CodeCommonField, diag.CodeMissingKind, diag.CodeID, diag.CodeEntryField, diag.CodeName,
	diag.CodeUnknownField, diag.CodeMissingField, diag.CodeWrongType, diag.CodeOutOfRange, diag.CodeNotOneOf, diag.CodeUnknownKind,
	diag.CodeBadOutPort, diag.CodeBadDuration, diag.CodeBadSize, diag.CodeBadLink, diag.CodeUnknownLanguage,
}

// compiled returns a validator of the schema of some kinds.
func compiled(t *testing.T, defs []*node.Def) *jsonschema.Schema {
	t.Helper()
	text, err := reference.Schema(defs)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchema checks that the JSON Schema accepts each spec of the corpus without a
// finding, and refuses each with a finding that a schema can have.
func TestSchema(t *testing.T) {
	engine := newEngine(t, uniflow.Options{})
	standard := compiled(t, std.Defs(""))
	accepted, refused := 0, 0
	f := func(doc spec.Document) {
		s := standard
		if kinds, _ := engine.Kinds(uniflow.Source{Documents: []spec.Document{doc}}); len(kinds) > len(std.Defs("")) {
			s = compiled(t, kinds)
		}
		var list diag.List
		for _, d := range engine.CheckAll(uniflow.Source{Documents: []spec.Document{doc}, Environment: map[string]string{"GREETING": "hello"}}) {
			if d.Severity == diag.SeverityError && !strings.Contains(d.Msg, "got a binary") { // JSON has no binaries
				list.Add(d)
			}
		}
		roots, found := yamltree.Read(doc.File, doc.Data)
		if len(found) > 0 {
			return // no editor could tell
		}
		var specs []*schema.Raw
		for _, root := range roots {
			if root.Kind == schema.RawList {
				specs = append(specs, root.Items...)
			} else if root.Kind == schema.RawMap {
				specs = append(specs, root)
			}
		}
		for i, raw := range specs {
			own := func(d *diag.Diagnostic) bool {
				return d.Pos.Line >= raw.Pos.Line && (i+1 == len(specs) || d.Pos.Line < specs[i+1].Pos.Line)
			}
			data, err := raw.ToValue().AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			err = s.Validate(instance)
			switch {
			case slices.ContainsFunc(list, func(d *diag.Diagnostic) bool { return own(d) && slices.Contains(seen, d.Code) }):
				if refused++; err == nil {
					t.Errorf("%s: accepted, want it refused: %s", raw.Pos, data)
				}
			case !slices.ContainsFunc(list, own):
				if accepted++; err != nil {
					t.Errorf("%s: %v", raw.Pos, err)
				}
			}
		}
	}
	for _, pattern := range []string{"*.yaml", filepath.Join("..", "..", "examples", "*.yaml")} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			specs, _ := split(t, string(data))
			f(spec.Document{File: path, Data: []byte(specs)})
		}
	}
	for _, e := range diag.Catalogue() {
		f(spec.Document{File: string(e.Code) + " bad", Data: []byte(e.Bad)})
		f(spec.Document{File: string(e.Code) + " good", Data: []byte(e.Good)})
	}
	if accepted < 100 || refused < 20 {
		t.Errorf("got %d specs accepted and %d refused, want more", accepted, refused)
	}
}
