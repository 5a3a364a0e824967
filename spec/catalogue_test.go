package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
)

// The examples of the catalogue must show what they say, as far as this package
// can tell.
func TestCatalogueExamples(t *testing.T) {
	codes := func(text string) []diag.Code {
		nodes, list := Parse(Document{File: "x.yaml", Data: []byte(text)}, ParseOptions{})
		list.Append(resolveAll(nodes, nil, nil))
		var found []diag.Code
		for _, d := range list {
			found = append(found, d.Code)
		}
		return found
	}
	for _, e := range diag.Catalogue() {
		if e.Bad == "" {
			continue
		}
		if got := codes(e.Good); got != nil {
			t.Errorf("%s: the good example: got %v, want no findings", e.Code, got)
		}
		own := strings.HasPrefix(string(e.Code), "F1") || e.Code == diag.CodeBadLink
		if got := codes(e.Bad); own && !slices.Equal(got, []diag.Code{e.Code}) || !own && got != nil {
			t.Errorf("%s: the bad example: got %v, want only its own", e.Code, got)
		}
		if _, list := Format(Document{File: "x.yaml", Data: []byte(e.Good)}); list != nil {
			t.Errorf("%s: formatting the good example: got %v, want no findings", e.Code, list)
		}
	}
}
