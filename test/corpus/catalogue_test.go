package corpus

import (
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/spec"
)

// TestCatalogue checks the examples of `uniflow explain`: the bad example of each
// code has that finding, and the good one has no error.
func TestCatalogue(t *testing.T) {
	engine := newEngine(t, uniflow.Options{})
	check := func(doc string) diag.List {
		return engine.Check(uniflow.Source{Documents: []spec.Document{{File: "example.yaml", Data: []byte(doc)}}})
	}
	shown := 0
	for _, e := range diag.Catalogue() {
		if e.Bad != "" {
			shown++
			list := check(e.Bad)
			if !slices.ContainsFunc(list, func(d *diag.Diagnostic) bool { return d.Code == e.Code }) {
				t.Errorf("%s: the bad example gives\n%s", e.Code, list.Error())
			}
		}
		if list := check(e.Good); e.Good != "" && list.HasErrors() {
			t.Errorf("%s: the good example gives\n%s", e.Code, list.Error())
		}
	}
	if shown < 20 {
		t.Errorf("only %d codes have a bad example", shown)
	}
}
